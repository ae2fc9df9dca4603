"""The failure-effect model: how long recovery takes when given tasks keep a backup of their output.

    L(v) = T(v) + max over upstream u of (1 − M(u)) · L(u)

A task that fails reprocesses its recent input (T). A task upstream that keeps a backup hands that input over at once;
one that does not must recover its own input first. Sources replay from an input that is always kept. Cut edges
(feedback) hand over from the backup at their source. Everything is in microseconds and exact.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from riprap.planner.topology import Topology


@dataclass(frozen=True, eq=False)
class Sweep:
    """The edges of an acyclic graph, grouped so that a whole level of tasks is computed at once.

    Edges are sorted by the level of their target, then by target; `groups` has one entry per level.
    """

    size: int
    source: np.ndarray
    target: np.ndarray
    groups: list[tuple[slice, np.ndarray, np.ndarray]]  # edges, first edge of each task (relative), tasks

    def longest(self, own: np.ndarray, backups: np.ndarray, handed: np.ndarray | None = None) -> np.ndarray:
        """own(v) + max over u → v of value(u), or of `handed(u)` (nothing, unless given) where u keeps a backup."""
        value = own.copy()
        for edges, first, tasks in self.groups:
            source = self.source[edges]
            kept = 0 if handed is None else handed[source]
            value[tasks] += np.maximum.reduceat(np.where(backups[source], kept, value[source]), first)
        return value

    def recovery(self, latency: np.ndarray, backups: np.ndarray, failures: int = 1) -> np.ndarray:
        """L(v); for k failures the longest ΣT over ways to v with fewer than k backups before v.

        The task itself is the first failure; each further one may take a backup on the way with it.
        """
        value = self.longest(latency, backups)
        for _ in range(failures - 1):
            value = self.longest(latency, backups, value)
        return value

    @cached_property
    def backward(self) -> "Sweep":
        """The same edges turned round."""
        return sweep(self.size, np.stack([self.target, self.source], axis=1), _backward_levels(self))


def _backward_levels(forward: Sweep) -> np.ndarray:
    """Longest way in edges to a task that feeds none."""
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
    for begin, end in pairwise([*bounds.tolist(), len(starts)]):
        low, high = starts[begin], starts[end] if end < len(starts) else len(source)
        groups.append((slice(low, high), starts[begin:end] - low, target[starts[begin:end]]))
    return Sweep(size, source, target, groups)


def topology_sweep(topology: Topology) -> Sweep:
    return sweep(topology.size, topology.forward, topology.levels)


@dataclass(frozen=True, eq=False)
class Effect:
    """What a failure costs under given backups."""

    latency: np.ndarray  # int64 [n], microseconds: L(v)
    worst: int  # microseconds: the largest L, the recovery latency of the whole topology
    critical: tuple[int, ...]  # the path that causes it, from the task that recovers first to the slow one
    missing_cuts: tuple[int, ...]  # tasks that feed a cut edge without a backup: their cycles never recover


def effect(topology: Topology, backups: np.ndarray) -> Effect:
    """`backups` is bool [n]. With missing cuts the latencies are those of the acyclic rest."""
    latency = topology_sweep(topology).recovery(topology.latency, backups)
    cut_sources = np.unique(topology.edges[topology.cuts, 0])
    missing = tuple(int(task) for task in cut_sources if not backups[task])
    worst = int(np.argmax(latency))
    return Effect(latency, int(latency[worst]), critical_path(topology, backups, latency, worst), missing)


def critical_path(topology: Topology, backups: np.ndarray, latency: np.ndarray, task: int) -> tuple[int, ...]:
    """The path of tasks that must recover one after the other before `task` has; ends with `task`."""
    edges = topology.forward
    path = [task]
    while latency[path[-1]] > topology.latency[path[-1]]:
        wanted = latency[path[-1]] - topology.latency[path[-1]]
        before = edges[edges[:, 1] == path[-1], 0]
        path.append(int(next(u for u in before if not backups[u] and latency[u] == wanted)))
    return tuple(reversed(path))


@dataclass(frozen=True)
class Covers:
    """Which backups a recovering task takes its input from, and the other way round.

    `forward[u]` are the tasks that backup u f-covers: those that u reaches over tasks without a backup (the last one
    may be one). `backward[u]` are the tasks that u b-covers: those without a backup that reach u in the same way, and
    the backups where such ways begin. `upstream[v]` is the upstream cover set C(v): the backups that f-cover v.
    """

    forward: dict[int, frozenset[int]]
    backward: dict[int, frozenset[int]]
    upstream: dict[int, frozenset[int]]


def covers(topology: Topology, backups: np.ndarray) -> Covers:
    after: list[list[int]] = [[] for _ in range(topology.size)]
    before: list[list[int]] = [[] for _ in range(topology.size)]
    for source, target in topology.forward.tolist():
        after[source].append(target)
        before[target].append(source)
    kept = [int(task) for task in np.flatnonzero(backups)]
    forward = {task: _reach(task, after, backups) for task in kept}
    backward = {task: _reach(task, before, backups) for task in kept}
    upstream: dict[int, set[int]] = {task: set() for task in range(topology.size)}
    for backup, reached in forward.items():
        for task in reached:
            upstream[task].add(backup)
    return Covers(forward, backward, {task: frozenset(found) for task, found in upstream.items()})


def _reach(start: int, neighbours: list[list[int]], backups: np.ndarray) -> frozenset[int]:
    found: set[int] = set()
    pending = list(neighbours[start])
    while pending:
        task = pending.pop()
        if task not in found:
            found.add(task)
            if not backups[task]:
                pending.extend(neighbours[task])
    return frozenset(found)
