"""The input of the planner: tasks, the time each needs to reprocess its recent input, and the edges between them.

Latencies are whole microseconds, so bounds are compared without rounding. Tasks are numbered; names are for display.
A topology may have cycles: an edge marked as feedback, or the edge that closes a cycle in a depth-first search,
is *cut*, which requires a backup at its source (see `cuts`). Everything else uses the remaining, acyclic graph.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from riprap.base.errors import GraphError, known
from riprap.base.quantities import Duration

LONGEST = 2**60  # microseconds: ΣT of all tasks, so that ΣT of any path fits into 64 bits


@dataclass(frozen=True, eq=False)
class Topology:
    name: str
    tasks: tuple[str, ...]
    latency: np.ndarray  # int64 [n], microseconds, T(v) ≥ 0: time to reprocess the input since the last checkpoint
    edges: np.ndarray  # int32 [m, 2]: source, target
    feedback: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))  # bool [m]; empty: no edge is marked
    cost: np.ndarray | None = None  # int64 [n], ≥ 0: cost of a backup of v's output (bytes/s); None: 1 each

    @property
    def size(self) -> int:
        return len(self.tasks)

    @property
    def costs(self) -> np.ndarray:
        return np.ones(self.size, np.int64) if self.cost is None else self.cost

    @cached_property
    def cuts(self) -> np.ndarray:
        """bool [m]: the edges that a backup at their source must cut to make the rest acyclic."""
        cut = self.feedback.copy() if len(self.feedback) else np.zeros(len(self.edges), bool)
        rest = np.flatnonzero(~cut)
        if not is_acyclic(self.size, self.edges[rest]):
            cut[rest] |= _closing_edges(self.size, self.edges[rest])
        return cut

    @cached_property
    def forward(self) -> np.ndarray:
        """int32 [k, 2]: the edges that are not cut."""
        return self.edges[~self.cuts]

    @cached_property
    def levels(self) -> np.ndarray:
        """int32 [n]: the number of edges on the longest acyclic path from a source to the task."""
        levels = levels_of(self.size, self.forward)
        assert levels is not None, "cuts leave no cycle"
        return levels

    def index(self, task: str) -> int:
        """The number of the task with this name."""
        try:
            return self._numbers[task]
        except KeyError:
            raise GraphError(f"no task {task} in {self.name}: it has {known(self.tasks, task)}") from None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {task: number for number, task in enumerate(self.tasks)}


def topology(
    name: str,
    latency: dict[str, Duration] | Iterable[tuple[str, Duration]],
    edges: Sequence[tuple[str, str]],
    *,
    feedback: Iterable[tuple[str, str]] = (),
    cost: dict[str, int] | None = None,
) -> Topology:
    """A checked topology from names. `feedback`: the feedback edges among `edges`."""
    items = list(latency.items() if isinstance(latency, dict) else latency)
    tasks = tuple(task for task, _ in items)
    if not tasks:
        raise GraphError(f"{name} has no tasks: a topology needs at least one")
    numbers = {task: number for number, task in enumerate(tasks)}
    if len(numbers) < len(tasks):
        twice = next(task for task in tasks if tasks.count(task) > 1)
        raise GraphError(f"{name} has two tasks called {twice}: give each task a unique name")
    negative = next((task for task, value in items if value < 0), None)
    if negative is not None:
        raise GraphError(f"task {negative} of {name} has a negative latency: T must be 0 or more")
    if sum(value for _, value in items) > LONGEST:
        raise GraphError(f"the latencies of {name} add up to more than {LONGEST // 86_400_000_000:,} days: check T")
    seen: set[tuple[str, str]] = set()
    for edge in edges:
        for end in edge:
            if end not in numbers:
                raise GraphError(f"{name} has an edge with {end}, which is not a task: it has {known(tasks, end)}")
        if edge in seen:
            raise GraphError(f"{name} has the edge {edge[0]} → {edge[1]} twice: list it once")
        seen.add(edge)
    back = set(feedback)
    if back - seen:
        source, target = min(back - seen)
        raise GraphError(f"{name} marks {source} → {target} as feedback, but has no such edge")
    for task, value in (cost or {}).items():
        if task not in numbers or value < 0:
            raise GraphError(f"cost of {task}: expected a task of {name} and a cost of 0 or more, got {value}")
    return Topology(
        name,
        tasks,
        np.array([value for _, value in items], np.int64),
        np.array([(numbers[a], numbers[b]) for a, b in edges], np.int32).reshape(-1, 2),
        np.array([edge in back for edge in edges], bool),
        None if cost is None else np.array([cost.get(task, 1) for task in tasks], np.int64),
    )


def is_acyclic(size: int, edges: np.ndarray) -> bool:
    return levels_of(size, edges) is not None


def levels_of(size: int, edges: np.ndarray) -> np.ndarray | None:
    """Number of edges on the longest path from a task without predecessors; None if there is a cycle."""
    order = np.argsort(edges[:, 0], kind="stable")
    targets = edges[order, 1]
    start = np.searchsorted(edges[order, 0], np.arange(size + 1))
    waiting = np.bincount(edges[:, 1], minlength=size)
    level = np.zeros(size, np.int32)
    ready = np.flatnonzero(waiting == 0)
    placed, number = 0, 0
    while len(ready):
        level[ready] = number
        placed += len(ready)
        fed = targets[rows(start, ready)]
        if len(fed) * 8 < size:  # few: update only those
            unique, times = np.unique(fed, return_counts=True)
            waiting[unique] -= times
            ready = unique[waiting[unique] == 0]
        else:
            times = np.bincount(fed, minlength=size)
            waiting -= times
            ready = np.flatnonzero((waiting == 0) & (times > 0))
        number += 1
    return level if placed == size else None


def rows(start: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Positions of the entries of the rows `which` of a compressed matrix whose row r is `start[r]:start[r + 1]`."""
    lengths = start[which + 1] - start[which]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(start[which] - ends + lengths, lengths)


def _closing_edges(size: int, edges: np.ndarray) -> np.ndarray:
    """Edges that close a cycle in a depth-first search from the tasks without predecessors."""
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    fed = np.zeros(size, bool)
    for number, (source, target) in enumerate(edges.tolist()):
        leaving[source].append((number, target))
        fed[target] = True
    closing = np.zeros(len(edges), bool)
    state = [0] * size  # 0 unseen, 1 on the current path, 2 done
    for root in sorted(range(size), key=lambda task: (bool(fed[task]), task)):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(leaving[root]))]
        while path:
            task, rest = path[-1]
            step = next(rest, None)
            if step is None:
                state[task] = 2
                path.pop()
            elif state[step[1]] == 1:
                closing[step[0]] = True
            elif state[step[1]] == 0:
                state[step[1]] = 1
                path.append((step[1], iter(leaving[step[1]])))
    return closing
