"""Operators that the other simulations do not draw, fused, divided, crashed and restored: as the bounded run."""

from random import Random

import pytest
from tests.random_apps import FURTHER
from tests.simulation.schedules import (
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

from riprap.testing.simulation import Simulation


def fault_free(seed: int) -> None:
    random = Random(f"further {seed}")
    graph = any_app(random, FURTHER)
    layout, inputs = laid_out(graph, random), rows(graph, random, 60)
    simulation = Simulation(layout, inputs, seed=seed, batch_rows=random.choice([5, 64]))
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, inputs), f"fault_free({seed}) of {__name__} repeats it"


def crashed(seed: int) -> None:
    random = Random(f"further crashes {seed}")
    graph = protected(any_app(random, FURTHER), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0]))
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
