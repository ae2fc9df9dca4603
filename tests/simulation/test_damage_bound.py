"""Whatever crashes, the bound on the damage holds: a row that differs from the run without faults lies inside of it.

The oracle reads inputs and sinks alone. Rows that are in one of both outputs and not in the other differ; each has to
have an event time in a span that some failure names for its sink. Where only windows of time remember, the bound ends.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.random_apps import FURTHER
from tests.simulation.schedules import (
    BUILD,
    Case,
    any_app,
    batches,
    bounded,
    case,
    cyclic_app,
    dropping_late,
    protected,
    simulated,
)
from tests.simulation.shares import soak
from tests.simulation.taps import Tap, tap_app

from riprap.graph.reach import END
from riprap.graph.windows import time, zero
from riprap.runtime.coordination.damage import Failure, failures
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Crash, Simulation


def check(seed: int) -> None:
    """All operators, any protection."""
    random = Random(f"damage {seed}")
    kinds = random.choice([None, FURTHER])
    graph = any_app(random, kinds) if random.random() < 0.9 else cyclic_app(random)
    graph = protected(graph, random, kept=random.choice([0.0, 0.0, 0.3]), saved=random.choice([0.0, 0.5, 1.0]))
    within(case(seed, dropping_late(graph) if random.random() < 0.3 else graph, random))


def _timed(random, pick, name):
    size = random.choice(["5ms", "20ms"])
    every = random.choice([None, time("5ms")])
    return [pick().aggregate("sum(x) AS x", "count(*) AS id", window=time(size), every=every, by="k", name=name)]


def _met(random, pick, name):
    left, right = pick(), pick().rename({"x": "y", "id": "other"}, name=f"{name}r")
    windows = random.choice([(time("5ms"), time("2ms")), (zero(), time("5ms")), (time("20ms"), zero())])
    select = ["k", "x", "other AS id"]
    return [left.join(right, on="k", left_window=windows[0], right_window=windows[1], select=select, name=name)]


TIMED = {
    "filter": BUILD["filter"],
    "union": BUILD["union"],
    "aggregate": _timed,
    "join": _met,
    "delay": lambda random, pick, name: [pick().delay("3ms", name=name)],
    "sort": lambda random, pick, name: [pick().sort("x", window=time("5ms"), name=name)],
}


def check_timed(seed: int) -> None:
    """Nothing remembers but windows of time: the damage of a crash before the end is over before the end."""
    random = Random(seed)
    graph = protected(any_app(random, TIMED), random, kept=0.0, saved=random.choice([0.5, 1.0]))
    run = case(seed, graph, random)
    found, _ = within(run)
    memory = sum(20_000 for _ in graph.operators)  # of all operators one behind the other, at most
    for failure in found:
        for spans in failure.sinks.values():
            latest = max((span.until for spans in failure.hurt.values() for span in spans), default=0)
            assert latest == END or max(span.until for span in spans) <= latest + memory, f"seed {seed}: {failure}"


def within(run: Case) -> tuple[list[Failure], Simulation]:
    simulation = run.simulation()
    try:
        simulation.run(seconds=5.0)
        found = failures(run.layout, simulation.all_ledgers())
        right, given = bounded(run.layout.graph, run.inputs), simulated(simulation)
        for sink, rows in right.items():
            spans = [span for failure in found for span in failure.sinks.get(sink, ())]
            wrong = (Counter(rows) - Counter(given[sink])) + (Counter(given[sink]) - Counter(rows))
            outside = [row for row in wrong if not any(s.since <= row[-1] <= s.until for s in spans)]
            assert not outside, f"{sink}: {len(outside)} of {len(wrong)} outside of {spans}, as {sorted(outside)[:3]}"
    except Exception as error:
        raise AssertionError(f"seed {run.seed} repeats it: {run}") from error
    return found, simulation


def check_undone(seed: int) -> None:
    """Taps count what they are given: what is not in the last state of one and did not come again was undone."""
    random = Random(seed)
    run = case(seed, protected(tap_app(random), random, kept=0.0, saved=random.choice([0.5, 1.0])), random)
    layout = arrange(run.layout.graph, "none")
    pes = [pe.id for pe in layout.pes]
    crashes = tuple(c._replace(effect=0) for c in run.crashes if isinstance(c, Crash) and c.pe in pes)
    run = replace(run, layout=layout, crashes=crashes)
    Tap.lives.clear()
    simulation = run.simulation()
    simulation.run(seconds=5.0)
    found = failures(layout, simulation.all_ledgers())
    for spec in layout.graph.operators:
        if spec.name in Tap.lives:
            undone = sum(failure.undone.get(spec.name, 0) for failure in found)
            given = sum(len(life.given) for life in Tap.lives[spec.name])
            last = Tap.lives[spec.name][-1]
            assert undone == given - last.loaded - len(last.given), f"check_undone({seed}): {spec.name} of {run}"


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_what_was_undone_is_counted(seeds):
    for seed in seeds:
        check_undone(seed)


@pytest.mark.parametrize("seeds", batches(200), ids=str)
def test_what_differs_lies_within_the_bound(seeds):
    for seed in seeds:
        check(seed)


@pytest.mark.parametrize("seeds", batches(100), ids=str)
def test_damage_to_windows_of_time_ends(seeds):
    for seed in seeds:
        check_timed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("what", [check, check_timed, check_undone])
def test_the_bound_holds_in_thousands_of_schedules(what):
    soak(1_000, 5_000, what)
