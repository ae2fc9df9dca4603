"""The topology of an app: one task per operator.

The shards of a parallel operator are alike (same latency, same neighbours), so in a cheapest plan all of them keep a
backup or none does: the operator stands for them, and a backup of it counts once per shard.
"""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from riprap.base.errors import PlanError, known
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan
from riprap.graph.specs import OperatorSpec, Sink
from riprap.planner.budget import Protection
from riprap.planner.files import Estimate, TaskProfile
from riprap.planner.topology import Topology, topology


def topology_of(
    graph: Graph,
    profile: Mapping[str, TaskProfile],
    *,
    otherwise: Duration | None = None,
    estimate: Estimate = "average",
    by_bytes: bool = False,
) -> Topology:
    """T(v) from the profile, else from the operator's checkpoint interval, else `otherwise`.

    A backup costs one per shard, or, `by_bytes`, the bytes/s that the profile says.
    """
    names = [operator.name for operator in graph]
    for name in profile:
        if name not in graph:
            raise PlanError(
                f"the profile names operator {name}, which {graph.name} does not have: {known(names, name)}"
            )
    latency: dict[str, Duration] = {}
    unknown = []
    for operator in graph:
        given = profile.get(operator.name, TaskProfile())
        interval = given.checkpoint or operator.annotations.checkpoint_every
        found = replace(given, checkpoint=interval).reprocessing(estimate)
        found = otherwise if found is None else found
        if found is None:
            unknown.append(operator.name)
        else:
            latency[operator.name] = found
    if unknown:
        raise PlanError(
            f"how long {', '.join(unknown)} of {graph.name} need to reprocess their recent input is not known: give it "
            "with --latency 1s (for all), --latency NAME=1s, --profile FILE, or a checkpoint interval in the app"
        )
    edges = list(dict.fromkeys((stream.source, stream.target) for stream in graph.streams))
    feedback = {(stream.source, stream.target) for stream in graph.streams if stream.feedback is not None}
    cost = {operator.name: operator.parallelism for operator in graph}
    if by_bytes:
        for operator in graph:
            bytes_kept = _bytes_kept(graph, operator, profile.get(operator.name, TaskProfile()))
            if bytes_kept is None and not isinstance(operator, Sink):
                raise PlanError(f"the profile has no cost of {operator.name}: planning by bytes needs one per operator")
            cost[operator.name] = bytes_kept or 0
    return topology(graph.name, latency, edges, feedback=feedback, cost=cost)


def _bytes_kept(graph: Graph, operator: OperatorSpec, profile: TaskProfile) -> int | None:
    """Bytes/s of all its outputs: as stated, else measured tuples/s times the width of a row."""
    if profile.cost is not None or profile.output is None:
        return profile.cost
    widths = [sum(_width(column.type) for column in graph.physical(operator.name, p)) for p in range(operator.outputs)]
    return round(profile.output * max(widths, default=0))


def _width(type_: pa.DataType) -> float:
    try:
        return type_.bit_width / 8
    except ValueError:
        return 16.0  # a string: four bytes of offset and a dozen of text


def plan_with_backups(
    graph: Graph, backups: set[str], bound: Duration | None = None, intervals: Mapping[str, Duration] | None = None
) -> Plan:
    """What the code asks for, with these backups instead of its own, and these intervals where it has none."""
    operators: dict[str, Annotations] = {}
    for operator in graph:
        own = operator.annotations
        every = own.checkpoint_every or (intervals or {}).get(operator.name)
        if own.continuous is not None:
            every = None
        wanted = replace(own, checkpoint_every=every, backup=operator.name in backups)
        if wanted not in (Annotations(), own) or own != Annotations():
            operators[operator.name] = wanted
    return Plan(graph.name, operators, bound)


def plan_with_protection(graph: Graph, protection: Protection, replicas: int) -> Plan:
    """A plan file for a choice of techniques. Neighbours that are replicated form one HA group."""
    replicated = {name for name, option in protection.chosen.items() if option.technique == "ha_group"}
    group = {name: name for name in replicated}
    for stream in graph.streams:
        if {stream.source, stream.target} <= replicated:
            old, new = group[stream.target], group[stream.source]
            group = {name: new if of == old else of for name, of in group.items()}
    operators = {}
    for name, option in protection.chosen.items():
        annotations = Annotations(
            option.interval,
            None,
            name in protection.backups,
            HaGroup(group[name], replicas) if name in replicated else None,
        )
        if annotations != Annotations():
            operators[name] = annotations
    return Plan(graph.name, operators)
