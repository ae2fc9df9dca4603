"""L as executed, against the sum over every way written down the slow way."""

from random import Random

import numpy as np

from riprap.base.quantities import Duration
from riprap.planner.executed import as_executed
from riprap.planner.files import optimal_interval
from riprap.planner.topology import topology


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
