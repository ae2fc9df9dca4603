"""The list of planning algorithms. All meet the bounds; only `exact` and `exhaust` prove their cost."""

from collections.abc import Callable, Mapping

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError, known
from riprap.planner.exact import solve
from riprap.planner.exhaustive import exhaustive
from riprap.planner.problem import Problem, Solution
from riprap.planner.published_dag import dag
from riprap.planner.published_line import line
from riprap.planner.published_share import share
from riprap.planner.published_tree import tree

ALGORITHMS: Mapping[str, Callable[[Problem], Solution]] = {
    "exact": solve,
    "dag": dag,
    "tree": tree,
    "line": line,
    "share": share,
    "exhaust": exhaustive,
}


def run(algorithm: str, problem: Problem, *, time_limit: float = 10.0, clock: Clock = SYSTEM_CLOCK) -> Solution:
    if algorithm not in ALGORITHMS:
        raise UsageError(f"no algorithm {algorithm}: choose one of {known(ALGORITHMS, algorithm)}")
    if algorithm == "exact":
        return solve(problem, time_limit=time_limit, clock=clock)
    return ALGORITHMS[algorithm](problem)
