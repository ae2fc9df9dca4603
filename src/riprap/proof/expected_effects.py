"""Predicts a fault's effect on the output from an assessment and the model, before anything is killed.

A kill of an element that loses nothing, because it replays its input, leaves the output right: quality 1. For any other
element the metrics of its operators are looked up in the assessment, for the outage of a restart and for the age of the
restored state: that of a checkpoint at its oldest, or none. The model crashes the same operators at once and counts
tainted tuples and the time until everything has recovered.

Nothing is measured here, and what an assessment does not cover stays unknown.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.planner.assessment_file import LOST, AssessedApp, ByOutage, interpolated
from riprap.proof.effects import FaultEffect
from riprap.proof.fault_kinds import KINDS
from riprap.proof.prediction import rank_correlation
from riprap.proof.schedule import ScheduledFault
from riprap.san.streaming.application import Application
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import AVAILABILITY, ModelProtection, ModelScenario, tainted

_BEFORE = 1.0  # seconds of the model before a crash
_RUNS = 100

# Operators that crash together, seconds of the outage, seconds of the horizon → tainted tuples, availability.
Modelled = Callable[[tuple[str, ...], float, float], tuple[float, float]]


def effect_predictor(
    graph: Graph,
    members: Mapping[str, tuple[str, ...]],
    lossless: Collection[str],
    assessment: AssessedApp,
    modelled: Modelled,
    *,
    restart: float | None,
    recovery: Mapping[str, float | None],
) -> Callable[[ScheduledFault, float], FaultEffect | None]:
    """Returns a function of a fault and the seconds until the next one. None: the fault kills nothing.

    `members`: the operators of each element. `lossless`: elements whose kill loses nothing. `restart`: seconds until
    the process has restarted. `recovery`: by element, seconds until it has caught up after that.
    """
    outage = restart if restart is not None else assessment.settings.restart / 1e6

    def effect(fault: ScheduledFault, seconds: float) -> FaultEffect | None:
        if not KINDS[fault.kind].fatal or not fault.targets:
            return None
        losing = [pe for pe in fault.targets if pe not in lossless]
        if not losing:
            longest = outage + max(recovery.get(pe) or 0.0 for pe in fault.targets)
            return FaultEffect(1.0, 0.0, 0.0, 0.0, max(0.0, 1.0 - longest / seconds), 0.0)
        operators = tuple(name for pe in losing for name in members[pe] if graph[name].kind != "sink")
        rows = [assessed(graph, name, assessment, Duration(round(outage * 1e6))) for name in operators]
        wrong, available = modelled(operators, outage, seconds) if operators else (None, None)
        worst = max(rows, key=lambda row: row.impact or 0.0, default=FaultEffect())
        return FaultEffect(worst.quality, worst.recovery, worst.impact, wrong, available)

    return effect


def assessed(graph: Graph, operator: str, assessment: AssessedApp, outage: Duration) -> FaultEffect:
    """The assessed effect of one outage of an operator; empty if the operator was not assessed."""
    metrics = assessment.operators.get(operator)
    if metrics is None:
        return FaultEffect()
    every = graph[operator].annotations.checkpoint_every
    age = every if every is not None else LOST if any(graph[operator].stateful) else Duration(0)

    def of(rows: ByOutage, without: float) -> float | None:
        return interpolated(rows, outage, age, without=without) if rows else None

    return FaultEffect(of(metrics.quality, 1.0), of(metrics.recovery, 0.0), of(metrics.impact, 0.0))


def model_of(application: Application, graph: Graph, seed: int) -> Modelled:
    """The accelerated model of an app, for one crash at a time; results are cached."""
    saved = tuple(spec.name for spec in graph.operators if spec.annotations.checkpoint_every and any(spec.stateful))
    known: dict[tuple[tuple[str, ...], float, float], tuple[float, float]] = {}

    def modelled(operators: tuple[str, ...], outage: float, seconds: float) -> tuple[float, float]:
        key = operators, round(outage, 3), float(round(seconds))
        if key not in known:
            ages = {name: graph[name].annotations.checkpoint_every or Duration(0) for name in saved}
            protections = tuple(
                ModelProtection("checkpoint", (name,), {"age": age / 1e6}) for name, age in ages.items()
            )
            faults = Faults(recovery=outage, forced=dict.fromkeys(operators, _BEFORE))
            horizon = _BEFORE + max(key[2], 1.0)
            job = ModelScenario(application, protections, faults, horizon).job(seed=seed)
            means = dict(zip(job.names, np.asarray(job.rows(0, _RUNS)).mean(axis=0).tolist(), strict=True))
            down = (1.0 - means[AVAILABILITY]) * horizon / (horizon - _BEFORE)
            known[key] = sum(means[tainted(sink)] for sink in application.sinks), max(0.0, 1.0 - down)
        return known[key]

    return modelled


# By title: the origin and the name of the measure on either side.
_ORDERS = {
    "R: assessment, kills": (("predicted", "recovery"), ("measured", "recovery")),
    "I: assessment, kills": (("predicted", "impact"), ("measured", "impact")),
    "tainted tuples of the model, rows wrong or lost by kills": (("predicted", "tainted"), ("measured", "harmed")),
    "availability: model, kills": (("predicted", "availability"), ("measured", "availability")),
    "tainted tuples of the model, I of the assessment": (("predicted", "tainted"), ("predicted", "impact")),
}


def orders(rows: Sequence[tuple[str, FaultEffect | None, FaultEffect | None]]) -> dict[str, float | None]:
    """Whether both sides rank the elements equally: Spearman's correlation over elements' medians; None: unknown.

    `rows`: for each fault its target, its predicted and its measured effect.
    """
    correlations = {}
    for title, (one, other) in _ORDERS.items():
        left, right = list[float](), list[float]()
        for name in sorted({name for name, _, _ in rows}):
            effects = [{"predicted": before, "measured": after} for hit, before, after in rows if hit == name]
            pairs = [(_value(effect[one[0]], one[1]), _value(effect[other[0]], other[1])) for effect in effects]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            if known:
                left.append(float(np.median([a for a, _ in known])))
                right.append(float(np.median([b for _, b in known])))
        correlations[title] = rank_correlation(left, right)
    return correlations


def _value(effect: FaultEffect | None, measure: str) -> float | None:
    if effect is None:
        return None
    if measure == "harmed":
        return None if effect.tainted is None or effect.lost is None else effect.tainted + effect.lost
    return getattr(effect, measure)  # type: ignore[no-any-return]
