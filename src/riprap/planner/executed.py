"""How long a recovery takes as Riprap executes it, if the speed of each operator is known.

The model adds latencies along a path, as if each task started when the previous one had ended. In a run the failed
element recomputes its missing input in one process, batch by batch (`runtime/recomputation.py`): every task of its
cone, that is itself and all ancestors up to the nearest backups, reprocesses its input since the checkpoint that it
needs. A task's checkpoint must be older than that of its consumer, so each step upstream adds one interval of input.

    span(u → v) = the longest sum of intervals (each plus the time until durable) on a path from u to v
    L(v)        = the sum over u in the cone of v of pace(u) · span(u → v)

pace(u): seconds of work of u per second of input. With one core per task, the largest term would replace the sum.
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
    latency = np.zeros(topology.size)
    for task in range(topology.size):
        span = {task: float(intervals[task])}
        for member in order:
            for source in before[member] if member in span else ():
                if not backups[source]:
                    span[source] = max(span.get(source, 0.0), span[member] + intervals[source])
        latency[task] = sum(pace[member] * length for member, length in span.items())
    return latency


def with_enough_backups(
    topology: Topology,
    intervals: Sequence[int],
    pace: Sequence[float],
    backups: np.ndarray,
    bound: np.ndarray,
    may_not: np.ndarray,
) -> np.ndarray:
    """Adds backups until L as executed meets the bound; the one that helps most first."""
    enough = backups.copy()

    def excess(chosen: np.ndarray) -> tuple[float, float]:
        exceeded = as_executed(topology, intervals, pace, chosen) - bound
        return float(exceeded.max()), float(np.maximum(exceeded, 0).sum())

    while (now := excess(enough))[0] > 0:
        tried = []
        for task in np.flatnonzero(~enough & ~may_not).tolist():
            enough[task] = True
            tried.append((*excess(enough), task))
            enough[task] = False
        if not tried or min(tried)[:2] >= now:
            raise PlanError(
                "no plan recomputes fast enough: at the measured speed of the operators, more backups do not help, and "
                f"recovery exceeds the bound by {now[0] / 1e6:.2g} s; shorten checkpoint intervals or raise the bound"
            )
        enough[min(tried)[2]] = True
    for task in np.flatnonzero(enough & ~backups).tolist():  # drop backups that a later one made unnecessary
        enough[task] = False
        enough[task] = excess(enough)[0] > 0
    return enough
