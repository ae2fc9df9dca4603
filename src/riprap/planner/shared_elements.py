"""Operators that share a processing element: the planner treats them as one task, whose T is the sum of theirs.

An element is checkpointed and recovers as a whole: whichever of its operators is needed, all of them reprocess the
input since the checkpoint. A backup inside it is never read then; only streams that leave the element matter.
The task has the name of the element, which is that of its first operator.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from riprap.base.quantities import Duration
from riprap.planner.topology import Topology, topology


def as_elements(given: Topology, elements: Sequence[Sequence[str]]) -> Topology:
    """One task per element, in this order; `elements` contain every task of `given` once."""
    home = homes(elements)
    latency = {
        members[0]: Duration(int(sum(given.latency[given.index(name)] for name in members))) for members in elements
    }
    cost = {members[0]: int(sum(given.costs[given.index(name)] for name in members)) for members in elements}
    edges: dict[tuple[str, str], bool] = {}
    back = given.feedback if len(given.feedback) else np.zeros(len(given.edges), bool)
    for (source, target), feedback in zip(given.edges.tolist(), back.tolist(), strict=True):
        edge = (home[given.tasks[source]], home[given.tasks[target]])
        if edge[0] != edge[1]:
            edges[edge] = edges.get(edge, False) or feedback
    return topology(
        given.name, latency, list(edges), feedback=[edge for edge, feedback in edges.items() if feedback], cost=cost
    )


def homes(elements: Iterable[Sequence[str]]) -> dict[str, str]:
    """Operator → the task that it belongs to."""
    return {name: members[0] for members in elements for name in members}


def kept_elements(given: Topology, elements: Sequence[Sequence[str]], backups: Iterable[str]) -> tuple[str, ...]:
    """The tasks all of whose outgoing streams are persistent if these operators are backups."""
    home, kept = homes(elements), set(backups)
    leaving: dict[str, set[str]] = {}
    for source, target in given.edges.tolist():
        if home[given.tasks[source]] != home[given.tasks[target]]:
            leaving.setdefault(home[given.tasks[source]], set()).add(given.tasks[source])
    return tuple(task for task, operators in leaving.items() if operators <= kept)
