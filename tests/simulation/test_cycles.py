"""Apps with a cycle under crash schedules: with backups they give what the bounded run gives, with any buffers."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import batches, case, cyclic_app, played, protected


def check(seed: int) -> None:
    random = Random(f"cycles {seed}")
    graph = protected(cyclic_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0]))
    run = case(seed, graph, random)
    if random.random() < 0.5:  # the smallest buffers: whoever could wait for himself would
        run = replace(run, held_bytes=1, batch_rows=random.choice([1, 4]))
    played(run, graph, f"check({seed}) of {__name__}")


@pytest.mark.parametrize("seeds", batches(24, 12), ids=str)
def test_no_crash_schedule_changes_what_comes_out_of_a_cycle(seeds):
    for seed in seeds:
        check(seed)
