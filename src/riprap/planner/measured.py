"""What `riprap measure` found out about an app on this machine, as a JSON file: `measured.json`.

    {"app": "shop", "seconds": 61.2, "every": 1.0, "detection": [0.1, 0.2, 0.4], "resume": [0.01, 0.02, 0.05],
     "failover": [0.2, 0.3, 0.6], "error": {"cores": 0.12, "memory": 0.05, "written": 0.02, "sent": 0.01},
     "operators": {
       "Attribute": {
         "rate": 8000.0, "selectivity": 0.38, "state": 4194304, "restart": [0.4, 0.5, 0.9], "restore": 2e8,
         "replay": 1.5e6, "durable": [0.01, 0.02, 0.06],
         "running": {"cores": 0.11, "memory": 52e6, "written": 0.0, "sent": 1.2e6},
         "techniques": {"checkpoint": {…}, "backup": {…}, "ha_group": {…}, "copies": {…}}}}}

Times are in seconds; three of them are the 5th, the 50th and the 95th percentile. Costs of techniques come on top of
`running`: of checkpoints with the interval `every`, and of one further replica or copy. A technique that was not
measured is missing, and no plan uses it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from riprap.base import files
from riprap.base.documents import read_json, shortened
from riprap.base.errors import DataError, known
from riprap.graph.graph import Graph
from riprap.planner.costs import TECHNIQUES, Cost
from riprap.planner.json_input import LARGEST, as_object

NO_COST = Cost()


class Quantiles(NamedTuple):
    """The 5th, 50th and 95th percentile of a time, in seconds."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class MeasuredOperator:
    rate: float  # tuples/s of event time that it takes in, over all ports; of a source: that it emits
    selectivity: float  # tuples out per tuple in, over all ports
    state: float  # bytes, at its peak while the app runs
    restart: Quantiles  # from the detection of a failure until a new process is set up; without loading its state
    restore: float  # bytes/s at which a checkpoint is loaded
    replay: float  # tuples/s of its input that it processes while it catches up
    durable: Quantiles  # from the capture of a checkpoint until it is durable
    running: Cost  # without any protection
    techniques: Mapping[str, Cost] = field(default_factory=dict)  # on top of `running`
    setup: float = 0.0  # seconds to set it up in a process, before state is loaded; a part of `restart`
    port_state: tuple[float, ...] = ()  # tuples of each input port in its state, at its peak


@dataclass(frozen=True)
class Measured:
    app: str
    seconds: float  # of event time in the recorded data
    every: float  # seconds between the measured checkpoints
    detection: Quantiles  # from a failure until it is known
    resume: Quantiles  # from the restored state until the element runs, with nothing to process again
    failover: Quantiles  # from the failure of an active replica until another one is active
    operators: Mapping[str, MeasuredOperator]
    error: Cost = NO_COST  # of the cost model, relative: median over the runs that checked it
    message_work: float = 0.0  # seconds of work for the messages of one second of input, apart from their tuples
    corrected: int = 0  # proven recoveries that have corrected it

    def to_json(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "seconds": self.seconds,
            "every": self.every,
            "detection": list(self.detection),
            "resume": list(self.resume),
            "failover": list(self.failover),
            "error": self.error._asdict(),
            "message_work": self.message_work,
            "corrected": self.corrected,
            "operators": {name: _operator_json(entry) for name, entry in self.operators.items()},
        }

    def check(self, graph: Graph, where: str) -> None:
        """Raises unless it has the app's operators and no others."""
        if self.app != graph.name:
            raise DataError(f"{where} has measurements of app {self.app}, not of {graph.name}: measure {graph.name}")
        names = [spec.name for spec in graph]
        for name in self.operators:
            if name not in graph:
                raise DataError(f"{where}: operator {name} is not in {graph.name}: {known(names, name)}; measure again")
        if missing := [name for name in names if name not in self.operators]:
            raise DataError(f"{where} lacks {', '.join(missing)} of {graph.name}: measure again")


def write_measured(measured: Measured, path: Path) -> None:
    files.write_text(path, json.dumps(measured.to_json(), indent=2, ensure_ascii=False) + "\n")


def read_measured(path: Path) -> Measured:
    return parse_measured(read_json(path, "measurements"), str(path))


def parse_measured(document: Any, where: str) -> Measured:
    top = as_object(document, where, tuple(Measured.__dataclass_fields__))
    if not isinstance(top.get("app"), str) or not top.get("operators"):
        raise DataError(f"{where} has no app or no operators: write it with `riprap measure`")
    operators = as_object(top["operators"], f"{where}: operators")
    return Measured(
        top["app"],
        _number(top, "seconds", where, positive=True),
        _number(top, "every", where, positive=True),
        _quantiles(top, "detection", where),
        _quantiles(top, "resume", where),
        _quantiles(top, "failover", where),
        {name: _operator(entry, f"{where}: {name}") for name, entry in operators.items()},
        _cost(top.get("error", NO_COST._asdict()), f"{where}: error"),
        _number({"message_work": 0.0, **top}, "message_work", where),
        round(_number({"corrected": 0, **top}, "corrected", where)),
    )


def _operator_json(entry: MeasuredOperator) -> dict[str, Any]:
    return vars(entry) | {
        "restart": list(entry.restart),
        "durable": list(entry.durable),
        "port_state": list(entry.port_state),
        "running": entry.running._asdict(),
        "techniques": {name: cost._asdict() for name, cost in entry.techniques.items()},
    }


def _operator(value: Any, where: str) -> MeasuredOperator:
    entry = as_object(value, where, tuple(MeasuredOperator.__dataclass_fields__))
    techniques = as_object(entry.get("techniques", {}), f"{where}: techniques", TECHNIQUES)
    return MeasuredOperator(
        _number(entry, "rate", where),
        _number(entry, "selectivity", where),
        _number(entry, "state", where),
        _quantiles(entry, "restart", where),
        _number(entry, "restore", where, positive=True),
        _number(entry, "replay", where, positive=True),
        _quantiles(entry, "durable", where),
        _cost(entry.get("running"), f"{where}: running"),
        {name: _cost(cost, f"{where}: {name}") for name, cost in techniques.items()},
        _number({"setup": 0.0, **entry}, "setup", where),
        _numbers(entry.get("port_state", []), f"{where}: port_state"),
    )


def _cost(value: Any, where: str) -> Cost:
    table = as_object(value, where, Cost._fields)
    return Cost(*(_number(table, name, where) for name in Cost._fields))


def _quantiles(table: Mapping[str, Any], key: str, where: str) -> Quantiles:
    values = table.get(key)
    if not isinstance(values, list) or len(values) != 3 or not all(_fits(value) for value in values):
        raise DataError(f"{where}: {key} must be three times in seconds, as in [0.1, 0.2, 0.4]")
    if values != sorted(values):
        raise DataError(f"{where}: {key} must ascend: the 5th, 50th and 95th percentile")
    return Quantiles(*map(float, values))


def _numbers(values: Any, where: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(_fits(value) for value in values):
        raise DataError(f"{where} must be a list of numbers, got {shortened(values)}")
    return tuple(map(float, values))


def _number(table: Mapping[str, Any], key: str, where: str, *, positive: bool = False) -> float:
    value = table.get(key)
    if not _fits(value) or (positive and not value):
        above = "above 0" if positive else "from 0"
        raise DataError(f"{where}: {key} must be a number {above} up to {LARGEST:g}, got {shortened(value)}")
    return float(value)  # type: ignore[arg-type]


def _fits(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST
