"""HA groups under crash schedules: nobody listens to two replicas, nothing is lost or doubled while one full replica
lives, the counts are true, and whatever happens the run ends.
"""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from tests.simulation.schedules import Case, any_app, batches, bounded, crashes, rows, simulated
from tests.simulation.test_gaps import _keys

from riprap.base.errors import GraphError, UsageError
from riprap.graph.annotations import Annotations, HaGroup, ha_group
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.groups import ha_groups
from riprap.graph.specs import Sink
from riprap.graph.windows import count
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.element.element import Element
from riprap.runtime.layout import Layout, arrange
from riprap.runtime.simulation import Crash, DirectorCrash, Suspect


def grouped(graph: Graph, random: Random, replicas: int) -> Graph | None:
    """With a connected part of it in a group; None: that cannot be replicated."""
    specs = [spec for spec in graph.operators if not isinstance(spec, Sink)]
    names = {spec.name for spec in specs}
    members, size = {random.choice(specs).name}, random.randint(1, 3)
    for _ in range(size):
        beside = {s.target for m in members for s in graph.outputs(m)} | {
            s.source for m in members for s in graph.inputs(m)
        }
        more = sorted((beside & names) - members)
        if more:
            members.add(random.choice(more))
    for name in members:
        graph = graph.with_operator(replace(graph[name], annotations=Annotations(ha_group=HaGroup("g", replicas))))
    try:
        ha_groups(graph)
        arrange(graph, "none")
    except (GraphError, UsageError):
        return None  # it leads to an operator that cannot bear loss
    return graph


def made(seed: int, *, failover: str = "smart") -> tuple[Case, Random]:
    random = Random(seed)
    graph = None
    while graph is None:
        graph = grouped(any_app(random), random, random.choice([2, 2, 3]))
    fuse = random.choice(["none", "auto"])
    layout = arrange(graph, fuse, settings={"failover": failover})
    rate = random.choice([500.0, 2_000.0, 10_000.0])
    return Case(seed, layout, rows(graph, random, 60), (), random.choice([4, 16, 64]), 1 << 20, rate), random


def others(layout: Layout, random: Random, span: int) -> list:
    """Replicas that only seem to be dead, and directors that are."""
    pes = [pe.id for pe in layout.pes if pe.fragment.group]
    suspects = [Suspect(random.randint(0, span), random.choice(pes)) for _ in range(random.randint(0, 3))]
    return suspects + [DirectorCrash(random.randint(0, span), 20_000) for _ in range(random.randint(0, 1))]


def watched(monkeypatch) -> None:
    """Fail when a consumer takes items of a term after those of a later one."""
    newest: dict[tuple, int] = {}
    deliver = Element._deliver

    def delivering(element, way, message, skip, position):
        if way.inlet.retention == "remember" and message.items > skip:
            at = (id(element), way.channel)
            assert message.epoch >= newest.get(at, 0), f"{way.channel}: term {message.epoch} after {newest[at]}"
            newest[at] = message.epoch
        deliver(element, way, message, skip, position)

    monkeypatch.setattr(Element, "_deliver", delivering)


def check(seed: int) -> None:
    """One replica is never struck: the output is that of a run without faults, and every count says so."""
    run, random = made(seed)
    graph, layout = run.layout.graph, run.layout
    span = int(60 / run.rate * 1e6) + 100_000
    spared = random.randrange(3)
    mortal = [pe.id for pe in layout.pes if pe.fragment.group and pe.replica != spared % pe.fragment.replicas]
    struck = crashes(mortal, random, span)
    run = replace(run, crashes=(*struck, *others(layout, random, span)))
    simulation = run.simulation()
    try:
        simulation.run(seconds=10.0)
        assert simulated(simulation) == bounded(graph, run.inputs)
        for stream, counts in stream_counts(layout, simulation.ledgers()).items():
            if counts.recovery == "failover":
                assert (counts.lost, counts.repeated) == (0, 0), f"{stream}: {counts}"
    except Exception as error:
        raise AssertionError(f"check({seed}) of {__name__} repeats it: {run}") from error


def check_anything(seed: int) -> None:
    """Everything dies, under either way of failing over: the run ends, keys ascend, counts fit."""
    run, random = made(seed, failover=Random(seed).choice(["smart", "plain"]))
    graph, layout = run.layout.graph, run.layout
    span = int(60 / run.rate * 1e6) + 100_000
    run = replace(run, crashes=(*crashes([pe.id for pe in layout.pes], random, span), *others(layout, random, span)))
    simulation = run.simulation()
    try:
        simulation.run(seconds=10.0)
        for sink in graph.sinks:
            keys = _keys(simulation, sink.name)
            assert all(one < other for one, other in pairwise(keys)), f"keys fall at {sink.name}"
        for stream, counts in stream_counts(layout, simulation.ledgers()).items():
            assert 0 <= counts.received <= counts.sent, f"{stream}: {counts}"
    except Exception as error:
        raise AssertionError(f"check_anything({seed}) of {__name__} repeats it: {run}") from error


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_nothing_is_lost_or_doubled_while_a_full_replica_lives(seeds, monkeypatch):
    watched(monkeypatch)
    for seed in seeds:
        check(seed)


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_the_run_ends_whatever_dies(seeds, monkeypatch):
    watched(monkeypatch)
    for seed in seeds:
        check_anything(seed)


def refilling_app() -> Graph:
    """Windows that slide: whoever has had enough tuples of a key has forgotten what came before."""
    protect = [ha_group("g", 2)]
    app = App("refilling")
    stream = app.source("S", "k string, x long, id long").filter("x > 0", name="F", protect=protect)
    calls = ("sum(x) AS x", "count(*) AS n")
    stream.aggregate(*calls, window=count(3), every=count(1), by="k", name="A", protect=protect).sink("Out")
    return app.build()


@pytest.mark.parametrize("fuse", ["none", "auto"])
def test_a_replica_that_died_is_full_again_when_its_state_is_that_of_the_active_one(fuse):
    """So each of the two may die in turn, and nothing is lost."""
    random, layout = Random(1), arrange(refilling_app(), fuse)
    inputs = rows(layout.graph, random, 3_000)
    last = [pe.id for pe in layout.pes if pe.fragment.group][-2:]
    crashes = (Crash(100_000, last[0], 20_000), Crash(1_200_000, last[1], 20_000))
    simulation = Case(1, layout, inputs, crashes, 16, 1 << 20, 1_000.0).simulation()
    states: list[str] = []

    def look() -> None:
        states.extend(r["state"] for r in simulation._directing.report()["groups"]["g"]["replicas"])

    simulation._later(1_190_000, look)
    simulation.run(seconds=30.0)
    assert states == ["full", "full"]
    assert simulated(simulation) == bounded(layout.graph, inputs)
    report = simulation._directing.report()["groups"]["g"]
    assert [(f["from"], f["to"], f["tainted"]) for f in report["failovers"]] == [(1, 2, False), (2, 1, False)]


@pytest.mark.soak
@pytest.mark.parametrize("what", [check, check_anything])
def test_thousands_of_schedules(what, monkeypatch):
    watched(monkeypatch)
    for seed in range(1000, 6000):
        what(seed)
