"""Punctuations between rows that share a trigger, on their way through shards: a row is never overtaken by time."""

from random import Random

import pytest
from tests.simulation import test_power
from tests.simulation.schedules import bounded, rows, simulated

from riprap import App, count, zero
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation


def app(shards: int, *, before: bool):
    """Each row of a sorted window meets the three before it, which come to the join on another way."""
    app = App("marks")
    ordered = app.source("S0", "k string, x long, id long").sort("x", window=count(12), name="Ordered")
    condition = "x = 1 OR x = 4"
    marked = ordered.punctuate(before=condition, name="Marks") if before else ordered.punctuate(condition, name="Marks")
    other = marked.select("k", "x AS y", "id AS other", name="Other", parallelism=shards)
    marked.join(other, on="k", left_window=count(3), right_window=zero(), per_group=False, name="Meet").sink("Sink")
    return app.build()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("fuse", ["none", "auto"])
def test_rows_behind_a_punctuation_wait_for_those_of_the_other_way(shards, before, fuse):
    graph = app(shards, before=before)
    inputs = rows(graph, Random("marks"), 60)
    simulation = Simulation(arrange(graph, fuse), inputs, seed=1, rate=1_000.0, batch_rows=16)
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, inputs)


def test_the_schedule_that_showed_it():
    test_power.check(1842)
