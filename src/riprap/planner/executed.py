"""How long a recovery takes as Riprap executes it, where it is known how fast each operator works.

The model adds up along a way, as if each task began when the one before it had ended. In a run the element that failed
works out again what it misses in one process, batch by batch (`runtime/recompute.py`): every task of its cone, itself
and all ancestors up to the nearest backups, works through its input since the checkpoint that is needed of it. That one
has to be older than the one of its consumer. Checkpoints are due at the multiples of their intervals I, a task's a
little, δ, after those of the tasks before it (`protocols/recompute.py`): where the consumer's interval is a multiple of
its own, the input goes back by δ more at each step, and else by what the two grids are apart at most.

    back(u → w) = δ + I(u) − g + ((depth(w) − depth(u) − 1) · δ mod g), g the greatest common divisor of I(u) and I(w)
    span(u → v) = I(v), the time until a checkpoint is durable, and the longest sum of back() on a way from u to v
    L(v)        = the sum over u in the cone of v of pace(u) · span(u → v)

pace(u) is the work of u for a second of input; depth counts the streams since the nearest backups. With a core for each
task the largest term would be left of the sum. What it leaves out: tuples that are on their way for longer than δ, as
they are behind a recovery that has just ended; each such step costs an interval more.
"""

from collections.abc import Sequence
from math import gcd

import numpy as np

from riprap.base.errors import PlanError
from riprap.planner.topology import Topology
from riprap.protocols.recompute import STAGGER


def as_executed(
    topology: Topology, intervals: Sequence[int], pace: Sequence[float], backups: np.ndarray, durable: int = 0
) -> np.ndarray:
    """L(v) in microseconds, float64 [n], of an acyclic topology; `intervals` and `durable` are in microseconds too."""
    before: list[list[int]] = [[] for _ in range(topology.size)]
    for source, target in topology.forward.tolist():
        if not backups[source]:
            before[target].append(source)
    consumers_first = np.argsort(-topology.levels, kind="stable").tolist()
    depth = [0] * topology.size
    for task in reversed(consumers_first):
        depth[task] = max((1 + depth[source] for source in before[task]), default=0)

    def back(source: int, target: int) -> int:
        common = gcd(intervals[source], intervals[target])
        further = (depth[target] - depth[source] - 1) * STAGGER % common
        return STAGGER + intervals[source] - common + further

    found = np.zeros(topology.size)
    for task in range(topology.size):
        span = {task: intervals[task] + durable}
        for one in consumers_first:
            for source in before[one] if one in span else ():
                span[source] = max(span.get(source, 0), span[one] + back(source, one))
        found[task] = sum(pace[one] * length for one, length in span.items())
    return found


def met(
    topology: Topology,
    intervals: Sequence[int],
    pace: Sequence[float],
    backups: np.ndarray,
    bound: np.ndarray,
    may_not: np.ndarray,
    durable: int = 0,
) -> np.ndarray:
    """These backups, and as many more as L as executed needs for the bound; the one that helps most first."""
    kept = backups.copy()

    def excess(chosen: np.ndarray) -> tuple[float, float]:
        late = as_executed(topology, intervals, pace, chosen, durable) - bound
        return float(late.max()), float(np.maximum(late, 0).sum())

    while (now := excess(kept))[0] > 0:
        tried = []
        for task in np.flatnonzero(~kept & ~may_not).tolist():
            kept[task] = True
            tried.append((*excess(kept), task))
            kept[task] = False
        if not tried or min(tried)[:2] >= now:
            raise PlanError(
                "no plan recomputes fast enough: as executed, at the measured speed of the operators, more backups do "
                f"not help, and {now[0] / 1e6:.2g} s are missing; give shorter checkpoint intervals, or a longer bound"
            )
        kept[min(tried)[2]] = True
    for task in np.flatnonzero(kept & ~backups).tolist():  # one that a later one made needless goes
        kept[task] = False
        kept[task] = excess(kept)[0] > 0
    return kept
