"""Topologies and profiles from files.

JSON:
    {"name": "pipeline",
     "tasks": [{"name": "parse", "T": "1.5s"},               T: a duration, or a number of seconds
               {"name": "count", "checkpoint": "2s",         instead of T: the interval between checkpoints
                "cost": 120000}],                            bytes/s that a backup of its output writes
     "edges": [["parse", "count"],
               {"from": "count", "to": "parse", "feedback": true}]}

GraphML: nodes with the same attributes `T` or `checkpoint`, and `cost`; edges with an attribute `feedback`.

A profile (for an app) is the TOML that `riprap profile --out` writes, or JSON written by hand:
{"operators": {"count": {"T": "0.4s", "checkpoint": "1s", "cost": 120000}}}. Either may have the times
until a failed process has restarted and restored its state, until it has then caught up, and until a checkpoint is on
disk (`riprap profile --recovery`): [recovery] restart = 0.4, caught_up = 0.1, durable = 0.05, in seconds.
"""

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

from riprap.base.documents import read_json, read_toml, shortened
from riprap.base.errors import DataError, UsageError
from riprap.base.quantities import Duration, parse_duration
from riprap.base.shapes import MISSHAPEN, raising_misshapen
from riprap.planner.json_input import as_object
from riprap.planner.topology import Topology, topology

# How much of a checkpoint interval has to be reprocessed: half of it on average, all of it in the worst case.
Estimate = Literal["average", "worst"]

_TASK_KEYS = ("name", "T", "checkpoint", "cost")


@dataclass(frozen=True)
class TaskProfile:
    """Measurements of one task or operator."""

    latency: Duration | None = None  # T, measured
    checkpoint: Duration | None = None  # interval
    cost: int | None = None  # bytes/s
    durable: Duration | None = None  # from the capture of a checkpoint until it is on disk
    pace: float = 1.0  # seconds to reprocess one second of input
    output: float | None = None  # tuples/s

    def reprocessing(self, estimate: Estimate) -> Duration | None:
        """T: as measured, else from the checkpoint interval; None if neither is known."""
        if self.latency is not None or self.checkpoint is None:
            return self.latency
        interval = self.checkpoint + (self.durable or 0) if estimate == "worst" else self.checkpoint // 2
        return Duration(ceil(interval * self.pace))


def read_topology(path: Path, estimate: Estimate = "average") -> Topology:
    """Reads by suffix: `.json` or `.graphml`."""
    if path.suffix == ".json":
        return _from_json(path, estimate)
    if path.suffix == ".graphml":
        return _from_graphml(path, estimate)
    raise UsageError(f"cannot read {path} as a topology: expected a .json or a .graphml file")


def read_profile(path: Path) -> dict[str, TaskProfile]:
    if path.suffix == ".toml":
        return _measured(path)
    operators = as_object(read_json(path), str(path)).get("operators")
    if not isinstance(operators, dict):
        raise DataError(f'{path} is not a profile: expected {{"operators": {{NAME: {{"T": …, "cost": …}}}}}}')
    return {name: _task(entry, f"{path}: operator {name}") for name, entry in operators.items()}


def optimal_interval(mtbf: Duration, durable: Duration) -> Duration:
    """Checkpoint interval by Young's first-order optimum; `durable`: time of one checkpoint."""
    return Duration(max(1, round((2.0 * durable * mtbf) ** 0.5)))


def read_recovery(path: Path) -> dict[str, Duration]:
    """Recovery times of a profile: those of `restart`, `caught_up`, `durable` that it has."""
    data = read_toml(path, "profile") if path.suffix == ".toml" else as_object(read_json(path), str(path))
    table = as_object(data.get("recovery", {}), f"{path}: recovery")
    times = {name: _time(table.get(name), f"{path}: recovery: {name}") for name in ("restart", "caught_up", "durable")}
    return {name: time for name, time in times.items() if time is not None}


def _measured(path: Path) -> dict[str, TaskProfile]:
    """Results of `riprap profile`. T also needs an interval, which determines how much input to reprocess."""
    data = read_toml(path, "profile")
    with raising_misshapen(f"{path} is not a profile that `riprap profile --out` wrote"):
        length = _finite(data["seconds"])
        return {
            name: TaskProfile(
                pace=_finite(sum(entry["mean_rate"]) * entry["seconds_per_tuple"]),
                output=_finite(sum(entry["tuples_out"]) / length),
            )
            for name, entry in data["operators"].items()
        }


def _finite(value: float) -> float:
    if not 0 <= value < 1e15:  # raises TypeError if it is not a number
        raise ValueError(f"{value} is not a time, rate or number of tuples")
    return float(value)


def _task(value: Any, where: str) -> TaskProfile:
    entry = as_object(value, where, _TASK_KEYS)
    cost = entry.get("cost")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= 1e12):
        raise DataError(f"{where}: cost must be bytes/s, from 0 to 1e12, not {shortened(cost)}")
    return TaskProfile(
        _time(entry.get("T"), where), _time(entry.get("checkpoint"), where), None if cost is None else round(cost)
    )


def _time(value: Any, where: str) -> Duration | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except UsageError as error:
            raise DataError(f"{where}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise DataError(
            f'{where}: a time must be a duration such as "1.5s" or a number of seconds, not {shortened(value)}'
        )
    return Duration(round(value * 1_000_000))


def _from_json(path: Path, estimate: Estimate) -> Topology:
    data = as_object(read_json(path), str(path))
    entries, edges = data.get("tasks"), data.get("edges", [])
    if not isinstance(entries, list) or not isinstance(edges, list):
        raise DataError(f'{path} is not a topology: expected {{"tasks": […], "edges": […]}}')
    tasks = []
    for number, entry in enumerate(entries):
        task = as_object(entry, f"{path}: task {number + 1}")
        if not isinstance(task.get("name"), str):
            raise DataError(f"{path}: task {number + 1} has no name")
        tasks.append((task["name"], _task(task, f"{path}: task {task['name']}")))
    pairs, feedback = [], []
    for edge in edges:
        ends = (edge.get("from"), edge.get("to")) if isinstance(edge, dict) else edge
        if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            raise DataError(f'{path}: an edge is ["a", "b"] or {{"from": "a", "to": "b"}}, not {shortened(edge)}')
        pairs.append((ends[0], ends[1]))
        if isinstance(edge, dict) and edge.get("feedback"):
            feedback.append(pairs[-1])
    return _built(str(data.get("name") or path.stem), tasks, pairs, feedback, estimate, str(path))


def _from_graphml(path: Path, estimate: Estimate) -> Topology:
    from xml.etree.ElementTree import ParseError

    import networkx

    if not path.exists():
        raise DataError(f"there is no file {path}")
    try:
        with catch_warnings():
            simplefilter("ignore")  # unknown keys
            graph = networkx.read_graphml(path)
    except (ParseError, networkx.NetworkXError, *MISSHAPEN) as error:
        raise DataError(f"{path} is not GraphML: {error}") from None
    if not graph.is_directed():
        raise DataError(f'{path} is undirected: a topology needs edgedefault="directed"')
    tasks = [
        (str(node), _task({key: value for key, value in data.items() if key in _TASK_KEYS[1:]}, f"{path}: task {node}"))
        for node, data in graph.nodes(data=True)
    ]
    pairs = [(str(a), str(b)) for a, b in graph.edges()]
    feedback = [(str(a), str(b)) for a, b, data in graph.edges(data=True) if data.get("feedback")]
    return _built(path.stem, tasks, pairs, feedback, estimate, str(path))


def _built(
    name: str,
    tasks: list[tuple[str, TaskProfile]],
    edges: list[tuple[str, str]],
    feedback: list[tuple[str, str]],
    estimate: Estimate,
    where: str,
) -> Topology:
    latency = []
    for task, profile in tasks:
        reprocessing = profile.reprocessing(estimate)
        if reprocessing is None:
            raise DataError(f"{where}: task {task} has neither T nor checkpoint, so its reprocessing time is unknown")
        latency.append((task, reprocessing))
    costs = {task: profile.cost for task, profile in tasks if profile.cost is not None}
    missing = [task for task, profile in tasks if profile.cost is None]
    if costs and missing:
        raise DataError(f"{where}: task {missing[0]} has no cost, but others have: give all tasks a cost or none")
    return topology(name, latency, edges, feedback=feedback, cost=costs or None)
