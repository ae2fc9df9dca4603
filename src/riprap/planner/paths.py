"""Generates the rows of the covering problem: paths that are too long.

A plan meets its bounds iff every path with ΣT above the bound of its last task has at least k backups before that task
(k simultaneous failures). Such paths are too many to list, so they are generated on demand: for fractional backups, the
paths whose backups sum to less than k. That is a resource-constrained shortest path, solved with Pareto labels (sum of
backups, ΣT).
"""

from dataclasses import dataclass

import numpy as np

from riprap.planner.cyclic_graphs import lightest_cycles
from riprap.planner.neighbours import neighbours
from riprap.planner.reductions import Core

EPSILON = 1e-6  # a path counts as uncovered only if its backups miss k by more than this


@dataclass(frozen=True)
class _Label:
    weight: float  # sum of backups on the path, including its last task
    length: int  # ΣT of the path
    task: int
    back: "_Label | None"


COMPILED = 150  # vertices: below, this search is faster than loading the compiled one


class LongPaths:
    def __init__(self, core: Core, counted: np.ndarray | None = None) -> None:
        """`counted`: the vertices that may be backups (default: all); rows omit the others."""
        self.core, self.size, self.failures = core, core.size, core.failures
        self.counted = np.ones(core.size, bool) if counted is None else counted
        self.near = neighbours(core) if core.size >= COMPILED and not len(core.back) else None
        self.latency: list[int] = core.latency.tolist()
        self.bound: list[int] = core.bound.tolist()
        self.edges, self.back = np.concatenate([core.edges, core.back]), core.back
        self.before: list[list[int]] = [[] for _ in range(core.size)]
        self.back_before: list[list[int]] = [[] for _ in range(core.size)]
        after: list[list[int]] = [[] for _ in range(core.size)]
        for source, target in core.edges.tolist():
            self.before[target].append(source)
            after[source].append(target)
        for source, target in core.back.tolist():
            self.back_before[target].append(source)
        # The largest excess of any path from v over the bound of its end: a path to v with ΣT ≤ −excess[v] never gets
        # too long. With cycles, no path is too short.
        self.excess = [0] * core.size
        for v in range(core.size - 1, -1, -1) if not len(core.back) else ():
            onward = max((self.latency[w] + self.excess[w] for w in after[v]), default=-self.bound[v])
            self.excess[v] = max(-self.bound[v], onward)

    def uncovered(self, weight: list[float]) -> list[tuple[int, ...]]:
        """For every task the too long path to it with the least sum of `weight` before its end, if below k.

        A path is given by its tasks without the last, and is minimal: without its first task it is short enough. Cycles
        are endless paths.
        """
        if self.near is not None:
            from riprap.planner.long_paths import long_paths

            limit = self.failures - EPSILON
            return long_paths(self.core, self.near, np.array(self.excess), self.counted, np.array(weight), limit)
        found: dict[tuple[int, ...], None] = {}
        labels = self._labels(weight, None, found)
        if len(self.back):
            # Backups at the sources of feedback edges weigh 1 each, so k − 1 times round is enough.
            for _ in range(self.failures - 1):
                labels = self._labels(weight, labels, found)
            sources = np.unique(self.back[:, 0])
            for cycle in lightest_cycles(self.size, self.edges, sources, np.array(weight)):
                if sum(weight[task] for task in cycle) < self.failures - EPSILON:
                    found[tuple(sorted(cycle))] = None
        return list(found)

    def _labels(
        self, weight: list[float], round_: list[list[_Label]] | None, found: dict[tuple[int, ...], None]
    ) -> list[list[_Label]]:
        """Paths that start anywhere; or, given those of the last round, those that continue over feedback edges."""
        limit = self.failures - EPSILON
        labels: list[list[_Label]] = []
        for v in range(self.size):
            own, most = self.latency[v], self.bound[v] - self.latency[v]
            arriving = [label for u in self.before[v] for label in labels[u]]
            if round_ is not None:
                arriving += [label for u in self.back_before[v] for label in round_[u]]
            late = [label for label in arriving if label.length > most]
            if late:
                found[self._minimal(min(late, key=lambda label: (label.weight, -label.length)), most)] = None
            grown = [(label.weight + weight[v], -(label.length + own), i) for i, label in enumerate(arriving)]
            if round_ is None:
                grown.append((weight[v], -own, -1))
            grown.sort()
            best: list[_Label] = []
            longest = -self.excess[v]  # anything no longer than this never gets too long
            for total, length, i in grown:
                if total >= limit:
                    break
                if -length > longest:
                    best.append(_Label(total, -length, v, arriving[i] if i >= 0 else None))
                    longest = -length
            labels.append(best)
        return labels

    def _minimal(self, label: _Label, most: int) -> tuple[int, ...]:
        path: list[int] = []
        length = 0
        step: _Label | None = label
        while step is not None and length <= most:
            path.append(step.task)
            length += self.latency[step.task]
            step = step.back
        return tuple(sorted(task for task in set(path) if self.counted[task]))
