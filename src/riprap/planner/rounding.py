"""Plans that meet their bounds: by both greedy methods, or from fractional backups by thresholds."""

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.failure_effect import recovery
from riprap.planner.reductions import Core
from riprap.planner.search import Cover, greedy_early, greedy_late, improve, prune
from riprap.planner.topology import levels_of

LARGEST_PRUNED = 2_000  # vertices: pruning for several failures recomputes everything for each


def first_plan(core: Core, clock: Clock, deadline: float) -> np.ndarray:
    """The better of greedy from the sources and from the sinks, pruned, then improved until the deadline; bool [n]."""
    if core.failures > 1:
        return pruned_from_all(core, [0.0] * core.size) if core.size <= LARGEST_PRUNED else core.fixed != 0
    cover = Cover(core)
    plans = []
    for method in (greedy_late, greedy_early):
        method(cover)
        prune(cover, sorted(range(cover.size), key=lambda u: (-cover.cost[u], u)))
        plans.append((cover.total, cover.backup))
    cover.set(min(plans, key=lambda plan: plan[0])[1])
    improve(cover, clock, deadline)
    return np.array(cover.backup)


def rounded(core: Core, weight: list[float], clock: Clock, deadline: float) -> np.ndarray:
    """The cheapest plan found that meets the bounds; bool [n]."""
    if core.failures > 1:
        return pruned_from_all(core, weight) if core.size <= LARGEST_PRUNED else core.fixed != 0
    cover = Cover(core)
    best: list[bool] | None = None
    fewest = 0
    values = sorted({round(value, 3) for value in weight if value > 0.02})
    thresholds = values if len(values) <= 6 else [values[len(values) * i // 6] for i in range(6)]
    for threshold in [*thresholds, 2.0]:
        greedy_late(cover, weight, max(threshold - 1e-3, 1e-3))
        prune(cover, sorted(range(cover.size), key=lambda u: (weight[u] / max(1, cover.cost[u]), u)))
        if best is None or cover.total < fewest:
            best, fewest = list(cover.backup), cover.total
        if clock.monotonic() > deadline:
            break
    assert best is not None
    cover.set(best)
    improve(cover, clock, deadline)
    return np.array(cover.backup)


def pruned_from_all(core: Core, weight: list[float]) -> np.ndarray:
    """Starts with all allowed backups and removes those of least weight while the bounds hold. For k failures."""
    levels = levels_of(core.size, core.edges)
    edges = np.concatenate([core.edges, core.back])
    plan = core.fixed != 0
    cost: list[int] = np.maximum(core.cost, 1).tolist()
    order = sorted(np.flatnonzero(core.fixed < 0).tolist(), key=lambda u: (weight[u] / cost[u], u))
    for u in order:
        plan[u] = False
        if np.any(recovery(core.latency, edges, plan, core.failures, levels) > core.bound):
            plan[u] = True
    return plan
