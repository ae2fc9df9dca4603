"""L as executed, against the sum over every way written down the slow way."""

from random import Random

import numpy as np
import pytest

from riprap.base.errors import PlanError
from riprap.base.quantities import Duration
from riprap.planner.executed import as_executed, with_enough_backups
from riprap.planner.topology import topology
from riprap.planner.topology_files import optimal_interval


def by_hand(edges, intervals, pace, backups, task):
    """Every way back from the task, one at a time."""
    longest: dict[int, int] = {}
    ways = [(task, intervals[task])]
    while ways:
        at, span = ways.pop()
        longest[at] = max(longest.get(at, 0), span)
        ways += [(a, span + intervals[a]) for a, b in edges if b == at and not backups[a]]
    return sum(pace[one] * span for one, span in longest.items())


def test_every_task_of_random_graphs():
    for seed in range(60):
        random = Random(seed)
        size = random.randint(1, 9)
        edges = [(a, b) for b in range(size) for a in range(b) if random.random() < 0.4]
        intervals = [random.randint(1, 50) for _ in range(size)]
        pace = [random.random() for _ in range(size)]
        backups = np.array([random.random() < 0.3 for _ in range(size)])
        names = [str(one) for one in range(size)]
        tasks = [(name, Duration(1)) for name in names]
        graph = topology("t", tasks, [(names[a], names[b]) for a, b in edges])
        found = as_executed(graph, intervals, pace, backups)
        expected = [by_hand(edges, intervals, pace, backups, task) for task in range(size)]
        assert np.allclose(found, expected), seed


def test_the_best_interval_by_young():
    assert optimal_interval(Duration(86_400_000_000), Duration(50_000)) == round((2 * 0.05 * 86_400) ** 0.5 * 1e6)


def test_backups_are_added_until_the_bound_is_met():
    for seed in range(30):
        random = Random(seed)
        size = random.randint(3, 8)
        edges = [(a, b) for b in range(size) for a in range(b) if random.random() < 0.5]
        intervals, pace = [random.randint(10, 50) for _ in range(size)], [random.random() for _ in range(size)]
        names = [str(one) for one in range(size)]
        graph = topology("t", [(name, Duration(1)) for name in names], [(names[a], names[b]) for a, b in edges])
        none, alone = np.zeros(size, bool), as_executed(graph, intervals, pace, np.ones(size, bool)).max()
        bound = np.full(size, alone * random.choice([1.0, 1.5, 3.0]))
        kept = with_enough_backups(graph, intervals, pace, none, bound, none)
        assert (as_executed(graph, intervals, pace, kept) <= bound).all()
        for task in np.flatnonzero(kept):
            fewer = kept.copy()
            fewer[task] = False
            assert (as_executed(graph, intervals, pace, fewer) > bound).any(), "none of them is needless"
    with pytest.raises(PlanError, match="no plan recomputes fast enough"):
        with_enough_backups(graph, intervals, pace, none, np.full(size, alone / 2), none)
