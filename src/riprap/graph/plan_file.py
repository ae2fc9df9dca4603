"""The plan: which operator gets which protection, as a TOML file that `run` reads and `plan` writes.

    app = "bargain-discovery"
    recovery = "2s"          # recovery bound: the lost input of a failed element is recomputed, and nothing is lost
    protocol = "coordinated" # instead of a bound: a checkpointing protocol, under which all elements roll back together
    interval = "10s"         # between the protocol's checkpoints
    sinks = "committed"      # rows become readable when no rollback can undo them; or "eager", at once

    [operators.Aggregator]
    checkpoint = "1s"        # interval between checkpoints of its state; or "continuous", in its own output; or "off"
    recovery = "500ms"       # with "continuous": the time to catch up after a restart
    backup = true            # all of its output streams are persistent
    persist = [0]            # output ports whose streams are persistent
    retain = "while-down"    # streams that are not persistent: they go to disk while their consumer is down
    retain_ports = [0]       # only these output ports; default: all
    sample = 0.25            # only this fraction of the items
    ha_group = "trades"      # replicated together with the other operators of that group
    stability = "fsync"      # of its persistent streams, or of a sink's output: async, group or fsync

    [ha_groups.trades]
    replicas = 2

    [streams."TradeFilter→Join"]
    late = "drop"            # drop tuples that arrive after Join continued without them; default: "deliver"

    [replication]
    copies = 2               # instead of groups: copies of every operator except sources and sinks

A plan given at run time overrides the code: an operator that the plan names has exactly the protection in the plan; an
operator that it does not name keeps its annotations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from riprap.base.documents import parse_toml, read_text, shortened
from riprap.base.errors import GraphError, PlanError, UsageError, known
from riprap.base.quantities import Duration, format_duration, parse_duration
from riprap.graph.annotations import (
    MOST_REPLICAS,
    OFF,
    WHILE_DOWN,
    Annotations,
    Continuous,
    HaGroup,
    Retain,
    Stability,
    checkpoint,
    continuous,
    retain,
)
from riprap.graph.graph import Graph, Lateness
from riprap.graph.ha_groups import copied, ha_groups
from riprap.graph.specs import Sink

_TOP_KEYS = ("app", "recovery", "protocol", "interval", "sinks", "operators", "ha_groups", "streams", "replication")
_CONTINUOUS_KEYS = ("recovery", "every", "slow_after", "shot")
_RETAIN_KEYS = ("retain", "retain_ports", "sample")
_OPERATOR_KEYS = ("checkpoint", "backup", "persist", "ha_group", "stability", *_RETAIN_KEYS, *_CONTINUOUS_KEYS)
_GROUP_KEYS = ("replicas",)


@dataclass(frozen=True)
class Plan:
    """Protection by operator name, for the app of that name. `recovery`: the recovery bound.

    `protocol`: its name; `interval`: between its checkpoints; `sinks`: "eager" or "committed"; None: the run's default.
    `copies`: of every operator, under full replication. `streams`: what to do with late tuples, by stream.
    """

    app: str
    operators: Mapping[str, Annotations]
    recovery: Duration | None = None
    protocol: str | None = None
    interval: Duration | None = None
    copies: int = 1
    sinks: str | None = None
    streams: Mapping[str, Lateness] = field(default_factory=dict)

    def apply(self, graph: Graph) -> Graph:
        """The graph with this plan's protection in place of its annotations."""
        if self.app != graph.name:
            raise PlanError(f"the plan is for app {self.app}, and this is app {graph.name}")
        for name, annotations in self.operators.items():
            if name not in graph:
                names = [op.name for op in graph.operators]
                raise PlanError(f"the plan names operator {name}; app {graph.name} has {known(names, name)}")
            spec = graph[name]
            for port in annotations.persist or ():
                if port >= spec.outputs:
                    raise PlanError(f"the plan persists output {port} of {name}, which has {spec.outputs} outputs")
            for port in annotations.retain.ports or () if annotations.retain is not None else ():
                if port >= spec.outputs:
                    raise PlanError(f"the plan retains output {port} of {name}, which has {spec.outputs} outputs")
            if annotations.retain is not None and not spec.outputs:
                raise PlanError(
                    f"operator {name}: retain applies to output streams, and it has none; write it at its producer"
                )
            retained = annotations.backup or annotations.persist or annotations.retain
            if annotations.stability and not (retained or isinstance(spec, Sink)):
                raise PlanError(
                    f"operator {name}: stability applies to persistent streams, and it has none; add backup = true, "
                    "or leave it out"
                )
            graph = graph.with_operator(replace(spec, annotations=annotations))
        ids = [stream.id for stream in graph.streams]
        for name in self.streams:
            if name not in ids:
                raise PlanError(f"the plan names stream {name}; app {graph.name} has {known(ids, name)}")
        if self.streams:
            streams = tuple(replace(s, late=self.streams.get(s.id, s.late)) for s in graph.streams)
            graph = replace(graph, streams=streams)
        ha_groups(graph)  # raises for invalid groups
        return copied(graph, self.copies) if self.copies > 1 else graph


def plan_of(graph: Graph) -> Plan:
    """A graph's annotations as a plan."""
    copies = max((op.annotations.copies for op in graph.operators), default=1)
    single = {op.name: replace(op.annotations, copies=1) for op in graph.operators}
    protected = {name: annotations for name, annotations in single.items() if annotations != Annotations()}
    late = {s.id: s.late for s in graph.streams if s.late != "deliver"}
    return Plan(graph.name, protected, copies=copies, streams=late)


def read_plan(path: Path | str) -> Plan:
    """The plan in a TOML file."""
    return _read(path)[1]


def plan_text(path: Path | str) -> str:
    """The text of a valid plan file, for callers that store it. The file is read once: it may be a pipe."""
    return _read(path)[0]


def _read(path: Path | str) -> tuple[str, Plan]:
    text = read_text(path, "plan", kind=PlanError)
    try:
        return text, parse_plan(text)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def parse_plan(text: str) -> Plan:
    data = parse_toml(text, "this", kind=PlanError)
    _only(data, _TOP_KEYS, "the plan")
    if not isinstance(data.get("app"), str):
        raise PlanError('the plan does not name its app; write app = "name" at its top')
    groups = {name: _group(name, table) for name, table in _tables(data, "ha_groups")}
    operators = {name: _operator(name, table, groups) for name, table in _tables(data, "operators")}
    used = {a.ha_group.name for a in operators.values() if a.ha_group is not None}
    for name in groups:
        if name not in used:
            raise PlanError(
                f'HA group {name} has no members; write ha_group = "{name}" at an operator, or leave it out'
            )
    protocol = data.get("protocol")
    if protocol is not None and not isinstance(protocol, str):
        raise PlanError(f'protocol = {shortened(protocol)}; write the name of one, as in "coordinated"')
    recovery = _time(data, "recovery", "how long a recovery may take")
    interval = _time(data, "interval", "the time between checkpoints of the protocol")
    if interval is not None and protocol is None:
        raise PlanError('the plan has an interval and no protocol; write protocol = "coordinated", or leave it out')
    sinks = data.get("sinks")
    if sinks is not None and (sinks not in ("eager", "committed") or protocol is None):
        raise PlanError(f'sinks = {shortened(sinks)}; write "eager" or "committed", beside a protocol')
    if recovery is not None and protocol not in (None, "recompute"):
        raise PlanError(
            f"the plan has a recovery bound, which recomputing meets, and protocol = {protocol!r}: keep one of them"
        )
    copies, streams = _copies(data.get("replication")), dict(_stream(*item) for item in _tables(data, "streams"))
    return Plan(data["app"], operators, recovery, protocol, interval, copies, sinks, streams)


def write_plan(plan: Plan) -> str:
    """TOML that `parse_plan` reads back to an equal plan."""
    lines = [f"app = {_quoted(plan.app)}"]
    if plan.recovery is not None:
        lines.append(f'recovery = "{format_duration(plan.recovery)}"')
    if plan.protocol is not None:
        lines.append(f"protocol = {_quoted(plan.protocol)}")
    if plan.interval is not None:
        lines.append(f'interval = "{format_duration(plan.interval)}"')
    if plan.sinks is not None:
        lines.append(f'sinks = "{plan.sinks}"')
    for name, annotations in plan.operators.items():
        lines += ["", f"[operators.{_quoted(name)}]"]
        if annotations.checkpoint_every is not None:
            lines.append(f'checkpoint = "{format_duration(annotations.checkpoint_every)}"')
        if annotations.checkpoint_off:
            lines.append(f'checkpoint = "{OFF}"')
        if annotations.continuous is not None:
            lines += _continuous_lines(annotations.continuous)
        if annotations.backup:
            lines.append("backup = true")
        if annotations.persist is not None:
            lines.append(f"persist = {sorted(annotations.persist)}")
        if annotations.retain is not None:
            lines += _retain_lines(annotations.retain)
        if annotations.ha_group is not None:
            lines.append(f"ha_group = {_quoted(annotations.ha_group.name)}")
        if annotations.stability is not None:
            lines.append(f'stability = "{annotations.stability}"')
    groups = {a.ha_group.name: a.ha_group for a in plan.operators.values() if a.ha_group is not None}
    for group in groups.values():
        lines += ["", f"[ha_groups.{_quoted(group.name)}]", f"replicas = {group.replicas}"]
    for stream, late in plan.streams.items():
        lines += ["", f"[streams.{_quoted(stream)}]", f'late = "{late}"']
    if plan.copies > 1:
        lines += ["", "[replication]", f"copies = {plan.copies}"]
    return "\n".join(lines) + "\n"


def _copies(table: Any) -> int:
    if table is None:
        return 1
    if not isinstance(table, dict):
        raise PlanError("replication has to be a table: write [replication], and copies = 2 below it")
    _only(table, ("copies",), "replication")
    copies = table.get("copies")
    if type(copies) is not int or not 2 <= copies <= MOST_REPLICAS:
        raise PlanError(
            f"replication: copies = {shortened(copies)}; write a whole number, 2 or more, at most {MOST_REPLICAS}"
        )
    return copies


def _time(data: Mapping[str, Any], key: str, meaning: str) -> Duration | None:
    value = data.get(key)
    if value is None:
        return None
    try:
        bound = parse_duration(value) if isinstance(value, str) else 0
    except UsageError:
        bound = 0
    if bound <= 0:
        raise PlanError(f'{key} = {shortened(value)}; write {meaning}, as in "2s"')
    return Duration(bound)


def _operator(name: str, table: Mapping[str, Any], groups: Mapping[str, HaGroup]) -> Annotations:
    _only(table, _OPERATOR_KEYS, f"operator {name}")
    interval = table.get("checkpoint")
    spec = _continuous(name, table) if interval == "continuous" else None
    for key in _CONTINUOUS_KEYS if spec is None else ():
        if key in table:
            raise PlanError(f'operator {name}: {key} is for checkpoint = "continuous"; write that too, or leave it out')
    try:
        saved = checkpoint(interval) if interval is not None and spec is None else Annotations()
    except (UsageError, GraphError, TypeError) as error:
        raise PlanError(
            f'operator {name}: checkpoint = {shortened(interval)}; write an interval, as in "1s", "continuous" or "off"'
        ) from error
    backup = table.get("backup", False)
    if not isinstance(backup, bool):
        raise PlanError(f"operator {name}: backup = {shortened(backup)}; write true or false")
    ports = table.get("persist")
    whole = isinstance(ports, list) and all(type(port) is int and port >= 0 for port in ports)
    if ports is not None and not whole:
        raise PlanError(f"operator {name}: persist = {shortened(ports)}; write a list of output ports, as in [0]")
    group = table.get("ha_group")
    if group is not None and not isinstance(group, str):
        raise PlanError(f'operator {name}: ha_group = {shortened(group)}; write the name of a group, as in "trades"')
    if group is not None and group not in groups:
        raise PlanError(f"operator {name}: HA group {group} is not described; described groups: {known(groups, group)}")
    stability = table.get("stability")
    if stability is not None and stability not in get_args(Stability):
        raise PlanError(
            f"operator {name}: stability = {shortened(stability)}; write one of {', '.join(get_args(Stability))}"
        )
    return Annotations(
        saved.checkpoint_every,
        frozenset(ports) if ports is not None else None,
        backup,
        groups[group] if group is not None else None,
        spec,
        stability,
        _retain(name, table),
        checkpoint_off=saved.checkpoint_off,
    )


def _retain(name: str, table: Mapping[str, Any]) -> Retain | None:
    how, ports, sample = (table.get(key) for key in _RETAIN_KEYS)
    if how is None:
        for key in _RETAIN_KEYS:
            if key in table:
                raise PlanError(
                    f'operator {name}: {key} is for retain = "{WHILE_DOWN}"; write that too, or leave it out'
                )
        return None
    try:
        if ports is not None and not (isinstance(ports, list) and ports):
            raise GraphError("ports")
        return retain(how, *(ports or ()), sample=1.0 if sample is None else sample).retain
    except GraphError as error:
        wrong = ", ".join(f"{key} = {shortened(table[key])}" for key in _RETAIN_KEYS if key in table)
        raise PlanError(
            f'operator {name}: {wrong}; write retain = "{WHILE_DOWN}", retain_ports as a list of output ports, as in '
            "[0], and sample as a share, more than 0 and at most 1"
        ) from error


def _retain_lines(spec: Retain) -> list[str]:
    lines = [f'retain = "{WHILE_DOWN}"']
    if spec.ports is not None:
        lines.append(f"retain_ports = {sorted(spec.ports)}")
    return lines if spec.share == 1 else [*lines, f"sample = {spec.share!r}"]


def _stream(name: str, table: Mapping[str, Any]) -> tuple[str, Lateness]:
    """A stream's id, which may be written with `->`, and what to do with its late tuples."""
    _only(table, ("late",), f"stream {name}")
    late = table.get("late", "deliver")
    if late not in get_args(Lateness):
        raise PlanError(f"stream {name}: late = {shortened(late)}; write one of {', '.join(get_args(Lateness))}")
    return name.replace(" -> ", "→").replace("->", "→"), late


def _continuous(name: str, table: Mapping[str, Any]) -> Continuous | None:
    try:
        options = {key: table[key] for key in _CONTINUOUS_KEYS if key in table}
        return continuous(options.pop("recovery", None), **options).continuous
    except (UsageError, GraphError, TypeError, AttributeError) as error:
        wrong = ", ".join(f"{key} = {shortened(table[key])}" for key in _CONTINUOUS_KEYS if key in table)
        raise PlanError(
            f'operator {name}: {wrong}; write durations, as in recovery = "500ms", and shot as a whole number'
        ) from error


def _continuous_lines(spec: Continuous) -> list[str]:
    times = {"recovery": spec.recovery, "every": spec.every, "slow_after": spec.slow_after}
    lines = [f'{key} = "{format_duration(value)}"' for key, value in times.items() if value is not None]
    return ['checkpoint = "continuous"', *lines, *([] if spec.shot is None else [f"shot = {spec.shot}"])]


def _group(name: str, table: Mapping[str, Any]) -> HaGroup:
    _only(table, _GROUP_KEYS, f"HA group {name}")
    replicas = table.get("replicas", 2)
    if type(replicas) is not int or not 2 <= replicas <= MOST_REPLICAS:
        raise PlanError(
            f"HA group {name}: replicas = {shortened(replicas)}; write a whole number, 2 or more, "
            f"at most {MOST_REPLICAS}"
        )
    return HaGroup(name, replicas)


def _tables(data: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables = data.get(key, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise PlanError(f"{key} has to be made of tables: write [{key}.NAME]")
    return list(tables.items())


def _only(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise PlanError(f"{where} has unknown key {key}; known keys: {known(keys, key)}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
