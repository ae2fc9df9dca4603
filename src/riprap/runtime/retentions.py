"""Which retention a stream between two fragments has: what it was asked to have, or what the protocol of the run says.

What a retention is `protocols/channel.py` says. What cannot be is refused here, before anything starts.
"""

from riprap.base.errors import UsageError
from riprap.graph.graph import Graph, StreamSpec
from riprap.protocols.channel import Retention
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import ProtocolSpec


def retention_of(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec = PARTIAL) -> Retention:
    if max(graph[end].annotations.copies for end in (stream.source, stream.target)) > 1:
        return "copy"
    group = graph[stream.source].annotations.ha_group
    if group is not None and group != graph[stream.target].annotations.ha_group:
        _check_edge(graph, stream, group.name)
        return "remember"
    if kept(graph, stream):
        if protocol.together:
            _check_repeated(graph, stream, protocol)
        return "log"
    if share_of(graph, stream) is not None:
        _check_retained(graph, stream, protocol)
        return "while-down"
    tolerant, intolerant = protocol.retention
    return tolerant if graph[stream.target].tolerates_loss else intolerant


def share_of(graph: Graph, stream: StreamSpec) -> float | None:
    """Of what comes while its consumer is down, what of it is kept; None: the stream was not asked to be retained."""
    asked = graph[stream.source].annotations.retain
    if asked is None or kept(graph, stream) or (asked.ports is not None and stream.source_port not in asked.ports):
        return None
    return asked.share


def _check_retained(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec) -> None:
    """Raise for streams that cannot be kept just while their consumer is down."""
    has, target = f"stream {stream.id} is retained while its consumer is down", graph[stream.target]
    if protocol.name != PARTIAL.name:
        raise UsageError(f"{has}, which goes with the protocol partial and not with {protocol.name}: leave one out")
    if not target.tolerates_loss:
        raise UsageError(
            f"{has}, and {stream.target} cannot bear to lose what it had taken since its checkpoint: use persist()"
        )
    if target.annotations.ha_group is not None:
        raise UsageError(f"{has}, and {stream.target} is in an HA group, which fails over instead: leave retain out")


def _check_repeated(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec) -> None:
    """Raise for a persistent stream that would keep rows which were abandoned when everybody went back."""
    for name in graph.order:
        if not graph[name].deterministic and stream.source in graph.reachable(name):
            raise UsageError(
                f"stream {stream.id} is persistent, and {name} is not deterministic: under {protocol.name} all go back "
                f"together, and the stream would keep what {name} does not give out again; use --protocol hybrid, "
                "or leave its protection out"
            )


def _check_edge(graph: Graph, stream: StreamSpec, group: str) -> None:
    """Raise for what the edge of a group cannot be yet."""
    if kept(graph, stream):
        raise UsageError(
            f"stream {stream.id} leaves HA group {group} and is persistent, and replicas cannot write one stream "
            f"together: take {stream.source} out of the group, or leave out its backup and persist"
        )
    if not graph[stream.target].tolerates_loss:
        raise UsageError(
            f"{stream.target} cannot bear loss and is fed by HA group {group}, which may lose tuples as it fails over: "
            f"put {stream.target} into the group, or take {stream.source} out of it"
        )


def kept(graph: Graph, stream: StreamSpec) -> bool:
    annotations = graph[stream.source].annotations
    kept = annotations.backup or annotations.continuous is not None
    return kept or stream.source_port in (annotations.persist or ())
