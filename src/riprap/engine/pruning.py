"""Column pruning: which columns of each stream are read downstream. The engine passes no others between operators."""

import pyarrow as pa

from riprap.engine.feedback import carried
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.specs import Sink

Wanted = dict[str, tuple[frozenset[str], ...]]  # by operator, one set of columns per output port (a sink: its input)


def wanted_columns(graph: Graph, members: frozenset[str] | None = None, whole: frozenset[str] = frozenset()) -> Wanted:
    """The columns that are read, for the operators of a fragment (default: all). Streams that leave it, may be taps, or
    are named (by id) in `whole` keep all columns.
    """
    if members is None:
        members = frozenset(graph.order)
    wanted: Wanted = {}
    for name in reversed(graph.order):
        if name not in members:
            continue
        spec = graph[name]
        if isinstance(spec, Sink):
            wanted[name] = (frozenset(graph.input_schemas(name)[0].names),)
            continue
        ports: list[frozenset[str]] = [frozenset()] * spec.outputs
        for stream in graph.outputs(name):
            port = stream.source_port
            everything = frozenset(graph.schema(name, port).names)
            tapped = port in (spec.annotations.persist or ()) or stream.id in whole
            outside = stream.target not in members or stream.feedback is not None
            if tapped or outside or isinstance(graph[stream.target], Sink):
                ports[port] = everything
            else:
                target = graph[stream.target]
                needs = target.needed(graph.input_schemas(stream.target), wanted[stream.target])
                ports[port] |= needs[stream.target_port]
        wanted[name] = tuple(ports)
    return wanted


def carried_schema(graph: Graph, stream: StreamSpec, wanted: Wanted) -> pa.Schema:
    """The schema of a batch on a stream into an operator of the fragment."""
    if stream.feedback is not None:
        return carried(graph, stream)
    return emitted_schema(graph, stream.source, stream.source_port, wanted)


def emitted_schema(graph: Graph, name: str, port: int, wanted: Wanted) -> pa.Schema:
    """The schema of a batch that an operator emits; all of its columns if `wanted` does not have the operator."""
    schema = graph.physical(name, port)
    if name not in wanted:
        return schema
    columns = graph.schema(name, port).names
    return pa.schema([f for f in schema if f.name in wanted[name][port] or f.name not in columns])
