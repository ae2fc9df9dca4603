"""Every workload gives what plain Python over the same input gives, and its data is what the benchmark says."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.papers.workloads import references

from riprap.apps.catalogue import BUNDLED, load_app
from riprap.apps.samples import sample_inputs
from riprap.base.errors import UsageError
from riprap.engine.engine import Engine
from riprap.engine.inputs import read_file
from riprap.testing.checker import check_operator
from riprap_papers.workloads import nexmark, nexmark_5, wordcount
from riprap_papers.workloads.workload_catalogue import WORKLOADS, load_workload

S = 1_000_000


def run(name, windows, inputs, batch=1000):
    graph = load_workload(name).graph(windows)
    given = {source: table.to_batches(max_chunksize=batch) for source, table in inputs.items()}
    outputs = [output.event for output in Engine(graph).run(given) if isinstance(output.event, pa.RecordBatch)]
    assert outputs
    return pa.Table.from_batches(outputs)


def columns(table, *names, time=False):
    lists = [table[name].to_pylist() for name in names]
    if time:
        lists.insert(0, table["_ts"].cast("int64").to_pylist())
    return list(zip(*lists, strict=True))


@pytest.mark.parametrize("skew", [None, 1.2])
def test_selection(skew):
    inputs = load_workload("nexmark-2").inputs(5_000, 1, skew=skew)
    assert columns(run("nexmark-2", "large", inputs), "auction", "price") == references.selection(inputs)


@pytest.mark.parametrize(("windows", "window"), [("large", 30 * S), ("small", 15 * S)])
def test_local_items(windows, window):
    inputs = load_workload("nexmark-3").inputs(6_000, 2, rate=60)
    found = columns(run("nexmark-3", windows, inputs), "name", "city", "state", "auction")
    expected = references.local_items(inputs, window)
    assert found == expected
    assert len(found) > 100
    assert expected != references.local_items(inputs, window // 4)


@pytest.mark.parametrize(("windows", "window"), [("large", 30 * S), ("small", 10 * S)])
def test_hot_items(windows, window):
    inputs = load_workload("nexmark-5").inputs(3_000, 3, rate=100, skew=0.8)
    found = columns(run("nexmark-5", windows, inputs), "auction", "bids", time=True)
    assert sorted(found) == sorted(references.hot_items(inputs, window))
    assert len(found) > 100


@pytest.mark.parametrize(("windows", "window", "tumbling"), [("large", 30 * S, 15 * S), ("small", 15 * S, 5 * S)])
def test_selling_prices(windows, window, tumbling):
    inputs = load_workload("nexmark-6").inputs(4_000, 4, rate=80)
    found = columns(run("nexmark-6", windows, inputs), "seller", "price", "items", time=True)
    assert sorted(found) == sorted(references.selling_prices(inputs, window, tumbling))
    assert len(found) > 20


@pytest.mark.parametrize(("windows", "window"), [("large", 10 * S), ("small", S)])
def test_word_counts(windows, window):
    inputs = load_workload("wordcount").inputs(2_000, 5, rate=80)
    found = columns(run("wordcount", windows, inputs), "word", "count", "total", time=True)
    assert sorted(found) == references.word_counts(inputs, window)


@pytest.mark.parametrize("batch", [7, 1000])
def test_neighbours(batch):
    inputs = load_workload("nhop").inputs(2_500, 6, rate=150, skew=0.6)
    found = columns(run("nhop", "large", inputs, batch), "origin", "via", "hops", time=True)
    expected = references.neighbours(inputs, 2, 10 * S, 100_000)
    assert found == expected
    assert sum(row[3] == 2 for row in expected) > 100


def test_the_published_constants():
    tables = nexmark.generate(["Person", "Auction", "Bid"], 50_000, 1, 10_000.0)
    people, auctions, bids = (tables[kind] for kind in ("Person", "Auction", "Bid"))
    assert [t.num_rows for t in (people, auctions, bids)] == [1_000, 3_000, 46_000]
    assert people["id"].to_pylist() == list(range(1000, 2000))
    assert auctions["id"].to_pylist() == list(range(1000, 4000))
    assert set(people["state"].to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert sorted(set(auctions["category"].to_pylist())) == [10, 11, 12, 13, 14]
    price = np.log10(bids["price"].to_numpy() / 100)
    assert price.min() >= 0
    assert price.max() <= 6
    assert abs(price.mean() - 3.0) < 0.05
    # Of 2 bids 1 is on the hot auction, of 4 auctions and bids 3 are of the hot seller and bidder, and a few by chance.
    auction, bidder, seller = bids["auction"].to_numpy(), bids["bidder"].to_numpy(), auctions["seller"].to_numpy()
    assert abs((auction % 100 == 0).mean() - 0.5) < 0.02
    assert abs((bidder % 100 == 1).mean() - 0.75) < 0.02
    assert abs((seller % 100 == 0).mean() - 0.75) < 0.02
    # Nobody refers to what is far away: the last 100 auctions and the next 10, the last 1,000 people and the next 10.
    epoch = np.arange(46_000) // 46
    assert (auction >= np.maximum(1000, 1000 + 3 * epoch - 100)).all()
    assert (auction <= 1000 + 3 * epoch + 2 + 10).all()
    assert (bidder <= 1000 + epoch + 1 + 10).all()
    expires = auctions["expires"].to_numpy() - auctions["_ts"].cast("int64").to_numpy()
    assert expires.min() > 0


def test_equal_seeds_equal_data_and_skew_makes_keys_hot():
    for name, workload in WORKLOADS.items():
        one, two, other = (workload.inputs(2_000, seed) for seed in (1, 1, 2))
        assert one == two, name
        assert one != other, name
        for table in one.values():
            ts = table["_ts"].cast("int64").to_numpy()
            assert (np.diff(ts) >= 0).all()
    plain, skewed = (Counter(load_workload("nhop").inputs(5_000, 1, skew=skew)["Edge"]["to_id"].to_pylist())
                     for skew in (None, 1.5))  # fmt: skip
    assert skewed.most_common(1)[0][1] > 20 * plain.most_common(1)[0][1]
    hot = Counter(load_workload("nexmark-2").inputs(20_000, 1, skew=2.0)["Bid"]["bidder"].to_pylist())
    assert hot.most_common(1)[0][1] > 0.1 * 20_000


def test_the_published_sizes():
    for name, workload in WORKLOADS.items():
        graph = workload.graph("small", shards=0)
        assert workload.published.killed in graph, name
        if not workload.cyclic:
            assert sum(graph[op].parallelism for op in graph.order) in (24, 25), name
        assert all(spec.parallelism <= 2 for spec in workload.graph(shards=2))
    assert load_workload("nexmark-2").published.rates["large"] == 45_000
    assert load_workload("nexmark-3").published.rates == {"large": 5_400, "small": 25_000}
    assert load_workload("wordcount").published.rates == {"large": 6_000, "small": 17_000}


def test_they_are_bundled_apps_with_data(tmp_path):
    for name in WORKLOADS:
        graph = load_app(name)
        assert name in BUNDLED
        paths = sample_inputs(graph, 300, 1, tmp_path)
        assert set(paths) == {source.name for source in graph.sources}
        inputs = {source: list(read_file(path)) for source, path in paths.items()}
        list(Engine(graph).run(inputs))


def test_their_own_operators_keep_the_contract():
    lines = load_workload("wordcount").inputs(40, 1)["Line"].combine_chunks().to_batches()[0]
    check_operator(load_app("wordcount"), "Words", [lines], seed=0, rounds=6)
    ts = pa.array(np.repeat(np.arange(10), 4), pa.timestamp("us", "UTC"))
    counts = {
        "auction": pa.array(np.tile([1000, 1003, 1001, 1000], 10)),
        "bids": pa.array(np.random.default_rng(0).integers(1, 9, 40)),
        "_ts": ts,
        "_seq": pa.array(np.repeat(np.arange(10), 4)),
        "_n": pa.array(np.tile(np.arange(4), 10)),
    }
    check_operator(nexmark_5.build(), "Hottest", [pa.record_batch(counts)], seed=0, rounds=6)
    words = {"word": pa.array(["a", "b", "c", "a"] * 10), "count": counts["bids"]}
    words |= {key: counts[key] for key in ("_ts", "_seq", "_n")}
    check_operator(wordcount.build(), "Total", [pa.record_batch(words)], seed=0, rounds=6)


def test_what_is_wrong_is_told():
    with pytest.raises(UsageError, match="workload nexmark-4 is unknown; known: nexmark-2"):
        load_workload("nexmark-4")
    workload = load_workload("nexmark-2")
    with pytest.raises(UsageError, match="windows huge: expected large or small"):
        workload.graph("huge")
    with pytest.raises(UsageError, match="at least 1"):
        workload.inputs(0, 1)
    with pytest.raises(UsageError, match="a rate of 0 tuples/s"):
        workload.inputs(10, 1, rate=0.0)
    with pytest.raises(UsageError, match="a skew of -1"):
        workload.inputs(10, 1, skew=-1)
