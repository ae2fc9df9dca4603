"""Barrier, union, punctor, split and functor mean what the per-tuple reference says."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.operators import reference
from tests.operators.reference import Row
from tests.operators.streams import VALUES, as_events, feeds, run, same
from tests.profiles import examples

from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import Count
from riprap.testing.checker import check_operator

SCHEMA = pa.schema([("s", pa.string()), ("i", pa.int64())])


@st.composite
def barriers(draw):
    ports = draw(st.integers(2, 3))
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=ports, max_size=ports))
    app = App("test")
    shared = draw(st.booleans())
    base = app.source("S", pa.schema([(f"c{j}", type_) for j, type_ in enumerate(types)])) if shared else None
    streams = [
        base.select(f"c{j}", name=f"P{j}") if base is not None else app.source(f"S{j}", pa.schema([(f"c{j}", type_)]))
        for j, type_ in enumerate(types)
    ]
    streams[0].barrier(*streams[1:], name="B").sink("Sink")
    graph = app.build()
    return graph, draw(feeds(graph, "B")), {"ports": ports}


@examples(50)
@given(barriers(), st.randoms(use_true_random=False))
def test_barrier(case, random):
    graph, feed, options = case
    same(run(graph, "B", feed, random), reference.barrier(feed.items, **options))


@examples(20)
@given(barriers(), st.integers(0, 2**32))
def test_barrier_keeps_the_contract(case, seed):
    graph, feed, _ = case
    check_operator(graph, "B", as_events(feed), seed=seed, rounds=4)


@st.composite
def unions(draw):
    ports = draw(st.integers(2, 3))
    app = App("test")
    shared = draw(st.booleans())
    base = app.source("S", SCHEMA) if shared else None
    if base is not None and draw(st.booleans()):
        base = base.sort("i", window=Count(2), name="O")  # numbers its outputs
    streams = [
        base.filter("i > 0", name=f"P{j}") if base is not None else app.source(f"S{j}", SCHEMA) for j in range(ports)
    ]
    streams[0].union(*streams[1:], name="U").sink("Sink")
    graph = app.build()
    return graph, draw(feeds(graph, "U")), {"numbered": shared}


@examples(50)
@given(unions(), st.randoms(use_true_random=False))
def test_union(case, random):
    graph, feed, options = case
    same(run(graph, "U", feed, random), reference.union(feed.items, **options))


@examples(20)
@given(unions(), st.integers(0, 2**32))
def test_union_keeps_the_contract(case, seed):
    graph, feed, _ = case
    check_operator(graph, "U", as_events(feed), seed=seed, rounds=4)


def punctuating(before, numbered):
    app = App("test")
    stream = app.source("S", SCHEMA)
    if numbered:
        stream = stream.sort("i", window=Count(2), name="O")
    stream.punctuate(**{"before" if before else "after": "i > 0"}, name="P").sink("Sink")
    return app.build()


def splitting(otherwise):
    app = App("test")
    for j, stream in enumerate(app.source("S", SCHEMA).split("i > 0", "s = 'a'", otherwise=otherwise, name="X")):
        stream.sink(f"Sink{j}")
    return app.build()


def filtering():
    app = App("test")
    app.source("S", SCHEMA).select("i + 1 AS j", "s", where="i < 100", name="F").sink("Sink")
    return app.build()


ROUTES = [lambda row: row["i"] is not None and row["i"] > 0, lambda row: row["s"] == "a"]


@examples(40)
@given(st.data(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_punctor(data, before, numbered, random):
    graph = punctuating(before, numbered)
    feed = data.draw(feeds(graph, "P"))
    same(run(graph, "P", feed, random), reference.punctor(feed.items, condition=ROUTES[0], before=before))
    check_operator(graph, "P", as_events(feed), rounds=2)


@examples(40)
@given(st.data(), st.booleans(), st.randoms(use_true_random=False))
def test_split(data, otherwise, random):
    graph = splitting(otherwise)
    feed = data.draw(feeds(graph, "X"))
    found = run(graph, "X", feed, random)
    expected = reference.split(feed.items, routes=ROUTES, otherwise=otherwise)
    for port in range(2 + otherwise):
        same([entry for entry in found if entry[0] == port], [entry for entry in expected if entry[0] == port])
    check_operator(graph, "X", as_events(feed), rounds=2)


def mapped(path, text, by, otherwise):
    (path / "map.txt").write_text(text)
    app = App("test")
    streams = app.source("S", SCHEMA).split(by=by, mapping=path / "map.txt", otherwise=otherwise, name="X")
    for j, stream in enumerate(streams):
        stream.sink(f"Sink{j}")
    return app.build()


@examples(30)
@given(st.data(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_split_by_a_mapping_file(data, by_text, otherwise, random):
    sent = (
        {
            word: data.draw(st.integers(0, 1))
            for word in data.draw(st.sets(st.sampled_from(["", "a", "東京", 'x, "y"'])))
        }
        if by_text
        else {value: data.draw(st.integers(0, 1)) for value in data.draw(st.sets(st.integers(-3, 3)))}
    )
    sent |= {"b": 0, "aa": 1} if by_text else {2: 0, -2: 1}
    lines = [f'"{str(value).replace(chr(34), 2 * chr(34))}",{output}' for value, output in sent.items()]
    with TemporaryDirectory() as place:
        graph = mapped(Path(place), "# comment\n\n" + "\n".join(lines), "s" if by_text else "i", otherwise)
    feed = data.draw(feeds(graph, "X"))
    routes = [
        lambda row, output=output: row["s" if by_text else "i"] in [v for v in sent if sent[v] == output]
        for output in (0, 1)
    ]
    found = run(graph, "X", feed, random)
    expected = reference.split(feed.items, routes=routes, otherwise=otherwise)
    for port in range(2 + otherwise):
        same([entry for entry in found if entry[0] == port], [entry for entry in expected if entry[0] == port])
    check_operator(graph, "X", as_events(feed), rounds=2)


def test_what_a_mapping_file_says_is_part_of_the_graph(tmp_path):
    graph = mapped(tmp_path, "a,0\nb,1\n", "s", True)
    assert graph["X"].describe() == "by s, 2 values to 2 outputs | otherwise"
    assert mapped(tmp_path, "b,1\n# the same in another order\na,0\n", "s", True) == graph
    changed = mapped(tmp_path, "a,1\nb,0\n", "s", True)
    assert changed != graph
    assert repr(changed) != repr(graph)  # a campaign knows its app by this


def test_a_long_mapping_of_numbers_is_one_search(tmp_path):
    graph = mapped(tmp_path, "\n".join(f"{value},{value % 3}" for value in range(300)), "i", False)
    batch = pa.record_batch({
        "s": pa.array(["a"] * 400), "i": pa.array(range(400), pa.int64()),
        "_ts": pa.array(range(400), pa.timestamp("us", "UTC")), "_seq": pa.array(range(400), pa.int64()),
    })  # fmt: skip
    counts = {name: event.num_rows for name, event in Engine(graph).push("S", batch)}
    assert counts == {"Sink0": 100, "Sink1": 100, "Sink2": 100}


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_delay(data, random):
    app = App("test")
    app.source("S", SCHEMA).delay("7us", name="D").sink("Sink")
    graph = app.build()
    feed = data.draw(feeds(graph, "D"))
    same(run(graph, "D", feed, random), reference.delay(feed.items, by=7))
    check_operator(graph, "D", as_events(feed), rounds=2)


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_functor(data, random):
    graph = filtering()
    feed = data.draw(feeds(graph, "F"))
    expected = []
    for port, item in feed.items:
        if not isinstance(item, Row):
            expected.append((port, item))
        elif item.values["i"] is not None and item.values["i"] < 100:
            expected.append((port, Row(item.key, {"j": item.values["i"] + 1, "s": item.values["s"]})))
    same(run(graph, "F", feed, random), expected)
    check_operator(graph, "F", as_events(feed), rounds=2)
