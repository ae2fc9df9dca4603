"""The planning problem (bounds, constraints on single tasks, simultaneous failures), and its solution."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from riprap.base.errors import PlanError, UsageError
from riprap.base.quantities import Duration, show_duration
from riprap.planner.cyclic_graphs import thin_cycle
from riprap.planner.failure_effect import NEVER, recovery
from riprap.planner.topology import Topology, rows


@dataclass(frozen=True, eq=False)
class Problem:
    """Find the cheapest backups such that L(v) ≤ bound(v) for every task.

    Equivalently: every path with ΣT above the bound of its last task has at least `failures` backups before that task;
    a cycle is an endless path.
    """

    topology: Topology
    bound: np.ndarray  # int64 [n], microseconds
    must: np.ndarray  # bool [n]: must be a backup (requested, or it feeds a cut edge)
    must_not: np.ndarray  # bool [n]: must not be a backup
    failures: int = 1  # k ≥ 1: simultaneous failures to tolerate

    def latency(self, backups: np.ndarray) -> np.ndarray:
        """L(v) with `failures` simultaneous failures; `model.NEVER` if there is no recovery."""
        topology = self.topology
        cut = bool(np.all(backups[topology.edges[topology.cuts, 0]]))
        levels = topology.levels if cut else None
        return recovery(topology.latency, topology.edges, backups, self.failures, levels)

    def is_met(self, backups: np.ndarray) -> bool:
        """Exact, in whole microseconds, independent of any solver."""
        return bool(
            np.all(self.latency(backups) <= self.bound)
            and np.all(backups[self.must])
            and not np.any(backups[self.must_not])
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """A plan that meets its bounds, and its largest possible distance from the cheapest."""

    backups: np.ndarray  # bool [n]
    cost: int
    lower: int  # proven: no plan that meets the bounds costs less
    method: str

    @property
    def optimal(self) -> bool:
        return self.cost <= self.lower

    @property
    def gap(self) -> float:
        """At most this fraction of the cost could be saved."""
        return (self.cost - self.lower) / self.cost if self.cost > self.lower else 0.0


def problem(
    topology: Topology,
    recovery: Duration,
    *,
    sinks: Mapping[str, Duration] | None = None,
    must: Iterable[str] = (),
    must_not: Iterable[str] = (),
    failures: int = 1,
) -> Problem:
    """A problem that has a solution; otherwise `PlanError` names the tasks that make it impossible.

    `sinks` gives some sinks a stricter bound. It applies to the sink and to every task upstream of it, also over
    feedback edges, since the sink waits for them: a task has the strictest bound of the sinks that it feeds.
    """
    if failures < 1:
        raise UsageError(f"cannot tolerate {failures} failures: k must be 1 or more")
    if recovery <= 0:
        raise UsageError("a recovery bound must be longer than 0s")
    required = np.zeros(topology.size, bool)
    required[[topology.index(task) for task in must]] = True
    required[topology.edges[topology.cuts, 0]] = True
    forbidden = np.zeros(topology.size, bool)
    forbidden[[topology.index(task) for task in must_not]] = True
    both = np.flatnonzero(required & forbidden)
    if len(both):
        task = topology.tasks[both[0]]
        fed = bool(np.any(topology.edges[topology.cuts, 0] == both[0]))
        why = "it feeds back into a cycle, which only a backup cuts" if fed else "it must also be one"
        raise PlanError(f"{task} must not be a backup, but {why}: drop one of the two")
    checked = Problem(topology, _bounds(topology, recovery, sinks or {}), required, forbidden, failures)
    _refuse_impossible(checked)
    return checked


def _bounds(topology: Topology, bound: Duration, sinks: Mapping[str, Duration]) -> np.ndarray:
    limit = np.full(topology.size, bound, np.int64)
    feeds = np.zeros(topology.size, bool)
    feeds[topology.edges[:, 0]] = True
    sink_bounds: dict[int, int] = {}
    for task, value in sinks.items():
        number = topology.index(task)
        if feeds[number]:
            raise UsageError(f"{task} has its own bound but is not a sink: it feeds other tasks")
        if not 0 < value <= bound:
            raise UsageError(
                f"the bound of sink {task} must be longer than 0s and at most {show_duration(bound)}, the common "
                f"bound, not {show_duration(value)}: raise the common bound and give the other sinks stricter ones"
            )
        sink_bounds[number] = value
    if sink_bounds:
        order = np.argsort(topology.edges[:, 1], kind="stable")
        sources = topology.edges[order, 0]
        start = np.searchsorted(topology.edges[order, 1], np.arange(topology.size + 1))
    # The strictest last: it overrides the others.
    for number in sorted(sink_bounds, key=sink_bounds.__getitem__, reverse=True):
        reached = np.array([number])
        while len(reached):
            limit[reached] = sink_bounds[number]
            before = np.unique(sources[rows(start, reached)])
            reached = before[limit[before] != sink_bounds[number]]
    return limit


def _refuse_impossible(problem: Problem) -> None:
    topology = problem.topology
    alone = np.flatnonzero(topology.latency > problem.bound)
    if len(alone):
        listed = ", ".join(
            f"{topology.tasks[task]} ({show_duration(Duration(int(topology.latency[task])))})" for task in alone[:8]
        ) + (f" and {len(alone) - 8} more" if len(alone) > 8 else "")
        need = show_duration(Duration(int(topology.latency.max())))
        raise PlanError(
            f"no plan recovers within {show_duration(Duration(int(problem.bound[alone].min())))}, because these tasks "
            f"need longer to reprocess their input: {listed}; the shortest bound that can be met is {need}"
        )
    latency = problem.latency(~problem.must_not)
    if np.any(latency == NEVER):
        cycle = thin_cycle(topology.size, topology.edges, ~problem.must_not, problem.failures)
        assert cycle is not None, "only a cycle makes recovery endless"
        named = " → ".join(topology.tasks[task] for task in (*cycle, cycle[0]))
        raise PlanError(
            f"no plan tolerates {problem.failures} simultaneous failures: the cycle {named} needs {problem.failures} "
            f"backups, and only {int((~problem.must_not[list(cycle)]).sum())} of its tasks may be one"
        )
    late = np.flatnonzero(latency > problem.bound)
    if len(late):
        task = int(late[np.argmax(latency[late] - problem.bound[late])])
        cause = (
            f"with {problem.failures} simultaneous failures, too few tasks before it can be backups"
            if problem.failures > 1
            else "tasks before it must not be backups"
        )
        allowed, taken = (show_duration(Duration(int(value[task]))) for value in (problem.bound, latency))
        raise PlanError(
            f"no plan recovers {topology.tasks[task]} within {allowed}: with a backup at every task that may be one "
            f"it still takes {taken}, because {cause}; allow more backups or raise the bound"
        )
