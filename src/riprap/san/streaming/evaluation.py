"""The published evaluation, run again: every table and figure of it as rows beside the published numbers.

The figures' curves are lost, so where only a statement survives ("availability rises with the input rate") the row
is that statement: 1 if it holds for our means, 0 if not. `bound` says how a published number is meant.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from riprap.san.replicate import Job, Replications, Runner, replicate
from riprap.san.statistics import Precision, estimate
from riprap.san.streaming.faults import Faults
from riprap.san.streaming.published import bargain_discovery
from riprap.san.streaming.scenario import (
    AVAILABILITY,
    WITHOUT_PROPAGATION,
    Protection,
    Scenario,
    delivered,
    tainted,
)

HOUR = 3600.0
RATES = (250.0, 350.0, 450.0, 550.0)
CRASH_RATES = (5.56e-4, 3.33e-4, 2.38e-4, 1.85e-4)
SDC_RATES = (1.52e-4, 1.39e-4)
RECOVERIES = (3.5, 15.0)
SINK = "Sink"

# Table 5.4: availability and tainted tuples after one forced crash of each operator.
VALIDATION = {
    "Source": (0.84533, 15506.32),
    "Filter 1": (0.84536, 15500.01),
    "Filter 2": (0.84533, 21752.34),
    "Aggregate": (0.83987, 22520.63),
    "Filter 3": (0.93676, 8898.29),
    "Filter 4": (0.95555, 0.0),
    "Join": (0.93599, 2753.54),
}

Bound = Literal["equal", "at most", "at least", "holds", ""]


@dataclass(frozen=True)
class Row:
    """One number beside the published one. `low` and `high`: our 95 % interval, where there is one."""

    table: str
    case: str
    metric: str
    published: float | None
    ours: float
    low: float | None = None
    high: float | None = None
    bound: Bound = ""


def checkpointing(rate: float, faults: Faults, horizon: float = 2 * HOUR) -> Scenario:
    """Configuration 1: both stateful operators checkpointed."""
    protections = (Protection("checkpoint", ("Aggregate", "Join")),)
    return Scenario(bargain_discovery(rate), protections, faults, horizon)


def ha_groups(rate: float, faults: Faults, horizon: float = 2 * HOUR) -> Scenario:
    """Configuration 2. The figure that shows the groups is lost; these are inferred."""
    protections = (
        Protection("checkpoint", ("Join",)),
        Protection("ha-group", ("Filter 2", "Aggregate", "Filter 3")),
        Protection("ha-group", ("Filter 4",)),
    )
    return Scenario(bargain_discovery(rate), protections, faults, horizon)


def full_replication(rate: float, faults: Faults, horizon: float = 2 * HOUR) -> Scenario:
    """Configuration 3."""
    application = bargain_discovery(rate)
    protections = (Protection("full-replication", tuple(application.by_name)),)
    return Scenario(application, protections, faults, horizon)


def forced_crash(operator: str) -> Scenario:
    """The validation run: 2,200 tuples/s, one crash, 16 s recovery, 360 s in all."""
    return checkpointing(2200.0, Faults(recovery=16.0, forced={operator: 100.0}), 360.0)


def evaluate(runner: Runner, replications: int = 1000, seed: int = 1) -> list[Row]:
    """Run everything, `replications` times each, and say how it compares."""
    scenarios: dict[tuple, Scenario] = {("validation", name): forced_crash(name) for name in VALIDATION}
    for technique, build in (("checkpoint", checkpointing), ("HA groups", ha_groups)):
        for rate in RATES:
            for recovery in RECOVERIES:
                scenarios[technique, rate, recovery, 1.85e-4] = build(rate, Faults(1.85e-4, recovery=recovery))
        for crash_rate in CRASH_RATES:
            scenarios[technique, 450.0, 3.5, crash_rate] = build(450.0, Faults(crash_rate, recovery=3.5))
    for rate in RATES:
        for sdc_rate in SDC_RATES:
            scenarios["full replication", rate, sdc_rate] = full_replication(rate, Faults(sdc_rate=sdc_rate))
        scenarios["full replication", rate, 0.0] = full_replication(rate, Faults())
        scenarios["fault-free", rate] = checkpointing(rate, Faults())
    jobs: list[Job] = [scenario.job(seed=seed) for scenario in scenarios.values()]
    results = dict(
        zip(scenarios, replicate(jobs, Precision(0.95, 1.0, replications, replications), runner), strict=True)
    )
    return [
        *_validation(results),
        *_rates(results),
        *_crash_rates(results),
        *_corruption(results),
        *_output_rate(results),
    ]


def _row(table: str, case: str, metric: str, published: float | None, values: np.ndarray, bound: Bound = "") -> Row:
    ours = estimate(values)
    return Row(table, case, metric, published, ours.mean, ours.low, ours.high, bound)


def _holds(table: str, case: str, true: bool) -> Row:
    return Row(table, case, "holds (1 = yes)", 1.0, float(true), None, None, "holds")


def _mean(result: Replications, name: str) -> float:
    return result.estimates[name].mean


def _validation(results: dict[tuple, Replications]) -> list[Row]:
    rows = []
    for name, (availability, count) in VALIDATION.items():
        result = results["validation", name]
        rows.append(_row("validation", name, "availability", availability, result.column(AVAILABILITY), "equal"))
        rows.append(_row("validation", name, "tainted tuples", count, result.column(tainted(SINK)), "equal"))
    return rows


def _rates(results: dict[tuple, Replications]) -> list[Row]:
    """Figure 5.12, at crash rate 1.85E-4."""
    table, rows = "input rate", []
    rising: dict[str, bool] = {}

    def steps(values: Sequence[float]) -> bool:
        return all(first < second for first, second in itertools.pairwise(values))

    for technique in ("checkpoint", "HA groups"):
        for recovery in RECOVERIES:
            points = [results[technique, rate, recovery, 1.85e-4] for rate in RATES]
            shares = []
            for rate, point in zip(RATES, points, strict=True):
                case = f"{technique}, recovery {recovery:g} s, {rate:g} tuples/s"
                share = point.column(tainted(SINK)) / _mean(results["fault-free", rate], delivered(SINK))
                shares.append(float(share.mean()))
                rows += [
                    _row(table, case, "availability", None, point.column(AVAILABILITY)),
                    _row(table, case, "tainted tuples", None, point.column(tainted(SINK))),
                    _row(table, case, "share of fault-free output", None, share),
                ]
            case = f"{technique}, recovery {recovery:g} s"
            rising[f"{case}: availability rises with the input rate"] = steps([_mean(p, AVAILABILITY) for p in points])
            rising[f"{case}: tainted tuples rise with it"] = steps([_mean(p, tainted(SINK)) for p in points])
            rising[f"{case}: their share falls"] = steps([-share for share in shares])
    rows += [_holds(table, case, true) for case, true in rising.items()]
    for other in (15.0, 3.5):
        fewer = all(
            _mean(results["HA groups", rate, 15.0, 1.85e-4], tainted(SINK))
            < _mean(results["checkpoint", rate, other, 1.85e-4], tainted(SINK))
            for rate in RATES
        )
        rows.append(
            _holds(
                table,
                f"HA groups at 15 s give fewer tainted tuples than checkpoints at {other:g} s, at every rate",
                fewer,
            )
        )
    return rows


def _crash_rates(results: dict[tuple, Replications]) -> list[Row]:
    """Figure 5.13, at 450 tuples/s and 3.5 s."""
    table, rows = "crash rate", []
    largest = []
    for crash_rate in CRASH_RATES:
        points = {name: results[name, 450.0, 3.5, crash_rate] for name in ("checkpoint", "HA groups")}
        for name, point in points.items():
            case = f"{name}, {crash_rate:.2E}/s"
            rows += [
                _row(table, case, "availability", None, point.column(AVAILABILITY)),
                _row(table, case, "availability ignoring propagation", None, point.column(WITHOUT_PROPAGATION)),
                _row(table, case, "tainted tuples", None, point.column(tainted(SINK))),
            ]
        largest.append(abs(_mean(points["HA groups"], AVAILABILITY) - _mean(points["checkpoint"], AVAILABILITY)))
    rows.append(
        Row(
            table,
            "checkpoint against HA groups",
            "largest difference in availability",
            0.009,
            max(largest),
            bound="at most",
        )
    )
    worst = [results[name, 450.0, 3.5, 5.56e-4] for name in ("HA groups", "checkpoint")]
    ratio = _mean(worst[0], tainted(SINK)) / _mean(worst[1], tainted(SINK))
    rows.append(
        Row(table, "HA groups over checkpoint, 5.56E-04/s", "ratio of tainted tuples", 0.5, ratio, bound="equal")
    )
    over = all(
        _mean(results[name, 450.0, 3.5, rate], WITHOUT_PROPAGATION)
        > _mean(results[name, 450.0, 3.5, rate], AVAILABILITY)
        for name in ("checkpoint", "HA groups")
        for rate in CRASH_RATES
    )
    falls = all(
        _mean(results[name, 450.0, 3.5, high], AVAILABILITY) < _mean(results[name, 450.0, 3.5, low], AVAILABILITY)
        for name in ("checkpoint", "HA groups")
        for high, low in itertools.pairwise(CRASH_RATES)
    )
    return [
        *rows,
        _holds(table, "ignoring propagation overestimates availability", over),
        _holds(table, "availability falls as the crash rate rises", falls),
    ]


def _corruption(results: dict[tuple, Replications]) -> list[Row]:
    """Figure 5.14 and section 5.6.5."""
    table, rows = "silent corruption", []
    for sdc_rate in SDC_RATES:
        for rate in RATES:
            result, free = results["full replication", rate, sdc_rate], results["full replication", rate, 0.0]
            case = f"{sdc_rate:.2E}/s, {rate:g} tuples/s"
            # Replication r of both runs is independent of the other, so the difference is taken row by row.
            more = result.column(delivered(SINK)) - free.column(delivered(SINK))
            rows += [
                _row(table, case, "availability", None, result.column(AVAILABILITY)),
                _row(table, case, "tainted tuples", 300.0, result.column(tainted(SINK)), "at most"),
                _row(table, case, "tuples beyond the fault-free run", 0.0, more, "at least"),
            ]
    return rows


def _output_rate(results: dict[tuple, Replications]) -> list[Row]:
    """Section 5.7: the steady rate at the sink, 65.78 tuples/s in the published model."""
    rate = results["fault-free", 450.0].column(delivered(SINK)) / (2 * HOUR)
    return [_row("output rate", "450 tuples/s", "tuples/s at the sink", 65.78, rate, "equal")]
