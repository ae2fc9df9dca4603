"""Planning again after a change: as cheap as a fresh plan, and among those as near to the old one as can be.

Both aims are one objective: costs are multiplied by more than the number of tasks, and then a backup that was not there
costs one more, one that was there one less. So cost decides, and between equal costs the number of changes. A backup
that was there and costs nothing stays: one more never makes a recovery longer.
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
    removed: tuple[str, ...]  # of tasks that still exist


def replan(asked: Problem, existing: Iterable[str], *, time_limit: float = 10.0, clock: Clock = SYSTEM_CLOCK) -> Change:
    """`existing` names the backups of the old plan; names that no longer exist are ignored."""
    topology = asked.topology
    names = set(existing)
    had = np.array([task in names for task in topology.tasks])
    unit = gcd(*topology.costs.tolist()) or 1
    costs = topology.costs // unit
    scale = topology.size + 1
    if float(costs.sum()) * scale >= 2**59:
        raise UsageError(
            f"the costs of {topology.name} are too large to plan near an earlier plan: give them in a coarser unit"
        )
    free = had & (topology.costs == 0) & ~asked.must_not
    nearness = replace(topology, cost=np.maximum(costs * scale + np.where(had, -1, 1), 0))
    found = solve(replace(asked, topology=nearness, must=asked.must | free), time_limit=time_limit, clock=clock)
    backups = found.backups
    cost = int(topology.costs[backups].sum())
    # objective ≤ scale · cost + tasks that were no backups, so a lower bound on it is one on the cost.
    lower = cost if found.optimal else max(0, -(-(found.lower - int((~had).sum())) // scale)) * unit
    solution = Solution(backups, cost, min(lower, cost), "exact, nearest to the old plan")

    def listed(which: np.ndarray) -> tuple[str, ...]:
        return tuple(topology.tasks[task] for task in np.flatnonzero(which))

    return Change(solution, listed(backups & ~had), listed(had & ~backups))
