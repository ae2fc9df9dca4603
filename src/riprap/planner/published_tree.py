"""The published algorithm for trees: every task feeds at most one other, ways join on the way to the sink.

As for lines, but a search that meets a backup ends there. Published, searches start in the order of hops from the
sink; where a source with fewer hops but slower tasks joins, that order sets a backup which a later search makes
useless. So all searches advance together here, in topological order: at a join the slowest goes on. With that the
result is optimal for any latencies, as the paper claims, in one pass.
"""

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState


def tree(asked: Problem) -> Solution:
    rounds = HeuristicState(asked, "tree")
    for task, after in enumerate(rounds.after):
        if len(after) > 1:
            raise UsageError(
                f"{asked.topology.name} is not a tree: {asked.topology.tasks[task]} feeds {len(after)} tasks, and at "
                "most 1 is allowed; use --algorithm dag or exact"
            )
    reached = [0] * len(rounds.latency)  # the longest search that has come to a task, the task included
    for task in sorted(rounds.rank, key=rounds.rank.__getitem__):
        for u in rounds.before[task]:
            if not rounds.backup[u] and reached[u] + rounds.latency[task] > rounds.bound:
                rounds.backup[u] = True
        open_ = (reached[u] for u in rounds.before[task] if not rounds.backup[u])
        reached[task] = rounds.latency[task] + max(open_, default=0)
    return rounds.solution("tree")
