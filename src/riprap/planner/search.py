"""Finds good plans fast, for one failure at a time: greedy in both directions, then local search. All meet the bounds.

The state has, for every vertex v of a core under the current backups,

    late[v]    L(v): the longest recovery path that ends at v
    excess[v]  the largest excess of a path from v over the bound of its end: −bound(v), or T(w) + excess[w] over v → w
               unless v is a backup

so the backup of u can be removed iff late[u] plus its excess without a backup is ≤ 0. Updates are incremental: they
stop where values no longer change.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from riprap.base.clock import Clock
from riprap.planner.reductions import Core


class Cover:
    """Backups of a core, for one failure at a time. Vertices are numbered in topological order."""

    def __init__(self, core: Core) -> None:
        self.size = core.size
        self.latency: list[int] = core.latency.tolist()
        self.bound: list[int] = core.bound.tolist()
        self.cost: list[int] = core.cost.tolist()
        self.allowed: list[bool] = (core.fixed != 0).tolist()
        self.before: list[list[int]] = [[] for _ in range(core.size)]
        self.after: list[list[int]] = [[] for _ in range(core.size)]
        for source, target in core.edges.tolist():
            self.before[target].append(source)
            self.after[source].append(target)
        self.set([False] * core.size)

    def set(self, backups: Iterable[bool]) -> None:
        self.backup = list(backups)
        self.late = [0] * self.size
        self.excess = [0] * self.size
        for v in range(self.size):
            self.late[v] = self._late(v)
        for v in range(self.size - 1, -1, -1):
            self.excess[v] = self._excess(v)

    @property
    def total(self) -> int:
        return sum(cost for cost, backup in zip(self.cost, self.backup, strict=True) if backup)

    def is_needed(self, u: int) -> bool:
        """Whether some bound is missed without the backup of u."""
        return self.late[u] + self._onward(u) > 0

    def put(self, u: int, backup: bool) -> list[int]:
        """Sets or removes the backup of u; returns the backups that may no longer be needed, nearest first."""
        self.backup[u] = backup
        touched: list[int] = []
        pending = list(self.after[u])
        heapify(pending)
        last = -1
        while pending:
            v = heappop(pending)
            if v != last:
                last = v
                late = self._late(v)
                if late != self.late[v]:
                    self.late[v] = late
                    if self.backup[v]:
                        touched.append(v)
                    else:
                        for w in self.after[v]:
                            heappush(pending, w)
        pending = [-u]
        last = -1
        while pending:
            v = -heappop(pending)
            if v != last:
                last = v
                excess = self._excess(v)
                if excess != self.excess[v]:
                    self.excess[v] = excess
                    for w in self.before[v]:
                        if self.backup[w]:
                            touched.append(w)
                        else:
                            heappush(pending, -w)
        return touched

    def _late(self, v: int) -> int:
        backup, late = self.backup, self.late
        return self.latency[v] + max((late[u] for u in self.before[v] if not backup[u]), default=0)

    def _onward(self, v: int) -> int:
        latency, excess = self.latency, self.excess
        return max((latency[w] + excess[w] for w in self.after[v]), default=-self.bound[v])

    def _excess(self, v: int) -> int:
        return -self.bound[v] if self.backup[v] else max(-self.bound[v], self._onward(v))


def greedy_late(cover: Cover, wanted: Iterable[float] | None = None, threshold: float = 2.0) -> None:
    """From the sources downstream: a backup only where the next task would be late. Optimal if no task feeds several.

    Vertices with `wanted` ≥ `threshold` become backups at once (this rounds a fractional solution).
    """
    wish = list(wanted) if wanted is not None else [0.0] * cover.size
    backup, late = [False] * cover.size, [0] * cover.size
    for v in range(cover.size):
        worst = 0
        for u in cover.before[v]:
            if not backup[u]:
                if late[u] + cover.latency[v] > cover.bound[v]:
                    _cover_path(cover, backup, late, u, late[u] + cover.latency[v] - cover.bound[v])
                if not backup[u]:
                    worst = max(worst, late[u])
        late[v] = worst + cover.latency[v]
        backup[v] = wish[v] >= threshold and cover.allowed[v]
    cover.set(backup)


def _cover_path(cover: Cover, backup: list[bool], late: list[int], u: int, surplus: int) -> None:
    """Makes u a backup; if it must not be one, the last allowed tasks before it on every path that is too long."""
    if cover.allowed[u]:
        backup[u] = True
        return
    # Rare (u must not be a backup): go upstream until every path is short enough, then recompute.
    fine = late[u] - surplus
    for w in cover.before[u]:
        if not backup[w] and late[w] + cover.latency[u] > fine:
            _cover_path(cover, backup, late, w, late[w] + cover.latency[u] - fine)
    late[u] = cover.latency[u] + max((late[w] for w in cover.before[u] if not backup[w]), default=0)


def greedy_early(cover: Cover) -> None:
    """From the sinks upstream: a backup only where a path that starts one task earlier would be too long."""
    backup, excess = [False] * cover.size, [0] * cover.size
    for v in range(cover.size - 1, -1, -1):
        worst = -cover.bound[v]
        for w in cover.after[v]:
            onward = cover.latency[w] + excess[w]
            if cover.latency[v] + onward > 0 and not backup[w]:
                if cover.allowed[w] and cover.latency[v] + cover.latency[w] <= cover.bound[w]:
                    backup[w] = True
                    excess[w] = -cover.bound[w]
                    onward = cover.latency[w] + excess[w]
                else:
                    backup[v] = cover.allowed[v]
            worst = max(worst, onward)
        excess[v] = -cover.bound[v] if backup[v] else worst
    cover.set(backup)
    if any(late > bound for late, bound in zip(cover.late, cover.bound, strict=True)):
        greedy_late(cover, [float(kept) for kept in backup], 1.0)


def prune(cover: Cover, order: Iterable[int]) -> None:
    """Removes backups that are not needed, tried in `order`."""
    for u in order:
        if cover.backup[u] and not cover.is_needed(u):
            cover.put(u, False)


def improve(cover: Cover, clock: Clock, deadline: float) -> None:
    """Adds a backup wherever it replaces others of a higher total cost, until nothing improves or time is up."""
    better = True
    while better:
        better = False
        for x in range(cover.size):
            if clock.monotonic() > deadline:
                return
            if not cover.backup[x] and cover.allowed[x] and cover.after[x] and _swap(cover, x):
                better = True


def _swap(cover: Cover, x: int) -> bool:
    touched = cover.put(x, True)
    removed: list[int] = []
    # The most expensive first; a task may be listed twice.
    for u in sorted(set(touched), key=lambda u: (-cover.cost[u], u)):
        if cover.backup[u] and u != x and not cover.is_needed(u):
            cover.put(u, False)
            removed.append(u)
    if sum(cover.cost[u] for u in removed) > cover.cost[x]:
        return True
    for u in reversed(removed):
        cover.put(u, True)
    cover.put(x, False)
    return False
