"""The exhaustive search of the published evaluation: every set of backups, smallest first. For small topologies."""

from itertools import combinations

import numpy as np

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution

LARGEST = 22  # tasks that may or may not be backups; 2^22 sets take minutes


def exhaustive(problem: Problem) -> Solution:
    """Among the sets with the fewest backups that meet the bounds, the one with the least overall recovery latency.

    With costs, the cheapest set, which requires trying all of them.
    """
    topology, costs = problem.topology, problem.topology.costs
    feeds = np.zeros(topology.size, bool)
    feeds[topology.forward[:, 0]] = True
    undecided = np.flatnonzero(feeds & ~problem.must & ~problem.must_not)
    if len(undecided) > LARGEST:
        raise UsageError(
            f"{topology.name} has {len(undecided)} tasks that may be backups, too many to try every set of them: "
            f"exhaust allows at most {LARGEST}; use exact, which proves the same optimum"
        )
    flat = bool(np.all(costs == costs[0]))
    best: tuple[int, int, np.ndarray] | None = None  # cost, worst latency, backups
    for count in range(len(undecided) + 1):
        for chosen in combinations(undecided.tolist(), count):
            backups = problem.must.copy()
            backups[list(chosen)] = True
            latency = problem.latency(backups)
            if np.all(latency <= problem.bound):
                key = (int(costs[backups].sum()), int(latency.max()))
                if best is None or key < best[:2]:
                    best = (*key, backups)
        if best is not None and flat:
            break
    assert best is not None, "a problem has a solution: with every open task a backup the bounds are met"
    return Solution(best[2], best[0], best[0], "exhaust")
