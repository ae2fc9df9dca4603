"""The result of `protect`: the objectives, the plan and its price, and what the proof of it showed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from riprap.base import files
from riprap.base.errors import UsageError
from riprap.base.tabular import Tabular
from riprap.faults.harm_ranks import HarmMetrics
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, write_plan
from riprap.graph.specs import Source
from riprap.planner.costs import Cost
from riprap.planner.measured import Measured
from riprap.planner.protection_problem import Line, Outcome, ProtectionProblem
from riprap.planner.recovery_times import recovery_time
from riprap.planner.sink_effects import AssessedEffects, SinkEffect
from riprap.planner.slo import Slo
from riprap.planner.technique_options import damage
from riprap.proof.kill_outcomes import Accuracy, ElementPrediction, KillOutcome, LineResult, outcome_json


@dataclass(frozen=True)
class Infeasible:
    """Lines that cannot all be met; and for each the nearest value that can, with its price (None: there is none)."""

    lines: tuple[Line, ...]
    nearest: Mapping[Line, tuple[int, int] | None]


@dataclass(frozen=True)
class ProtectionRound:
    """One plan and its proof."""

    plan: Plan
    outcome: Outcome
    predictions: Mapping[str, ElementPrediction]
    kills: tuple[KillOutcome, ...]
    lines: tuple[LineResult, ...]
    accuracy: Accuracy
    predicted_cost: Cost
    measured_cost: Cost

    @property
    def kept(self) -> bool:
        return all(line.kept for line in self.lines)


@dataclass(frozen=True)
class Protection(Tabular):
    """Prices are of an hour, in billionths."""

    graph: Graph
    slo: Slo
    measured: Measured
    effects: AssessedEffects
    rounds: tuple[ProtectionRound, ...]
    problem: ProtectionProblem
    speed: float
    seconds: float  # of a run of the proof
    running: int  # the price of the app without protection
    alternatives: Mapping[str, int | None]  # by name: the price of protecting every operator alike; None: not enough
    steps: tuple[tuple[int, int], ...]  # values of the strictest line, and the prices to reach them
    strictest: Line | None
    infeasible: Infeasible | None
    directory: Path
    worst: bool = False  # the plan guarantees the worst case, not the 95th percentile

    @property
    def last(self) -> ProtectionRound | None:
        return self.rounds[-1] if self.rounds else None

    @property
    def kept(self) -> bool:
        return self.infeasible is None and self.last is not None and self.last.kept

    @property
    def plan(self) -> Plan | None:
        return self.last.plan if self.last is not None else None

    @property
    def price(self) -> int | None:
        return self.last.outcome.price if self.last is not None else None

    @property
    def report(self) -> Path:
        return self.directory / "report.html"

    def unprotected(self, operator: str, level: int) -> tuple[int, Mapping[str, SinkEffect]]:
        """The outage of an unprotected failure in microseconds, and what it does to each sink."""
        time = recovery_time(self.measured, operator, None, replayed=False)
        outage = (time.low, time.middle, time.high)[level]
        replayed = isinstance(self.graph[operator], Source)
        sinks = sorted((self.graph.reachable(operator) | {operator}) & {sink.name for sink in self.graph.sinks})
        return outage, {
            sink: damage(
                self.graph, self.effects, operator, sink, interval=None, replayed=replayed, outage=outage,
                speed=self.speed, level=level,
            )
            for sink in sinks
        }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Each line of the objectives."""
        return [
            {
                "sink": line.line.sink, "line": line.line.name, "limit": line.limit, "predicted": line.predicted,
                "measured": line.measured, "kept": line.kept,
            }
            for line in (self.last.lines if self.last is not None else ())
        ]  # fmt: skip

    def save(self, path: Path | str) -> None:
        """The plan."""
        if self.plan is None:
            raise UsageError("there is no plan to save: the objectives cannot be met")
        files.write_text(files.real(path), write_plan(self.plan))

    def to_json(self) -> dict[str, Any]:
        last = self.last
        return {
            "app": self.graph.name,
            "kept": self.kept,
            "speed": self.speed,
            "guaranteed": "worst" if self.worst else "95%",
            "lines": self.rows(),
            "price": None if self.price is None else self.price / 1e9,
            "running": self.running / 1e9,
            "alternatives": {name: None if price is None else price / 1e9 for name, price in self.alternatives.items()},
            "techniques": {} if last is None else {
                name: chosen.option.describe() + (", backup" if chosen.backup else "")
                for name, chosen in last.outcome.chosen.items()
            },
            "ranks": {name: rank._asdict() for name, rank in self.effects.ranks.items()},
            "metrics": [_metrics_json(each) for each in self.effects.metrics],
            "rounds": len(self.rounds),
            "accuracy": None if last is None else asdict(last.accuracy),
            "cost": None if last is None else {
                "predicted": last.predicted_cost._asdict(), "measured": last.measured_cost._asdict(),
            },
            "cost_model_error": self.measured.error._asdict(),
            "kills": [outcome_json(one) for part in self.rounds for one in part.kills],
            "infeasible": None if self.infeasible is None else [
                {"sink": line.sink, "line": line.name, "nearest": None if value is None else value[0]}
                for line, value in self.infeasible.nearest.items()
            ],
            "report": str(self.report),
        }  # fmt: skip


def _metrics_json(one: HarmMetrics) -> dict[str, Any]:
    return asdict(one) | {"D": one.D if isfinite(one.D) else None, "rank": one.rank._asdict()}
