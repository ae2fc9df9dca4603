"""Operators that the other simulations do not draw, fused, divided, crashed and restored: as the bounded run."""

from random import Random

import pytest
from tests.simulation.schedules import (
    BUILD,
    any_app,
    batches,
    bounded,
    case,
    laid_out,
    played,
    protected,
    rows,
    simulated,
)
from tests.simulation.shares import soak

from riprap.graph.windows import count, session_window, time, zero
from riprap.runtime.simulation import Simulation


def _scan(random, pick, name):
    state = {"last": ("-1", "id"), "total": ("0", "total + x")}
    where = random.choice([None, "total % 3 <> 1"])
    return [
        pick().scan("k", "total AS x", "last AS id", state=state, by=random.choice(["k", ()]), where=where, name=name)
    ]


def _sessions(random, pick, name):
    calls = ["max(x) AS x", "count(distinct id) AS id"]
    gap = session_window(random.choice(["400us", "3ms"]))
    return [pick().aggregate(*calls, window=gap, by="k", name=name)]


def _outer(random, pick, name):
    left, right = pick(), pick().rename({"x": "y", "id": "other"}, name=f"{name}r")
    windows = random.choice([(count(1), zero()), (zero(), count(3)), (time("5ms"), count(1)), (count(2), count(2))])
    how = random.choice(["left", "right", "full"])
    return [
        left.join(right, on="k", left_window=windows[0], right_window=windows[1], how=how,
                  select=["k", "coalesce(x, -1) AS x", "coalesce(other, -2) AS id"], name=name)
    ]  # fmt: skip


KINDS = {
    "scan": _scan,
    "delay": lambda random, pick, name: [pick().delay(random.choice(["200us", "7ms"]), name=name)],
    "sessions": _sessions,
    "outer": _outer,
    "before": lambda random, pick, name: [pick().punctuate(before=random.choice(["x = 1", "k = 'b'"]), name=name)],
    "regex": lambda random, pick, name: [pick().filter("k rlike '^[ab]$'", name=name)],
    **{name: BUILD[name] for name in ("aggregate", "union", "sort")},
}


def fault_free(seed: int) -> None:
    random = Random(f"further {seed}")
    graph = any_app(random, KINDS)
    layout, inputs = laid_out(graph, random), rows(graph, random, 60)
    simulation = Simulation(layout, inputs, seed=seed, batch_rows=random.choice([5, 64]))
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, inputs), f"fault_free({seed}) of {__name__} repeats it"


def crashed(seed: int) -> None:
    random = Random(f"further crashes {seed}")
    graph = protected(any_app(random, KINDS), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0]))
    run = case(seed, graph, random)
    played(run, graph, f"crashed({seed}) of {__name__}")


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_the_output_is_that_of_the_bounded_run(seeds):
    for seed in seeds:
        fault_free(seed)


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_no_crash_schedule_changes_the_output(seeds):
    for seed in seeds:
        crashed(seed)


@pytest.mark.soak
def test_no_crash_schedule_of_thousands_changes_the_output():
    soak(1_000, 4_000, fault_free)
    soak(1_000, 4_000, crashed)
