"""Service-level objectives: what the output of an app may suffer when something fails.

    [default]                   # for every sink
    recovery = "5s"             # from a failure until the sink is up to date again
    wrong = "1%"                # missing or wrong, of the rows that a fault-free run emits within wrong_for …
    wrong_for = "1min"          # … after a failure; after this (event time) the output is right again
    [sinks.Invoices]
    exactly_once = true
    [sinks.Alerts]
    score_at_least = 0.95       # of the score of a fault-free run, within wrong_for after a failure
    [failures]
    mtbf = "7d"                 # mean time between failures of one process
    availability = "99.95%"     # share of the time in which no sink is behind
    together = ["process"]      # what fails as one: process, host or executor, or lists of operators
    [prices]
    core_hour = 0.05

Every line holds for every single failure. Files name no code: the function of a score is given on the command line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from riprap.base.documents import read_toml, shortened
from riprap.base.errors import RiprapError, UsageError, known
from riprap.base.quantities import Duration, parse_duration, show_duration
from riprap.graph.graph import Graph

WINDOW = Duration(60_000_000)  # in which rows and scores are compared, where no wrong_for is given
MTBF = Duration(7 * 86_400_000_000)
ALONE = ("process", "host", "executor")
LINES = ("recovery", "wrong", "wrong_for", "exactly_once", "score_at_least")
_FAILURES = ("mtbf", "availability", "together")
_MOST_PRICE = 1e6
PPM = 1_000_000


class Prices(NamedTuple):
    """In any currency."""

    core_hour: float = 0.05
    memory_gb_hour: float = 0.005
    gb_written: float = 0.002
    gb_sent: float = 0.01
    gb_stored_month: float = 0.02


@dataclass(frozen=True)
class SinkSlo:
    """The lines of one sink, in whole numbers; None: not asked for. Shares are in parts per million."""

    recovery: Duration | None = None
    wrong: int | None = None
    wrong_for: Duration | None = None
    exactly_once: bool = False
    score_at_least: int | None = None

    @property
    def window(self) -> Duration:
        """The event time after a failure in which rows and scores are compared."""
        return self.wrong_for or WINDOW

    def lines(self) -> dict[str, Any]:
        """Those that are asked for."""
        values = {name: getattr(self, name) for name in LINES}
        return {name: value for name, value in values.items() if value is not None and value is not False}


@dataclass(frozen=True)
class Slo:
    """Texts are as in the file. `sinks`: lines of single sinks, which replace those of all.

    `exactly_once` and `score_at_least` of single sinks: `exactly_once=["Invoices"]`, `score_at_least={"Alerts": 0.95}`.
    """

    recovery: str | None = None
    wrong: str | float | None = None
    wrong_for: str | None = None
    exactly_once: bool | Sequence[str] = False
    score_at_least: str | float | Mapping[str, str | float] | None = None
    availability: str | float | None = None
    mtbf: str | None = None
    together: Sequence[str | Sequence[str]] = ("process",)
    prices: Prices | Mapping[str, float] = field(default_factory=Prices)
    sinks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    where: str = "Slo"  # names the file in errors

    def __post_init__(self) -> None:
        """Raises for values that cannot be."""
        self.of("")
        for name in self.named:
            self.of(name)
        self.unavailable, self.between_failures, self.rates, self.sets  # noqa: B018

    @property
    def named(self) -> tuple[str, ...]:
        """The sinks that it names."""
        scores = self.score_at_least if isinstance(self.score_at_least, Mapping) else ()
        once = self.exactly_once if not isinstance(self.exactly_once, bool) else ()
        return tuple(dict.fromkeys((*self.sinks, *once, *scores)))

    def of(self, sink: str) -> SinkSlo:
        """The lines of a sink."""
        scores, once = self.score_at_least, self.exactly_once
        if not isinstance(once, bool) and (isinstance(once, str) or not all(isinstance(name, str) for name in once)):
            raise UsageError(f"{self.where}: exactly_once = {shortened(once)}: write true, or a list of sinks")
        own = {
            "recovery": self.recovery,
            "wrong": self.wrong,
            "wrong_for": self.wrong_for,
            "exactly_once": once if isinstance(once, bool) else sink in once,
            "score_at_least": scores.get(sink) if isinstance(scores, Mapping) else scores,
        }
        found = _lines(own, f"{self.where}: default")
        if sink in self.sinks:
            lines = self.sinks[sink]
            if not isinstance(lines, Mapping):
                raise UsageError(f"{self.where}: sinks.{sink} = {shortened(lines)}: write a table of lines")
            changed = _lines(lines, f"{self.where}: sinks.{sink}")
            found = replace(found, **{name: getattr(changed, name) for name in lines})
        return found

    @property
    def unavailable(self) -> int | None:
        """The share of the time, in parts per million, in which a sink may be behind; None: not asked for."""
        if self.availability is None:
            return None
        return PPM - _share(self.availability, f"{self.where}: failures.availability")

    @property
    def between_failures(self) -> Duration:
        return MTBF if self.mtbf is None else _time(self.mtbf, f"{self.where}: failures.mtbf")

    @property
    def rates(self) -> Prices:
        """The prices."""
        if isinstance(self.prices, Prices):
            return self.prices
        where = f"{self.where}: prices"
        _only(self.prices, Prices._fields, where)
        for name, value in self.prices.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_PRICE:
                raise UsageError(f"{where}.{name} = {shortened(value)}: write a number from 0 to {_MOST_PRICE:g}")
        return Prices(**{name: float(value) for name, value in self.prices.items()})

    @property
    def sets(self) -> tuple[str | tuple[str, ...], ...]:
        """What fails as one: `process`, `host`, or operators by name."""
        found: list[str | tuple[str, ...]] = []
        wrong = f'{self.where}: failures.together = {shortened(self.together)}: write a list of "process", "host", '
        if isinstance(self.together, str) or not isinstance(self.together, Sequence) or not self.together:
            raise UsageError(f"{wrong}or lists of operators")
        for entry in self.together:
            if isinstance(entry, str):
                if entry not in ALONE:
                    raise UsageError(f'{wrong}"executor", or lists of operators; {shortened(entry)} is not one of them')
                found.append("host" if entry == "executor" else entry)
            else:
                names = tuple(entry) if isinstance(entry, Sequence) else ()
                if len(names) < 2 or not all(isinstance(name, str) for name in names):
                    raise UsageError(f"{wrong}or lists of two or more operators")
                found.append(tuple(dict.fromkeys(names)))
        return tuple(dict.fromkeys(("process", *found)))

    def check(self, graph: Graph, scored: Sequence[str] = ()) -> None:
        """Raises unless its sinks and operators are in the app. `scored`: sinks with a score function."""
        names, sinks = [spec.name for spec in graph], [sink.name for sink in graph.sinks]
        for name in self.named:
            if name not in sinks:
                raise UsageError(
                    f"{self.where}: sinks.{name}: {graph.name} has no such sink; its sinks are {known(sinks, name)}"
                )
        for together in self.sets:
            for name in together if isinstance(together, tuple) else ():
                if name not in names:
                    raise UsageError(
                        f"{self.where}: failures.together: {graph.name} has no operator {name}; "
                        f"it has {known(names, name)}"
                    )
        for name in sinks:
            if self.of(name).score_at_least is not None and name not in scored:
                raise UsageError(
                    f"{self.where}: score_at_least of {name} needs the function of its score: "
                    f"give it with --score {name}=module:function"
                )
        if not any(self.of(name).lines() for name in sinks) and self.unavailable is None:
            raise UsageError(f"{self.where} asks for nothing: write at least one of {', '.join(LINES)}")


def read_slo(path: Path) -> Slo:
    document = read_toml(path, "objectives", kind=UsageError)
    where = str(path)
    _only(document, ("default", "sinks", "failures", "prices"), where)
    default = _table(document, "default", where)
    _only(default, LINES, f"{where}: default")
    sinks = _table(document, "sinks", where)
    failures = _table(document, "failures", where)
    _only(failures, _FAILURES, f"{where}: failures")
    for key in ("exactly_once", "score_at_least"):
        if isinstance(default.get(key), list | dict):
            raise UsageError(f"{where}: default.{key} is for all sinks: write it in [sinks.NAME]")
    return Slo(**default, **failures, sinks=sinks, prices=_table(document, "prices", where), where=where)


def shown(line: str, value: Any) -> str:
    """The value of a line, for people."""
    if line in ("recovery", "wrong_for"):
        return show_duration(value)
    if line in ("wrong", "score_at_least", "unavailable"):
        return f"{value / 10_000:.3g} %"
    return "yes" if value else "no"


def _lines(table: Mapping[str, Any], where: str) -> SinkSlo:
    _only(table, LINES, where)
    readers: dict[str, Callable[[Any, str], Any]] = {
        "recovery": _time, "wrong": _share, "wrong_for": _time, "exactly_once": _flag, "score_at_least": _share,
    }  # fmt: skip
    return SinkSlo(**{
        name: readers[name](value, f"{where}.{name}") for name, value in table.items() if value is not None
    })  # fmt: skip


def _time(value: Any, where: str) -> Duration:
    try:
        found = parse_duration(value) if isinstance(value, str) else 0
    except RiprapError:
        found = 0
    if found <= 0:
        raise UsageError(f'{where} = {shortened(value)}: write a time, as in "5s" or "1min"')
    return Duration(found)


def _share(value: Any, where: str) -> int:
    """In parts per million, from 0.01 or "1%"."""
    number = value
    if isinstance(value, str):
        try:
            number = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            number = -1.0
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise UsageError(f'{where} = {shortened(value)}: write a share from 0 to 1, as in "1%" or 0.01')
    return round(number * PPM)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where} = {shortened(value)}: write true or false")
    return value


def _table(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {key} = {shortened(table)}: write a table, [{key}]")
    return table


def _only(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise UsageError(f"{where}: unknown key {shortened(key)}; there are {known(keys, str(key))}")


assert {*LINES, *_FAILURES} <= {entry.name for entry in fields(Slo)}
