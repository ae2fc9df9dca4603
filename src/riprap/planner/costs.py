"""Costs of protecting an operator, measured in runs (`riprap profile --costs`), as a section of a profile.

    [costs]
    seconds = 8.0                # length of each measurement
    rate = 20000.0               # tuples/s of each source
    every = 1.0                  # seconds between checkpoints, in runs with checkpoints

    [costs.operators.Aggregator]
    running = { cores = 0.11, memory = 52e6, written = 0.0, sent = 1.2e6 }    without any protection
    checkpoint = { cores = 0.01, memory = 3e6, written = 2.4e6, sent = 0.0 }  in addition to that, by technique:
    backup = { … }                                                            all its output streams persistent
    ha_group = { … }                                                          for each further replica
    copies = { … }                                                            for each further copy

Memory is in bytes; written and sent are in bytes/s. Techniques that the app does not support are missing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from riprap.base.documents import read_json, read_toml, shortened
from riprap.base.errors import DataError
from riprap.base.quantities import Duration
from riprap.planner.json_input import LARGEST, as_object

TECHNIQUES = ("checkpoint", "backup", "ha_group", "copies")
_SECTION = ("seconds", "rate", "every", "operators")


class Cost(NamedTuple):
    cores: float = 0.0
    memory: float = 0.0  # bytes
    written: float = 0.0  # bytes/s
    sent: float = 0.0  # bytes/s

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))

    def beyond(self, other: "Cost") -> "Cost":
        """The difference; negative ones are noise and count as 0."""
        return Cost(*(max(a - b, 0.0) for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class OperatorCosts:
    """Costs of one operator; `techniques` in addition to `running`. `every`: interval of the measured checkpoints."""

    running: Cost
    techniques: Mapping[str, Cost]
    every: Duration


def read_costs(path: Path) -> dict[str, OperatorCosts]:
    """By operator; empty if the profile has no costs."""
    data = read_toml(path, "profile") if path.suffix == ".toml" else as_object(read_json(path), str(path))
    if "costs" not in data:
        return {}
    where = f"{path}: costs"
    section = as_object(data["costs"], where, _SECTION)
    every = Duration(round(_number(section.get("every"), f"{where}: every") * 1e6))
    if every <= 0:
        raise DataError(f"{where}: every, the checkpoint interval, must be longer than 0 s")
    operators = as_object(section.get("operators"), f"{where}: operators")
    return {name: _operator(entry, f"{where}: {name}", every) for name, entry in operators.items()}


def write_costs(costs: Mapping[str, OperatorCosts], *, seconds: float, rate: float) -> str:
    """The section of a profile, in TOML."""
    every = next(iter(costs.values())).every
    lines = ["", "[costs]", f"seconds = {seconds!r}", f"rate = {rate!r}", f"every = {every / 1e6!r}"]
    for name, entry in costs.items():
        lines += ["", f"[costs.operators.{json.dumps(name, ensure_ascii=False)}]"]
        for technique, cost in {"running": entry.running, **entry.techniques}.items():
            lines.append(f"{technique} = {{ {', '.join(f'{k} = {v!r}' for k, v in cost._asdict().items())} }}")
    return "\n".join(lines) + "\n"


def _operator(entry: Any, where: str, every: Duration) -> OperatorCosts:
    table = as_object(entry, where, ("running", *TECHNIQUES))
    if "running" not in table:
        raise DataError(f"{where}: running, the cost without protection, is missing")
    costs = {name: _cost(value, f"{where}: {name}") for name, value in table.items()}
    return OperatorCosts(costs.pop("running"), costs, every)


def _cost(value: Any, where: str) -> Cost:
    table = as_object(value, where, Cost._fields)
    return Cost(*(_number(table.get(field), f"{where}: {field}") for field in Cost._fields))


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise DataError(f"{where}: expected a number from 0 to {LARGEST:g}, got {shortened(value)}")
    return float(value)
