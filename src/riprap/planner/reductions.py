"""Reduces a problem without changing its optimum. Repeated to a fixed point:

- forced: an edge u → v with T(u) + T(v) above v's bound requires a backup at u; then the edges of u are removed (only
  for one failure at a time; with k, such a problem has no solution);
- useless: an edge on no path longer than its bound is removed, and so are tasks without edges;
- twins: tasks with equal T, bound, predecessors and successors are merged, with the sum of their costs. In an optimum
  all of them are backups or none: if u is and u′ is not, every path through u′ has its backups elsewhere, so the same
  path through u does too, and u's is not needed. This holds for any costs and any number of failures;
- sinks with equal predecessors: only the one with the least bound − T matters.

Then the rest is split into connected components; each is a `Core` and solved separately. Cycles with several
simultaneous failures are not reduced.
"""

from dataclasses import dataclass

import numpy as np

from riprap.base.randomness import generator
from riprap.planner.failure_effect import Sweep, sweep
from riprap.planner.problem import Problem
from riprap.planner.topology import levels_of, rows


@dataclass(frozen=True, eq=False)
class Core:
    """One reduced component. Vertices are numbered in topological order."""

    latency: np.ndarray  # int64 [n]
    bound: np.ndarray  # int64 [n]
    cost: np.ndarray  # int64 [n]; 0 if it must be a backup: its cost is counted already
    fixed: np.ndarray  # int8 [n]: 1 must be a backup (only with several failures), 0 must not, -1 free
    edges: np.ndarray  # int32 [m, 2]
    members: list[np.ndarray]  # the tasks of the topology that each vertex represents
    failures: int
    back: np.ndarray  # int32 [c, 2]: feedback edges, from vertices that must be backups (only with several failures)

    @property
    def size(self) -> int:
        return len(self.latency)


@dataclass(frozen=True, eq=False)
class Reduced:
    forced: np.ndarray  # bool [n]: tasks that are backups in every plan
    cores: list[Core]


@dataclass
class _Working:
    latency: np.ndarray
    bound: np.ndarray
    cost: np.ndarray
    must: np.ndarray
    must_not: np.ndarray
    edges: np.ndarray
    group: np.ndarray  # int [tasks of the topology]: the vertex that represents it; -1: none
    failures: int

    @property
    def size(self) -> int:
        return len(self.latency)


def reduce(problem: Problem) -> Reduced:
    topology = problem.topology
    forced = problem.must.copy()
    if problem.failures > 1 and topology.cuts.any():
        return Reduced(forced, [_whole(problem)])
    work = _Working(
        topology.latency, problem.bound, topology.costs, problem.must, problem.must_not, topology.forward,
        np.arange(topology.size), problem.failures,
    )  # fmt: skip
    while True:
        before = (work.size, len(work.edges))
        if problem.failures == 1:
            forced |= _force(work)[np.maximum(work.group, 0)] & (work.group >= 0)
        _drop_useless(work)
        if not len(work.edges):
            return Reduced(forced, [])
        _merge_twins(work)
        _keep_slowest_sinks(work)
        if (work.size, len(work.edges)) == before:
            return Reduced(forced, _components(work))


def _whole(problem: Problem) -> Core:
    """No reduction: the reductions do not hold if a backup that cuts a cycle may be lost."""
    topology = problem.topology
    order = np.argsort(topology.levels, kind="stable")
    place = np.empty(topology.size, np.int32)
    place[order] = np.arange(topology.size)
    fixed = np.where(problem.must, 1, np.where(problem.must_not, 0, -1)).astype(np.int8)
    return Core(
        topology.latency[order],
        problem.bound[order],
        np.where(problem.must, 0, topology.costs)[order],
        fixed[order],
        place[topology.forward],
        [order[vertex : vertex + 1] for vertex in range(topology.size)],
        problem.failures,
        place[topology.edges[topology.cuts]],
    )


def _force(work: _Working) -> np.ndarray:
    source, target = work.edges[:, 0], work.edges[:, 1]
    now = work.must.copy()
    now[source[work.latency[source] + work.latency[target] > work.bound[target]]] = True
    work.edges = work.edges[~now[source]]
    work.must = np.zeros(work.size, bool)
    return now


def _drop_useless(work: _Working) -> None:
    levels = levels_of(work.size, work.edges)
    assert levels is not None
    forward = sweep(work.size, work.edges, levels)
    reach = forward.longest(work.latency)
    excess = longest_excess(forward, work.latency, work.bound)
    source, target = forward.source, forward.target
    useful = reach[source] + work.latency[target] + excess[target] > 0
    work.edges = np.stack([source[useful], target[useful]], axis=1)
    touched = np.zeros(work.size, bool)
    touched[work.edges] = True
    _keep(work, touched)


def longest_excess(forward: Sweep, latency: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """For each v the largest excess of a path from v over the bound of its end, without T(v): −bound(v) for v alone."""
    excess = -bound
    backward = forward.backward
    for edges, first, tasks in backward.groups:
        after = backward.source[edges]
        excess[tasks] = np.maximum(excess[tasks], np.maximum.reduceat(latency[after] + excess[after], first))
    return excess


def _keep(work: _Working, remaining: np.ndarray) -> None:
    """Drops the vertices that are not `remaining`; no edge may touch them."""
    number = np.where(remaining, np.cumsum(remaining) - 1, -1)
    work.group = np.where(work.group >= 0, number[np.maximum(work.group, 0)], -1)
    work.edges = number[work.edges].astype(np.int32)
    for name in ("latency", "bound", "cost", "must", "must_not"):
        setattr(work, name, getattr(work, name)[remaining])


def _rows_of(edges: np.ndarray, size: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Start of every vertex's row and the sorted other ends of its edges, grouped by column `end` of `edges`."""
    key = edges[:, end].astype(np.int64) * size + edges[:, 1 - end]
    key.sort()
    return np.searchsorted(key, np.arange(size + 1) * size), key % size


def _fingerprint(start: np.ndarray, other: np.ndarray, mark: np.ndarray) -> np.ndarray:
    """One number per set of neighbours: the sum of their random marks. Equal sets, equal numbers."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mark[other])])
    return total[start[1:]] - total[start[:-1]]


def _merge_twins(work: _Working) -> None:
    mark = generator(0, "twins").integers(0, 2**64, work.size, dtype=np.uint64)
    before, sources = _rows_of(work.edges, work.size, 1)
    after, targets = _rows_of(work.edges, work.size, 0)
    keys = (
        _fingerprint(before, sources, mark), _fingerprint(after, targets, mark), work.latency, work.bound, work.must,
    )  # fmt: skip
    order = np.lexsort(keys)
    same = np.ones(work.size - 1, bool)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    leader = order.copy()
    first = np.concatenate([[True], ~same])
    leader[order] = order[np.flatnonzero(first)][np.cumsum(first) - 1]
    # Equal fingerprints are only candidates: compare the sets.
    twins = np.flatnonzero(leader != np.arange(work.size))
    for start, other in ((before, sources), (after, targets)):
        same_length = np.diff(start)[twins] == np.diff(start)[leader[twins]]
        twins = twins[same_length]
        differs = other[rows(start, twins)] != other[rows(start, leader[twins])]
        owner = np.repeat(np.arange(len(twins)), np.diff(start)[twins])
        twins = np.delete(twins, owner[differs])
    if not len(twins):
        return
    merged = np.arange(work.size)
    merged[twins] = leader[twins]
    work.cost = np.bincount(merged, work.cost, work.size).round().astype(np.int64)
    # If one twin must not be a backup, none may: the others would be useless without it.
    work.must_not = np.bincount(merged, work.must_not, work.size) > 0
    work.group = np.where(work.group >= 0, merged[np.maximum(work.group, 0)], -1)
    work.edges = work.edges[(merged[work.edges] == work.edges).all(axis=1)]
    _keep(work, merged == np.arange(work.size))


def _keep_slowest_sinks(work: _Working) -> None:
    mark = generator(1, "sinks").integers(0, 2**64, work.size, dtype=np.uint64)
    before, sources = _rows_of(work.edges, work.size, 1)
    feeds = np.zeros(work.size, bool)
    feeds[work.edges[:, 0]] = True
    sinks = np.flatnonzero(~feeds)
    print_ = _fingerprint(before, sources, mark)[sinks]
    order = np.lexsort((work.bound[sinks] - work.latency[sinks], print_))
    sinks, print_ = sinks[order], print_[order]
    repeated = np.flatnonzero(np.concatenate([[False], print_[1:] == print_[:-1]]))
    dropped = np.zeros(work.size, bool)
    leaders = {
        int(print_[i]): int(sinks[i]) for i in np.flatnonzero(np.concatenate([[True], print_[1:] != print_[:-1]]))
    }
    for i in repeated:
        leader, sink = leaders[int(print_[i])], int(sinks[i])
        same = np.array_equal(sources[before[leader] : before[leader + 1]], sources[before[sink] : before[sink + 1]])
        dropped[sink] = same
    if dropped.any():
        work.edges = work.edges[~dropped[work.edges[:, 1]]]
        _keep(work, ~dropped)


def _components(work: _Working) -> list[Core]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(work.edges), np.int8)
    graph = coo_array((ones, (work.edges[:, 0], work.edges[:, 1])), shape=(work.size, work.size))
    count, component = connected_components(graph, directed=False)
    levels = levels_of(work.size, work.edges)
    assert levels is not None
    order = np.lexsort((np.arange(work.size), levels, component))
    place = np.empty(work.size, np.int64)
    place[order] = np.arange(work.size)
    start = np.searchsorted(component[order], np.arange(count + 1))
    edge_component = component[work.edges[:, 0]]
    edge_order = np.argsort(edge_component, kind="stable")
    edge_begin = np.searchsorted(edge_component[edge_order], np.arange(count + 1))
    alive = np.flatnonzero(work.group >= 0)
    by_vertex = alive[np.argsort(place[work.group[alive]], kind="stable")]
    member_begin = np.searchsorted(place[work.group[by_vertex]], np.arange(work.size + 1))
    fixed = np.where(work.must, 1, np.where(work.must_not, 0, -1)).astype(np.int8)
    cores = []
    for number in range(count):
        low, high = int(start[number]), int(start[number + 1])
        chosen = order[low:high]
        edges = place[work.edges[edge_order[edge_begin[number] : edge_begin[number + 1]]]] - low
        members = [by_vertex[member_begin[i] : member_begin[i + 1]] for i in range(low, high)]
        cores.append(
            Core(
                work.latency[chosen],
                work.bound[chosen],
                np.where(work.must, 0, work.cost)[chosen],
                fixed[chosen],
                edges.astype(np.int32),
                members,
                work.failures,
                np.zeros((0, 2), np.int32),
            )
        )
    return cores
