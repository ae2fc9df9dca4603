"""How long a recovery takes as Riprap executes it, where it is known how fast each operator works.

The model adds up along a way, as if each task began when the one before it had ended. In a run the element that failed
works out again what it misses in one process, batch by batch (`runtime/recomputation.py`): every task of its cone,
itself
and all ancestors up to the nearest backups, works through its input since the checkpoint that is needed of it. A task's
checkpoint has to be older than that of its consumer, so the input goes back by one interval more at each step.

    span(u → v) = the longest sum of intervals (each with the time until it is durable) on a way from u to v
    L(v)        = the sum over u in the cone of v of pace(u) · span(u → v)

pace(u) is the work of u for a second of input. With a core for each task the largest term would be left of the sum.
"""

from collections.abc import Sequence

import numpy as np

from riprap.base.errors import PlanError
from riprap.planner.topology import Topology


def as_executed(topology: Topology, intervals: Sequence[int], pace: Sequence[float], backups: np.ndarray) -> np.ndarray:
    """L(v) in microseconds, float64 [n], of an acyclic topology; intervals in microseconds."""
    before: list[list[int]] = [[] for _ in range(topology.size)]
    for source, target in topology.forward.tolist():
        before[target].append(source)
    order = np.argsort(-topology.levels, kind="stable").tolist()  # consumers first
    found = np.zeros(topology.size)
    for task in range(topology.size):
        span = {task: float(intervals[task])}
        for one in order:
            for source in before[one] if one in span else ():
                if not backups[source]:
                    span[source] = max(span.get(source, 0.0), span[one] + intervals[source])
        found[task] = sum(pace[one] * length for one, length in span.items())
    return found


def met(
    topology: Topology,
    intervals: Sequence[int],
    pace: Sequence[float],
    backups: np.ndarray,
    bound: np.ndarray,
    may_not: np.ndarray,
) -> np.ndarray:
    """These backups, and as many more as L as executed needs for the bound; the one that helps most first."""
    kept = backups.copy()

    def excess(chosen: np.ndarray) -> tuple[float, float]:
        late = as_executed(topology, intervals, pace, chosen) - bound
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
