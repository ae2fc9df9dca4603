"""The plan: which operator gets which protection, as a TOML file that `run` takes and `plan` writes.

    app = "bargain-discovery"
    recovery = "2s"          # a bound: what an element that failed misses is recomputed, and nothing is lost
    protocol = "coordinated" # instead: a protocol under which all go back together, and what it takes its checkpoints
    interval = "10s"         # after
    sinks = "committed"      # rows can be read when nobody will go back to before them; or "eager", at once

    [operators.Aggregator]
    checkpoint = "1s"        # interval between checkpoints of its state; or "continuous", in its own output; or "off"
    recovery = "500ms"       # with "continuous": how soon it is to be where it was
    backup = true            # all of its output streams are persistent
    persist = [0]            # output ports whose streams are persistent
    retain = "while-down"    # streams that are not: they go to disk while their consumer is down
    retain_ports = [0]       # of these output ports; all, where it is left out
    sample = 0.25            # and of what comes meanwhile this share
    ha_group = "trades"      # replicated together with the others of that group
    stability = "fsync"      # of its persistent streams, of a sink its own: async, group or fsync

    [ha_groups.trades]
    replicas = 2

    [streams."TradeFilter→Join"]
    late = "drop"            # what comes after Join went on without it is lost; else it is delivered late

    [replication]
    copies = 2               # instead of groups: every operator but sources and sinks in copies

A plan given at run time overrides the code: an operator that the plan names has the protection that the plan states and
no other; an operator that it does not name keeps its annotations.
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
    """Protection by operator name, for the app of that name. `recovery`: how long any recovery may take.

    `protocol`, by its name, the `interval` of its checkpoints, and whether its `sinks` are eager or committed; None:
    what the run says. `copies`: of every operator, under full replication. `streams`: what becomes of late tuples.
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
        """The graph with this protection instead of its own where the plan says so."""
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
                raise PlanError(f"operator {name}: retain is of streams, and none leaves it; write it at its producer")
            kept = annotations.backup or annotations.persist or annotations.retain
            if annotations.stability and not (kept or isinstance(spec, Sink)):
                raise PlanError(
                    f"operator {name}: stability is of persistent streams, and it has none; add backup = true, "
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
        ha_groups(graph)  # raises for groups that cannot be
        return copied(graph, self.copies) if self.copies > 1 else graph


def plan_of(graph: Graph) -> Plan:
    """The annotations in the code, as a plan."""
    copies = max((op.annotations.copies for op in graph.operators), default=1)
    alone = {op.name: replace(op.annotations, copies=1) for op in graph.operators}
    stated = {name: annotations for name, annotations in alone.items() if annotations != Annotations()}
    late = {s.id: s.late for s in graph.streams if s.late != "deliver"}
    return Plan(graph.name, stated, copies=copies, streams=late)


def read_plan(path: Path | str) -> Plan:
    return _read(path)[1]


def plan_text(path: Path | str) -> str:
    """The text of a plan, known to be one, for those that keep it. A file is read once: it may be a pipe."""
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
        raise PlanError('the plan does not say which app it is for; write app = "name" at its top')
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
            f"the plan has a bound of recovery, which is met by recomputing, and protocol = {protocol!r}: "
            "write one of them"
        )
    copies, streams = _copies(data.get("replication")), dict(_stream(*each) for each in _tables(data, "streams"))
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
            lines += _written(annotations.continuous)
        if annotations.backup:
            lines.append("backup = true")
        if annotations.persist is not None:
            lines.append(f"persist = {sorted(annotations.persist)}")
        if annotations.retain is not None:
            lines += _retained(annotations.retain)
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
    mixed = _continuous(name, table) if interval == "continuous" else None
    for key in _CONTINUOUS_KEYS if mixed is None else ():
        if key in table:
            raise PlanError(f'operator {name}: {key} is for checkpoint = "continuous"; write that too, or leave it out')
    try:
        saved = checkpoint(interval) if interval is not None and mixed is None else Annotations()
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
        mixed,
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


def _retained(asked: Retain) -> list[str]:
    lines = [f'retain = "{WHILE_DOWN}"']
    if asked.ports is not None:
        lines.append(f"retain_ports = {sorted(asked.ports)}")
    return lines if asked.share == 1 else [*lines, f"sample = {asked.share!r}"]


def _stream(name: str, table: Mapping[str, Any]) -> tuple[str, Lateness]:
    """Its id, in which `->` may stand for the arrow, and what becomes of late tuples."""
    _only(table, ("late",), f"stream {name}")
    late = table.get("late", "deliver")
    if late not in get_args(Lateness):
        raise PlanError(f"stream {name}: late = {shortened(late)}; write one of {', '.join(get_args(Lateness))}")
    return name.replace(" -> ", "→").replace("->", "→"), late


def _continuous(name: str, table: Mapping[str, Any]) -> Continuous | None:
    try:
        given = {key: table[key] for key in _CONTINUOUS_KEYS if key in table}
        return continuous(given.pop("recovery", None), **given).continuous
    except (UsageError, GraphError, TypeError, AttributeError) as error:
        wrong = ", ".join(f"{key} = {shortened(table[key])}" for key in _CONTINUOUS_KEYS if key in table)
        raise PlanError(
            f'operator {name}: {wrong}; write durations, as in recovery = "500ms", and shot as a whole number'
        ) from error


def _written(mixed: Continuous) -> list[str]:
    times = {"recovery": mixed.recovery, "every": mixed.every, "slow_after": mixed.slow_after}
    lines = [f'{key} = "{format_duration(value)}"' for key, value in times.items() if value is not None]
    return ['checkpoint = "continuous"', *lines, *([] if mixed.shot is None else [f"shot = {mixed.shot}"])]


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
