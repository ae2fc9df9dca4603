"""Where every stream between elements is persistent, no crash schedule changes the output."""

from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, case, played, protected


def check(seed: int) -> None:
    random = Random(seed)
    graph = protected(any_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0]))
    run = case(seed, graph, random)
    played(run, graph, f"check({seed}) of {__name__}")


@pytest.mark.parametrize("seeds", batches(240), ids=str)
def test_no_crash_schedule_changes_the_output(seeds):
    for seed in seeds:
        check(seed)
