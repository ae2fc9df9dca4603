"""The failure-effect model: how long recovery takes when given tasks are backups.

    L(v) = T(v) + max over upstream u of (1 − M(u)) · L(u)

A failed task reprocesses its recent input (T). An upstream task that is a backup resends that input at once; any other
must recover its own input first. Sources replay an input that is always retained. A task on a cycle without a backup
waits for itself and never recovers.

With k simultaneous failures the task is the first of them (its own backup survives); each further failure destroys a
backup on the path. So L(v) is the longest ΣT over paths to v with fewer than k different backups before v, and a cycle
with fewer than k backups is an endless path. Everything is in microseconds and exact.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from riprap.planner.cyclic_graphs import failures_until_endless
from riprap.planner.topology import Topology, levels_of

NEVER = 2**62  # L of a task that waits for itself


@dataclass(frozen=True, eq=False)
class Sweep:
    """The edges of an acyclic graph, grouped so that a whole level of tasks is computed at once.

    Edges are sorted by the level of their target, then by target; `groups` has one entry per level.
    """

    size: int
    source: np.ndarray
    target: np.ndarray
    groups: list[tuple[slice, np.ndarray, np.ndarray]]  # edges, first edge of each task (relative), tasks

    def longest(self, own: np.ndarray, handed: np.ndarray | None = None) -> np.ndarray:
        """own(v) + the largest of value(u) over u → v and, if given, `handed(v)`."""
        value = own.copy() if handed is None else own + handed
        for edges, first, tasks in self.groups:
            before = np.maximum.reduceat(value[self.source[edges]], first)
            value[tasks] = own[tasks] + (before if handed is None else np.maximum(before, handed[tasks]))
        return value

    @cached_property
    def backward(self) -> "Sweep":
        """The same edges, reversed."""
        return sweep(self.size, np.stack([self.target, self.source], axis=1), _backward_levels(self))


def _backward_levels(forward: Sweep) -> np.ndarray:
    """Number of edges on the longest path to a task without successors."""
    level = np.zeros(forward.size, np.int32)
    for edges, _, _ in reversed(forward.groups):
        np.maximum.at(level, forward.source[edges], level[forward.target[edges]] + 1)
    return level


def sweep(size: int, edges: np.ndarray, levels: np.ndarray) -> Sweep:
    """Groups `edges` by the level of their targets; `levels` must ascend along every edge."""
    key = levels[edges[:, 1]].astype(np.int64) * size + edges[:, 1]
    order = np.argsort(key, kind="stable")
    source, target, key = edges[order, 0], edges[order, 1], key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))  # first edge of every task that has one
    level = levels[target[starts]] if len(starts) else np.zeros(0, np.int32)
    bounds = np.flatnonzero(np.diff(level, prepend=-1))  # first task of every level
    groups = []
    for start, end in pairwise([*bounds.tolist(), len(starts)]):
        low, high = starts[start], starts[end] if end < len(starts) else len(source)
        groups.append((slice(low, high), starts[start:end] - low, target[starts[start:end]]))
    return Sweep(size, source, target, groups)


def recovery(
    latency: np.ndarray, edges: np.ndarray, backups: np.ndarray, failures: int = 1, levels: np.ndarray | None = None
) -> np.ndarray:
    """L(v) for tasks that may form cycles; `NEVER` where a task waits for itself. int64 [n].

    `levels`, if known, ascend along every edge from a task without a backup.
    """
    return _recoveries(latency, edges, backups, failures, levels)[-1]


def _recoveries(
    latency: np.ndarray, edges: np.ndarray, backups: np.ndarray, failures: int, levels: np.ndarray | None = None
) -> list[np.ndarray]:
    """L(v) when 0, 1 … k − 1 backups are lost in addition to the task itself."""
    size = len(latency)
    cut = backups[edges[:, 0]]
    levels = levels_of(size, edges[~cut]) if levels is None else levels
    lost = np.full(size, failures)  # fewest lost backups that let a task wait for itself
    if levels is None or failures > 1:
        lost = failures_until_endless(size, edges, backups, failures)
    if levels is None:
        cut |= lost[edges[:, 0]] == 0
        levels = levels_of(size, edges[~cut])
        assert levels is not None, "tasks on cycles without a backup never recover"
    forward = sweep(size, edges[~cut], levels)
    recoveries = [np.where(lost > 0, forward.longest(latency), NEVER)]
    source, target = edges[cut, 0], edges[cut, 1]
    for number in range(1, failures):
        handed = np.zeros(size, np.int64)
        np.maximum.at(handed, target, recoveries[-1][source])
        recoveries.append(np.where(lost > number, forward.longest(latency, handed), NEVER))
    return recoveries


@dataclass(frozen=True, eq=False)
class FailureCost:
    """The effect of failures under given backups."""

    latency: np.ndarray  # int64 [n], microseconds: L(v); NEVER: no recovery
    worst: int  # microseconds: the largest L, the recovery latency of the whole topology
    critical: tuple[int, ...]  # the path that causes it, from the task that recovers first to the slowest
    missing_cuts: tuple[int, ...]  # tasks that feed a cut edge without a backup


def effect(topology: Topology, backups: np.ndarray, failures: int = 1, task: int | None = None) -> FailureCost:
    """`backups` is bool [n]. The critical path is that of `task`, by default of the slowest task."""
    steps = _recoveries(topology.latency, topology.edges, backups, failures)
    cut_sources = np.unique(topology.edges[topology.cuts, 0])
    missing = tuple(int(source) for source in cut_sources if not backups[source])
    slowest = int(np.argmax(steps[-1])) if task is None else task
    return FailureCost(steps[-1], int(steps[-1].max()), _critical_path(topology, backups, steps, slowest), missing)


def _critical_path(topology: Topology, backups: np.ndarray, steps: list[np.ndarray], task: int) -> tuple[int, ...]:
    """The tasks that must recover one after the other until `task` has recovered; ends with `task`.

    If it never recovers, the path is followed upstream until a task appears twice: that is the cycle.
    """
    path, left = [task], len(steps) - 1
    while steps[left][path[-1]] > topology.latency[path[-1]] and path[-1] not in path[:-1]:
        latency = steps[left][path[-1]]
        wanted = latency if latency == NEVER else latency - topology.latency[path[-1]]
        before = topology.edges[topology.edges[:, 1] == path[-1], 0]
        step = next((u for u in before if not backups[u] and steps[left][u] == wanted), None)
        if step is None:
            left -= 1
            step = next((u for u in before if backups[u] and steps[left][u] == wanted), None)
        if step is None:
            break
        path.append(int(step))
    return tuple(reversed(path))
