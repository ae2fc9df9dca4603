"""Ways that are too long, found on demand: the rows of the covering problem.

A plan meets its bounds iff every way with ΣT above the bound of its last task has at least k backups before that task
(k failures at once). There are too many such ways to list, so they are generated: for fractional backups, the ways
whose backups sum to less than k. That is a shortest path with a resource, solved with Pareto labels (sum of backups,
ΣT).
"""

from dataclasses import dataclass

from riprap.planner.reductions import Core

EPSILON = 1e-6  # a way counts as uncovered only if its backups miss k by more than this


@dataclass(frozen=True)
class _Label:
    weight: float  # sum of backups on the way, its last task included
    length: int  # ΣT of the way
    task: int
    back: "_Label | None"


class Ways:
    def __init__(self, core: Core) -> None:
        self.size, self.failures = core.size, core.failures
        self.latency: list[int] = core.latency.tolist()
        self.bound: list[int] = core.bound.tolist()
        self.before: list[list[int]] = [[] for _ in range(core.size)]
        after: list[list[int]] = [[] for _ in range(core.size)]
        for source, target in core.edges.tolist():
            self.before[target].append(source)
            after[source].append(target)
        # The most that any way on from v exceeds the bound of its end: a way to v with ΣT ≤ −excess[v] never is too
        # long.
        self.excess = [0] * core.size
        for v in range(core.size - 1, -1, -1):
            onward = max((self.latency[w] + self.excess[w] for w in after[v]), default=-self.bound[v])
            self.excess[v] = max(-self.bound[v], onward)

    def uncovered(self, weight: list[float]) -> list[tuple[int, ...]]:
        """For every task one way to it that is too long and has the least sum of `weight` before its end, if below k.

        Each is given by its tasks without the last, ascending, and is minimal: without its first task it is short
        enough.
        """
        limit = self.failures - EPSILON
        labels: list[list[_Label]] = []
        found: dict[tuple[int, ...], None] = {}
        for v in range(self.size):
            own, most = self.latency[v], self.bound[v] - self.latency[v]
            arriving = [label for u in self.before[v] for label in labels[u]]
            late = [label for label in arriving if label.length > most]
            if late:
                found[self._minimal(min(late, key=lambda label: (label.weight, -label.length)), most)] = None
            grown = [(label.weight + weight[v], -(label.length + own), i) for i, label in enumerate(arriving)]
            grown.append((weight[v], -own, -1))
            grown.sort()
            kept: list[_Label] = []
            longest = -self.excess[v]  # anything no longer than this is of no use onwards
            for total, length, i in grown:
                if total >= limit:
                    break
                if -length > longest:
                    kept.append(_Label(total, -length, v, arriving[i] if i >= 0 else None))
                    longest = -length
            labels.append(kept)
        return list(found)

    def _minimal(self, label: _Label, most: int) -> tuple[int, ...]:
        way: list[int] = []
        length = 0
        step: _Label | None = label
        while step is not None and length <= most:
            way.append(step.task)
            length += self.latency[step.task]
            step = step.back
        return tuple(reversed(way))
