"""The published comparison by resource shares: repeatedly the task with the largest optimal share becomes a backup.

Shares minimise the latency of the topology, where a task with share r takes T/r: r(v) ∝ √(T(v)·f(v)), where f
is the unit flow from the sources to the sinks that maximises (Σ √(T·f))² (the dual of the latency problem; concave,
found by Frank–Wolfe steps along longest paths). In series and in parallel this gives the known closed forms.
"""

import numpy as np

from riprap.planner.failure_effect import sweep
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState
from riprap.planner.reductions import longest_excess
from riprap.planner.topology import Topology

_STEPS = 200


def share(problem: Problem) -> Solution:
    """Each round adds the task with the largest share among those on a path that is still too long."""
    rounds = HeuristicState(problem, "share")
    order = np.argsort(-shares(problem.topology), kind="stable").tolist()
    while True:
        late = _on_long_paths(problem, np.array(rounds.backup))
        if not late:
            return rounds.solution("share")
        rounds.backup[next(task for task in order if task in late)] = True


def _on_long_paths(problem: Problem, backups: np.ndarray) -> set[int]:
    """Tasks without a backup that lie on a path whose last task misses its bound, except that last task."""
    latency = problem.latency(backups)
    excess = _excess(problem, backups)
    edges = problem.topology.forward
    source, target = edges[:, 0], edges[:, 1]
    long = ~backups[source] & (latency[source] + problem.topology.latency[target] + excess[target] > 0)
    return set(source[long].tolist())


def _excess(problem: Problem, backups: np.ndarray) -> np.ndarray:
    open_edges = problem.topology.forward[~backups[problem.topology.forward[:, 0]]]
    return longest_excess(
        sweep(problem.topology.size, open_edges, problem.topology.levels), problem.topology.latency, problem.bound
    )


def shares(topology: Topology) -> np.ndarray:
    """Optimal share of the resources per task; they sum to 1."""
    size = topology.size
    after: list[list[int]] = [[] for _ in range(size)]
    fed = np.zeros(size, bool)
    for source, target in topology.forward.tolist():
        after[source].append(target)
        fed[target] = True
    order = np.argsort(topology.levels, kind="stable").tolist()
    sources = np.flatnonzero(~fed).tolist()
    weight = np.maximum(topology.latency.astype(float), 1e-9)
    flow = _even_flow(order, after, sources, size)
    for step in range(_STEPS):
        price = np.sqrt(weight / np.maximum(flow, 1e-12))
        path = _dearest_path(order, after, sources, price)
        gamma = 2 / (step + 2 + len(order) ** 0.5)
        flow *= 1 - gamma
        flow[path] += gamma
    share_ = np.sqrt(weight * flow)
    return share_ / share_.sum()


def _even_flow(order: list[int], after: list[list[int]], sources: list[int], size: int) -> np.ndarray:
    flow = np.zeros(size)
    flow[sources] = 1 / len(sources)
    for task in order:
        for follower in after[task]:
            flow[follower] += flow[task] / len(after[task])
    return flow


def _dearest_path(order: list[int], after: list[list[int]], sources: list[int], price: np.ndarray) -> list[int]:
    best, follow = price.copy(), {}
    for task in reversed(order):
        if after[task]:
            follow[task] = max(after[task], key=lambda w: best[w])
            best[task] += best[follow[task]]
    path = [max(sources, key=lambda task: best[task])]
    while path[-1] in follow:
        path.append(follow[path[-1]])
    return path
