"""Validation: every reason to refuse a graph with its protection, before anything starts.

`arrange` calls it, so every layout can run; `planned.py` uses it to validate a plan for an app.
"""

from typing import TYPE_CHECKING, get_args

from riprap.base.errors import UsageError
from riprap.graph.cycles import cyclic_parts
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.ha_groups import copies_of, ha_groups
from riprap.graph.specs import Aggregate, ExpiringJoin, Join
from riprap.graph.windows import Punctuated, Session
from riprap.protocols.protocol import ProtocolSpec
from riprap.protocols.registry import DEFAULT
from riprap.runtime.fusion import Fuse, spread
from riprap.runtime.retention.choice import persistent, share_of

if TYPE_CHECKING:
    from riprap.runtime.layout import Fragment, Layout, Link

MOST_SHARDS = 1024  # of one operator


def check_graph(graph: Graph, fuse: Fuse, protocol: ProtocolSpec, *, virtual: bool) -> None:
    """Raise for graphs that no layout could run."""
    if fuse not in get_args(Fuse):
        raise UsageError(f"`fuse={fuse}`: expected one of {', '.join(get_args(Fuse))}")
    for spec in graph:
        if spec.parallelism > MOST_SHARDS:
            raise UsageError(f"{spec.name} would run in {spec.parallelism} shards; at most {MOST_SHARDS} are possible")
    _check_cycles(graph, fuse, protocol, virtual=virtual)
    _check_replication(graph, protocol)


def check_layout(layout: "Layout") -> None:
    """Raise for layouts that cannot run because of which operators share elements."""
    ids = [pe.id for pe in layout.pes]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise UsageError(f"two processing elements would be called {id_}: name the operators differently")
    for surroundings in layout.surroundings.values():
        if refused := layout.protocol.refuses(surroundings):
            raise UsageError(refused)
    for link in layout.links:
        _check_link(layout, link)
    for fragment in layout.fragments:
        _check_continuous(layout, fragment)


def _check_cycles(graph: Graph, fuse: Fuse, protocol: ProtocolSpec, *, virtual: bool) -> None:
    """Raise for cycles that cannot run in one element, or over several."""
    for cycle in cyclic_parts(graph):
        several = spread(graph, cycle, fuse, bounded=protocol.bounded)
        if several and virtual:
            raise UsageError(
                f"`virtual`: {cycle[0]} is on a cycle over several elements, all of which have to roll back together: "
                "leave `virtual` out, or `fuse=none` and parallelism"
            )
        for name in cycle:
            if graph[name].parallelism > 1 and not several:
                why = "it has one operator" if len(cycle) == 1 else "it is replicated, or may be recomputed"
                raise UsageError(
                    f"{name} is on a cycle that runs in one process, because {why}: leave its parallelism at 1, "
                    f"not {graph[name].parallelism}"
                )
            if several and not graph[name].deterministic and protocol.name != DEFAULT.name:
                raise UsageError(
                    f"{name} is not deterministic and is on a cycle over several elements, where {protocol.name} could "
                    "not tell which feedback is still to come: leave `fuse=none` and parallelism out, or `protocol`"
                )
        for stream in graph.streams:
            apart = graph[stream.source].annotations.continuous is not None or share_of(graph, stream) is not None
            if {stream.source, stream.target} <= set(cycle) and apart:
                raise UsageError(
                    f"stream {stream.id} is on a cycle, where nothing can be retained for {stream.target} alone: leave "
                    "continuous() and retain() out; backup() logs what leaves the cycle"
                )


def _check_replication(graph: Graph, protocol: ProtocolSpec) -> None:
    groups, copies = ha_groups(graph), copies_of(graph)
    if copies > 1 and protocol.name != DEFAULT.name:
        raise UsageError(
            f"`protocol={protocol.name}`: every operator runs in {copies} copies, which need no other protocol; "
            "leave out the copies, or `protocol`"
        )
    if groups and protocol.name != DEFAULT.name:
        raise UsageError(
            f"`protocol={protocol.name}`: HA group {next(iter(groups)).name} fails over by itself, under partial only; "
            "leave out the group, or `protocol`"
        )
    for cycle in cyclic_parts(graph):
        first = graph[cycle[0]]
        for name in cycle:
            if graph[name].annotations.ha_group != first.annotations.ha_group:
                raise UsageError(
                    f"{first.name} and {name} are on one cycle: put all of it into one HA group, or nothing"
                )


def _check_link(layout: "Layout", link: "Link") -> None:
    graph, stream, protocol = layout.graph, link.stream, layout.protocol
    if link.source.group and not link.within:
        _check_edge(graph, stream, link.source.group)
    elif persistent(graph, stream) and protocol.together:
        _check_repeated(graph, stream, protocol)
    elif share_of(graph, stream) is not None:
        _check_retained(graph, stream, protocol)


def _check_retained(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec) -> None:
    """Raise for streams that cannot have the retention while-down."""
    has, target = f"stream {stream.id} is retained while its consumer is down", graph[stream.target]
    if protocol.name != DEFAULT.name:
        raise UsageError(f"{has}, which needs the protocol partial, not {protocol.name}: leave one out")
    if not target.tolerates_loss:
        raise UsageError(
            f"{has}, and {stream.target} cannot tolerate the loss of input since its checkpoint: use persist()"
        )
    if target.annotations.ha_group is not None:
        raise UsageError(f"{has}, and {stream.target} is in an HA group, which fails over instead: leave retain out")


def _check_repeated(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec) -> None:
    """Raise for a persistent stream that would retain rows which a rollback of all elements invalidated."""
    for name in graph.order:
        if not graph[name].deterministic and stream.source in graph.reachable(name):
            raise UsageError(
                f"stream {stream.id} is persistent, and {name} is not deterministic: under {protocol.name} all "
                f"elements roll back together, and the stream would retain rows that {name} does not emit again; use "
                "`protocol=hybrid`, or leave its protection out"
            )


def _check_edge(graph: Graph, stream: StreamSpec, group: str) -> None:
    """Raise for streams that cannot leave a group."""
    if persistent(graph, stream):
        raise UsageError(
            f"stream {stream.id} leaves HA group {group} and is persistent, and replicas cannot write one stream "
            f"together: take {stream.source} out of the group, or leave out its backup and persist"
        )
    if not graph[stream.target].tolerates_loss:
        raise UsageError(
            f"{stream.target} cannot tolerate loss and is fed by HA group {group}, which may lose tuples in a "
            f"failover: put {stream.target} into the group, or take {stream.source} out of it"
        )


def _check_continuous(layout: "Layout", fragment: "Fragment") -> None:
    """Continuous checkpoints need input that can be read again, and an element with one stateful operator."""
    graph = layout.graph
    for spec in (graph[name] for name in fragment.members):
        if spec.annotations.continuous is None:
            continue
        has = f"{spec.name} has continuous checkpoints"
        windows = (*spec.windows, *((spec.every,) if isinstance(spec, Aggregate) else ()))
        recorded = isinstance(spec, Aggregate | Join) and not isinstance(spec, ExpiringJoin)
        if not recorded or any(isinstance(window, Punctuated | Session) for window in windows):
            raise UsageError(
                f"{has}, which are for aggregates over windows of count or time and for joins that emit at "
                "arrivals: give it an interval"
            )
        if fragment.group:
            raise UsageError(f"{has} and is in HA group {fragment.group}, whose replicas take no checkpoints")
        if layout.protocol.name != DEFAULT.name:
            raise UsageError(f"{has}, which need the protocol partial, not {layout.protocol.name}")
        for other in (graph[name] for name in fragment.members):
            if other is not spec and any(other.stateful):
                raise UsageError(
                    f"{has} and would share its element with {other.name}, which has state too: use `fuse=auto`"
                )
            if not other.deterministic:
                raise UsageError(f"{has}, and {other.name} in its element is not deterministic: give it an interval")
        for link in layout.links:
            if link.target == fragment and not link.kind.logged:
                raise UsageError(
                    f"{has}, and its input {link.stream.id} could not be replayed: make it persistent, with "
                    f"persist() or backup() at {link.stream.source}"
                )
            if link.source == fragment and link.stream.source != spec.name:
                raise UsageError(f"{has}, and {link.stream.id} leaves its element upstream of it: use `fuse=none`")
