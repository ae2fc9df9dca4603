"""The comparison by resource shares: again and again the task with the largest optimal share becomes a backup.

Shares are those that make the whole topology fastest when a task with share r takes T/r: r(v) ∝ √(T(v)·f(v)), where f
is the unit flow from the sources to the sinks that maximises (Σ √(T·f))² (the dual of the latency problem; concave,
found by Frank–Wolfe steps along longest ways). In series and in parallel this gives the known closed forms.
"""

import numpy as np

from riprap.planner.model import sweep
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState
from riprap.planner.reductions import longest_excess
from riprap.planner.topology import Topology

_STEPS = 200


def share(asked: Problem) -> Solution:
    """Each round the task with the largest share among those on a way that is still too long."""
    rounds = HeuristicState(asked, "share")
    order = np.argsort(-shares(asked.topology), kind="stable").tolist()
    while True:
        late = _on_long_ways(asked, np.array(rounds.backup))
        if not late:
            return rounds.solution("share")
        rounds.backup[next(task for task in order if task in late)] = True


def _on_long_ways(asked: Problem, backups: np.ndarray) -> set[int]:
    """Tasks without a backup that are on a way too long for its end, and not its end."""
    latency = asked.latency(backups)
    excess = _excess(asked, backups)
    edges = asked.topology.forward
    source, target = edges[:, 0], edges[:, 1]
    long = ~backups[source] & (latency[source] + asked.topology.latency[target] + excess[target] > 0)
    return set(source[long].tolist())


def _excess(asked: Problem, backups: np.ndarray) -> np.ndarray:
    open_edges = asked.topology.forward[~backups[asked.topology.forward[:, 0]]]
    return longest_excess(
        sweep(asked.topology.size, open_edges, asked.topology.levels), asked.topology.latency, asked.bound
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
        way = _dearest_way(order, after, sources, price)
        gamma = 2 / (step + 2 + len(order) ** 0.5)
        flow *= 1 - gamma
        flow[way] += gamma
    share_ = np.sqrt(weight * flow)
    return share_ / share_.sum()


def _even_flow(order: list[int], after: list[list[int]], sources: list[int], size: int) -> np.ndarray:
    flow = np.zeros(size)
    flow[sources] = 1 / len(sources)
    for task in order:
        for follower in after[task]:
            flow[follower] += flow[task] / len(after[task])
    return flow


def _dearest_way(order: list[int], after: list[list[int]], sources: list[int], price: np.ndarray) -> list[int]:
    best, follow = price.copy(), {}
    for task in reversed(order):
        if after[task]:
            follow[task] = max(after[task], key=lambda w: best[w])
            best[task] += best[follow[task]]
    way = [max(sources, key=lambda task: best[task])]
    while way[-1] in follow:
        way.append(follow[way[-1]])
    return way
