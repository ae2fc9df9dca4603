"""The published algorithm for lines: each task feeds one other, and lines meet only in a sink.

From a search source, walk downstream while the path stays within R; the last task within R becomes a backup. A walk
that reaches an existing backup (it cuts a cycle) ends, since that backup is also a search source. Optimal.
"""

from riprap.base.errors import UsageError
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_heuristic import HeuristicState


def line(problem: Problem) -> Solution:
    rounds = HeuristicState(problem, "line")
    for task, before in enumerate(rounds.before):
        if len(rounds.after[task]) > 1 or (len(before) > 1 and rounds.after[task]):
            raise UsageError(
                f"{problem.topology.name} does not consist of lines, because of {problem.topology.tasks[task]}: "
                "use `algorithm=tree`, dag or exact"
            )
    return rounds.run(_farthest, "line")


def _farthest(rounds: HeuristicState, source: int) -> list[int]:
    length = 0 if rounds.backup[source] else rounds.latency[source]
    mark, at = source, source
    while rounds.after[at]:
        at = rounds.after[at][0]
        length += rounds.latency[at]
        if length > rounds.bound:
            return [mark]
        if rounds.backup[at]:
            return []
        mark = at
    return []  # the sink is within R: no backup is needed
