"""The bounded run on Spark gives what the engine gives, from files and from DataFrames, divided or not."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.base.errors import DataError, UsageError
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.builder import App
from riprap.graph.windows import count, time
from riprap.spark.bounded import run_bounded

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def ticks() -> pa.Table:
    return market.generate(30_000, seed=5)


@pytest.fixture(scope="module")
def path(ticks, tmp_path_factory):
    file = tmp_path_factory.mktemp("market") / "ticks.parquet"
    pq.write_table(ticks, file, row_group_size=7_000)
    return file


def in_process(graph, inputs: dict[str, pa.Table]) -> dict[str, list[dict]]:
    sources = {s.name: keyed(inputs[s.name].to_batches(max_chunksize=1_000), s) for s in graph.sources}
    rows = {sink.name: [] for sink in graph.sinks}
    for output in Engine(graph).run(sources):
        if isinstance(output.event, pa.RecordBatch):
            rows[output.name] += output.event.to_pylist()
    return rows


def collected(frame) -> list[dict]:
    return frame.toArrow().to_pylist()


def ordered(rows: list[dict]) -> list[tuple]:
    names = sorted(rows[0]) if rows else []
    return sorted(tuple(row[name] for name in ("_ts", "_seq", *names)) for row in rows)


def test_files_divided_by_key_give_what_the_engine_gives(spark, ticks, path):
    graph = load_app("bargain-discovery")
    expected = ordered(in_process(graph, {"Source": ticks})["Sink"])
    assert len(expected) > 1_000
    for partitions in (1, 3):
        frame = run_bounded(graph, path, spark=spark, partitions=partitions)["Sink"]
        assert frame.schema.names == ["ticker", "ask_price", "ask_size", "vwap", "gain", "_ts", "_seq"]
        assert ordered(collected(frame)) == expected


def test_dataframes_give_what_the_engine_gives(spark, ticks, path):
    graph = load_app("bargain-discovery")
    frame = spark.read.parquet(str(path)).repartition(5)  # in no order at all
    found = run_bounded(graph, {"Source": frame}, spark=spark, partitions=2)["Sink"]
    assert ordered(collected(found)) == ordered(in_process(graph, {"Source": ticks})["Sink"])


def two_sources_and_sinks():
    app = App("two-of-each")
    left = app.source("Left", "k string not null, x long")
    right = app.source("Right", "k string not null, y double")
    pairs = left.join(right, on="k", left_window=count(3), right_window=time("5s"), name="Pairs")
    pairs.sink("Matched")
    left.aggregate("sum(x) AS total", window=time("2s"), by="k", name="Totals").sink("Summed")
    return app.build()


def times(step: int, count: int) -> pa.Array:
    return pa.array([1_700_000_000_000_000 + i * step for i in range(count)], pa.timestamp("us", "UTC"))


def test_two_sources_and_two_sinks(spark):
    graph = two_sources_and_sinks()

    left = pa.table({
        "k": [f"k{i % 7}" for i in range(400)], "x": pa.array(range(400)),
        "_ts": times(50_000, 400), "_seq": pa.array(range(400)),
    })  # fmt: skip
    right = pa.table({
        "k": [f"k{i % 5}" for i in range(300)], "y": [i / 3 for i in range(300)],
        "_ts": times(60_000, 300), "_seq": pa.array(range(300)),
    })  # fmt: skip
    expected = in_process(graph, {"Left": left, "Right": right})
    assert expected["Matched"]
    assert expected["Summed"]
    frames = {"Left": spark.createDataFrame(left), "Right": spark.createDataFrame(right)}
    for partitions in (1, 3):
        found = run_bounded(graph, frames, spark=spark, partitions=partitions)
        for sink, rows in expected.items():
            assert ordered(collected(found[sink])) == ordered(rows), sink


def test_an_app_that_cannot_be_divided_runs_in_one_place(spark, ticks, path):
    app = App("whole")
    stream = app.source("Source", "ticker string not null, price double not null, size long not null")
    stream.aggregate("sum(size) AS total", window=count(1_000), name="All").sink("Sink")
    graph = app.build()
    frame = run_bounded(graph, path, spark=spark, partitions=4)["Sink"]
    assert ordered(collected(frame)) == ordered(in_process(graph, {"Source": ticks})["Sink"])


def test_bad_input_is_told_in_a_sentence(spark, path, tmp_path):
    graph = load_app("bargain-discovery")
    with pytest.raises(DataError, match=r"missing\.parquet does not exist"):
        run_bounded(graph, tmp_path / "missing.parquet", spark=spark)
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(DataError, match=r"cannot read .*text\.parquet"):
        run_bounded(graph, tmp_path / "text.parquet", spark=spark)
    frame = spark.read.parquet(str(path))
    with pytest.raises(DataError, match=r"no _seq column; add one, or number its rows"):
        run_bounded(graph, frame.drop("_seq"), spark=spark)
    with pytest.raises(DataError, match=r"no column price; it has"):
        run_bounded(graph, frame.drop("price"), spark=spark)
    with pytest.raises(UsageError, match=r"no source Sauce; its sources are Source \(did you mean Source\?\)"):
        run_bounded(graph, {"Sauce": frame}, spark=spark)
    with pytest.raises(UsageError, match="1 partition or more"):
        run_bounded(graph, frame, spark=spark, partitions=0)
