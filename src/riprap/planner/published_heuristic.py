"""The main loop of the published algorithm, shared by its ways to choose backups.

It has a set of search sources, initially the sources of the topology. Each round removes the one with most hops to a
sink, chooses backups within R downstream of it, and adds those as search sources, until the set is empty.

Where the publication is ambiguous, this version always meets the bound; see docs/papers/reproduce-ftc.md.
"""

from collections.abc import Callable

import numpy as np

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution

# (state of the loop, search source) → the backups of this round.
Choose = Callable[["HeuristicState", int], list[int]]


class HeuristicState:
    """State of the main loop: neighbours, hops to the sink, and the backups so far."""

    def __init__(self, problem: Problem, algorithm: str) -> None:
        refuse_extras(problem, algorithm)
        topology = problem.topology
        self.bound = int(problem.bound[0])
        self.latency: list[int] = topology.latency.tolist()
        self.before: list[list[int]] = [[] for _ in range(topology.size)]
        self.after: list[list[int]] = [[] for _ in range(topology.size)]
        for source, target in topology.forward.tolist():
            self.before[target].append(source)
            self.after[source].append(target)
        order = np.argsort(topology.levels, kind="stable").tolist()
        self.rank = {task: i for i, task in enumerate(order)}
        self.hops = self._hops()
        self.backup: list[bool] = problem.must.tolist()
        self.problem = problem

    def _hops(self) -> list[int]:
        """Breadth-first from the sinks over reversed edges: the published index."""
        hops = [-1] * len(self.latency)
        layer = [task for task, after in enumerate(self.after) if not after]
        depth = 0
        while layer:
            for task in layer:
                hops[task] = depth
            layer = sorted({u for task in layer for u in self.before[task] if hops[u] < 0})
            depth += 1
        return hops

    def run(self, choose: Choose, algorithm: str) -> Solution:
        cut = {task for task, kept in enumerate(self.backup) if kept}
        pending = {task for task, before in enumerate(self.before) if not before} | cut
        while pending:
            source = max(pending, key=lambda task: (self.hops[task], task))
            pending.remove(source)
            for task in choose(self, source):
                if not self.backup[task]:
                    self.backup[task] = True
                    pending.add(task)
        return self.solution(algorithm)

    def solution(self, algorithm: str) -> Solution:
        backups = np.array(self.backup)
        assert self.problem.is_met(backups), f"{algorithm} must meet its bound"
        # These methods prove nothing about the cost: the only lower bound is the cost of the required backups.
        costs = self.problem.topology.costs
        return Solution(backups, int(costs[backups].sum()), int(costs[self.problem.must].sum()), algorithm)


def refuse_extras(problem: Problem, algorithm: str) -> None:
    """The published algorithms support one bound, equal costs, one failure and no constraints."""
    cuts = np.zeros(problem.topology.size, bool)
    cuts[problem.topology.edges[problem.topology.cuts, 0]] = True
    plain = (
        np.all(problem.bound == problem.bound[0])
        and np.all(problem.topology.costs == problem.topology.costs[0])
        and problem.failures == 1
        and not problem.must_not.any()
        and np.array_equal(problem.must, cuts)
    )
    if not plain:
        raise UsageError(
            f"the algorithm {algorithm} supports only one bound, equal costs, one failure and no constraints on single "
            "tasks: use `algorithm=exact`"
        )
