"""A lower bound for graphs too large for a linear program: prices on ways that are too long.

Every way that is too long needs a backup. So if ways are given prices and no vertex is charged more than its cost, the
prices sum to a lower bound; that is the dual of the linear relaxation. They are found by multiplicative weights: in
each pass every task names the lightest way to it that is too long; while that is lighter than a threshold it is
charged, which makes its vertices heavier by a factor, and the threshold rises as such ways get few. At the end all
prices are scaled by the number that makes the bound best, and it is summed in whole numbers. Only for one failure at a
time.
"""

import numpy as np
from numba import njit

from riprap.base.clock import Clock
from riprap.planner.long_paths import found_ways
from riprap.planner.neighbours import Neighbours
from riprap.planner.reductions import Core

RISE = 0.2  # by how much being charged all its cost makes a vertex heavier: less is better and slower
FEW = 10  # the threshold rises when fewer than one task in so many charged its way
UNIT = 1 << 20  # prices are whole multiples of 1 / UNIT
MOST = 4_000  # charges of all its cost that a vertex takes, far beyond what improves the bound


def packed_bound(
    core: Core, near: Neighbours, excess: np.ndarray, counted: np.ndarray, clock: Clock, deadline: float
) -> int:
    """As many passes as there is time for, one at least."""
    free = counted & (core.cost == 0)  # a way through one of these needs nothing that costs
    cost = np.maximum(core.cost, 1)
    weight = np.where(free, np.inf, np.where(counted, 1.0 / cost, 0.0))
    paid = np.zeros(core.size, np.int64)
    total, limit, best = 0, np.inf, 0
    while total == 0 or (clock.monotonic() < deadline and paid.max() < MOST * cost.max()):
        start, tasks = found_ways(core, near, excess, counted, weight, limit)
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
    for way in range(len(start) - 1):
        total = 0.0
        for e in range(start[way], start[way + 1]):
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
    """Charges each way that is still lighter than `limit` the least cost on it; how many, and how much in all."""
    sent, charged = 0, 0
    for way in range(len(start) - 1):
        total, least = 0.0, 2**62
        for e in range(start[way], start[way + 1]):
            total += weight[tasks[e]]
            least = min(least, cost[tasks[e]])
        if total < limit and start[way] < start[way + 1]:
            for e in range(start[way], start[way + 1]):
                v = tasks[e]
                paid[v] += least
                weight[v] *= 1 + rise * least / cost[v]
            sent += 1
            charged += least
    return sent, charged
