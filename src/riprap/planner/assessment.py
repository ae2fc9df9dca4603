"""What an assessment says about an app: how bad a failure of each operator is, and what running it takes.

A directory with `assessment.json`:

    {"app": "bargain-discovery",
     "operators": {
       "Aggregator": {
         "failures_per_day": 0.2,
         "impact": [{"outage": "0.5s", "state_age": "0s", "impact": 0.8, "quality": 0.98, "recovery": 2},
                    {"outage": "4s",   "state_age": "0s", "impact": 6.1},
                    {"outage": "4s",   "state_age": "lost", "impact": 24.1}],
         "cpu": 0.4,                  cores that the operator keeps busy
         "memory": 8000000,           bytes that it holds
         "state": 2000000,            bytes of a checkpoint
         "output": 150000}},          bytes/s that it emits
     "unassessed": {"Table": "no tuple of this stream reaches Table"},
     "settings": {"restart": "0.5s", "failover": "0.1s", "read": 200e6, "write_per_core": 500e6,
                  "intervals": ["1s", "10s"], "replicas": 2}}

`impact` is the quality impact of one failure with that outage, where the state afterwards is that old ("0s": kept;
"lost": empty). Between the rows it is interpolated: linearly in the outage for each age, then linearly in the age.
Beyond the longest outage or age it stays what it is there. Without rows for lost state the oldest age stands for it.
An outage of 0 with state kept is no failure at all: impact 0. `quality` and `recovery` (in sections of the output) of
the same failure may be left out, and are interpolated in the same way. All settings have defaults. Operators under
`unassessed`, each with the reason, are known to be there and no more: a plan for a budget leaves them to a restart.
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

LOST = Duration(-1)  # in place of an age: the state is gone

_RESTART, _FAILOVER = Duration(500_000), Duration(100_000)
_INTERVALS = tuple(Duration(value) for value in (500_000, 1_000_000, 5_000_000, 30_000_000))


@dataclass(frozen=True)
class Settings:
    """How long the machinery takes. Durations in microseconds."""

    restart: Duration = _RESTART  # until a failed operator runs again
    failover: Duration = _FAILOVER  # until a replica has taken over
    read: float = 200e6  # bytes/s at which a checkpoint is read back
    write_per_core: float = 500e6  # bytes/s that one core writes to checkpoints and persistent streams
    intervals: tuple[Duration, ...] = _INTERVALS  # between checkpoints, to choose from
    replicas: int = 2  # of an HA group


# Age of the state (or LOST) → (outage, what was measured), outages ascending.
ByOutage = Mapping[Duration, tuple[tuple[Duration, float], ...]]


@dataclass(frozen=True)
class OperatorImpact:
    failures_per_day: float
    impact: ByOutage
    cpu: float = 0.0  # cores
    memory: float = 0.0  # bytes
    state: float = 0.0  # bytes
    output: float = 0.0  # bytes/s
    quality: ByOutage = field(default_factory=dict)  # score over golden score; empty: not known
    recovery: ByOutage = field(default_factory=dict)  # sections until the output is right again; empty: not known

    def quality_impact(self, outage: Duration, age: Duration) -> float:
        """Of one failure with this effective outage and this age of the state (LOST: no state)."""
        return interpolated(self.impact, outage, age, without=0.0)


def interpolated(found: ByOutage, outage: Duration, age: Duration, *, without: float) -> float:
    """What would be measured of one failure; `without`: of none."""
    ages = sorted(known_age for known_age in found if known_age != LOST)
    if age == LOST:
        return _along(found[LOST] if LOST in found else found[ages[-1]], outage)
    if not ages:
        return _along(found[LOST], outage)

    def at(known_age: Duration) -> float:
        rows = found[known_age]
        if known_age == 0 and rows[0][0] > 0:
            rows = ((Duration(0), without), *rows)  # nothing missed, nothing lost
        return _along(rows, outage)

    if age in found:
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
class Assessment:
    app: str
    operators: Mapping[str, OperatorImpact]
    settings: Settings = field(default_factory=Settings)
    costs: Mapping[str, OperatorCosts] = field(default_factory=dict)  # measured; of other operators as estimated
    unassessed: Mapping[str, str] = field(default_factory=dict)  # operators of which nothing is known, and why


def read_assessment(directory: Path) -> Assessment:
    named = directory / "assessment.json" if directory.is_dir() else directory
    path, where = files.real(named.parent) / named.name, str(named)
    if not files.exists(path):
        raise DataError(f"there is no assessment at {named}: give the directory that an assessment wrote")
    top = as_object(read_json(path, own=True), where, ("app", "operators", "unassessed", "settings"))
    operators, unassessed = top.get("operators"), as_object(top.get("unassessed", {}), f"{where}: unassessed")
    if not isinstance(top.get("app"), str) or not isinstance(operators, dict) or not operators:
        raise DataError(f'{where} is no assessment: expected {{"app": NAME, "operators": {{NAME: …}}}}')
    return Assessment(
        top["app"],
        {name: _operator(entry, f"{where}: {name}") for name, entry in operators.items()},
        _settings(top.get("settings", {}), f"{where}: settings"),
        unassessed={name: str(reason) for name, reason in unassessed.items()},
    )


def merged_assessment(parts: Sequence[Assessment]) -> Assessment:
    """Assessments of one app with state of different ages, as one."""
    first = parts[0]
    operators, unassessed = dict(first.operators), dict(first.unassessed)
    for part in parts[1:]:
        if part.app != first.app:
            raise DataError(f"one assessment is of app {first.app} and another of {part.app}; give those of one app")
        unassessed |= part.unassessed
        for name, entry in part.operators.items():
            known = operators.get(name, entry)
            operators[name] = replace(
                known,
                impact={**entry.impact, **known.impact},
                quality={**entry.quality, **known.quality},
                recovery={**entry.recovery, **known.recovery},
            )
    unknown = {name: reason for name, reason in unassessed.items() if name not in operators}
    return replace(first, operators=operators, unassessed=unknown)


def _operator(entry: Any, where: str) -> OperatorImpact:
    table = as_object(entry, where, ("failures_per_day", "impact", "cpu", "memory", "state", "output"))
    rows = table.get("impact")
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{where}: impact must list at least one outage, its state age and its impact")
    by_age: dict[str, dict[Duration, dict[Duration, float]]] = {"impact": {}, "quality": {}, "recovery": {}}
    for row in rows:
        parts = as_object(row, where, ("outage", "state_age", *by_age))
        age = LOST if parts.get("state_age") == "lost" else _duration(parts.get("state_age", "0s"), where)
        outage = _duration(parts.get("outage"), where)
        if outage in by_age["impact"].get(age, {}):
            raise DataError(f"{where}: two impacts for the same outage and state age")
        for what, found in by_age.items():
            if what == "impact" or what in parts:
                found.setdefault(age, {})[outage] = _number(parts.get(what), f"{where}: {what}")
    impact, quality, recovery = (
        {age: tuple(sorted(found.items())) for age, found in each.items()} for each in by_age.values()
    )
    cpu, memory, state, output = (
        _number(table.get(key, 0), f"{where}: {key}") for key in ("cpu", "memory", "state", "output")
    )
    failures = _number(table.get("failures_per_day"), f"{where}: failures_per_day")
    return OperatorImpact(failures, impact, cpu, memory, state, output, quality, recovery)


def _settings(entry: Any, where: str) -> Settings:
    keys = ("restart", "failover", "read", "write_per_core", "intervals", "replicas")
    table = as_object(entry, where, keys)
    values: dict[str, Any] = {}
    for key in ("restart", "failover"):
        if key in table:
            values[key] = _duration(table[key], f"{where}: {key}")
    for key in ("read", "write_per_core"):
        if key in table:
            values[key] = _number(table[key], f"{where}: {key}")
            if not values[key]:
                raise DataError(f"{where}: {key} must be more than 0 bytes/s")
    if "intervals" in table:
        if not isinstance(table["intervals"], list):
            raise DataError(f'{where}: intervals must be a list such as ["1s", "10s"]')
        values["intervals"] = tuple(sorted({_duration(item, f"{where}: intervals") for item in table["intervals"]}))
        if 0 in values["intervals"]:
            raise DataError(f"{where}: an interval between checkpoints must be longer than 0s")
    if "replicas" in table:
        values["replicas"] = table["replicas"]
        if type(values["replicas"]) is not int or not 2 <= values["replicas"] <= MOST_REPLICAS:
            raise DataError(f"{where}: replicas must be a whole number of at least 2, and at most {MOST_REPLICAS}")
    return Settings(**values)


def _duration(value: Any, where: str) -> Duration:
    try:
        return parse_duration(value)
    except (UsageError, TypeError):
        raise DataError(f'{where}: expected a duration such as "500ms" or "4s", got {shortened(value)}') from None


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise DataError(f"{where}: expected a number from 0 to {LARGEST:g}, got {shortened(value)}")
    return float(value)
