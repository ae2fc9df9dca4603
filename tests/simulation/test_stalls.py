"""Processes that are stopped for some time while the others go on, beside crashes, under copies and HA groups.

Runs are long, measured by the periods in which elements and the director tell each other how far they are; a life needs
time until its state is there; sources, sinks and cycles are among what is struck. Whatever happens the run ends, and no
stream counts more as received than as sent.
"""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation import test_copies, test_failover
from tests.simulation.replicas import ended, unharmed
from tests.simulation.schedules import Case, any_app, batches, crashes, cyclic_app, rows
from tests.simulation.shares import soak

from riprap.base.errors import GraphError
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import copied
from riprap.graph.specs import Sink, Source
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Stall

ROWS = 150
SHORT = (20_000, 100_000, 300_000)  # microseconds: nobody is declared dead for that
RESTORING = 150_000


def _copied(random: Random) -> Graph:
    while True:
        graph = cyclic_app(random) if random.random() < 0.25 else any_app(random)
        if all(isinstance(spec, Source | Sink) for spec in graph):
            continue
        try:
            return copied(graph, 2)
        except GraphError:
            continue


def _grouped(random: Random) -> Graph:
    graph = None
    while graph is None:
        graph = test_failover.grouped(any_app(random), random, 2)
    return graph


def made(seed: int, copies: bool) -> tuple[Case, Random]:
    random = Random(seed)
    graph = (_copied if copies else _grouped)(random)
    layout = arrange(graph, random.choice(["none", "auto"]), settings=test_copies.DIGESTS if copies else None)
    rate, batch = random.choice([100.0, 300.0, 1_000.0]), random.choice([1, 4, 16])
    return Case(seed, layout, rows(graph, random, ROWS), (), batch, 1 << 20, rate, RESTORING), random


def _span(run: Case) -> int:
    return int(ROWS / run.rate * 1e6) + 300_000


def stalls(pes: list[str], random: Random, span: int, durations: tuple[int, ...]) -> list[Stall]:
    """One or several processes at once."""
    found = []
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, span)
        for pe in random.sample(pes, min(random.choice([1, 1, 2, 4]), len(pes))):
            found.append(Stall(at + random.randint(0, 20_000), pe, random.choice(durations)))
    return found


def _check(seed: int, copies: bool) -> None:
    """Of every operator one copy, or one replica, is neither killed nor stopped for too long."""
    run, random = made(seed, copies)
    pes, span, other = run.layout.pes, _span(run), test_copies if copies else test_failover
    one = random.randrange(2)
    spared = {pe.fragment.name: random.randrange(2) if copies else one for pe in pes}
    mortal = [pe.id for pe in pes if pe.fragment.replicas > 1 and pe.replica != spared[pe.fragment.name]]
    struck = [
        *crashes(mortal, random, span, most=3),
        *stalls(mortal, random, span, (*SHORT, 1_000_000)),
        *stalls([pe.id for pe in pes], random, span, SHORT),
        *(other.others(run.layout, random, span) if copies else other.others(run.layout, random, span, mortal)),
    ]
    recovery = "copies" if copies else "failover"
    unharmed(replace(run, crashes=tuple(struck)), recovery, f"_check({seed}, {copies}) of {__name__}")


def _check_anything(seed: int, copies: bool) -> None:
    run, random = made(seed, copies)
    pes, span, other = [pe.id for pe in run.layout.pes], _span(run), test_copies if copies else test_failover
    struck = [
        *crashes(pes, random, span, most=3),
        *stalls(pes, random, span, (*SHORT, 1_000_000)),
        *(other.others(run.layout, random, span) if copies else other.others(run.layout, random, span, pes)),
    ]
    ended(replace(run, crashes=tuple(struck)), f"_check_anything({seed}, {copies}) of {__name__}", counted=True)


def check_copies(seed: int) -> None:
    _check(seed, True)


def check_groups(seed: int) -> None:
    _check(seed, False)


def check_any_copies(seed: int) -> None:
    _check_anything(seed, True)


def check_any_groups(seed: int) -> None:
    _check_anything(seed, False)


EVERY = [check_copies, check_any_copies, check_groups, check_any_groups]


@pytest.mark.parametrize("what", EVERY)
@pytest.mark.parametrize("seeds", batches(4, 2), ids=str)
def test_stopped_processes_neither_lose_anything_nor_keep_the_run_from_ending(what, seeds):
    for seed in seeds:
        what(seed)


@pytest.mark.parametrize(("what", "seed"), [(check_groups, 1000), (check_any_groups, 1000)])
def test_schedules_that_soaking_found(what, seed):
    """A producer died that held what its consumer expected, and its next life had only what follows to send."""
    what(seed)


@pytest.mark.soak
@pytest.mark.parametrize("what", EVERY)
def test_thousands_of_schedules(what):
    soak(1000, 3000, what)
