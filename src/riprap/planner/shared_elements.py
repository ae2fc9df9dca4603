"""Operators that share a processing element: the planner treats them as one task, whose T is the sum of theirs.

An element is checkpointed and recovers as a whole: whichever of its operators is needed, all of them reprocess the
input since the checkpoint. A backup inside it is never read then; only streams that leave the element matter.
The task has the name of the element, which is that of its first operator.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from riprap.base.quantities import Duration
from riprap.planner.topology import Topology, topology


def as_elements(graph: Topology, elements: Sequence[Sequence[str]]) -> Topology:
    """One task per element, in this order; `elements` contain every task of `graph` once."""
    home = homes(elements)
    latency = {
        members[0]: Duration(int(sum(graph.latency[graph.index(name)] for name in members))) for members in elements
    }
    cost = {members[0]: int(sum(graph.costs[graph.index(name)] for name in members)) for members in elements}
    edges: dict[tuple[str, str], bool] = {}
    back = graph.feedback if len(graph.feedback) else np.zeros(len(graph.edges), bool)
    for (source, target), feedback in zip(graph.edges.tolist(), back.tolist(), strict=True):
        edge = (home[graph.tasks[source]], home[graph.tasks[target]])
        if edge[0] != edge[1]:
            edges[edge] = edges.get(edge, False) or feedback
    return topology(
        graph.name, latency, list(edges), feedback=[edge for edge, feedback in edges.items() if feedback], cost=cost
    )


def homes(elements: Iterable[Sequence[str]]) -> dict[str, str]:
    """Operator → the task that it belongs to."""
    return {name: members[0] for members in elements for name in members}


def backup_elements(graph: Topology, elements: Sequence[Sequence[str]], backups: Iterable[str]) -> tuple[str, ...]:
    """The tasks all of whose outgoing streams are persistent if these operators are backups."""
    home, backup_names = homes(elements), set(backups)
    leaving: dict[str, set[str]] = {}
    for source, target in graph.edges.tolist():
        if home[graph.tasks[source]] != home[graph.tasks[target]]:
            leaving.setdefault(home[graph.tasks[source]], set()).add(graph.tasks[source])
    return tuple(task for task, operators in leaving.items() if operators <= backup_names)
