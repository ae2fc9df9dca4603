"""Cycles: what goes round is what a tuple-by-tuple simulation of the graph says, however the input is cut."""

import heapq
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from riprap.base.errors import GraphError, UsageError
from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.graph.builder import App
from riprap.graph.windows import time, zero
from riprap.operators.contract import Punctuation

SCHEMA = "k long not null, x long not null"


def rows_of(outputs):
    batches = [event for _, event in outputs if isinstance(event, pa.RecordBatch)]
    return [row for batch in batches for row in batch.to_pylist()]


def batch(rows, first=0):
    ts = pa.array([r[0] for r in rows], pa.timestamp("us", "UTC"))
    return pa.record_batch(
        {
            "k": pa.array([r[1] for r in rows], pa.int64()),
            "x": pa.array([r[2] for r in rows], pa.int64()),
            "_ts": ts,
            "_seq": pa.array(range(first, first + len(rows)), pa.int64()),
        }
    )


def cut(rows, generator):
    """The rows in batches of random sizes."""
    start = 0
    while start < len(rows):
        stop = start + int(generator.integers(1, 8))
        yield batch(rows[start:stop], start)
        start = stop


def tuples(generator, count, gap):
    ts = np.cumsum(generator.integers(0, gap, count))
    return [
        (int(t), int(k), int(x))
        for t, k, x in zip(ts, generator.integers(0, 4, count), generator.integers(0, 5, count), strict=True)
    ]


def counted(delay):
    """A join in a cycle: a tuple meets what is remembered of its key; what comes round is remembered one lower."""
    app = App("counted")
    source = app.source("S", SCHEMA)
    back = app.feedback("back", SCHEMA, delay=delay)
    both = source.union(back, name="Both")
    again, done = both.split("x > 0", otherwise=True, name="Split")
    again.select("k", "x - 1 AS x", name="Lower").feed("back")
    done.aggregate("count(*) AS n", "sum(x) AS total", window=time("7us"), by="k", name="Count").sink("Out")
    both.sink("All")
    return app.build()


def countdown(rows, delay):
    """Tuple by tuple: everything that passes the union, in the order of the keys."""
    heap = [(t, seq, 0, k, x) for seq, (t, k, x) in enumerate(rows)]
    heapq.heapify(heap)
    passed = []
    while heap:
        t, seq, _, k, x = heapq.heappop(heap)
        passed.append((t, k, x))
        if x > 0:
            heapq.heappush(heap, (t + delay, seq, 1, k, x - 1))
    return passed


@pytest.mark.parametrize("seed", range(12))
def test_a_cycle_gives_what_tuple_by_tuple_gives(seed):
    generator = np.random.default_rng(seed)
    delay = int(generator.choice([1, 2, 5, 40, 1000]))
    rows = tuples(generator, int(generator.integers(1, 60)), int(generator.choice([2, 6, 50])))
    expected = countdown(rows, delay)
    windows = defaultdict(lambda: [0, 0])
    for t, k, x in expected:
        if x == 0:
            windows[(t // 7, k)][0] += 1
    graph = counted(f"{delay}us")
    for size in (1, 3, None):
        batches = [batch(rows)] if size is None else list(cut(rows, generator))
        outputs = list(Engine(graph).run({"S": batches}))
        seen = rows_of(output for output in outputs if output.name == "All")
        assert [(int(r["_ts"].timestamp() * 1e6 + 0.5), r["k"], r["x"]) for r in seen] == expected
        counts = rows_of(output for output in outputs if output.name == "Out")
        ends = {(int(r["_ts"].timestamp() * 1e6 + 0.5) // 7 - 1, r["k"]): r["n"] for r in counts}
        assert ends == {key: n for key, (n, _) in windows.items()}


def windowed(delay, *, two=False):
    """A time window inside the cycle: sums of a key go back until they are small; a join looks at both ways."""
    app = App("windowed")
    source = app.source("S", SCHEMA)
    outer = source if not two else source.union(app.source("T", SCHEMA).filter("k < 3", name="F"), name="Inputs")
    back = app.feedback("back", SCHEMA, delay=delay)
    both = outer.union(back, name="Both")
    sums = both.aggregate("sum(x) AS x", window=time("10us"), by="k", name="Sums")
    sums.select("k", "CAST(x / 2 AS long) AS x", where="x > 1", name="Half").feed("back")
    met = sums.rename({"x": "y"}, name="Y").join(
        both, on="k", left_window=time("30us"), right_window=zero(), name="Meet", select=["k", "x", "y"]
    )
    met.sink("Out")
    sums.sink("Sums_")
    return app.build()


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_windows_in_a_cycle_do_not_depend_on_batches(seed, two):
    generator = np.random.default_rng([seed, two])
    delay = int(generator.choice([1, 3, 10, 25]))
    graph = windowed(f"{delay}us", two=two)
    inputs = {name: tuples(generator, 50, 9) for name in (("S", "T") if two else ("S",))}
    whole = rows_of(
        sorted(Engine(graph).run({name: [batch(rows)] for name, rows in inputs.items()}), key=lambda o: o[0])
    )
    assert len(whole) > 20
    for _ in range(4):
        pieces = {name: list(cut(rows, generator)) for name, rows in inputs.items()}
        assert rows_of(sorted(Engine(graph).run(pieces), key=lambda o: o[0])) == whole


def test_a_cycle_goes_on_from_a_snapshot():
    generator = np.random.default_rng(5)
    rows = tuples(generator, 60, 6)
    graph = windowed("4us")
    expected = rows_of(sorted(Engine(graph).run({"S": [batch(rows)]}), key=lambda o: o[0]))
    engine, outputs = Engine(graph), []
    for piece in cut(rows, generator):
        outputs += engine.push("S", piece)
        fresh = Engine(graph)
        fresh.restore(engine.snapshot())
        engine = fresh
    outputs += engine.end("S")
    assert rows_of(sorted(outputs, key=lambda o: o[0])) == expected


def test_a_gap_is_jumped_over():
    """A year of event time at a delay of a microsecond would be 3e13 turns."""
    graph = counted("1us")
    year = 365 * 86_400 * 1_000_000
    outputs = list(Engine(graph).run({"S": [batch([(0, 1, 3), (year, 1, 2), (2 * year, 2, 0)])]}))
    assert len(rows_of(output for output in outputs if output.name == "All")) == 4 + 3 + 1


def test_punctuation_does_not_go_round():
    engine = Engine(counted("2us"))
    rows = batch([(0, 1, 2)])
    assert rows_of(engine.push("S", rows))
    engine.push("S", Punctuation(Engine(counted("2us"))._last_key("S", rows)))
    assert engine.end("S")


def test_what_leads_out_of_a_fragment_leaves_later():
    graph = counted("5us")
    part = Engine(graph, ["Lower"])
    (entry,) = (s.id for s in graph.inputs("Lower"))
    head = Engine(graph, ["S", "Both", "Split"])
    head.push("S", batch([(3, 1, 2)]))
    (stream,) = (s.id for s in graph.streams if s.feedback is not None)
    outputs = head.advance(stream, head.reached("S"))
    rows = next(event for name, event in outputs if name == entry)
    (output,) = part.push(entry, rows)
    assert output.name == stream
    assert output.event.to_pydict()["_ts"][0].microsecond == 8
    assert part.watermark(stream).ts >= 7


def test_what_is_wrong_is_told():
    app = App("loop")
    with pytest.raises(GraphError, match="delay 0s is too short"):
        app.feedback("back", SCHEMA, delay="0s")
    with pytest.raises(UsageError, match="has feedback streams, which do not support jitter"):
        Engine(counted("1us"), jitter=Jitter(seed=1, time=3))
