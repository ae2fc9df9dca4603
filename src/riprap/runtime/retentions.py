"""Which retention a stream between two fragments has: what it was asked to have, or what the protocol of the run says.

What a retention is `protocols/channel.py` says, and what cannot be `checks.py`.
"""

from riprap.graph.graph import Graph, StreamSpec
from riprap.protocols.channel import Retention
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import ProtocolSpec


def retention_of(graph: Graph, stream: StreamSpec, protocol: ProtocolSpec = PARTIAL) -> Retention:
    if max(graph[end].annotations.copies for end in (stream.source, stream.target)) > 1:
        return "copy"
    group = graph[stream.source].annotations.ha_group
    if group is not None and group != graph[stream.target].annotations.ha_group:
        return "remember"
    if kept(graph, stream):
        return "log"
    if share_of(graph, stream) is not None:
        return "while-down"
    tolerant, intolerant = protocol.retention
    return tolerant if graph[stream.target].tolerates_loss else intolerant


def share_of(graph: Graph, stream: StreamSpec) -> float | None:
    """Of what comes while its consumer is down, what of it is kept; None: the stream was not asked to be retained."""
    asked = graph[stream.source].annotations.retain
    if asked is None or kept(graph, stream) or (asked.ports is not None and stream.source_port not in asked.ports):
        return None
    return asked.share


def kept(graph: Graph, stream: StreamSpec) -> bool:
    annotations = graph[stream.source].annotations
    kept = annotations.backup or annotations.continuous is not None
    return kept or stream.source_port in (annotations.persist or ())
