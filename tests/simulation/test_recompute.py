"""Recompute: under seeded crash schedules, with few streams kept, the sinks have the rows of the bounded run."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, bounded, case, protected, simulated

from riprap.protocols import recompute
from riprap.runtime.recompute import Recomputation


def run(seed: int) -> None:
    random = Random(f"recompute {seed}")
    graph = protected(any_app(random), random, kept=random.choice([0.0, 0.2, 0.5]), saved=1.0)
    made = case(seed, graph, random, most=100)
    links = tuple(
        link if link.retention == "log" else replace(link, retention="recompute") for link in made.layout.links
    )
    made = replace(made, layout=replace(made.layout, links=links, protocol=recompute.SPEC))
    simulation = made.simulation()
    try:
        simulation.run()
        assert simulated(simulation) == bounded(graph, made.inputs)
    except AssertionError as error:
        raise AssertionError(f"run({seed}): {made}\n{error}"[:3000]) from error


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_nothing_is_lost_and_nothing_comes_twice(seeds, monkeypatch):
    brought = []
    bring = Recomputation.bring

    def counting(self, missing):
        found = bring(self, missing)
        brought.extend(found)
        return found

    monkeypatch.setattr(Recomputation, "bring", counting)
    for seed in seeds:
        run(seed)
    assert len(brought) > 20


@pytest.mark.soak
def test_nothing_is_lost_in_thousands_of_schedules():
    for seed in range(100, 3_100):
        run(seed)
