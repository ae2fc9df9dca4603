"""Replans after a change: the plan is as cheap as a new one and, among those, changes the fewest backups.

Both aims are one objective: costs are multiplied by more than the number of tasks; then a new backup costs one more and
an existing one costs one less. So cost decides, then the number of changes. An existing backup that costs nothing
stays: a backup never makes a recovery longer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError
from riprap.planner.exact import solve
from riprap.planner.problem import Problem, Solution


@dataclass(frozen=True)
class Change:
    solution: Solution
    added: tuple[str, ...]
    removed: tuple[str, ...]  # tasks that still exist


def replan(
    problem: Problem, existing: Iterable[str], *, time_limit: float = 10.0, clock: Clock = SYSTEM_CLOCK
) -> Change:
    """`existing` names the backups of the old plan; names that no longer exist are ignored."""
    topology = problem.topology
    names = set(existing)
    was_backup = np.array([task in names for task in topology.tasks])
    unit = gcd(*topology.costs.tolist()) or 1
    costs = topology.costs // unit
    scale = topology.size + 1
    if float(costs.sum()) * scale >= 2**59:
        raise UsageError(f"the costs of {topology.name} are too large for replanning: use a larger unit")
    free = was_backup & (topology.costs == 0) & ~problem.must_not
    nearness = replace(topology, cost=np.maximum(costs * scale + np.where(was_backup, -1, 1), 0))
    solved = solve(replace(problem, topology=nearness, must=problem.must | free), time_limit=time_limit, clock=clock)
    backups = solved.backups
    cost = int(topology.costs[backups].sum())
    # objective ≤ scale · cost + number of tasks that were not backups: gives a lower bound on the cost.
    lower = cost if solved.optimal else max(0, -(-(solved.lower - int((~was_backup).sum())) // scale)) * unit
    solution = Solution(backups, cost, min(lower, cost), "exact, nearest to the old plan")

    def listed(which: np.ndarray) -> tuple[str, ...]:
        return tuple(topology.tasks[task] for task in np.flatnonzero(which))

    return Change(solution, listed(backups & ~was_backup), listed(was_backup & ~backups))
