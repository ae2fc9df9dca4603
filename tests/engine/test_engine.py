"""The output of an app depends on its input and on nothing else: not on batches, restores or fragments."""

import pickle
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.graphs import SCHEMA, apps, collected, cut, inputs, ran
from tests.profiles import examples

from riprap.base.errors import GraphError, UsageError
from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.graph.builder import App
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.graph.windows import count, punctuated, time
from riprap.operators.build import make_operator
from riprap.operators.contract import Punctuation

sizes = st.lists(st.sampled_from([1, 2, 3, 7, 50]), min_size=1, max_size=3)


@examples(90)
@given(st.data(), apps(), sizes)
def test_any_batch_size_gives_the_same(data, graph, pieces):
    given_ = data.draw(inputs(graph))
    assert ran(graph, given_, pieces) == ran(graph, given_)


@examples(40)
@given(st.data(), apps(), sizes, st.integers(0, 40))
def test_a_restored_engine_goes_on_as_the_saved_one(data, graph, pieces, stop):
    given_ = data.draw(inputs(graph))
    feed = [(name, piece) for name, batch in given_.items() for piece in cut(batch, pieces)]
    feed.sort(key=lambda entry: entry[1].column("_ts")[-1].value)
    engine, outputs, restored = Engine(graph), [], False
    for number, (name, piece) in enumerate(feed):
        if number == stop:
            state = pickle.loads(pickle.dumps(engine.snapshot()))
            before = engine.digests(), engine.state_sizes()
            engine = Engine(graph)
            engine.restore(state)
            assert repr((engine.digests(), engine.state_sizes())) == repr(before)
            restored = True
        outputs += engine.push(name, piece)
    for name in given_:
        outputs += engine.end(name)
    if not restored:
        state = engine.snapshot()
        engine = Engine(graph)
        engine.restore(state)
        assert not any(engine.end(name) for name in given_)  # the end comes once
    assert collected(graph, outputs) == ran(graph, given_)


def in_fragments(graph, parts, given_, pieces):
    """Run fragments one after another, connected by hand: events and progress of what leaves one enter the next."""
    engines = [Engine(graph, part) for part in parts]
    outputs = []

    def settle(first, produced):
        """Give what left to the fragments that it enters, in the order of the fragments."""
        for index in range(first, len(engines)):
            for name, event in produced:
                if name in engines[index]._entries:
                    more = engines[index].push(name, event)
                    outputs.extend(o for o in more if "→" not in o.name)
                    produced = [*produced, *(o for o in more if "→" in o.name)]
            for sender in engines[:index]:
                for streams in sender._leaving.values():
                    for stream in streams:
                        if stream.id in engines[index]._entries:
                            more = engines[index].advance(stream.id, sender.watermark(stream.id))
                            outputs.extend(o for o in more if "→" not in o.name)
                            produced = [*produced, *(o for o in more if "→" in o.name)]

    def taken(index, produced):
        outputs.extend(o for o in produced if "→" not in o.name)
        settle(index + 1, [o for o in produced if "→" in o.name])

    feed = [(name, piece) for name, batch in given_.items() for piece in cut(batch, pieces)]
    feed.sort(key=lambda entry: entry[1].column("_ts")[-1].value)
    home = {name: index for index, part in enumerate(parts) for name in part}
    for name, piece in feed:
        taken(home[name], engines[home[name]].push(name, piece))
    for name in given_:
        taken(home[name], engines[home[name]].end(name))
    return collected(graph, outputs)


@examples(50)
@given(st.data(), apps(operators=(2, 7)), sizes)
def test_fragments_connected_by_hand_are_the_whole(data, graph, pieces):
    given_ = data.draw(inputs(graph))
    edges = sorted(data.draw(st.sets(st.integers(1, len(graph.order) - 1), max_size=2)))
    bounds = [0, *edges, len(graph.order)]
    parts = [graph.order[a:b] for a, b in pairwise(bounds)]
    assert in_fragments(graph, parts, given_, pieces) == ran(graph, given_)


@examples(40)
@given(st.data(), apps())
def test_columns_that_nobody_reads_change_nothing(data, graph):
    """Operators that carry all their columns give what pruned ones give."""
    given_ = data.draw(inputs(graph))
    engine = Engine(graph)
    whole = Engine(graph, cut_everywhere=True)
    whole.operators = {name: make_operator(graph, name) for name in graph.order}
    carried = [graph.physical(stream.source, stream.source_port) for stream in graph.streams]
    for name, merger in whole._mergers.items():
        merger._nothing = [
            pa.RecordBatch.from_pylist([], schema=carried[graph.streams.index(stream)]) for stream in graph.inputs(name)
        ]
    runs = [collected(graph, e.run({n: [b] for n, b in given_.items()})) for e in (engine, whole)]
    assert runs[0] == runs[1]


@examples(40)
@given(st.data(), apps(), sizes, st.integers(0, 5), st.integers(0, 2**40))
def test_jitter_is_repeatable_and_does_not_see_batches(data, graph, pieces, bound, seed):
    given_ = data.draw(inputs(graph))
    jitter = Jitter(seed, time=bound)
    assert ran(graph, given_, pieces, jitter=jitter) == ran(graph, given_, jitter=jitter)


def numbers(sink):
    return [int(dict(row)["i"]) for row in sink]


def one_source_diamond():
    app = App("diamond")
    source = app.source("S", SCHEMA)
    source.filter("i % 2 = 0", name="Even").union(source.filter("i % 2 = 1", name="Odd"), name="U").sink("Sink")
    return app.build()


def rows(count_, step=1, start=0):
    ts = pa.array([start + j * step for j in range(count_)], pa.timestamp("us", "UTC"))
    seq = pa.array(range(count_), pa.int64())
    columns = [pa.array(["a"] * count_), pa.array([1.0] * count_), pa.array(range(count_), pa.int64()), ts, seq]
    return pa.RecordBatch.from_arrays(columns, names=["k", "x", "i", "_ts", "_seq"])


@pytest.mark.parametrize("jitter", [Jitter(1, tuples=6), Jitter(1, time=6)])
def test_jitter_is_bounded_and_keeps_streams_in_order(jitter):
    found = numbers(ran(one_source_diamond(), {"S": rows(400)}, (7,), jitter=jitter)["Sink"])
    assert sorted(found) == list(range(400))
    assert found != sorted(found)
    for parity in (0, 1):
        own = [i for i in found if i % 2 == parity]
        assert own == sorted(own)
    for place, i in enumerate(found):
        assert all(other <= i + 6 for other in found[:place])  # nothing overtakes by more than the bound


def test_jitter_differs_by_seed_and_is_nothing_without_a_bound():
    graph = one_source_diamond()
    orders = {tuple(numbers(ran(graph, {"S": rows(200)}, jitter=Jitter(s, tuples=9))["Sink"])) for s in range(5)}
    assert len(orders) == 5
    assert ran(graph, {"S": rows(50)}, jitter=Jitter(3, tuples=0)) == ran(graph, {"S": rows(50)})


def test_jitter_in_tuples_needs_one_source():
    app = App("two")
    app.source("A", SCHEMA).union(app.source("B", SCHEMA), name="U").sink("Sink")
    with pytest.raises(UsageError, match="use time= instead"):
        Engine(app.build(), jitter=Jitter(1, tuples=3))
    with pytest.raises(UsageError, match="give one of"):
        Jitter(1)
    with pytest.raises(UsageError, match="cannot be negative"):
        Jitter(1, time=-1)


def test_a_selective_filter_does_not_hold_a_merge():
    app = App("test")
    source = app.source("S", SCHEMA)
    source.union(source.filter("i < 0", name="Nothing"), name="U").sink("Sink")
    engine = Engine(app.build())
    assert sum(o.event.num_rows for o in engine.push("S", rows(10))) == 10


def test_an_idle_source_holds_a_merge_until_it_tells_its_progress():
    app = App("test")
    app.source("A", SCHEMA).union(app.source("B", SCHEMA), name="U").sink("Sink")
    engine = Engine(app.build())
    assert engine.push("A", rows(10)) == []
    assert sum(o.event.num_rows for o in engine.advance("B", OrderKey(4, 1, 0))) == 5  # 0 to 4; 4 of A is before 4 of B
    assert sum(o.event.num_rows for o in engine.end("B")) == 5


def test_windows_of_time_close_by_progress_alone():
    app = App("test")
    app.source("S", SCHEMA).aggregate("count(*) AS n", window=time("10us"), name="A").sink("Sink")
    engine = Engine(app.build())
    assert engine.push("S", rows(5)) == []
    assert engine.advance("S", OrderKey(9, 0, 100)) == []
    (closed,) = engine.advance("S", OrderKey(10, 0, 100))
    assert closed.event.column("n").to_pylist() == [5]
    assert engine.end("S") == []


def test_punctuation_keeps_its_place_behind_a_filter_that_drops_the_tuple_before_it():
    """The punctuation after tuple 5, which the filter drops, still comes after tuple 4 of the other branch."""
    app = App("test")
    source = app.source("S", SCHEMA)
    marked = source.punctuate("i = 5", name="P").filter("i < 2", name="F")
    marked.union(source, name="U").aggregate("count(*) AS n", window=punctuated(), name="A").sink("Sink")
    graph = app.build()
    for size in (1, 3, 100):
        (row,) = ran(graph, {"S": rows(10)}, (size,))["Sink"]
        assert dict(row)["n"] == "7"  # 0 and 1 twice, 2 to 4; tuple 5 of the right port is after the punctuation


@pytest.mark.parametrize("numbered", [False, True])
def test_punctuation_before_a_tuple_is_behind_what_other_ports_bring_of_the_tuple_before_it(numbered):
    app = App("test")
    first = app.source("S", "x long")
    marked = first.punctuate(before="x = 2", name="Marked")
    if numbered:  # `_n` is a column, and numbered anew on the way
        marked = marked.union(marked.filter("x = 0", name="Once"), name="Twice")
        first = first.union(first, name="Double")
    both = marked.union(first, name="Both")
    both.aggregate("count(*) AS n", window=punctuated(), name="Since").sink("Out")
    times = pa.array([3, 4, 4], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"x": pa.array([0, 1, 2], pa.int64()), "_ts": times, "_seq": pa.array([5, 6, 7])})
    for size in (1, 3):
        out = [event for _, event in Engine(app.build()).run({"S": pa.Table.from_batches([batch]).to_batches(size)})]
        assert [row["n"] for event in out for row in event.to_pylist()] == [7 if numbered else 4]


def test_statistics():
    app = App("test")
    source = app.source("S", SCHEMA)
    first, second = source.split("i % 4 = 0", "i % 4 = 1", name="X")
    first.union(second.filter("i > 10", name="F"), name="U").sink("Sink")
    engine = Engine(app.build())
    for piece in cut(rows(40), [7]):
        engine.push("S", piece)
    engine.end("S")
    found = {name: (s.tuples_in, s.tuples_out) for name, s in engine.statistics.items()}
    assert found == {
        "S": ([40], [40]),
        "X": ([40], [10, 10]),
        "F": ([10], [7]),
        "U": ([10, 7], [17]),
        "Sink": ([17], []),
    }
    assert engine.statistics["X"].selectivity == [0.25, 0.25]
    assert all(s.seconds >= 0 for s in engine.statistics.values())


def test_state_sizes():
    app = App("test")
    app.source("S", SCHEMA).aggregate("sum(x) AS x", window=count(5), every=count(1), by="k", name="A").sink("Sink")
    engine = Engine(app.build())
    engine.push("S", rows(3))
    assert engine.state_sizes() == {"A": 3}
    engine.push("S", rows(50, start=10))
    assert engine.state_sizes() == {"A": 5}


def test_misuse_is_told():
    graph = one_source_diamond()
    with pytest.raises(UsageError, match="Even is not an input of this fragment; its inputs are S"):
        Engine(graph).push("Even", rows(1))
    with pytest.raises(UsageError, match="no input for source S"):
        list(Engine(graph).run({}))
    with pytest.raises(GraphError, match="no operator Nope"):
        Engine(graph, ["Nope"])
    with pytest.raises(UsageError, match="does not leave this fragment"):
        Engine(graph, ["S"]).watermark("U→Sink")
    assert Engine(graph, ["S"]).end("S") == []
    engine = Engine(graph, ["S"])
    engine.end("S")
    assert engine.watermark("S→Even") == END_KEY


def test_punctuation_ends_at_sinks_and_empty_batches_do_nothing():
    engine = Engine(one_source_diamond())
    assert engine.push("S", rows(0)) == []
    engine.push("S", rows(3))
    assert engine.push("S", Punctuation(OrderKey(2, 0, 2))) == []
