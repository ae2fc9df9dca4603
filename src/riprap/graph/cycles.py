"""Strongly connected components, of operators in a graph and of elements in a run."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from riprap.graph.graph import Graph

Node = TypeVar("Node")


def connected_parts(after: Mapping[Node, Iterable[Node]]) -> list[tuple[Node, ...]]:
    """Every cyclic strongly connected component; a single node counts only if it has an edge to itself.

    `after` maps every node to its successors; the nodes of a component are in its order. Quadratic.
    """
    reached = {node: _reached(after, node) for node in after}
    parts: list[tuple[Node, ...]] = []
    for node in after:
        if node in reached[node] and not any(node in part for part in parts):
            parts.append(tuple(other for other in after if other in reached[node] and node in reached[other]))
    return parts


def cyclic_parts(graph: Graph) -> list[tuple[str, ...]]:
    """The operators of each cycle of a graph; cycles that share an operator are one."""
    if not graph.cyclic:
        return []
    after: dict[str, list[str]] = {name: [] for name in graph.order}
    for stream in graph.streams:
        after[stream.source].append(stream.target)
    return connected_parts(after)


def _reached(after: Mapping[Node, Iterable[Node]], node: Node) -> set[Node]:
    seen: set[Node] = set()
    stack = list(after[node])
    while stack:
        if (other := stack.pop()) not in seen:
            seen.add(other)
            stack += after[other]
    return seen
