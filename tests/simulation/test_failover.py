"""HA groups under crash schedules: nobody listens to two replicas, nothing is lost or doubled while one full replica
lives, the counts are true, and whatever happens the run ends.
"""

from collections import Counter
from dataclasses import replace
from random import Random
from weakref import WeakKeyDictionary

import pytest
from tests.simulation.replicas import ended, span, unharmed
from tests.simulation.schedules import Case, any_app, batches, bounded, crashes, rows, simulated
from tests.simulation.shares import soak
from tests.simulation.taps import Tap, got

from riprap.base.errors import GraphError, UsageError
from riprap.graph.annotations import Annotations, HaGroup, ha_group
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import ha_groups
from riprap.graph.specs import Sink
from riprap.graph.windows import count, punctuated, time, zero
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.element import Element
from riprap.runtime.layout import Layout, arrange
from riprap.testing.simulation import Break, Crash, DirectorCrash, Suspect

ROWS = 60


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
    return Case(seed, layout, rows(graph, random, ROWS), (), random.choice([4, 16, 64]), 1 << 20, rate), random


def others(layout: Layout, random: Random, span: int, mortal: list[str]) -> list:
    """Replicas that only seem to be dead, connections within mortal ones that break, and directors that die."""
    pes = [pe.id for pe in layout.pes if pe.fragment.group]
    suspects = [Suspect(random.randint(0, span), random.choice(pes)) for _ in range(random.randint(0, 3))]
    within = [c for pe in layout.pes if pe.id in mortal for c in layout.inputs(pe) if layout.link(c.stream).within]
    breaks = [Break(random.randint(0, span), random.choice(within)) for _ in range(random.randint(0, 2)) if within]
    return [
        *suspects,
        *breaks,
        *(DirectorCrash(random.randint(0, span), 20_000) for _ in range(random.randint(0, 1))),
    ]


def watched(monkeypatch) -> None:
    """Fail when a consumer takes items of a term after those of a later one."""
    newest: WeakKeyDictionary[Element, dict[ChannelId, int]] = WeakKeyDictionary()
    deliver = Element._deliver

    def delivering(element, input_, message, skip, position):
        if input_.receiver.retention == "remember" and message.items > skip:
            terms = newest.setdefault(element, {})
            last = terms.get(input_.id, 0)
            assert message.epoch >= last, f"{input_.id}: term {message.epoch} after {last}"
            terms[input_.id] = message.epoch
        deliver(element, input_, message, skip, position)

    monkeypatch.setattr(Element, "_deliver", delivering)


def check(seed: int) -> None:
    """One replica is never struck: the output is that of a run without faults, and every count says so."""
    run, random = made(seed)
    spared = random.randrange(3)
    mortal = [pe.id for pe in run.layout.pes if pe.fragment.group and pe.replica != spared % pe.fragment.replicas]
    within = span(run, ROWS)
    struck = crashes(mortal, random, within)
    run = replace(run, crashes=(*struck, *others(run.layout, random, within, mortal)))
    unharmed(run, "failover", f"check({seed}) of {__name__}")


def check_anything(seed: int) -> None:
    """Everything dies, under either way of failing over: the run ends, keys ascend but for what is late, counts fit."""
    run, random = made(seed, failover=Random(seed).choice(["smart", "plain"]))
    pes = [pe.id for pe in run.layout.pes]
    struck = crashes(pes, random, span(run, ROWS))
    run = replace(run, crashes=(*struck, *others(run.layout, random, span(run, ROWS), pes)))
    ended(run, f"check_anything({seed}) of {__name__}", counted=True)


def _punctuated(random, stream, protect):
    """Rows and punctuations in turn: several messages of one call."""
    for at in range(random.randint(1, 2)):
        stream = stream.punctuate(random.choice(["x = 1", "x < 3", "id % 4 = 0"]), name=f"P{at}", protect=protect)
    return stream


def _joined(random, stream, protect):
    """Several rows of one trigger, each with an `id` of its own."""
    other = stream.select("k", "id AS other", name="Other", protect=protect)
    windows = {"left_window": random.choice([zero(), count(3)]), "right_window": random.choice([count(4), time("8ms")])}
    select = ["k", "x", "id * 1000 + other AS id"]
    return stream.join(
        other, on="k", select=select, per_group=random.random() < 0.5, name="J", protect=protect, **windows
    )


def _grouped(random, stream, protect):
    """As many rows of one trigger as there are groups."""
    if random.random() < 0.5:
        stream = stream.punctuate("id % 7 = 0", name="P", protect=protect)
        window = punctuated()
    else:
        window = time(random.choice(["2ms", "5ms"]))
    return stream.aggregate("sum(x) AS x", "max(id) AS id", window=window, by="k", name="A", protect=protect)


def _sorted(random, stream, protect):
    return stream.sort("x", window=random.choice([count(5), time("4ms")]), name="O", protect=protect)


def check_restarted(seed: int) -> None:
    """A consumer dies together with the active replica: what it had had of one call of that, the other does not bring
    again, though the progress that goes with the last message of the call had not come.
    """
    random = Random(seed)
    app = App("restarted")
    stream = app.source("S", "k string, x long, id long")
    stream = random.choice([_punctuated, _joined, _grouped, _sorted])(random, stream, [ha_group("g", 2)])
    stream.apply(Tap, name="T", tap="T", ports=1, drop=10**9)[0].sink("Out")
    layout = arrange(app.build(), "none", settings={"failover": "smart"})
    rate, batch = random.choice([500.0, 2_000.0, 10_000.0]), random.choice([4, 16, 64])
    run = Case(seed, layout, rows(layout.graph, random, ROWS), (), batch, 1 << 20, rate)
    actives = [pe.id for pe in layout.pes if pe.fragment.group and pe.id.endswith("#1")]
    struck: list[Crash] = []
    for at in sorted(random.randint(0, span(run, ROWS)) for _ in range(random.randint(1, 3))):
        effect = random.choice([0, 0, 1, 2, 5])
        struck.append(Crash(at, "T", random.choice([5_000, 30_000]), effect))
        struck.append(Crash(at + random.randint(0, 4_000), random.choice(actives), 5_000))
    run = replace(run, crashes=tuple(sorted(struck)))
    Tap.lives.clear()
    bounded(layout.graph, run.inputs)
    due = got("T", 0)
    Tap.lives.clear()
    run.simulation().run(seconds=20.0)
    again, missing = got("T", 0) - due, due - got("T", 0)
    assert (again, missing) == (Counter(), Counter()), (
        f"again {again}, missing {missing}; check_restarted({seed}) of {__name__} repeats it: {run}"
    )


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_nothing_is_lost_or_doubled_while_a_full_replica_lives(seeds, monkeypatch):
    watched(monkeypatch)
    for seed in seeds:
        check(seed)


FOUND = [
    *((check, seed) for seed in (2127, 3820, 4642, 2685, 21327, 30472, 4410)),
    *((check_anything, seed) for seed in (30579, 30823, 5739)),
    (check_restarted, 94),
]


@pytest.mark.parametrize(("what", "seed"), FOUND)
def test_schedules_that_soaking_found(what, seed, monkeypatch):
    """Elements that went on without another one of their replica, as backups too; a digest that was asked for before
    all keys, and one whose key was taken for that of a tuple: a join promised what it still held; rows under the key of
    a punctuation that were given the rank of a boundary, and dropped for it. Keys that fall because tuples come late.
    Several tuples that come too late for a join's window, of one group. An edge that had yet to hear that it is not
    active any more, when an element before it went on behind a hole.
    """
    watched(monkeypatch)
    what(seed)


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_a_consumer_that_dies_beside_the_active_replica_is_given_nothing_twice(seeds):
    for seed in seeds:
        check_restarted(seed)


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
        states.extend(r["state"] for r in simulation._director_host.report()["groups"]["g"]["replicas"])

    simulation._later(1_190_000, look)
    simulation.run(seconds=30.0)
    assert states == ["full", "full"]
    assert simulated(simulation) == bounded(layout.graph, inputs)
    report = simulation._director_host.report()["groups"]["g"]
    assert [(f["from"], f["to"], f["tainted"]) for f in report["failovers"]] == [(1, 2, False), (2, 1, False)]


def fed_app() -> Graph:
    """As above, but that a filter outside feeds the group."""
    app = App("fed")
    stream = app.source("S", "k string, x long, id long").filter("x > 0", name="F")
    calls = ("sum(x) AS x", "count(*) AS n")
    windows = {"window": count(3), "every": count(1)}
    stream.aggregate(*calls, by="k", name="A", protect=[ha_group("g", 2)], **windows).sink("Out")
    return app.build()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("struck", [1, 2])
def test_a_connection_that_breaks_into_one_replica_is_noticed(struck, seed):
    """That replica alone has lost something: the other one speaks, and it is full again when it has forgotten it."""
    layout = arrange(fed_app(), "none")
    inputs = rows(layout.graph, Random(seed), 3_000)
    channel = next(c for pe in layout.pes if pe.id == f"A#{struck}" for c in layout.inputs(pe))
    faults = (Break(300_000 + 1_000 * seed, channel),)
    simulation = Case(seed, layout, inputs, faults, 16, 1 << 20, 1_000.0).simulation()
    states: set[str] = set()

    def look() -> None:
        states.add(simulation._director_host.report()["groups"]["g"]["replicas"][struck - 1]["state"])
        simulation._later(1_000, look)

    simulation._later(0, look)
    simulation.run(seconds=30.0)
    report = simulation._director_host.report()["groups"]["g"]
    assert "refilling" in states
    assert report["replicas"][struck - 1]["state"] == "full"
    assert [(f["from"], f["to"]) for f in report["failovers"]] == ([(1, 2)] if struck == 1 else [])
    assert simulated(simulation) == bounded(layout.graph, inputs)


@pytest.mark.soak
@pytest.mark.parametrize("what", [check, check_anything, check_restarted])
def test_thousands_of_schedules(what, monkeypatch):
    watched(monkeypatch)
    soak(1000, 6000, what)
