"""Converts a stream graph into nodes and edges for drawing."""

from riprap.graph.drawing import Edge, Node, Shape
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink, Source


def picture(graph: Graph) -> tuple[list[Node], list[Edge]]:
    """Every operator with its description; persistent streams are dashed."""
    nodes = []
    for spec in graph:
        shape: Shape = "source" if isinstance(spec, Source) else "sink" if isinstance(spec, Sink) else "box"
        columns = [f"{f.name} {f.type}" for port in range(spec.outputs) for f in graph.schema(spec.name, port)]
        protection = spec.annotations.describe()
        nodes.append(
            Node(
                id=spec.name,
                label=spec.name,
                sublabel=_short(spec.describe()) if shape == "box" else "",
                shape=shape,
                badge=protection[0] if protection else "",
                tooltip="\n".join([spec.kind, *protection, *columns]),
            )
        )
    edges = []
    for stream in graph.streams:
        annotations = graph[stream.source].annotations
        persistent = annotations.backup or stream.source_port in (annotations.persist or ())
        edges.append(
            Edge(
                stream.source,
                stream.target,
                style="dashed" if persistent else "solid",
                tooltip=f"{stream.id} ({stream.partitioning}{', persistent' if persistent else ''})",
            )
        )
    return nodes, edges


def _short(text: str, limit: int = 36) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
