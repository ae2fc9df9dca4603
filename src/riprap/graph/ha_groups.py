"""Replication in a graph: HA groups or full replication, their validation, and how long operators retain input."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from riprap.base.errors import GraphError
from riprap.graph.annotations import HaGroup
from riprap.graph.cycles import cyclic_parts
from riprap.graph.graph import Graph
from riprap.graph.spec_base import OperatorSpec
from riprap.graph.specs import Sink, Source
from riprap.graph.windows import Time, Zero


def ha_groups(graph: Graph) -> Mapping[HaGroup, tuple[str, ...]]:
    """The operators of each group, in the order of the graph. Raises for groups that cannot be replicated."""
    groups: dict[HaGroup, tuple[str, ...]] = {}
    replicas: dict[str, HaGroup] = {}
    for spec in graph:
        group = spec.annotations.ha_group
        if group is None:
            continue
        if isinstance(spec, Sink):
            raise GraphError(
                f"{spec.name} is a sink and in HA group {group.name}: output cannot be undone, so a sink runs once; "
                "leave it out of the group"
            )
        other = replicas.setdefault(group.name, group)
        if other != group:
            raise GraphError(
                f"HA group {group.name} has {other.replicas} replicas at {groups[other][0]} and {group.replicas} at "
                f"{spec.name}; give it one number"
            )
        groups[group] = (*groups.get(group, ()), spec.name)
    for group, members in groups.items():
        apart = _apart(graph, members)
        if apart:
            raise GraphError(
                f"HA group {group.name} is not connected: no stream of the group leads from {members[0]} to "
                f"{' or '.join(apart)}; make it several groups, or add the operators in between"
            )
    return groups


def replicable(graph: Graph) -> dict[str, frozenset[str]]:
    """By operator that can be in an HA group: all operators that must be in the same group, including itself.

    A consumer that cannot tolerate loss must be in the group of its producer, and a cycle must be in one group or in
    none. A sink runs once. A replicated cycle runs in one process, which cannot have shards.
    """
    needs: dict[str, set[str]] = {spec.name: {spec.name} for spec in graph}
    alone = {sink.name for sink in graph.sinks}
    for stream in graph.streams:
        if not graph[stream.target].tolerates_loss:
            needs[stream.source].add(stream.target)
    for cycle in cyclic_parts(graph):
        if any(graph[name].parallelism > 1 for name in cycle):
            alone |= {*cycle}
        for name in cycle:
            needs[name] |= {*cycle}
    for group in needs.values():
        waiting = [*group]
        while waiting:
            more = needs[waiting.pop()] - group
            group |= more
            waiting += more
    return {name: frozenset(group) for name, group in needs.items() if not group & alone}


def connected(graph: Graph, members: Collection[str]) -> list[tuple[str, ...]]:
    """The connected components of the members, in the order of the graph."""
    parts: list[tuple[str, ...]] = []
    for name in graph.order:
        if name in members and not any(name in part for part in parts):
            others = tuple(other for other in graph.order if other in members and other != name)
            apart = _apart(graph, (name, *others))
            parts.append((name, *(other for other in others if other not in apart)))
    return parts


def copied(graph: Graph, copies: int) -> Graph:
    """The graph with `copies` copies of every operator except sources and sinks. Raises if that is impossible."""
    for spec in graph:
        if not isinstance(spec, Source | Sink):
            graph = graph.with_operator(replace(spec, annotations=replace(spec.annotations, copies=copies)))
    copies_of(graph)
    return graph


def copies_of(graph: Graph) -> int:
    """The number of copies under full replication; 1: the app has none. Raises if it is impossible."""
    copies = max((spec.annotations.copies for spec in graph), default=1)
    if copies == 1:
        return 1
    for spec in graph:
        own = spec.annotations
        rule = f"full replication runs every operator but sources and sinks in {copies} copies"
        if own.ha_group is not None:
            raise GraphError(f"{rule}, and {spec.name} is in HA group {own.ha_group.name}; leave out one of them")
        if own.copies != (1 if isinstance(spec, Source | Sink) else copies):
            raise GraphError(f"{rule}, and {spec.name} has {own.copies}; give it to the app, not to operators")
        if not spec.deterministic:
            raise GraphError(
                f"full replication uses the output of the fastest copy, so operators have to be deterministic, and "
                f"{spec.name} is not; use an HA group, which does not need that"
            )
        if own.backup or own.persist or own.continuous is not None or own.retain is not None:
            raise GraphError(
                f"{rule}, and {spec.name} retains its output, which copies cannot write together: leave out its "
                "backup, persist, retain or continuous checkpoints, or the replication"
            )
        if own.checkpoint_every is not None:
            raise GraphError(
                f"{rule}, and {spec.name} has checkpoints: a copy gets its state from another copy; leave out "
                "one of them"
            )
    return copies


def _apart(graph: Graph, members: tuple[str, ...]) -> list[str]:
    """The members that are not connected with the first by streams between members."""
    reached, waiting = {members[0]}, [members[0]]
    while waiting:
        name = waiting.pop()
        beside = {stream.target for stream in graph.outputs(name)} | {stream.source for stream in graph.inputs(name)}
        new = beside & set(members) - reached
        reached |= new
        waiting += new
    return [name for name in members if name not in reached]


def memory_of(spec: OperatorSpec) -> int | None:
    """Microseconds of event time after which an input has left the state; None: it depends on later input.

    A count window evicts a tuple only when enough others of its group have arrived, which may be never.
    """
    if not any(spec.stateful):
        return 0
    windows = getattr(spec, "windows", None)
    every = getattr(spec, "every", None)
    if not windows or not all(isinstance(window, Time | Zero) for window in windows) or not _timed(every):
        return None
    return max((int(window.size) for window in windows if isinstance(window, Time)), default=0)


def _timed(every: object) -> bool:
    return every is None or isinstance(every, Time)
