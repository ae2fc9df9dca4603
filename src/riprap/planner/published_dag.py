"""The published heuristic for any acyclic topology: candidates, b-cover percentage F, backup workload B, choice, removal.

One round, from search source s:

1. Candidates Z: the tasks that s reaches within R over tasks without a backup. Those that lead on to a task beyond R (the
   rim) must be covered: by a backup on every way from s through them.
2. F(s) = 1, F(v) = Σ F(u) / |Q(u)| over candidates u that feed v: the share of the work of s that comes to v when every task
   divides its output evenly among the |Q| it feeds.
3. B(s) = T(s), B(v) = Σ (B(u) + T(v)) / |Q(u)|: the work that a backup at v would cover.
4. Choice: the candidate with the largest B, among equals the farthest from s; then the tasks whose every way on is covered
   leave Z. Until the rim is covered, which is when the F of the chosen sum to all that leads beyond R.
5. Removal: a chosen task that the others cover anyway is dropped.
"""

from dataclasses import dataclass

from riprap.planner.problem import Problem, Solution
from riprap.planner.published import Rounds


@dataclass(frozen=True)
class Candidates:
    order: list[int]  # the candidates in topological order, the search source first
    distance: dict[int, int]  # D(s, v): the longest way to v, without T of s where s is a backup
    rim: set[int]  # candidates that feed a task beyond R
    percentage: dict[int, float]  # F
    workload: dict[int, float]  # B


def dag(asked: Problem) -> Solution:
    return Rounds(asked, "dag").run(_choose, "dag")


def candidates(rounds: Rounds, source: int) -> Candidates:
    distance = {source: 0 if rounds.backup[source] else rounds.latency[source]}
    beyond: set[int] = set()
    for task in _reached(rounds, source):
        if task != source:
            inside = [u for u in rounds.before[task] if u in distance and (u == source or not rounds.backup[u])]
            way = max(distance[u] for u in inside) if inside else None
            if way is None:
                continue
            if way + rounds.latency[task] <= rounds.bound:
                distance[task] = way + rounds.latency[task]
            else:
                beyond.add(task)
    order = sorted(distance, key=rounds.rank.__getitem__)
    open_ = [task for task in order if task == source or not rounds.backup[task]]
    rim = {task for task in open_ if any(w in beyond for w in rounds.after[task])}
    percentage, workload = {source: 1.0}, {source: float(rounds.latency[source])}
    for task in order:
        if task != source:
            feeders = [u for u in rounds.before[task] if u in distance and (u == source or not rounds.backup[u])]
            percentage[task] = sum(percentage[u] / len(rounds.after[u]) for u in feeders)
            workload[task] = sum((workload[u] + rounds.latency[task]) / len(rounds.after[u]) for u in feeders)
    return Candidates(order, distance, rim, percentage, workload)


def _reached(rounds: Rounds, source: int) -> list[int]:
    """Tasks that `source` reaches over tasks without a backup, in topological order."""
    seen, pending = {source}, [source]
    while pending:
        task = pending.pop()
        if task == source or not rounds.backup[task]:
            for follower in rounds.after[task]:
                if follower not in seen:
                    seen.add(follower)
                    pending.append(follower)
    return sorted(seen, key=rounds.rank.__getitem__)


def _choose(rounds: Rounds, source: int) -> list[int]:
    found = candidates(rounds, source)
    chosen: list[int] = []
    while open_ := _uncovered(rounds, source, found, set(chosen)):
        chosen.append(max(open_, key=lambda v: (found.workload[v], found.distance[v], -v)))
    for task in sorted(chosen, key=rounds.rank.__getitem__):
        others = set(chosen) - {task}
        if not _uncovered(rounds, source, found, others):
            chosen.remove(task)
    return chosen


def _uncovered(rounds: Rounds, source: int, found: Candidates, chosen: set[int]) -> list[int]:
    """Candidates on a way from the source to beyond R that has no backup and none of `chosen`; empty when all are covered.

    The source itself is one only while it is not a backup: then it may become one.
    """
    closed = chosen | {v for v in found.order if rounds.backup[v] and v != source}
    from_source = set()
    for v in found.order:
        feeders = (u for u in rounds.before[v] if u in from_source)
        if v not in closed and (v == source or any(True for _ in feeders)):
            from_source.add(v)
    to_rim = set()
    for v in reversed(found.order):
        if v in from_source and (v in found.rim or any(w in to_rim for w in rounds.after[v])):
            to_rim.add(v)
    return [v for v in found.order if v in to_rim and not (v == source and rounds.backup[source])]
