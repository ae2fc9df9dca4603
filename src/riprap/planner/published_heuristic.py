"""The main loop of the published algorithm, and what its choices of backups have in common.

There is a set of search sources, at first the sources of the topology. Each round takes the one with most hops to a
sink, chooses backups within R downstream of it, and makes those search sources too; it ends when none is left.

What the published text leaves open is settled so that the bound always holds; see docs/papers/reproduce-ftc.md.
"""

from collections.abc import Callable

import numpy as np

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution

# State of the loop, search source → the backups of this round.
Choose = Callable[["HeuristicState", int], list[int]]


class HeuristicState:
    """State of the main loop: neighbours, hops to the sink, and the backups so far."""

    def __init__(self, asked: Problem, algorithm: str) -> None:
        refuse_extras(asked, algorithm)
        topology = asked.topology
        self.bound = int(asked.bound[0])
        self.latency: list[int] = topology.latency.tolist()
        self.before: list[list[int]] = [[] for _ in range(topology.size)]
        self.after: list[list[int]] = [[] for _ in range(topology.size)]
        for source, target in topology.forward.tolist():
            self.before[target].append(source)
            self.after[source].append(target)
        order = np.argsort(topology.levels, kind="stable").tolist()
        self.rank = {task: i for i, task in enumerate(order)}
        self.hops = self._hops()
        self.backup: list[bool] = asked.must.tolist()
        self.asked = asked

    def _hops(self) -> list[int]:
        """Breadth-first from the sinks, over the edges turned round: the published index, larger is farther."""
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
        assert self.asked.is_met(backups), f"{algorithm} must meet its bound"
        # These methods prove nothing about the cost; what every plan needs anyway is all that is known.
        costs = self.asked.topology.costs
        return Solution(backups, int(costs[backups].sum()), int(costs[self.asked.must].sum()), algorithm)


def refuse_extras(asked: Problem, algorithm: str) -> None:
    """The published algorithms know one bound, equal costs, one failure and no constraints."""
    cuts = np.zeros(asked.topology.size, bool)
    cuts[asked.topology.edges[asked.topology.cuts, 0]] = True
    plain = (
        np.all(asked.bound == asked.bound[0])
        and np.all(asked.topology.costs == asked.topology.costs[0])
        and asked.failures == 1
        and not asked.must_not.any()
        and np.array_equal(asked.must, cuts)
    )
    if not plain:
        raise UsageError(
            f"the algorithm {algorithm} knows one bound, equal costs, one failure and no constraints on single tasks: "
            "use --algorithm exact for more"
        )
