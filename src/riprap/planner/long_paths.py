"""`paths` for large cores, compiled: the same search with the same Pareto labels."""

import numpy as np
from numba import njit

from riprap.planner.neighbours import Neighbours
from riprap.planner.reductions import Core


def long_paths(
    core: Core, near: Neighbours, excess: np.ndarray, counted: np.ndarray, weight: np.ndarray, limit: float
) -> list[tuple[int, ...]]:
    """For every task the too long path to it with the least Σ weight, if below `limit`: its `counted` tasks."""
    start, tasks = found_paths(core, near, excess, counted, weight, limit)
    listed = tasks.tolist()
    paths = (tuple(sorted(listed[a:b])) for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
    return list(dict.fromkeys(paths))


def found_paths(
    core: Core, near: Neighbours, excess: np.ndarray, counted: np.ndarray, weight: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same as arrays: the tasks of path i are tasks[start[i]:start[i + 1]]."""
    start, tasks = _found(near.before_start, near.before, core.latency, core.bound, excess, counted, weight, limit)
    return start, tasks


@njit(cache=True, nogil=True)
def _grown(array: np.ndarray, room: int) -> np.ndarray:
    wider = np.empty(room, array.dtype)
    wider[: len(array)] = array
    return wider


@njit(cache=True, nogil=True)
def _found(
    before_start: np.ndarray,
    before: np.ndarray,
    latency: np.ndarray,
    bound: np.ndarray,
    excess: np.ndarray,
    counted: np.ndarray,
    weight: np.ndarray,
    limit: float,
) -> tuple[np.ndarray, np.ndarray]:
    size = len(latency)
    # Labels by task (v: first[v] to first[v + 1]), sorted by weight: Σ weight, ΣT, task, previous label.
    total, length = np.empty(4 * size, np.float64), np.empty(4 * size, np.int64)
    task, back = np.empty(4 * size, np.int32), np.empty(4 * size, np.int32)
    first, labels = np.zeros(size + 1, np.int64), 0
    tasks, start, paths, entries = np.empty(16 * size, np.int32), np.zeros(size + 1, np.int64), 0, 0
    for v in range(size):
        first[v] = labels
        own, most = latency[v], bound[v] - latency[v]
        arriving = 1
        for e in range(before_start[v], before_start[v + 1]):
            arriving += first[before[e] + 1] - first[before[e]]
        sums, lengths = np.empty(arriving, np.float64), np.empty(arriving, np.int64)
        origin, count, lightest = np.empty(arriving, np.int32), 0, -1
        for e in range(before_start[v], before_start[v + 1]):
            for i in range(first[before[e]], first[before[e] + 1]):
                if length[i] > most and (
                    lightest < 0
                    or total[i] < total[lightest]
                    or (total[i] == total[lightest] and length[i] > length[lightest])
                ):
                    lightest = i
                if total[i] + weight[v] < limit and length[i] + own > -excess[v]:
                    sums[count], lengths[count], origin[count] = total[i] + weight[v], length[i] + own, i
                    count += 1
        if weight[v] < limit and own > -excess[v]:
            sums[count], lengths[count], origin[count] = weight[v], own, -1
            count += 1
        if lightest >= 0:
            so_far, i = 0, lightest
            while i >= 0 and so_far <= most:
                so_far += latency[task[i]]
                if counted[task[i]]:
                    if entries == len(tasks):
                        tasks = _grown(tasks, 2 * entries)
                    tasks[entries] = task[i]
                    entries += 1
                i = back[i]
            paths += 1
            start[paths] = entries
        if labels + count > len(total):
            room = 2 * (labels + count)
            total, length, task, back = (
                _grown(total, room), _grown(length, room), _grown(task, room), _grown(back, room),
            )  # fmt: skip
        longest = np.int64(-(2**62))
        for i in np.argsort(sums[:count], kind="mergesort"):
            if lengths[i] > longest:
                longest = lengths[i]
                if labels > first[v] and total[labels - 1] == sums[i]:
                    labels -= 1
                total[labels], length[labels], task[labels], back[labels] = sums[i], lengths[i], v, origin[i]
                labels += 1
        first[v + 1] = labels
    return start[: paths + 1], tasks[:entries]
