"""The published algorithm for trees: every task feeds at most one other, and paths join on their way to the sink.

As for lines, but a search that reaches a backup ends there. The published searches start in the order of hops from the
sink; where a source with fewer hops but slower tasks joins, that order sets a backup that a later search makes useless.
So here all searches advance together in topological order: at a join the slowest continues. This makes the result
optimal for any latencies, as the paper claims, in one pass.
"""

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState


def tree(problem: Problem) -> Solution:
    rounds = HeuristicState(problem, "tree")
    for task, after in enumerate(rounds.after):
        if len(after) > 1:
            raise UsageError(
                f"{problem.topology.name} is not a tree: {problem.topology.tasks[task]} feeds {len(after)} tasks, "
                "more than 1; use `algorithm=dag` or exact"
            )
    reached = [0] * len(rounds.latency)  # the longest search that has reached a task, including the task
    for task in sorted(rounds.rank, key=rounds.rank.__getitem__):
        for u in rounds.before[task]:
            if not rounds.backup[u] and reached[u] + rounds.latency[task] > rounds.bound:
                rounds.backup[u] = True
        open_ = (reached[u] for u in rounds.before[task] if not rounds.backup[u])
        reached[task] = rounds.latency[task] + max(open_, default=0)
    return rounds.solution("tree")
