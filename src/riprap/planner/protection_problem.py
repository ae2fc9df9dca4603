"""The problem that `protect` solves: for every operator a technique, so that every line of the objectives holds after
any single failure, at the lowest price. Everything is in whole numbers, so there is nothing to round.

What a failure of an operator costs depends on its technique and on two facts (a *case*): whether all of its input can
be replayed, because the operators that feed it are backups, and whether it is a backup itself, so that its consumers
wait for it. `evaluate` computes the outcome of a choice from these definitions; the solver is checked against it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from riprap.base.quantities import Duration, format_duration
from riprap.planner.sink_effects import NOTHING_WRONG, SinkEffect
from riprap.planner.slo import PPM, SinkSlo

AVAILABILITY = "availability"  # the line of the whole app, whose sink is ""


class Line(NamedTuple):
    """One line of the objectives."""

    sink: str
    name: str


@dataclass(frozen=True)
class FailureCase:
    """The failure of one operator in one case."""

    recovery: int  # microseconds, with the guaranteed probability
    down: int  # microseconds, in the median
    effects: Mapping[str, SinkEffect] = field(default_factory=dict)  # by sink; missing: nothing is wrong there
    exact: bool = False  # nothing is lost, doubled or late


@dataclass(frozen=True)
class TechniqueOption:
    """A technique of one operator. `cases`: by whether its input can be replayed and whether it is a backup; a missing
    case is impossible."""

    technique: Literal["none", "checkpoint", "ha_group", "copies"]
    interval: Duration | None
    price: int  # of an hour, in billionths
    cases: Mapping[tuple[bool, bool], FailureCase]
    unreplicated: "TechniqueOption | None" = None  # if all replicas fail at once, as with their host

    def describe(self) -> str:
        if self.interval is not None:
            return f"checkpoint every {format_duration(self.interval)}"
        return {"none": "restart", "ha_group": "HA group"}.get(self.technique, self.technique)


@dataclass(frozen=True)
class OperatorChoices:
    name: str
    upstream: tuple[str, ...]
    sinks: frozenset[str]  # that its output reaches
    options: tuple[TechniqueOption, ...]
    backup: int | None  # the price of a backup; None: it cannot be one


@dataclass(frozen=True)
class ProtectionProblem:
    app: str
    operators: Mapping[str, OperatorChoices]  # upstream first
    slo: Mapping[str, SinkSlo]  # by sink
    unavailable: int | None = None  # parts per million of the time
    mtbf: int = 7 * 86_400_000_000  # microseconds
    sets: tuple[frozenset[str], ...] = ()  # operators that fail together, besides each alone
    host: bool = False  # all operators, with all their replicas, fail together
    grouped: Mapping[str, frozenset[str]] = field(default_factory=dict)  # replicated only together with these
    must: frozenset[str] = frozenset()  # backups or replicated: they feed a feedback stream

    @cached_property
    def lines(self) -> dict[Line, int]:
        """Everything that is asked for. Exactly once has the value 1."""
        found = {Line(sink, name): int(value) for sink, slo in self.slo.items() for name, value in slo.lines().items()}
        return found if self.unavailable is None else found | {Line("", AVAILABILITY): self.unavailable}

    def with_line(self, line: Line, value: int | None) -> "ProtectionProblem":
        """The problem with another value of a line; None: without it."""
        if line.name == AVAILABILITY:
            return replace(self, unavailable=value)
        changed: dict[str, Any] = {line.name: bool(value) if line.name == "exactly_once" else value}
        return replace(self, slo={**self.slo, line.sink: replace(self.slo[line.sink], **changed)})


CaseKey = tuple[str, str, Duration | None, bool, bool]  # operator, technique, interval, replayed, backup


def with_proven(problem: ProtectionProblem, proven: Mapping[CaseKey, FailureCase]) -> ProtectionProblem:
    """The problem with the cases that a proof found to be worse than predicted."""
    operators = dict(problem.operators)
    for (name, technique, interval, replayed, backup), worse in proven.items():
        options = []
        for option in operators[name].options:
            known = option.cases.get((replayed, backup))
            if (option.technique, option.interval) == (technique, interval) and known is not None:
                sinks = {*known.effects, *worse.effects}
                effects = {sink: _worse(known.effects.get(sink), worse.effects.get(sink)) for sink in sinks}
                case = FailureCase(
                    max(known.recovery, worse.recovery),
                    max(known.down, worse.down),
                    effects,
                    known.exact and worse.exact,
                )
                option = replace(option, cases={**option.cases, (replayed, backup): case})
            options.append(option)
        operators[name] = replace(operators[name], options=tuple(options))
    return replace(problem, operators=operators)


def _worse(left: SinkEffect | None, right: SinkEffect | None) -> SinkEffect:
    left, right = left or NOTHING_WRONG, right or NOTHING_WRONG
    return SinkEffect(max(left.wrong, right.wrong), max(left.wrong_for, right.wrong_for), min(left.score, right.score))


class Chosen(NamedTuple):
    """The protection of one operator."""

    option: TechniqueOption
    backup: bool


@dataclass(frozen=True)
class Outcome:
    """Of one choice for every operator. `values`: of each line, the worst over all failures, and the failure."""

    chosen: Mapping[str, Chosen]
    price: int
    values: Mapping[Line, tuple[int, tuple[str, ...]]]
    cases: Mapping[str, FailureCase]

    def broken(self, problem: ProtectionProblem) -> list[Line]:
        return [line for line, limit in problem.lines.items() if not kept(line, self.values[line][0], limit)]


def kept(line: Line, value: int, limit: int) -> bool:
    return value >= limit if line.name in ("score_at_least", "exactly_once") else value <= limit


def evaluate(problem: ProtectionProblem, chosen: Mapping[str, Chosen]) -> Outcome | None:
    """From the definitions; None: it cannot run."""
    cases: dict[str, FailureCase] = {}
    without: dict[str, FailureCase] = {}  # with all replicas
    price = 0
    for name, operator in problem.operators.items():
        option, backup = chosen[name]
        replayed = all(chosen[before].backup for before in operator.upstream)
        if (backup and operator.backup is None) or (replayed, backup) not in option.cases:
            return None
        cases[name] = option.cases[replayed, backup]
        without[name] = (option.unreplicated or option).cases[replayed, backup]
        price += option.price + (operator.backup or 0 if backup else 0)
    replicated = {name for name, (option, _) in chosen.items() if option.technique == "ha_group"}
    backups = {name for name, (_, backup) in chosen.items() if backup}
    if not problem.must <= replicated | backups:
        return None
    if not all(problem.grouped.get(name, frozenset()) <= replicated for name in replicated):
        return None
    failures: list[tuple[tuple[str, ...], dict[str, FailureCase]]] = [
        ((name,), {name: case}) for name, case in cases.items()
    ]
    failures += [(tuple(sorted(names)), {name: cases[name] for name in names}) for names in problem.sets]
    failures += [(tuple(without), without)] if problem.host else []
    values = {line: _value(problem, line, failures, cases) for line in problem.lines}
    return Outcome(dict(chosen), price, values, cases)


def _value(
    problem: ProtectionProblem,
    line: Line,
    failures: list[tuple[tuple[str, ...], dict[str, FailureCase]]],
    cases: Mapping[str, FailureCase],
) -> tuple[int, tuple[str, ...]]:
    if line.name == AVAILABILITY:
        down = sum(case.down for case in cases.values())
        return -(-down * PPM // problem.mtbf), ()
    found: list[tuple[int, tuple[str, ...]]] = []
    for names, failed in failures:
        hit = [case for name, case in failed.items() if line.sink in problem.operators[name].sinks]
        if not hit:
            continue
        together = NOTHING_WRONG
        for case in hit:
            together = together.plus(case.effects.get(line.sink, NOTHING_WRONG))
        value = {
            "recovery": max(case.recovery for case in hit),
            "wrong": together.wrong,
            "wrong_for": together.wrong_for,
            "score_at_least": together.score,
            "exactly_once": int(all(case.exact for case in hit)),
        }[line.name]
        found.append((value, names))
    least = line.name in ("score_at_least", "exactly_once")
    best = {"score_at_least": PPM, "exactly_once": 1}.get(line.name, 0)
    return (min if least else max)(found, key=lambda entry: entry[0], default=(best, ()))
