"""The schedule of a proof: faults with their times, drawn from a seed or read from a file.

A schedule file is TOML, with a table for each fault; times count from when the run is running:

    [[faults]]
    at = "10s"
    kind = "hang"              # one of `KINDS` in `fault_kinds.py`
    targets = ["Aggregator"]   # operators or elements; not for kinds that have none
    lasts = "6s"               # for kinds that last
    share = 0.25               # slow: the share of a core that is left
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riprap.base.documents import parse_toml, read_text, shortened
from riprap.base.errors import PlanError, UsageError, known
from riprap.base.quantities import Duration, parse_duration, show_duration
from riprap.base.randomness import derived_seed, generator

NO_TIME = Duration(0)
ALL = 10_000  # targets of a fault: every element
GROUP = -2  # the same: every replica of an HA group
_KEYS = ("at", "kind", "targets", "lasts", "share")


@dataclass(frozen=True)
class Demand:
    """What a kind of fault requires."""

    targets: int = 1  # number of elements: 0 for none, -1 for two or more, ALL, GROUP
    lasts: Duration = NO_TIME  # the default duration
    drawn: bool = True  # whether a seed may choose it
    saved: bool = False  # only for elements with checkpoints
    connected: bool = False  # only for elements with connections to others


@dataclass(frozen=True)
class ScheduledFault:
    """One fault of a schedule."""

    at: Duration
    kind: str
    targets: tuple[str, ...] = ()  # ids of elements
    lasts: Duration = NO_TIME
    share: float = 0.25
    seed: int = 0  # of the fault's own choices: which byte, which file

    def __str__(self) -> str:
        targets = f" {', '.join(self.targets)}" if self.targets else ""
        return f"{self.kind}{targets} at {self.at / 1e6:.1f} s"


@dataclass(frozen=True)
class Choices:
    """What a schedule can use in one run: the elements, by operator, and the possible kinds of faults."""

    elements: Mapping[str, tuple[str, ...]]  # operator → ids of the elements that host it
    demands: Mapping[str, Demand] = field(default_factory=dict)  # by kind
    groups: tuple[tuple[str, ...], ...] = ()  # elements of all replicas, of each HA group
    unsaved: frozenset[str] = frozenset()  # elements without checkpoints
    unconnected: frozenset[str] = frozenset()  # elements without connections to others

    def of(self, demand: Demand) -> tuple[str, ...]:
        """The possible targets: a fault that cannot be injected would prove nothing."""
        without = self.unsaved if demand.saved else self.unconnected if demand.connected else frozenset[str]()
        return tuple(id_ for id_ in self.ids if id_ not in without)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(id_ for ids in self.elements.values() for id_ in ids))


EVERY, SETTLE = 5.0, 4.0  # seconds between drawn faults, and before the first and after the last


def draw(
    choices: Choices, seconds: float, seed: int, *, every: float = EVERY, settle: float = SETTLE
) -> tuple[ScheduledFault, ...]:
    """Faults every few seconds, none in the first and the last `settle` seconds, so that each can be recovered from."""
    if not every >= 1:
        raise UsageError(f"`every={every:g}s`: write 1s or more, so that elements can recover between faults")
    kinds = sorted(kind for kind, demand in choices.demands.items() if demand.drawn and choices.of(demand))
    count = int((seconds - 2 * settle) // every) + 1 if seconds >= 2 * settle else 0
    if not kinds or count < 1:
        raise UsageError(
            f"a proof of {seconds:g} s has no room for a fault: give `seconds={math.ceil(2 * settle)}` or more"
        )
    draws = generator(seed, "proof")
    faults = []
    for number in range(count):
        kind = kinds[int(draws.integers(len(kinds)))]
        demand = choices.demands[kind]
        ids = choices.of(demand)
        if demand.targets == GROUP:
            chosen = choices.groups[int(draws.integers(len(choices.groups)))]
        else:
            many = min(demand.targets if demand.targets >= 0 else int(draws.integers(2, 5)), len(ids))
            chosen = tuple(ids[at] for at in sorted(draws.choice(len(ids), many, replace=False)))
        at = settle + every * number + float(draws.uniform(0.0, every / 4))
        faults.append(
            ScheduledFault(Duration(round(at * 1e6)), kind, chosen, demand.lasts, seed=int(draws.integers(2**31)))
        )
    return tuple(faults)


def read_schedule(path: Path | str, choices: Choices, seconds: float = math.inf) -> tuple[ScheduledFault, ...]:
    """The faults of a file. Each must lie within the `seconds` of a run: one after its end would prove nothing."""
    text = read_text(path, "schedule", kind=PlanError)
    try:
        return parse_schedule(text, choices, seconds)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def parse_schedule(text: str, choices: Choices, seconds: float = math.inf) -> tuple[ScheduledFault, ...]:
    data = parse_toml(text, "this", kind=PlanError)
    listed = data.pop("faults", None)
    if data or not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise PlanError("a schedule is a list of tables: write [[faults]] and, below it, at = and kind =")
    faults = tuple(_fault(number, entry, choices) for number, entry in enumerate(listed, 1))
    for number, fault in enumerate(faults, 1):
        if fault.at >= seconds * 1e6:
            raise PlanError(
                f"fault {number}: at = {show_duration(fault.at)}, and the run lasts "
                f"{show_duration(round(seconds * 1e6))}: inject it sooner, or give a longer `seconds`"
            )
    return tuple(sorted(faults, key=_at))


def _at(fault: ScheduledFault) -> int:
    return fault.at


def _fault(number: int, entry: Mapping[str, Any], choices: Choices) -> ScheduledFault:
    where = f"fault {number}"
    for key in entry:
        if key not in _KEYS:
            raise PlanError(f"{where}: unknown key {key}; there are {known(_KEYS, key)}")
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in choices.demands:
        raise PlanError(f"{where}: kind = {shortened(kind)}; there are {known(choices.demands, kind)}")
    demand = choices.demands[kind]
    share = entry.get("share", 0.25)
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share < 1:
        raise PlanError(f"{where}: share = {shortened(share)}; write a number between 0 and 1")
    lasts = _duration(entry, "lasts", where) if "lasts" in entry else demand.lasts
    at, targets = _duration(entry, "at", where), _targets(entry, demand, where, choices)
    return ScheduledFault(at, kind, targets, lasts, float(share), derived_seed(number, "listed") >> 1)


def _duration(entry: Mapping[str, Any], key: str, where: str) -> Duration:
    value = entry.get(key)
    if not isinstance(value, str):
        raise PlanError(f'{where}: {key} = {shortened(value)}; write a time, as in {key} = "10s"')
    try:
        return parse_duration(value)
    except UsageError as error:
        raise PlanError(f"{where}: {key}: {error}") from error


def _targets(entry: Mapping[str, Any], demand: Demand, where: str, choices: Choices) -> tuple[str, ...]:
    named = entry.get("targets", [])
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise PlanError(f'{where}: targets = {shortened(named)}; write a list of operators, as in ["Aggregator"]')
    elements: list[str] = []
    for name in named:
        hosting: Sequence[str] = choices.elements.get(name, (name,) if name in choices.ids else ())
        if not hosting:
            raise PlanError(f"{where}: no operator or element is called {name}; there are {known(choices.ids, name)}")
        elements += hosting
    if demand.targets in (0, ALL) and named:
        raise PlanError(f"{where}: {entry['kind']} takes no targets; leave them out")
    if demand.targets == ALL:
        return choices.ids
    if demand.targets != 0 and not named:
        raise PlanError(f'{where}: {entry["kind"]} needs targets, as in targets = ["{choices.ids[0]}"]')
    if demand.targets == GROUP:
        hit = [group for group in choices.groups if set(group) & set(elements)]
        if not hit:
            raise PlanError(f"{where}: {', '.join(named)} is in no HA group; name an operator of one, or use kill")
        elements = [pe for group in hit for pe in group]
    chosen = tuple(dict.fromkeys(elements))
    unfit = [pe for pe in chosen if pe not in choices.of(demand)]
    if unfit:
        what = "checkpoints" if demand.saved else "connections with other elements"
        raise PlanError(f"{where}: {entry['kind']} needs elements with {what}, and {unfit[0]} has none; leave it out")
    if demand.targets == -1 and len(chosen) < 2 <= len(choices.ids):
        raise PlanError(f"{where}: {entry['kind']} needs two targets or more; add one, or use kill")
    return chosen
