"""The published heuristic for any acyclic topology: candidates, b-cover percentage F, workload B, choice, removal.

One round, from search source s:

1. Candidates Z: the tasks that s reaches within R over tasks without a backup. If a candidate feeds a task beyond R
   (the rim), the path to that task lacks a backup.
2. F(s) = 1, F(v) = Σ F(u) / |Q(u)| over candidates u that feed v: the share of the work of s that reaches v if every
   task divides its output evenly among its |Q| successors.
3. B(s) = T(s), B(v) = Σ (B(u) + T(v)) / |Q(u)|: the work that a backup at v would cover.
4. Choice: of the candidates on a path to the rim the one with the largest B; of equal ones the farthest from s.
   Repeat with it as a backup until s reaches nothing beyond R.
5. Removal: drop each chosen task that is not needed for that.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState


@dataclass(frozen=True)
class Candidates:
    order: list[int]  # the candidates in topological order, the search source first
    distance: dict[int, int]  # D(s, v): the longest path to v, without T(s) if s is a backup
    rim: set[int]  # candidates over which s reaches a task beyond R
    percentage: dict[int, float]  # F
    workload: dict[int, float]  # B


def dag(problem: Problem) -> Solution:
    return HeuristicState(problem, "dag").run(_choose, "dag")


def candidates(rounds: HeuristicState, source: int, chosen: frozenset[int] = frozenset()) -> Candidates:
    """`chosen`: additional backups."""

    def open_(task: int) -> bool:
        return task == source or not (rounds.backup[task] or task in chosen)

    is_backup = rounds.backup[source] or source in chosen
    distance = {source: 0 if is_backup else rounds.latency[source]}
    percentage, workload = {source: 1.0}, {source: float(rounds.latency[source])}
    rim: set[int] = set()
    pending = [(rounds.rank[follower], follower) for follower in rounds.after[source]]
    heapify(pending)
    done = source
    while pending:
        _, task = heappop(pending)
        if task == done:
            continue
        done = task
        feeders = [u for u in rounds.before[task] if u in distance and open_(u)]
        reached = max(distance[u] for u in feeders) + rounds.latency[task]
        if reached > rounds.bound:
            rim.update(feeders)
            continue
        distance[task] = reached
        percentage[task] = sum(percentage[u] / len(rounds.after[u]) for u in feeders)
        workload[task] = sum((workload[u] + rounds.latency[task]) / len(rounds.after[u]) for u in feeders)
        if open_(task):
            for follower in rounds.after[task]:
                heappush(pending, (rounds.rank[follower], follower))
    order = sorted(distance, key=rounds.rank.__getitem__)
    return Candidates(order, distance, rim, percentage, workload)


def _choose(rounds: HeuristicState, source: int) -> list[int]:
    chosen: list[int] = []
    while (reachable := candidates(rounds, source, frozenset(chosen))).rim:
        useful = _toward_rim(rounds, source, reachable, chosen)
        chosen.append(max(useful, key=lambda v: (reachable.workload[v], reachable.distance[v], -v)))
    for task in sorted(chosen, key=rounds.rank.__getitem__):
        others = [other for other in chosen if other != task]
        if not candidates(rounds, source, frozenset(others)).rim:
            chosen = others
    return chosen


def _toward_rim(rounds: HeuristicState, source: int, reachable: Candidates, chosen: list[int]) -> list[int]:
    """Candidates without a backup on a path to the rim, including the rim."""
    toward: set[int] = set()
    for v in reversed(reachable.order):
        passes = v == source or not (rounds.backup[v] or v in chosen)
        if passes and (v in reachable.rim or any(w in toward for w in rounds.after[v])):
            toward.add(v)
    return [v for v in reachable.order if v in toward and not rounds.backup[v] and v not in chosen]
