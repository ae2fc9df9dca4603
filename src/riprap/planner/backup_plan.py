"""A finished plan of backups: the problem, the solution and its effect, ready to be displayed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.quantities import Duration, format_duration, show_duration
from riprap.planner import algorithms
from riprap.planner.cyclic_graphs import thin_cycle
from riprap.planner.failure_effect import NEVER, FailureCost, effect
from riprap.planner.problem import Problem, Solution
from riprap.planner.replan import Change, replan

PREDICTION = "Recovery latencies are predictions of the failure-effect model; `riprap prove` checks them by real kills."

GIVEN = "given"  # instead of an algorithm: the user chose the backups


@dataclass(frozen=True, eq=False)
class BackupPlan:
    problem: Problem
    solution: Solution
    effect: FailureCost
    seconds: float  # planning time
    change: Change | None = None  # from an earlier plan, if one was given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.problem.topology.tasks[task] for task in np.flatnonzero(self.solution.backups))

    @property
    def critical(self) -> tuple[str, ...]:
        return tuple(self.problem.topology.tasks[task] for task in self.effect.critical)

    @property
    def worst(self) -> str:
        """The longest recovery, formatted."""
        return _shown(self.effect.worst)

    def recovery_of(self, task: int) -> str:
        return _shown(int(self.effect.latency[task]))

    @property
    def cut_edges(self) -> list[tuple[str, str]]:
        topology = self.problem.topology
        return [(topology.tasks[a], topology.tasks[b]) for a, b in topology.edges[topology.cuts].tolist()]

    @property
    def counts(self) -> bool:
        """Whether the cost is the number of backups."""
        return bool(np.all(self.problem.topology.costs == 1))

    @property
    def verdict(self) -> str:
        """One sentence: how good the plan is."""
        solution = self.solution
        amount = f"{len(self.names)} of {self.problem.topology.size} tasks are backups"
        if not self.counts:
            amount += f", at a cost of {solution.cost:,}"
        if solution.method == GIVEN:
            return f"{amount}; that {'meets' if self.problem.is_met(solution.backups) else 'does not meet'} the bound."
        if solution.optimal and self.cut_edges:
            return f"{amount}; proven: no plan that cuts the same streams and meets the bound is cheaper."
        if solution.optimal:
            return f"{amount}; proven: no plan that meets the bound is cheaper."
        return f"{amount}; no plan costs less than {solution.lower:,}, so at most {solution.gap:.1%} could be saved."

    @property
    def shortfall(self) -> str | None:
        """The worst violation of the plan, in one sentence that starts with the task; None if it meets everything."""
        topology, latency, problem = self.problem.topology, self.effect.latency, self.problem
        cycle = thin_cycle(topology.size, topology.edges, self.solution.backups, problem.failures)
        if cycle is not None:
            named = " → ".join(topology.tasks[task] for task in (*cycle, cycle[0]))
            count = int(self.solution.backups[list(cycle)].sum())
            slow = topology.tasks[cycle[0]]
            return f"{slow} never recovers: the cycle {named} has {count} of {problem.failures} backups"
        task = int(np.argmax(latency - problem.bound))
        if latency[task] > problem.bound[task]:
            took, allowed = (show_duration(Duration(int(value[task]))) for value in (latency, problem.bound))
            return f"{topology.tasks[task]} takes {took} of {allowed}"
        lacking = np.flatnonzero(problem.must & ~self.solution.backups)
        if len(lacking):
            fed = lacking[0] in topology.edges[topology.cuts, 0]
            why = "feeds a feedback stream" if fed else "must be one"
            return f"{topology.tasks[lacking[0]]} is not a backup but {why}"
        surplus = np.flatnonzero(problem.must_not & self.solution.backups)
        return f"{topology.tasks[surplus[0]]} is a backup but must not be one" if len(surplus) else None

    def to_json(self) -> dict[str, Any]:
        topology, problem = self.problem.topology, self.problem
        bound = int(problem.bound.max())
        return {
            "topology": topology.name,
            "algorithm": self.solution.method,
            "failures": problem.failures,
            "recovery": format_duration(Duration(bound)),
            "worst": None if self.effect.worst >= NEVER else format_duration(Duration(self.effect.worst)),
            "backups": list(self.names),
            "cost": self.solution.cost,
            "lower": self.solution.lower,
            "critical_path": list(self.critical),
            "cuts": [list(edge) for edge in self.cut_edges],
            "changed": None
            if self.change is None
            else {"added": list(self.change.added), "removed": list(self.change.removed)},
            "prediction": PREDICTION,
            "rows": [row(topology.name, bound / 1e6, self.solution, self.seconds)],
            "tasks": [
                {
                    "name": name,
                    "T": int(topology.latency[task]) / 1e6,
                    "L": None if self.effect.latency[task] >= NEVER else int(self.effect.latency[task]) / 1e6,
                    "bound": int(problem.bound[task]) / 1e6,
                    "cost": int(topology.costs[task]),
                    "backup": bool(self.solution.backups[task]),
                }
                for task, name in enumerate(topology.tasks)
            ],
        }


def _shown(latency: int) -> str:
    return "never" if latency >= NEVER else show_duration(Duration(latency))


def row(case: str, recovery: float, solution: Solution, seconds: float, published: object = None) -> dict[str, Any]:
    """One row of the results that every `--json` of the planner prints. Times in seconds."""
    return {
        "case": case,
        "R": recovery,
        "backups": int(solution.backups.sum()),
        "optimal": solution.optimal,
        "gap": round(solution.gap, 6),
        "seconds": round(seconds, 6),
        "published": published,
    }


def plan_backups(
    problem: Problem,
    *,
    algorithm: str = "exact",
    existing: tuple[str, ...] | None = None,
    time_limit: float = 10.0,
    clock: Clock = SYSTEM_CLOCK,
) -> BackupPlan:
    """`existing`: the backups of an earlier plan, which the new plan changes as little as possible."""
    started = clock.monotonic()
    change = None
    if existing is None:
        solution = algorithms.run(algorithm, problem, time_limit=time_limit, clock=clock)
    else:
        change = replan(problem, existing, time_limit=time_limit, clock=clock)
        solution = change.solution
    seconds = clock.monotonic() - started
    return BackupPlan(problem, solution, effect(problem.topology, solution.backups, problem.failures), seconds, change)


def given_backups(problem: Problem, names: Iterable[str]) -> BackupPlan:
    """The effect of backups that the user chose. They need not meet the bounds."""
    topology = problem.topology
    backups = np.zeros(topology.size, bool)
    backups[[topology.index(name) for name in names]] = True
    costs = topology.costs
    solution = Solution(backups, int(costs[backups].sum()), int(costs[problem.must].sum()), GIVEN)
    return BackupPlan(problem, solution, effect(problem.topology, backups, problem.failures), 0.0)
