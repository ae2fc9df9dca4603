"""The retention of a stream between two fragments: as annotated, or the default of the protocol.

`protocols/channel.py` defines the retentions, and `checks.py` refuses invalid ones.
"""

from riprap.graph.graph import Graph, StreamSpec
from riprap.protocols.channel import Retention
from riprap.protocols.protocol import ProtocolSpec


def retention_of(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec) -> Retention:
    if max(graph[end].annotations.copies for end in (stream.source, stream.target)) > 1:
        return "copy"
    group = graph[stream.source].annotations.ha_group
    if group is not None and group != graph[stream.target].annotations.ha_group:
        return "remember"
    if persistent(graph, stream):
        return "log"
    if share_of(graph, stream) is not None:
        return "while-down"
    tolerant, intolerant = protocol.retention
    return tolerant if graph[stream.target].tolerates_loss else intolerant


def share_of(graph: Graph, stream: StreamSpec) -> float | None:
    """The share of rows that is retained while the consumer is down; None: the stream has no `retain()`."""
    retain = graph[stream.source].annotations.retain
    if (
        retain is None
        or persistent(graph, stream)
        or (retain.ports is not None and stream.source_port not in retain.ports)
    ):
        return None
    return retain.share


def persistent(graph: Graph, stream: StreamSpec) -> bool:
    """Whether the stream is persistent, by `persist()`, `backup()` or `continuous()`."""
    annotations = graph[stream.source].annotations
    all_ports = annotations.backup or annotations.continuous is not None
    return all_ports or stream.source_port in (annotations.persist or ())
