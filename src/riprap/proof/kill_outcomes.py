"""What the kills of a proof did, what was predicted of them, and which lines of the objectives they kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from riprap.graph.graph import Graph
from riprap.planner.measured import Measured
from riprap.planner.protection_problem import CaseKey, FailureCase, Line, Outcome, ProtectionProblem, kept
from riprap.planner.recovery_times import RecoveryTime, recovery_time
from riprap.planner.sink_effects import NOTHING_WRONG, AssessedEffects, SinkEffect
from riprap.planner.technique_options import DEFAULT_INTERVAL, damage


@dataclass(frozen=True)
class KillOutcome:
    operator: str
    late: bool
    recovery: float | None  # seconds until the element was running again; None: it never was, or was not killed
    detection: float = 0.0
    restart: float = 0.0
    restore: float = 0.0
    catch_up: float = 0.0
    damage: Mapping[str, SinkEffect] = field(default_factory=dict)  # by sink
    watched: float = 0.0  # seconds of event time until the next kill, or the end
    missed: str = ""  # why it was not injected


def outcome_json(one: KillOutcome) -> dict[str, Any]:
    return asdict(one) | {"damage": {sink: list(effect) for sink, effect in one.damage.items()}}


@dataclass(frozen=True)
class ElementPrediction:
    """What the failure of an element does under a plan: of each number the 5th, 50th and 95th percentile."""

    operator: str
    recovery: RecoveryTime
    damage: Mapping[str, tuple[SinkEffect, SinkEffect, SinkEffect]]  # by sink


def predicted(
    graph: Graph, measured: Measured, effects: AssessedEffects, outcome: Outcome, speed: float
) -> dict[str, ElementPrediction]:
    found = {}
    for name, (option, _) in outcome.chosen.items():
        replayed = all(outcome.chosen[before].backup for before in graph.upstream(name))
        interval = option.interval or (DEFAULT_INTERVAL if replayed else None)
        time = recovery_time(measured, name, interval, replayed=replayed, speed=speed)
        sinks = sorted((graph.reachable(name) | {name}) & {sink.name for sink in graph.sinks})
        hurt = {}
        for sink in sinks:
            levels = [
                damage(
                    graph, effects, name, sink, interval=option.interval, replayed=replayed, outage=outage,
                    speed=speed, level=level,
                )
                for level, outage in enumerate((time.low, time.middle, time.high))
            ]  # fmt: skip
            hurt[sink] = (levels[0], levels[1], levels[2])
        found[name] = ElementPrediction(name, time, hurt)
    return found


# Against the objectives ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineResult:
    """One line of the objectives after a proof. `predicted`, `measured`: the worst; None: not measured."""

    line: Line
    limit: int
    predicted: int
    measured: int | None
    operator: str  # whose failure was the worst one

    @property
    def kept(self) -> bool:
        return self.measured is None or kept(self.line, self.measured, self.limit)


def line_results(
    graph: Graph, problem: ProtectionProblem, outcome: Outcome, outcomes: Sequence[KillOutcome]
) -> list[LineResult]:
    found = []
    for line, limit in problem.lines.items():
        each = [(measured_value(graph, line, one), one.operator) for one in outcomes]
        values = [(value, name) for value, name in each if value is not None]
        least = line.name in ("score_at_least", "exactly_once")
        worst = (min if least else max)(values, default=None)
        found.append(
            LineResult(line, limit, outcome.values[line][0], worst[0] if worst else None, worst[1] if worst else "")
        )
    return found


def measured_value(graph: Graph, line: Line, one: KillOutcome) -> int | None:
    """What a kill did to a line; None: it cannot have, or it was not injected."""
    if one.recovery is None or line.sink not in graph.reachable(one.operator):
        return None
    effect = one.damage.get(line.sink, NOTHING_WRONG)
    values = {
        "recovery": round(one.recovery * 1e6),
        "wrong": effect.wrong,
        "wrong_for": effect.wrong_for,
        "score_at_least": effect.score,
        "exactly_once": int(effect == NOTHING_WRONG),
    }
    return values.get(line.name)


def worse_cases(
    graph: Graph, problem: ProtectionProblem, outcome: Outcome, outcomes: Sequence[KillOutcome]
) -> dict[CaseKey, FailureCase]:
    """The cases of operators whose kill broke a line, as they were measured."""
    found: dict[CaseKey, FailureCase] = {}
    for name, (option, backup) in outcome.chosen.items():
        own = [one for one in outcomes if one.operator == name and one.recovery is not None]
        lines = problem.lines.items()
        values = [(line, limit, measured_value(graph, line, one)) for line, limit in lines for one in own]
        if not any(value is not None and not kept(line, value, limit) for line, limit, value in values):
            continue
        times = [round((one.recovery or 0.0) * 1e6) for one in own]
        sinks = {sink for one in own for sink in one.damage}
        effects = {
            sink: SinkEffect(*(
                pick(getattr(one.damage.get(sink, NOTHING_WRONG), part) for one in own)
                for pick, part in ((max, "wrong"), (max, "wrong_for"), (min, "score"))
            ))
            for sink in sinks
        }  # fmt: skip
        replayed = all(outcome.chosen[before].backup for before in graph.upstream(name))
        case = FailureCase(max(times), round(median(times)), effects, not effects)
        found[name, option.technique, option.interval, replayed, backup] = case
    return found


# Predicted against measured ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accuracy:
    """How well the predictions held. Shares are from 0 to 1; None: there was nothing to compare."""

    kills: int
    recoveries_within: float | None  # the 90 % interval
    median_ratio: float | None  # predicted median ÷ measured
    damage_within: float | None  # rows wrong of kills whose damage is predicted


def accuracy(predictions: Mapping[str, ElementPrediction], outcomes: Sequence[KillOutcome]) -> Accuracy:
    back = [one for one in outcomes if one.recovery is not None]
    inside, ratios, harmed = [], [], []
    for one in back:
        times = predictions[one.operator].recovery
        taken = (one.recovery or 0.0) * 1e6
        inside.append(times.low <= taken <= times.high)
        ratios.append(times.middle / max(taken, 1.0))
        for sink, levels in predictions[one.operator].damage.items():
            if levels[2].wrong:
                wrong = one.damage.get(sink, NOTHING_WRONG).wrong
                harmed.append(wrong <= levels[2].wrong)
    return Accuracy(len(back), _share(inside), median(ratios) if ratios else None, _share(harmed))


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
