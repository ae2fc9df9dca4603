"""Random apps that are divided by key, and a bench for trials on random streams."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from tests.engine.graphs import SCHEMA

from riprap.engine.jitter import Jitter
from riprap.faults.campaign_settings import counts_jitter_in_tuples
from riprap.faults.divided import runs_by_key
from riprap.faults.golden import golden_run
from riprap.faults.models import KINDS, STRIKES_ONCE, Fault
from riprap.faults.recording import load, record
from riprap.faults.scoring import parse_score
from riprap.faults.trial_outputs import sink_reader
from riprap.faults.trials import TrialContext
from riprap.graph.builder import App
from riprap.graph.order_keys import START_KEY
from riprap.graph.specs import Sink
from riprap.graph.windows import count, zero


@st.composite
def divided_apps(draw):
    """Chains of filters, maps and aggregates by key, merged at most once, by a join or a union."""
    app = App("divided")
    stream = app.source("S", SCHEMA)

    def chain(stream, name):
        for j in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["filter", "map", "aggregate"]))
            if kind == "filter":
                condition = draw(st.sampled_from(["i > 0", "i < 1", "x < 2 or x is null"]))
                stream = stream.filter(condition, name=f"{name}{j}")
            elif kind == "map":
                stream = stream.select("k", "x * 2 AS x", "i", name=f"{name}{j}")
            else:
                size = count(draw(st.sampled_from([1, 2, 4])))
                every = draw(st.sampled_from([None, count(1), count(2)]))
                stream = stream.aggregate(
                    "sum(x) AS x", "sum(i) AS i", window=size, every=every, by="k", name=f"{name}{j}"
                )
        return stream

    stream = chain(stream, "head")
    shape = draw(st.sampled_from(["chain", "join", "join", "join", "union"]))
    if shape != "chain":
        left, right = chain(stream, "left"), chain(stream, "right")
        if shape == "union":
            stream = left.union(right, name="merge")
        else:
            windows = draw(st.sampled_from([(count(1), zero()), (zero(), count(2)), (count(2), count(1))]))
            other = right.rename({"x": "y", "i": "j"}, name="renamed")
            stream = left.join(
                other,
                on="k",
                left_window=windows[0],
                right_window=windows[1],
                select=["k", "x", "j AS i"],
                name="merge",
            )
    chain(stream, "tail").sink("Sink")
    return app.build()


@st.composite
def jitters(draw, graph):
    if not counts_jitter_in_tuples(graph) or draw(st.booleans()):
        return draw(st.sampled_from([None, Jitter(draw(st.integers(0, 9)), time=draw(st.integers(0, 12)))]))
    return Jitter(draw(st.integers(0, 9)), tuples=draw(st.integers(0, 6)))


@st.composite
def faults(draw, recording):
    """A fault somewhere in the stream, and the cuts that a golden run has to keep for it."""
    start = draw(st.integers(0, recording.tuples - 2))
    end = draw(st.integers(start + 1, recording.tuples - 1))
    kind = draw(st.sampled_from(KINDS))
    first, restored = recording.key_at(start), start
    state = first
    if kind == "loss":
        restored = draw(st.sampled_from([start, draw(st.integers(0, start))]))
        state = draw(st.sampled_from([recording.key_at(restored), START_KEY]))
    columns, keys = (("k", "x", "i"), ("k",)) if kind in STRIKES_ONCE else (("x",), ())
    fault = Fault(kind, first, recording.key_at(end), state, draw(st.integers(0, 30)), columns, keys)
    return fault, [start, restored]


def recorded(graph, given, columns):
    if any(batch.num_rows < 2 for batch in given.values()):
        assume(False)
    with tempfile.TemporaryDirectory(prefix="riprap-test-") as folder:  # what is mapped stays
        path = Path(folder) / "recorded"
        record(graph, {name: [batch] for name, batch in given.items()}, columns, path)
        return load(graph, path)


def readers_of(graph, recording, function="sum(x)"):
    return [
        sink_reader(graph, s.name, parse_score(function, graph.input_schemas(s.name)[0], s.name), recording)
        for s in graph.sinks
    ]


def bench_of(graph, recording, jitter, starts, kind):
    divided = runs_by_key(graph, kind)
    readers = readers_of(graph, recording)
    golden = golden_run(graph, recording, readers, jitter, starts, divided=divided)
    return TrialContext(graph, recording, readers, jitter, golden, divided)


def targets_of(graph, fault):
    """Operators that the fault can strike: a reorder, only where nothing behind it merges."""
    merging = {spec.name for spec in graph.operators if spec.inputs > 1}
    names = [
        spec.name
        for spec in graph.operators
        if not isinstance(spec, Sink)
        and not (
            fault.kind == "reorder" and spec.name in merging and merging & graph.reachable(spec.name) - {spec.name}
        )
    ]
    return st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)


def as_multiset(difference, golden):
    """A difference in a form that two ways of finding it can be compared by."""
    added = sorted(zip(*(column.tolist() for column in difference.added[:3]), strict=True))
    values = np.sort(difference.added.value)
    return difference.removed.tolist(), added, repr(values.tolist())
