"""What is replicated of a graph: HA groups, or every operator in copies; whether that can be, and how long operators
remember.
"""

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
    found: dict[HaGroup, tuple[str, ...]] = {}
    replicas: dict[str, HaGroup] = {}
    for spec in graph:
        group = spec.annotations.ha_group
        if group is None:
            continue
        if isinstance(spec, Sink):
            raise GraphError(
                f"{spec.name} is a sink and in HA group {group.name}: what came out cannot be taken back, "
                "so a sink runs once; leave it out of the group"
            )
        other = replicas.setdefault(group.name, group)
        if other != group:
            raise GraphError(
                f"HA group {group.name} has {other.replicas} replicas at {found[other][0]} and {group.replicas} at "
                f"{spec.name}; give it one number"
            )
        found[group] = (*found.get(group, ()), spec.name)
    for group, members in found.items():
        apart = _apart(graph, members)
        if apart:
            raise GraphError(
                f"HA group {group.name} is not connected: no stream of the group leads from {members[0]} to "
                f"{' or '.join(apart)}; make it several groups, or add the operators in between"
            )
    return found


def replicable(graph: Graph) -> dict[str, frozenset[str]]:
    """By operator that can be in an HA group: all that are in it then, itself included.

    A consumer that cannot bear loss is in the group that feeds it, and a cycle is in one group or in none. A sink runs
    once, and a cycle of replicas runs in one process, which cannot have shards.
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
    """The members, in the parts that streams between them connect, in the order of the graph."""
    found: list[tuple[str, ...]] = []
    for name in graph.order:
        if name in members and not any(name in part for part in found):
            left = tuple(other for other in graph.order if other in members and other != name)
            apart = _apart(graph, (name, *left))
            found.append((name, *(other for other in left if other not in apart)))
    return found


def copied(graph: Graph, copies: int) -> Graph:
    """The graph with every operator but sources and sinks in so many copies. Raises where that cannot be."""
    for spec in graph:
        if not isinstance(spec, Source | Sink):
            graph = graph.with_operator(replace(spec, annotations=replace(spec.annotations, copies=copies)))
    copies_of(graph)
    return graph


def copies_of(graph: Graph) -> int:
    """Of every operator but sources and sinks; 1: nothing is replicated as a whole. Raises where that cannot be."""
    copies = max((spec.annotations.copies for spec in graph), default=1)
    if copies == 1:
        return 1
    for spec in graph:
        given, says = spec.annotations, f"full replication runs every operator but sources and sinks in {copies} copies"
        if given.ha_group is not None:
            raise GraphError(f"{says}, and {spec.name} is in HA group {given.ha_group.name}; leave out one of them")
        if given.copies != (1 if isinstance(spec, Source | Sink) else copies):
            raise GraphError(
                f"{says}, and {spec.name} is to run in {given.copies}; give it to the app, not to operators"
            )
        if not spec.deterministic:
            raise GraphError(
                f"full replication takes what any copy brings first, so operators have to be deterministic, and "
                f"{spec.name} is not; use an HA group, which need not be"
            )
        if given.backup or given.persist or given.continuous is not None or given.retain is not None:
            raise GraphError(
                f"{says}, and {spec.name} is to keep its output, which copies cannot write together: leave out its "
                "backup, persist, retain or continuous checkpoints, or the replication"
            )
        if given.checkpoint_every is not None:
            raise GraphError(
                f"{says}, and {spec.name} is to have checkpoints: a copy gets its state from another copy; leave out "
                "one of them"
            )
    return copies


def _apart(graph: Graph, members: tuple[str, ...]) -> list[str]:
    """Members that no streams between members connect with the first."""
    reached, waiting = {members[0]}, [members[0]]
    while waiting:
        name = waiting.pop()
        beside = {stream.target for stream in graph.outputs(name)} | {stream.source for stream in graph.inputs(name)}
        new = beside & set(members) - reached
        reached |= new
        waiting += new
    return [name for name in members if name not in reached]


def memory_of(spec: OperatorSpec) -> int | None:
    """Microseconds of event time after which nothing of an input is left in the state; None: it depends on what comes.

    Count windows forget when enough has come for each group of theirs, which may be never.
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
