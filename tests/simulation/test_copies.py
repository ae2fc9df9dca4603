"""Full replication under crash schedules: nothing is lost or doubled while one copy of every operator lives, whatever
else dies; and if none is left the run still ends.
"""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.replicas import ended, span, unharmed
from tests.simulation.schedules import Case, any_app, batches, bounded, crashes, rows, simulated
from tests.simulation.shares import soak

from riprap.base.errors import GraphError, UsageError
from riprap.graph.annotations import full_replication
from riprap.graph.builder import App
from riprap.graph.ha_groups import copied
from riprap.graph.specs import Sink, Source
from riprap.graph.windows import count, punctuated
from riprap.runtime.layout import Layout, arrange
from riprap.testing.simulation import Break, Corrupt, Crash, DirectorCrash

ROWS = 60
DIGESTS = {"digests": 5_000}  # µs of event time


def made(seed: int) -> tuple[Case, Random]:
    random = Random(seed)
    graph = None
    while graph is None:
        try:
            graph = copied(any_app(random), random.choice([2, 2, 3]))
        except GraphError:
            graph = None
        if graph is not None and all(isinstance(spec, Source | Sink) for spec in graph):
            graph = None
    shards = {
        spec.name: 2
        for spec in graph
        if random.random() < 0.2 and any(spec.partition_keys) and not isinstance(spec, Source | Sink)
    }
    try:
        layout = arrange(graph, random.choice(["none", "auto"]), shards, settings=DIGESTS)
    except UsageError:
        layout = arrange(graph, "none", settings=DIGESTS)
    rate = random.choice([500.0, 2_000.0, 10_000.0])
    return Case(seed, layout, rows(graph, random, ROWS), (), random.choice([4, 16, 64]), 1 << 20, rate), random


def others(layout: Layout, random: Random, span: int) -> list:
    """Connections that break, and directors that die."""
    strands = [s for link in layout.links if link.retention == "copy" for c in link.channels() for s in link.strands(c)]
    broken = [Break(random.randint(0, span), random.choice(strands)) for _ in range(random.randint(0, 3))]
    return broken + [DirectorCrash(random.randint(0, span), 20_000) for _ in range(random.randint(0, 1))]


def check(seed: int) -> None:
    """Of every element one copy, any, is never struck: the output is that of a run without faults."""
    run, random = made(seed)
    layout, within = run.layout, span(run, ROWS)
    spared = {pe: random.randrange(3) for pe in {(pe.fragment.name, pe.shard) for pe in layout.pes}}
    copies = [pe for pe in layout.pes if pe.fragment.copied]
    mortal = [pe.id for pe in copies if pe.replica != spared[pe.fragment.name, pe.shard] % pe.fragment.replicas]
    run = replace(run, crashes=(*crashes(mortal, random, within), *others(layout, random, within)))
    simulation = unharmed(run, "copies", f"check({seed}) of {__name__}")
    report = {} if simulation._director_host is None else simulation._director_host.report()["copies"]
    assert not any(told["differences"] for told in report.values()), f"check({seed}) of {__name__}: {report}"


def check_anything(seed: int) -> None:
    """Everything dies: the run ends, and keys ascend."""
    run, random = made(seed)
    struck = crashes([pe.id for pe in run.layout.pes], random, span(run, ROWS))
    run = replace(run, crashes=(*struck, *others(run.layout, random, span(run, ROWS))))
    ended(run, f"check_anything({seed}) of {__name__}", counted=False)


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_nothing_is_lost_or_doubled_while_a_copy_of_every_operator_lives(seeds):
    for seed in seeds:
        check(seed)


@pytest.mark.parametrize("seed", [1019, 1250, 1501, 2165, 2299, 3755, 5801])
def test_schedules_that_soaking_found(seed):
    """Digests of streams to several shards, and punctuations whose key was that of a promise, or fell, also below that
    of groups which speak at the same time."""
    check(seed)


@pytest.mark.parametrize("seed", range(3))
def test_punctuations_of_one_trigger_are_all_taken_from_copies(seed):
    """Nobody dies, and what follows speaks at punctuations: one that was dropped would show."""
    random = Random(seed)
    app = App("punctuations", protect=full_replication(2))
    stream = app.source("S", "k string, x long, id long").punctuate("x < 3", name="P").punctuate("k = 'b'", name="Q")
    stream = stream.aggregate("sum(x) AS x", "max(id) AS id", window=punctuated(), by="k", name="A")
    stream = stream.sort("x", window=count(random.choice([1, 2, 3])), name="O")
    stream.aggregate("count(*) AS n", "sum(x) AS x", window=punctuated(), name="Counts").sink("Out")
    graph = app.build()
    run = Case(seed, arrange(graph, "none"), rows(graph, random, 200), (), 16, 1 << 20, 2_000.0)
    unharmed(run, "copies", f"seed {seed} of {__name__}")


@pytest.mark.parametrize("seeds", batches(20), ids=str)
def test_the_run_ends_whatever_dies(seeds):
    for seed in seeds:
        check_anything(seed)


@pytest.mark.parametrize("fuse", ["none", "auto"])
def test_copies_die_in_turn_and_nothing_is_lost(fuse):
    """Each begins with the state of the other: windows that never forget show whether it did."""
    app = App("turns", protect=full_replication(2))
    stream = app.source("S", "k string, x long, id long").filter("x > 0", name="F")
    stream.aggregate("sum(x) AS x", "count(*) AS n", window=count(500), every=count(1), by="k", name="A").sink("Out")
    layout = arrange(app.build(), fuse)
    inputs = rows(layout.graph, Random(1), 3_000)
    last = [pe.id for pe in layout.pes if pe.fragment.copied][-2:]
    crashes = tuple(Crash(at, last[turn % 2], 20_000) for turn, at in enumerate(range(200_000, 2_000_000, 600_000)))
    simulation = Case(1, layout, inputs, crashes, 16, 1 << 20, 1_000.0).simulation()
    simulation.run(seconds=30.0)
    assert simulated(simulation) == bounded(layout.graph, inputs)
    [told] = [t for n, t in simulation._director_host.report()["copies"].items() if last[0].startswith(n)]
    assert (told["restored"], told["tainted"]) == (3, 0), told
    assert [copy["state"] for copy in told["copies"]] == ["speaking", "speaking"]


def corrupted(copies: int, seed: int):
    """The state of one copy is corrupted while windows are open; gives the simulation when it has ended."""
    app = App("corrupted", protect=full_replication(copies))
    stream = app.source("S", "k string, x long, id long").filter("x > 0", name="F")
    stream.aggregate("sum(x) AS x", "count(*) AS n", window=count(20), every=count(1), by="k", name="A").sink("Out")
    layout = arrange(app.build(), "none", settings=DIGESTS)
    inputs = rows(layout.graph, Random(1), 2_000)
    faults = (Corrupt(300_000, "A#2", "A", 10 + seed),)  # in the middle of a window of 20, which will speak
    simulation = Case(1, layout, inputs, faults, 16, 1 << 20, 1_000.0).simulation()
    simulation.run(seconds=30.0)
    return simulation, inputs


@pytest.mark.parametrize("seed", range(3))
def test_of_three_copies_the_corrupted_one_is_found_and_restored(seed):
    simulation, _ = corrupted(3, seed)
    assert simulation.corrupted["A#2"] is not None
    told = simulation._director_host.report()["copies"]
    assert told["F"]["differences"] == []
    for difference in told["A"]["differences"]:
        assert (difference["operator"], difference["odd"]) == ("A", ["A#2"])
        assert difference["to"] - difference["from"] == DIGESTS["digests"]
    assert told["A"]["differences"]
    assert told["A"]["restored"] == simulation.restarts["A#2"] == 1


def test_of_two_copies_it_is_told_that_they_differ():
    simulation, _ = corrupted(2, 0)
    told = simulation._director_host.report()["copies"]["A"]
    assert {difference["operator"] for difference in told["differences"]} == {"A"}
    assert not any(difference["odd"] for difference in told["differences"])
    assert told["restored"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("what", [check, check_anything])
def test_thousands_of_schedules(what):
    soak(1000, 6000, what)
