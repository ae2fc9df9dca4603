"""Cycles: which tasks wait for themselves, and which cycles have too few backups.

A cycle recovers from k simultaneous failures iff at least k of its tasks are backups: failures may destroy all but one.
The length of a path is the number of backups (or the sum of their fractions) on it, without the last task.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra


def failures_until_endless(size: int, edges: np.ndarray, backups: np.ndarray, failures: int) -> np.ndarray:
    """int64 [n]: the number of lost backups after which the task is on, or behind, a cycle without one; at most k."""
    lost = np.full(size, failures, np.int64)
    cyclic = _on_cycles(size, edges)
    if not len(cyclic):
        return lost
    # A backup weighs more than any path has edges, so the shortest path has the fewest backups.
    heavy = size + 1
    graph = _graph(size, edges, backups * float(heavy) + 1.0)
    passed = dijkstra(graph, indices=cyclic)
    round_ = np.full(len(cyclic), np.inf)
    row = np.full(size, -1)
    row[cyclic] = np.arange(len(cyclic))
    closing = edges[(row[edges] >= 0).all(axis=1)]  # u → v closes the path from v to u
    across = passed[row[closing[:, 1]], closing[:, 0]] + backups[closing[:, 0]] * heavy + 1
    np.minimum.at(round_, row[closing[:, 1]], across)
    fewest = np.floor(passed / heavy) - backups[cyclic, None]
    fewest[np.arange(len(cyclic)), cyclic] = 0.0
    through = np.floor(round_ / heavy)[:, None] + fewest
    return np.minimum(lost, np.minimum(through.min(axis=0), failures).astype(np.int64))


def lightest_cycles(size: int, edges: np.ndarray, sources: np.ndarray, weight: np.ndarray) -> list[tuple[int, ...]]:
    """For each of `sources` on a cycle, the tasks of its cycle with the least Σ weight."""
    graph = _graph(size, edges, np.maximum(weight, 0.0) + 1e-9)
    _, back = dijkstra(graph, indices=sources, return_predecessors=True)
    distance = dijkstra(graph, indices=sources)
    cycles = []
    for row, source in enumerate(sources.tolist()):
        entering = edges[edges[:, 1] == source, 0]
        ends = [int(u) for u in entering if np.isfinite(distance[row, u])]
        if not ends:
            continue
        task = min(ends, key=lambda u: distance[row, u] + weight[u])
        path = [task]
        while path[-1] != source:
            path.append(int(back[row, path[-1]]))
        cycles.append(tuple(reversed(path)))
    return cycles


def thin_cycle(size: int, edges: np.ndarray, backups: np.ndarray, failures: int) -> tuple[int, ...] | None:
    """A cycle with fewer than k backups, in the order of its edges; None if there is none."""
    cyclic = _on_cycles(size, edges)
    for cycle in lightest_cycles(size, edges, cyclic, backups.astype(float)) if len(cyclic) else []:
        if backups[list(cycle)].sum() < failures:
            return cycle
    return None


def _on_cycles(size: int, edges: np.ndarray) -> np.ndarray:
    """The tasks on cycles."""
    _, component = connected_components(_graph(size, edges, np.ones(size)), directed=True, connection="strong")
    on = np.bincount(component, minlength=size)[component] > 1
    on[edges[edges[:, 0] == edges[:, 1], 0]] = True
    return np.flatnonzero(on)


def _graph(size: int, edges: np.ndarray, weight: np.ndarray) -> csr_array:
    """The weight of an edge is that of its source."""
    return csr_array((weight[edges[:, 0]], (edges[:, 0], edges[:, 1])), shape=(size, size))
