"""The file of an assessment: the impact of a failure of each operator, and the operator's use of resources.

A directory with `assessment.json`:

    {"app": "bargain-discovery",
     "operators": {
       "Aggregator": {
         "failures_per_day": 0.2,
         "impact": [{"outage": "0.5s", "state_age": "0s", "impact": 0.8, "quality": 0.98, "recovery": 2},
                    {"outage": "4s",   "state_age": "0s", "impact": 6.1},
                    {"outage": "4s",   "state_age": "lost", "impact": 24.1},
                    {"outage": "0.5s", "state_age": "0s", "impact": 0.1, "lost_at": "outputs"}],
         "cpu": 0.4,                  cores that the operator uses
         "memory": 8000000,           bytes that it uses
         "state": 2000000,            bytes of a checkpoint
         "output": 150000}},          bytes/s that it emits
     "unassessed": {"Table": "no tuple of this stream reaches Table"},
     "settings": {"restart": "0.5s", "failover": "0.1s", "read": 200e6,
                  "intervals": ["1s", "10s"], "replicas": 2}}

`impact` is the quality impact of one failure with that outage and that age of the state afterwards ("0s": current;
"lost": empty). Between rows it is interpolated: linearly in the outage for each age, then linearly in the age.
Beyond the longest outage or age it is constant. Without rows for lost state, the oldest age is used instead.
An outage of 0 with current state is no failure: impact 0. `quality` and `recovery` (in sections of the output) of
the same failure are optional and interpolated in the same way. `lost_at`: only what the operator would have emitted
is lost, as when a replica takes over; without such rows a fail-over counts as an outage with current state. All
settings have defaults; `write_per_core` is accepted and ignored. `unassessed` lists the other operators, each with
the reason: a plan for a budget restarts them.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from riprap.base import files
from riprap.base.documents import read_json, shortened
from riprap.base.errors import DataError, UsageError
from riprap.base.quantities import Duration, parse_duration
from riprap.graph.annotations import MOST_REPLICAS
from riprap.planner.costs import OperatorCosts
from riprap.planner.json_input import LARGEST, as_object

LOST = Duration(-1)  # in place of an age: the state is lost

_RESTART, _FAILOVER = Duration(500_000), Duration(100_000)
_INTERVALS = tuple(Duration(value) for value in (500_000, 1_000_000, 5_000_000, 30_000_000))


@dataclass(frozen=True)
class RecoveryTimes:
    """Times of recovery and the choices of a plan. Durations in microseconds."""

    restart: Duration = _RESTART  # until a failed operator runs again
    failover: Duration = _FAILOVER  # until another replica is active
    read: float = 200e6  # bytes/s at which a checkpoint is read
    intervals: tuple[Duration, ...] = _INTERVALS  # checkpoint intervals to choose from
    replicas: int = 2  # of an HA group


Rows = tuple[tuple[Duration, float], ...]  # outage, measured value; outages ascending
ByOutage = Mapping[Duration, Rows]  # by age of the state, or LOST


@dataclass(frozen=True)
class OperatorImpact:
    failures_per_day: float
    impact: ByOutage
    cpu: float = 0.0  # cores
    memory: float = 0.0  # bytes
    state: float = 0.0  # bytes
    output: float = 0.0  # bytes/s
    quality: ByOutage = field(default_factory=dict)  # score over golden score; empty: unknown
    recovery: ByOutage = field(default_factory=dict)  # sections until the output is correct again; empty: unknown
    failed_over: Rows = ()  # impact of losing its outputs; empty: unknown

    def failover_impact(self, outage: Duration) -> float:
        """Quality impact of one fail-over that loses what the operator would have emitted in this time."""
        if not self.failed_over:
            return self.quality_impact(outage, Duration(0))
        return _along(((Duration(0), 0.0), *self.failed_over), outage)

    def quality_impact(self, outage: Duration, age: Duration) -> float:
        """Quality impact of one failure with this effective outage and this age of the state."""
        return interpolated(self.impact, outage, age, without=0.0)


def interpolated(measured: ByOutage, outage: Duration, age: Duration, *, without: float) -> float:
    """The value for one failure, from measured ones; `without`: the value without a failure."""
    ages = sorted(known_age for known_age in measured if known_age != LOST)
    if age == LOST:
        return _along(measured[LOST] if LOST in measured else measured[ages[-1]], outage)
    if not ages:
        return _along(measured[LOST], outage)

    def at(known_age: Duration) -> float:
        rows = measured[known_age]
        if known_age == 0 and rows[0][0] > 0:
            rows = ((Duration(0), without), *rows)  # no input missed, no state lost
        return _along(rows, outage)

    if age in measured:
        return at(age)
    after = bisect_left(ages, age)
    if after in (0, len(ages)):
        return at(ages[0 if after == 0 else -1])
    low, high = ages[after - 1], ages[after]
    share = (age - low) / (high - low)
    return (1 - share) * at(low) + share * at(high)


def _along(rows: Sequence[tuple[Duration, float]], outage: Duration) -> float:
    """Piecewise linear through `rows`, constant beyond both ends."""
    after = bisect_left([row[0] for row in rows], outage)
    if after == 0:
        return rows[0][1]
    if after == len(rows):
        return rows[-1][1]
    (x0, y0), (x1, y1) = rows[after - 1], rows[after]
    return y0 + (y1 - y0) * (outage - x0) / (x1 - x0)


@dataclass(frozen=True)
class AssessedApp:
    app: str
    operators: Mapping[str, OperatorImpact]
    settings: RecoveryTimes = field(default_factory=RecoveryTimes)
    costs: Mapping[str, OperatorCosts] = field(default_factory=dict)  # measured
    unassessed: Mapping[str, str] = field(default_factory=dict)  # operators that were not assessed, and why


def read_assessment(directory: Path) -> AssessedApp:
    named = directory / "assessment.json" if directory.is_dir() else directory
    path, where = files.real(named.parent) / named.name, str(named)
    if not files.exists(path):
        raise DataError(f"no assessment at {named}: give the directory that `riprap assess` wrote")
    top = as_object(read_json(path, own=True), where, ("app", "operators", "unassessed", "settings"))
    operators, unassessed = top.get("operators"), as_object(top.get("unassessed", {}), f"{where}: unassessed")
    if not isinstance(top.get("app"), str) or not isinstance(operators, dict) or not operators:
        raise DataError(f'{where} is not an assessment: expected {{"app": NAME, "operators": {{NAME: …}}}}')
    return AssessedApp(
        top["app"],
        {name: _operator(entry, f"{where}: {name}") for name, entry in operators.items()},
        _settings(top.get("settings", {}), f"{where}: settings"),
        unassessed={name: str(reason) for name, reason in unassessed.items()},
    )


def merged_assessment(parts: Sequence[AssessedApp]) -> AssessedApp:
    """Merges assessments of one app with different ages of the state."""
    first = parts[0]
    operators, unassessed = dict(first.operators), dict(first.unassessed)
    for part in parts[1:]:
        if part.app != first.app:
            raise DataError(f"one assessment is of app {first.app}, another of {part.app}: give assessments of one app")
        unassessed |= part.unassessed
        for name, entry in part.operators.items():
            known = operators.get(name, entry)
            operators[name] = replace(
                known,
                impact={**entry.impact, **known.impact},
                quality={**entry.quality, **known.quality},
                recovery={**entry.recovery, **known.recovery},
                failed_over=known.failed_over or entry.failed_over,
            )
    unknown = {name: reason for name, reason in unassessed.items() if name not in operators}
    return replace(first, operators=operators, unassessed=unknown)


def _operator(entry: Any, where: str) -> OperatorImpact:
    table = as_object(entry, where, ("failures_per_day", "impact", "cpu", "memory", "state", "output"))
    rows = table.get("impact")
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{where}: impact must list at least one outage with its state age and impact")
    by_age: dict[str, dict[Duration, dict[Duration, float]]] = {"impact": {}, "quality": {}, "recovery": {}}
    failed_over: dict[Duration, float] = {}
    for row in rows:
        parts = as_object(row, where, ("outage", "state_age", "lost_at", *by_age))
        if parts.get("lost_at", "inputs") not in ("inputs", "outputs"):
            raise DataError(f"{where}: lost_at must be inputs or outputs, got {shortened(parts['lost_at'])}")
        if parts.get("lost_at") == "outputs":
            failed_over[_duration(parts.get("outage"), where)] = _number(parts.get("impact"), f"{where}: impact")
            continue
        age = LOST if parts.get("state_age") == "lost" else _duration(parts.get("state_age", "0s"), where)
        outage = _duration(parts.get("outage"), where)
        if outage in by_age["impact"].get(age, {}):
            raise DataError(f"{where}: the same outage and state age is listed twice")
        for metric, values in by_age.items():
            if metric == "impact" or metric in parts:
                values.setdefault(age, {})[outage] = _number(parts.get(metric), f"{where}: {metric}")
    if not by_age["impact"]:
        raise DataError(f"{where}: impact must list at least one outage in which its inputs are lost")
    impact, quality, recovery = (
        {age: tuple(sorted(values.items())) for age, values in metric.items()} for metric in by_age.values()
    )
    cpu, memory, state, output = (
        _number(table.get(key, 0), f"{where}: {key}") for key in ("cpu", "memory", "state", "output")
    )
    failures = _number(table.get("failures_per_day"), f"{where}: failures_per_day")
    rows_over = tuple(sorted(failed_over.items()))
    return OperatorImpact(failures, impact, cpu, memory, state, output, quality, recovery, rows_over)


def _settings(entry: Any, where: str) -> RecoveryTimes:
    keys = ("restart", "failover", "read", "write_per_core", "intervals", "replicas")
    table = as_object(entry, where, keys)
    values: dict[str, Any] = {}
    for key in ("restart", "failover"):
        if key in table:
            values[key] = _duration(table[key], f"{where}: {key}")
    for key in ("read", "write_per_core"):
        if key in table:
            rate = _number(table[key], f"{where}: {key}")
            if not rate:
                raise DataError(f"{where}: {key} must be above 0 bytes/s")
            if key == "read":
                values[key] = rate
    if "intervals" in table:
        if not isinstance(table["intervals"], list):
            raise DataError(f'{where}: intervals must be a list such as ["1s", "10s"]')
        values["intervals"] = tuple(sorted({_duration(item, f"{where}: intervals") for item in table["intervals"]}))
        if 0 in values["intervals"]:
            raise DataError(f"{where}: an interval between checkpoints must be longer than 0s")
    if "replicas" in table:
        values["replicas"] = table["replicas"]
        if type(values["replicas"]) is not int or not 2 <= values["replicas"] <= MOST_REPLICAS:
            raise DataError(f"{where}: replicas must be a whole number from 2 to {MOST_REPLICAS}")
    return RecoveryTimes(**values)


def _duration(value: Any, where: str) -> Duration:
    try:
        return parse_duration(value)
    except (UsageError, TypeError):
        raise DataError(f'{where}: expected a duration such as "500ms" or "4s", got {shortened(value)}') from None


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise DataError(f"{where}: expected a number from 0 to {LARGEST:g}, got {shortened(value)}")
    return float(value)
