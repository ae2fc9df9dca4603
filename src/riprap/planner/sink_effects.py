"""What a failure of an operator does to each sink, as an assessment found it, in whole numbers: `effects.json`.

    {"app": "shop", "operators": {"Attribute": [
        {"state": "lost", "outage": "500ms", "sinks": {"Campaigns": [[0, 0, 1000000], [3100, 480000000, 990000], …]}},
        {"state": "0s", …}, {"state": "10s", …}]}}

Each sink has three effects, the 5th, 50th and 95th percentile over offsets and repetitions. An effect is the share of
rows that are missing or wrong, of those that a fault-free run emits in the window of the sink after the failure (parts
per million); the time until the last of them, in microseconds of event time; and the score of the output in the window
divided by that of a fault-free run (parts per million). `state`: how old the operator's state is afterwards.
`ranks`, `metrics`: of operators without protection (`riprap.faults.harm_ranks`).
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from riprap.base import files
from riprap.base.documents import read_json
from riprap.base.errors import DataError
from riprap.base.quantities import LONGEST, Duration, format_duration, parse_duration
from riprap.base.shapes import raising_misshapen
from riprap.faults.harm_ranks import HarmMetrics, RankInterval
from riprap.planner.assessment_file import LOST
from riprap.planner.slo import PPM

CURRENT = Duration(0)  # the age of state that is not lost
_LEVELS = 3


class SinkEffect(NamedTuple):
    wrong: int = 0  # parts per million of the rows in the window
    wrong_for: int = 0  # microseconds of event time
    score: int = PPM  # parts per million of the fault-free score

    def plus(self, other: "SinkEffect") -> "SinkEffect":
        """Of two failures at once; an upper bound."""
        return SinkEffect(
            min(self.wrong + other.wrong, PPM),
            max(self.wrong_for, other.wrong_for),
            max(self.score + other.score - PPM, 0),
        )


NOTHING_WRONG = SinkEffect()
EVERYTHING_WRONG = SinkEffect(PPM, int(LONGEST), 0)
Levels = tuple[SinkEffect, SinkEffect, SinkEffect]
# By outage, ascending: the effects on each sink.
ByOutage = Sequence[tuple[Duration, Mapping[str, Levels]]]


@dataclass(frozen=True)
class AssessedEffects:
    """By operator and age of its state (0: current; `LOST`)."""

    app: str
    operators: Mapping[str, Mapping[Duration, ByOutage]]
    unknown: frozenset[str] = field(default_factory=frozenset)  # operators that could not be assessed
    ranks: Mapping[str, RankInterval] = field(default_factory=dict)  # by operator: by the rows that are wrong
    metrics: tuple[HarmMetrics, ...] = ()

    def of(self, operator: str, age: Duration, outage: int, sink: str, level: int = 2) -> SinkEffect:
        """The effect of an outage on a sink; `level`: 0, 1 or 2, of the three percentiles.

        State of an age that was not assessed counts as the next older one. Between two outages the effect is
        interpolated, and beyond the longest it grows in proportion.
        """
        if operator in self.unknown:
            return EVERYTHING_WRONG
        ages = self.operators.get(operator)
        if not ages:
            return NOTHING_WRONG  # no path leads from it to a sink
        older = sorted(known for known in ages if known != LOST and known >= age)
        rows = ages[older[0]] if age != LOST and older else ages[LOST] if LOST in ages else ages[max(ages)]
        known = [(length, effects[sink][level]) for length, effects in rows if sink in effects]
        if not known:
            return NOTHING_WRONG
        if age == CURRENT and known[0][0] > 0:
            known.insert(0, (Duration(0), NOTHING_WRONG))
        return _between(known, outage)


def _between(known: Sequence[tuple[Duration, SinkEffect]], outage: int) -> SinkEffect:
    after = bisect_left([length for length, _ in known], outage)
    if after == 0:
        return known[0][1]
    if after == len(known):
        longest, last = known[-1]
        if not longest or outage == longest:
            return last
        return SinkEffect(
            min(-(-last.wrong * outage // longest), PPM),
            min(last.wrong_for + (outage - longest if last.wrong else 0), int(LONGEST)),
            max(PPM - -(-(PPM - last.score) * outage // longest), 0),
        )
    (x0, low), (x1, high) = known[after - 1], known[after]
    return SinkEffect(*(a + -((a - b) * (outage - x0) // (x1 - x0)) for a, b in zip(low, high, strict=True)))


def write_effects(effects: AssessedEffects, path: Path) -> None:
    operators = {
        name: [
            {
                "state": "lost" if age == LOST else format_duration(age),
                "outage": format_duration(outage),
                "sinks": {sink: [list(level) for level in levels] for sink, levels in sinks.items()},
            }
            for age, rows in ages.items()
            for outage, sinks in rows
        ]
        for name, ages in effects.operators.items()
    }
    document = {
        "app": effects.app,
        "operators": operators,
        "unknown": sorted(effects.unknown),
        "ranks": effects.ranks,
        "metrics": [asdict(each) for each in effects.metrics],
    }
    files.write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_effects(path: Path) -> AssessedEffects:
    document = read_json(path, "effects")
    with raising_misshapen(f"{path} has no effects of this version of riprap: delete it, and assess again"):
        operators: dict[str, dict[Duration, list[tuple[Duration, Mapping[str, Levels]]]]] = {}
        for name, rows in document["operators"].items():
            for row in rows:
                age = LOST if row["state"] == "lost" else parse_duration(row["state"])
                sinks = {sink: _levels(levels, path) for sink, levels in row["sinks"].items()}
                operators.setdefault(name, {}).setdefault(age, []).append((parse_duration(row["outage"]), sinks))
        for ages in operators.values():
            for listed in ages.values():
                listed.sort(key=_outage)
        ranks = {str(name): RankInterval(*map(int, rank)) for name, rank in document["ranks"].items()}
        metrics = [HarmMetrics(**{**row, "rank": RankInterval(*map(int, row["rank"]))}) for row in document["metrics"]]
        unknown = frozenset(map(str, document["unknown"]))
        return AssessedEffects(str(document["app"]), operators, unknown, ranks, tuple(metrics))


def _outage(row: tuple[Duration, Mapping[str, Levels]]) -> int:
    return row[0]


def _levels(value: Any, path: Path) -> Levels:
    if len(value) != _LEVELS:
        raise DataError(f"{path}: an effect has {len(value)} percentiles; expected {_LEVELS}")
    bounds = SinkEffect(PPM, int(LONGEST), PPM)
    for level in value:
        if len(level) != len(bounds) or not all(
            type(number) is int and 0 <= number <= most for number, most in zip(level, bounds, strict=True)
        ):
            raise DataError(f"{path}: {level} is not an effect: expected three whole numbers up to {list(bounds)}")
    first, second, third = (SinkEffect(*level) for level in value)
    return first, second, third
