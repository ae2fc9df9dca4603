"""A finished plan of backups: what was asked, what was found, and what it means, ready to be shown."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.quantities import Duration, format_duration
from riprap.planner import algorithms
from riprap.planner.model import Effect, critical_path
from riprap.planner.problem import Problem, Solution
from riprap.planner.replan import Change, replan

PREDICTION = (
    "Recovery latencies are predictions of the failure-effect model: they assume that tasks without a backup "
    "recompute their output for those that failed behind them."
)


@dataclass(frozen=True, eq=False)
class BackupPlan:
    asked: Problem
    solution: Solution
    effect: Effect
    seconds: float  # time the planning took
    change: Change | None = None  # against an earlier plan, where one was given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.asked.topology.tasks[task] for task in np.flatnonzero(self.solution.backups))

    @property
    def critical(self) -> tuple[str, ...]:
        return tuple(self.asked.topology.tasks[task] for task in self.effect.critical)

    @property
    def cut_edges(self) -> list[tuple[str, str]]:
        topology = self.asked.topology
        return [(topology.tasks[a], topology.tasks[b]) for a, b in topology.edges[topology.cuts].tolist()]

    @property
    def counts(self) -> bool:
        """Whether the cost is a number of backups."""
        return bool(np.all(self.asked.topology.costs == 1))

    @property
    def verdict(self) -> str:
        """One sentence: how good the plan is."""
        solution = self.solution
        amount = f"{len(self.names)} of {self.asked.topology.size} tasks keep a backup"
        if not self.counts:
            amount += f", at a cost of {solution.cost:,}"
        if solution.optimal and self.cut_edges:
            return f"{amount}; proven: no plan that cuts the same streams and meets the bound is cheaper."
        if solution.optimal:
            return f"{amount}; proven: no plan that meets the bound is cheaper."
        return f"{amount}; no plan costs less than {solution.lower:,}, so at most {solution.gap:.1%} could be saved."

    def to_json(self) -> dict[str, Any]:
        topology, asked = self.asked.topology, self.asked
        bound = int(asked.bound.max())
        return {
            "topology": topology.name,
            "algorithm": self.solution.method,
            "failures": asked.failures,
            "recovery": format_duration(Duration(bound)),
            "worst": format_duration(Duration(self.effect.worst)),
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
                    "L": int(self.effect.latency[task]) / 1e6,
                    "bound": int(asked.bound[task]) / 1e6,
                    "cost": int(topology.costs[task]),
                    "backup": bool(self.solution.backups[task]),
                }
                for task, name in enumerate(topology.tasks)
            ],
        }


def row(case: str, recovery: float, solution: Solution, seconds: float, published: object = None) -> dict[str, Any]:
    """One line of a table of results, as every `--json` of the planner prints it. Times in seconds."""
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
    asked: Problem,
    *,
    algorithm: str = "exact",
    existing: tuple[str, ...] | None = None,
    time_limit: float = 10.0,
    clock: Clock = SYSTEM_CLOCK,
) -> BackupPlan:
    """`existing`: the backups of an earlier plan; then the new one changes as few of them as it can."""
    begun = clock.monotonic()
    change = None
    if existing is None:
        solution = algorithms.run(algorithm, asked, time_limit=time_limit, clock=clock)
    else:
        change = replan(asked, existing, time_limit=time_limit, clock=clock)
        solution = change.solution
    seconds = clock.monotonic() - begun
    return BackupPlan(asked, solution, _effect(asked, solution.backups), seconds, change)


def _effect(asked: Problem, backups: np.ndarray) -> Effect:
    """Latencies under the number of failures that was asked for; the critical path is that of one failure."""
    latency = asked.latency(backups)
    alone = asked.sweep.recovery(asked.topology.latency, backups)
    slowest = int(np.argmax(alone))
    return Effect(latency, int(latency.max()), critical_path(asked.topology, backups, alone, slowest), ())
