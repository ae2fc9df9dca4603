"""Stable before forward: with `fsync` a power cut takes nothing that a consumer has seen. Without, it does."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, bounded, case, protected, simulated
from tests.simulation.test_continuous import recorded

from riprap.testing.simulation import PowerCut, Simulation


def cut(seed: int, *, fsync: bool):
    """A run in which every stream is persistent, state is in checkpoints or in records, and the power fails."""
    random = Random(f"power {seed}")
    graph = recorded(protected(any_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0])), random)
    run = case(seed, graph, random)
    span = max((1_000, *(fault.at for fault in run.crashes))) if run.crashes else 100_000
    cuts = [PowerCut(random.randint(1_000, span), random.choice([1_000, 50_000])) for _ in range(random.randint(1, 3))]
    run = replace(run, crashes=(*run.crashes, *cuts))
    simulation = Simulation(
        run.layout, run.inputs, seed=seed, crashes=run.crashes, rate=run.rate, batch_rows=run.batch_rows,
        held_bytes=run.held_bytes, fsync=fsync,
    )  # fmt: skip
    return run, simulation


def check(seed: int) -> None:
    run, simulation = cut(seed, fsync=True)
    try:
        simulation.run(seconds=5.0)
        assert simulated(simulation) == bounded(run.layout.graph, run.inputs)
    except Exception as error:
        raise AssertionError(f"check({seed}) of {__name__} repeats it: {run}") from error


# 1923: all else happens in the first millisecond.
@pytest.mark.parametrize("seeds", [*batches(40), (1923,)], ids=str)
def test_a_power_cut_takes_nothing_that_was_seen(seeds):
    for seed in seeds:
        check(seed)


def test_without_fsync_it_does():
    """Or the test above would hold whatever the logs did."""
    lost = 0
    for seed in range(6):
        run, simulation = cut(seed, fsync=False)
        try:
            simulation.run(seconds=5.0)
            lost += simulated(simulation) != bounded(run.layout.graph, run.inputs)
        except Exception:
            lost += 1
    assert lost
