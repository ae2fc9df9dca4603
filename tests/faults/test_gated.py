"""Gates in the loops of one engine do what an injection in front of each operator does, for every kind and target."""

import pyarrow as pa
import pytest
from tests.engine.graphs import collected

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.gated import can_strike, golden_engine, strike, trial_engine
from riprap.faults.injection import ports_of, with_fault
from riprap.faults.models import Fault
from riprap.graph.builder import App
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.graph.windows import count, punctuated, time, zero

JITTER = Jitter(3, time=4)
SIZE = 48
TARGETS = ["S", "Filter", "Sums", "Right", "Join", "Tail", "Union", "Marked", "Closed", "Timed"]


def app():
    made = App("gated")
    stream = made.source("S", "k string, x double, i long")
    kept = stream.filter("x < 9 OR x IS NULL", name="Filter")
    sums = kept.aggregate("sum(x) AS x", "sum(i) AS i", window=count(3), every=count(1), by="k", name="Sums")
    right = stream.select("k", "x * 2 AS y", "i + 1 AS j", name="Right")
    met = sums.join(right, on="k", left_window=count(1), right_window=zero(), select=["k", "x", "i", "y"], name="Join")
    met.aggregate("sum(y) AS y", "max(i) AS i", window=count(2), every=count(1), by="k", name="Tail").sink("Out")
    stream.union(kept, name="Union").sink("Out2")
    marked = stream.punctuate("i = 3", name="Marked")
    marked.aggregate("sum(x) AS x", "count(*) AS n", window=punctuated(), by="k", name="Closed").sink("Out3")
    kept.aggregate("sum(x) AS x", window=time("7us"), every=time("3us"), by="k", name="Timed").sink("Out4")
    return made.build()


def rows():
    return pa.record_batch(
        {
            "k": pa.array([None if j % 13 == 0 else "abc"[j * j % 3] for j in range(SIZE)]),
            "x": pa.array([None if j % 7 == 0 else j % 10 + 0.25 for j in range(SIZE)]),
            "i": pa.array([None if j % 11 == 0 else j % 5 - 1 for j in range(SIZE)]),
            "_ts": pa.array([j // 2 for j in range(SIZE)], pa.timestamp("us", "UTC")),
            "_seq": pa.array(range(SIZE), pa.int64()),
        }
    )


def fault(kind, start=20, end=37, **more):
    first = OrderKey(start // 2, 0, start)
    return Fault(kind, first, OrderKey(end // 2, 0, end), first, seed=5, columns=("x", "i", "y", "j"), **more)


def ran(graph, engine, begin=0):
    batch, found = rows().slice(begin), []
    for at in range(0, batch.num_rows, 11):
        found += engine.push("S", batch.slice(at, 11))
    return collected(graph, found + engine.end("S"))


@pytest.fixture(scope="module")
def struck():
    """One engine for all faults, and the golden state that each of them begins at."""
    graph = app()
    golden = golden_engine(graph, JITTER)
    golden.push("S", rows().slice(0, 20))
    return graph, trial_engine(graph, JITTER), golden.snapshot()


@pytest.mark.parametrize("kind", ["loss", "duplicate", "reorder", "diverge", "corrupt"])
def test_a_gate_is_an_injection(struck, kind):
    graph, engine, state = struck
    golden, targets = None, TARGETS if kind in ("loss", "duplicate") else ["S", "Sums", "Join", "Tail", "Union"]
    for target in [[], *([name] for name in targets), ["Filter", "Right", "Tail"]]:
        if kind == "reorder" and "Join" in target:
            assert not can_strike(engine, ports_of(graph, target), fault(kind))
            continue
        ports = ports_of(graph, target)
        assert can_strike(engine, ports, fault(kind))
        apart = Engine(with_fault(graph, target, fault(kind)), jitter=JITTER, cut_everywhere=True)
        strike(graph, engine, ports, fault(kind))
        engine.restore(state)
        apart.restore(state)
        found = ran(graph, engine, 20)
        assert found == ran(graph, apart, 20), target
        assert repr(engine.digests()) == repr(apart.digests()), target
        golden = golden or found
        if kind in ("loss", "duplicate"):
            assert (found != golden) == bool(target), target


def test_what_a_gate_cannot_do_is_done_in_an_engine_of_its_own(struck):
    graph, engine, _ = struck
    lost = Fault("loss", OrderKey(10, 0, 20), OrderKey(18, 0, 37), START_KEY)
    for one in (lost, fault("corrupt-tuple"), fault("sdc")):
        assert not can_strike(engine, ports_of(graph, ["Sums"]), one)
        assert can_strike(engine, ports_of(graph, ["Union"]), one), "it runs on its own, behind an injection"
    assert not can_strike(engine, ports_of(graph, ["Filter", "Sums", "Right", "Tail"]), fault("duplicate"))


@pytest.mark.parametrize(
    "ports", [{"Join": [0]}, {"Join": [1]}, {"Union": [1]}, {"Sums": [0], "Union": [1], "Timed": [0]}]
)
def test_a_loss_at_some_ports_only(struck, ports):
    """As at the edge of a group whose replica takes over."""
    graph, engine, state = struck
    ports = {name: frozenset(own) for name, own in ports.items()}
    assert can_strike(engine, ports, fault("loss"))
    apart = Engine(with_fault(graph, ports, fault("loss")), jitter=JITTER, cut_everywhere=True)
    everywhere = Engine(with_fault(graph, list(ports), fault("loss")), jitter=JITTER, cut_everywhere=True)
    strike(graph, engine, ports, fault("loss"))
    for each in (engine, apart, everywhere):
        each.restore(state)
    found = ran(graph, engine, 20)
    assert found == ran(graph, apart, 20)
    assert repr(engine.digests()) == repr(apart.digests())
    assert found != ran(graph, everywhere, 20)


def test_golden_runs_and_trials_run_the_same_texts(struck):
    graph, engine, _ = struck
    assert {running.text for running in golden_engine(graph, JITTER).running} == {r.text for r in engine.running}
    assert [piece.operators for piece in golden_engine(graph, Jitter(4, time=4)).pieces] == [
        piece.operators for piece in engine.pieces
    ]
