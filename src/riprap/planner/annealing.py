"""Good plans for large cores, one failure at a time, compiled: simulated annealing over plans that meet the bounds.

A move makes a random vertex a backup and then drops, in random order, every backup that is no longer needed. It is
accepted if the plan is not more expensive, otherwise with a probability that falls with the temperature. The state is
that of `search.Cover`: late[v] and excess[v], updated incrementally.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from riprap.base.clock import Clock
from riprap.base.randomness import generator
from riprap.planner.neighbours import Neighbours
from riprap.planner.reductions import Core

HOT, COLD = 0.6, 0.1  # of the mean cost of a backup
MOVES = 400  # per vertex and run
STEPS = 40  # of the temperature


class _Arrays(NamedTuple):
    before_start: np.ndarray
    before: np.ndarray
    after_start: np.ndarray
    after: np.ndarray
    latency: np.ndarray
    bound: np.ndarray


class _State(NamedTuple):
    backup: np.ndarray
    late: np.ndarray
    excess: np.ndarray
    heap: np.ndarray  # vertices to update, nearest first
    queued: np.ndarray  # whether a vertex is in `heap`
    touched: np.ndarray  # backups that may no longer be needed


def _arrays(core: Core, near: Neighbours) -> _Arrays:
    return _Arrays(*near.arrays, core.latency, core.bound)


def pruned(core: Core, near: Neighbours, useful: np.ndarray) -> np.ndarray:
    """An initial plan: all useful vertices, without those that are not needed, tried in order."""
    plan = useful.copy()
    _prune(_arrays(core, near), plan)
    return plan


def annealed(
    core: Core, near: Neighbours, among: list[np.ndarray], plan: np.ndarray, enough: int, clock: Clock, deadline: float
) -> np.ndarray:
    """A plan at least as cheap as `plan`; stops at cost `enough` or when time is up.

    Each run draws its moves from the next of `among` (sets of vertices, bool [n]) and starts with the best plan so far.
    """
    best, least = plan.copy(), int(core.cost[plan].sum())
    mean = float(core.cost[plan].mean()) if plan.any() else 0.0
    arrays, rng = _arrays(core, near), generator(0, "annealing")
    drawn = [np.flatnonzero(some) for some in among if some.any()]
    while least > enough and drawn and mean > 0:
        now, moves = best.copy(), MOVES * core.size // STEPS
        started = clock.monotonic()
        for step in range(STEPS):
            heat = mean * (HOT + (COLD - HOT) * step / STEPS)
            cheapest = _anneal(arrays, core.cost, drawn[0], now, heat, moves, rng)
            if int(core.cost[cheapest].sum()) < least:
                best, least = cheapest, int(core.cost[cheapest].sum())
            left = deadline - clock.monotonic()
            if left <= 0 or least <= enough:
                return best
            if step == 0:  # limit the moves so that all steps fit into the remaining time
                moves = min(moves, int(moves * left / STEPS / max(1e-9, clock.monotonic() - started)))
        drawn = drawn[1:] + drawn[:1]
    return best


@njit(cache=True, nogil=True)
def _push(heap: np.ndarray, count: int, v: int) -> int:
    i = count
    heap[i] = v
    while i > 0 and heap[(i - 1) >> 1] > heap[i]:
        heap[(i - 1) >> 1], heap[i] = heap[i], heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    return count + 1


@njit(cache=True, nogil=True)
def _pop(heap: np.ndarray, count: int) -> tuple[int, int]:
    top = heap[0]
    count -= 1
    heap[0] = heap[count]
    i = 0
    while 2 * i + 1 < count:
        child = 2 * i + 1
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[i] <= heap[child]:
            break
        heap[i], heap[child] = heap[child], heap[i]
        i = child
    return top, count


@njit(cache=True, nogil=True)
def _onward(v: int, graph: _Arrays, excess: np.ndarray) -> int:
    most = -(2**62)
    for e in range(graph.after_start[v], graph.after_start[v + 1]):
        w = graph.after[e]
        most = max(most, graph.latency[w] + excess[w])
    return most


@njit(cache=True, nogil=True)
def _late(v: int, graph: _Arrays, backup: np.ndarray, late: np.ndarray) -> int:
    most = 0
    for e in range(graph.before_start[v], graph.before_start[v + 1]):
        u = graph.before[e]
        if not backup[u] and late[u] > most:
            most = late[u]
    return most + graph.latency[v]


@njit(cache=True, nogil=True)
def _state(graph: _Arrays, backup: np.ndarray) -> _State:
    size, edges = len(graph.latency), len(graph.after)
    late, excess = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for v in range(size):
        late[v] = _late(v, graph, backup, late)
    for v in range(size - 1, -1, -1):
        onward = _onward(v, graph, excess)
        excess[v] = -graph.bound[v] if backup[v] else max(-graph.bound[v], onward)
    heap, queued = np.empty(size + 1, np.int64), np.zeros(size, np.bool_)
    return _State(backup, late, excess, heap, queued, np.empty(2 * edges + size + 1, np.int64))


@njit(cache=True, nogil=True)
def _put(u: int, flag: bool, graph: _Arrays, state: _State) -> int:
    """Sets or removes the backup of u; returns the number of entries in `touched`."""
    backup, late, excess, heap, queued, touched = state
    backup[u] = flag
    found, count = 0, 0
    for e in range(graph.after_start[u], graph.after_start[u + 1]):
        queued[graph.after[e]] = True
        count = _push(heap, count, graph.after[e])
    while count:
        v, count = _pop(heap, count)
        queued[v] = False
        now = _late(v, graph, backup, late)
        if now != late[v]:
            late[v] = now
            if backup[v]:
                touched[found] = v
                found += 1
            else:
                for e in range(graph.after_start[v], graph.after_start[v + 1]):
                    w = graph.after[e]
                    if not queued[w]:
                        queued[w] = True
                        count = _push(heap, count, w)
    count = _push(heap, 0, -u)
    while count:
        v, count = _pop(heap, count)
        v = -v
        queued[v] = False
        now = -graph.bound[v]
        if not backup[v]:
            now = max(now, _onward(v, graph, excess))
        if now != excess[v]:
            excess[v] = now
            for e in range(graph.before_start[v], graph.before_start[v + 1]):
                w = graph.before[e]
                if backup[w]:
                    touched[found] = w
                    found += 1
                elif not queued[w]:
                    queued[w] = True
                    count = _push(heap, count, -w)
    return found


@njit(cache=True, nogil=True)
def _is_needed(u: int, graph: _Arrays, state: _State) -> bool:
    return state.late[u] + _onward(u, graph, state.excess) > 0


@njit(cache=True, nogil=True)
def _prune(graph: _Arrays, backup: np.ndarray) -> None:
    state = _state(graph, backup)
    for u in range(len(backup)):
        if backup[u] and not _is_needed(u, graph, state):
            _put(u, False, graph, state)


@njit(cache=True, nogil=True)
def _anneal(
    graph: _Arrays,
    cost: np.ndarray,
    chosen: np.ndarray,
    backup: np.ndarray,
    heat: float,
    moves: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Changes `backup`; returns the cheapest plan seen."""
    state = _state(graph, backup)
    listed, removed = np.empty_like(state.touched), np.empty(len(backup), np.int64)
    best = backup.copy()
    total, least = 0, 0  # relative to the initial plan
    for _ in range(moves):
        x = chosen[int(rng.random() * len(chosen))]
        if backup[x]:
            continue
        found = _put(x, True, graph, state)
        for i in range(found):
            j = int(rng.random() * (i + 1))
            listed[i] = listed[j]
            listed[j] = state.touched[i]
        change, dropped = cost[x], 0
        for i in range(found):
            u = listed[i]
            if backup[u] and u != x and not _is_needed(u, graph, state):
                _put(u, False, graph, state)
                removed[dropped] = u
                dropped += 1
                change -= cost[u]
        if change <= 0 or rng.random() < np.exp(-change / heat):
            total += change
            if total < least:
                least = total
                best[:] = backup
            continue
        for i in range(dropped - 1, -1, -1):
            _put(removed[i], True, graph, state)
        _put(x, False, graph, state)
    return best
