"""A lower bound for graphs too large for a linear program: prices on paths that are too long.

Every path that is too long needs a backup. So if paths have prices and no vertex is charged more than its cost, the
sum of the prices is a lower bound; this is the dual of the linear relaxation. Multiplicative weights find the prices:
each pass finds for every task the lightest too long path to it. If it is lighter than a threshold it is charged, which
multiplies the weight of its vertices; the threshold rises when such paths become rare. At the end all prices are scaled
by the factor that gives the best bound, which is summed in integers. Only for one failure at a time.
"""

import numpy as np
from numba import njit

from riprap.base.clock import Clock
from riprap.planner.long_paths import found_paths
from riprap.planner.neighbours import Neighbours
from riprap.planner.reductions import Core

RISE = 0.2  # growth of a vertex's weight per charge of its full cost: smaller is better and slower
FEW = 10  # the threshold rises when fewer than one task in FEW charged its path
UNIT = 1 << 20  # prices are multiples of 1 / UNIT
MOST = 4_000  # charges of its full cost per vertex; far more than improves the bound


def packed_bound(
    core: Core, near: Neighbours, excess: np.ndarray, counted: np.ndarray, clock: Clock, deadline: float
) -> int:
    """Passes until the deadline, at least one."""
    free = counted & (core.cost == 0)  # a path through one of these costs nothing
    cost = np.maximum(core.cost, 1)
    weight = np.where(free, np.inf, np.where(counted, 1.0 / cost, 0.0))
    paid = np.zeros(core.size, np.int64)
    total, limit, best = 0, np.inf, 0
    while total == 0 or (clock.monotonic() < deadline and paid.max() < MOST * cost.max()):
        start, tasks = found_paths(core, near, excess, counted, weight, limit)
        if limit == np.inf:
            lightest = _lightest(start, tasks, weight)
            if lightest == np.inf:
                return 0
            limit = lightest * (1 + RISE)
        sent, charged = _charge(start, tasks, cost, weight, paid, limit, RISE)
        total += charged
        if sent * FEW < core.size:
            limit *= 1 + RISE
            best = max(best, _scaled(core.cost, paid, total))
    return max(best, _scaled(core.cost, paid, total))


def _scaled(cost: np.ndarray, paid: np.ndarray, total: int) -> int:
    """The best of s·total + Σ min(0, cost − s·paid) over s: concave in s, with corners at cost / paid."""
    some = np.flatnonzero(paid)
    if not len(some):
        return 0
    order = some[np.argsort(cost[some] / paid[some], kind="stable")]
    rising = total - np.cumsum(paid[order])  # the slope beyond each corner
    at = order[min(int(np.argmax(rising <= 0)), len(order) - 1)]
    scale = int(cost[at] * UNIT // paid[at])
    over = sum(min(0, c * UNIT - p * scale) for c, p in zip(cost[some].tolist(), paid[some].tolist(), strict=True))
    return max(0, -(-(total * scale + over) // UNIT))


@njit(cache=True, nogil=True)
def _lightest(start: np.ndarray, tasks: np.ndarray, weight: np.ndarray) -> float:
    least = np.inf
    for path in range(len(start) - 1):
        total = 0.0
        for e in range(start[path], start[path + 1]):
            total += weight[tasks[e]]
        least = min(least, total)
    return least


@njit(cache=True, nogil=True)
def _charge(
    start: np.ndarray,
    tasks: np.ndarray,
    cost: np.ndarray,
    weight: np.ndarray,
    paid: np.ndarray,
    limit: float,
    rise: float,
) -> tuple[int, int]:
    """Charges each path that is still lighter than `limit` the least cost on it; returns count and total."""
    sent, charged = 0, 0
    for path in range(len(start) - 1):
        total, least = 0.0, 2**62
        for e in range(start[path], start[path + 1]):
            total += weight[tasks[e]]
            least = min(least, cost[tasks[e]])
        if total < limit and start[path] < start[path + 1]:
            for e in range(start[path], start[path + 1]):
                v = tasks[e]
                paid[v] += least
                weight[v] *= 1 + rise * least / cost[v]
            sent += 1
            charged += least
    return sent, charged
