"""Branch and bound with rows generated on demand and exact bounds.

The branching vertex is the one that moves the bound most in both directions: by strong branching the first time, by its
pseudo-costs later. Every node is closed by an integer bound (`CoveringLp.bound`) or by a row that cannot be met, so the
proof holds at any costs. The search continues with the open node of the least bound; with `dive` it first descends as
far as possible, which finds better plans.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.covering_lp import Basis, CoveringLp
from riprap.planner.paths import LongPaths

WHOLE = 1e-6  # a fraction this near to 0 or 1 counts as that
ROWS = 5  # per undecided vertex; above this, slack rows are dropped
CANDIDATES = 8  # vertices that are compared for branching


@dataclass(frozen=True, eq=False)
class _Node:
    bound: int
    objective: float
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray


class Branching:
    def __init__(
        self, program: CoveringLp, paths: LongPaths, cost: Callable[[], int], accept: Callable[[np.ndarray], None],
        clock: Clock, deadline: float, *, dive: bool,
    ) -> None:  # fmt: skip
        """`cost()`: cost of the best plan so far; `accept` receives plans that cover all paths."""
        self.dive = dive
        self.program, self.paths, self.cost, self.accept = program, paths, cost, accept
        self.clock, self.deadline, self.cut_short = clock, deadline, False
        size = program.core.size
        # Pseudo-costs: the mean gain of the objective per unit moved to 0 and to 1; and the number of samples.
        self.gain, self.tried = np.zeros((size, 2)), np.zeros((size, 2), np.int64)

    def lower_bound(self) -> int:
        """No plan costs less than the smaller of this and `cost()`. Exact if time allows."""
        current = self._node(self.program.low, self.program.high)
        if current is None and self._is_late():
            return 0
        open_nodes: list[tuple[float, int, _Node]] = []
        number = 0
        while open_nodes or current is not None:
            if self._is_late():
                left = [node.bound for _, _, node in open_nodes] + ([] if current is None else [current.bound])
                return min(left)
            if current is None:
                current = heappop(open_nodes)[2]
            if current.bound >= self.cost():
                current = None
                continue
            children = self._children(current)
            if self._is_late():
                return min([node.bound for _, _, node in open_nodes] + [current.bound])
            children.sort(key=lambda child: child.objective)
            current = children.pop(0) if children and self.dive else None
            for child in children:
                number += 1
                heappush(open_nodes, (child.objective, number, child))
        return self.cost()

    def _is_late(self) -> bool:
        return self.cut_short or self.clock.monotonic() >= self.deadline

    def _run(self) -> bool:
        """False if the solver hit the deadline: then the search ends."""
        self.cut_short = self.cut_short or not self.program.run(self.clock, self.deadline)
        return not self.cut_short

    def _node(self, low: np.ndarray, high: np.ndarray, least: int = 0) -> _Node | None:
        """The relaxation with all its rows; None if it has no cheaper plan than the best, or time is up."""
        program = self.program
        program.limit(low, high)
        while True:
            if not program.is_open():
                return None
            if not self._run():
                return None
            bound = program.bound()
            least = least if bound is None else max(least, bound)
            if least >= self.cost():
                return None
            weight = np.clip(np.array(program.weight), low, high)
            missing = self.paths.uncovered(weight.tolist())
            if not program.add(missing):
                break
        node = _Node(least, program.objective, low, high, weight)
        if len(program.rows) > ROWS * int((high > low).sum()) + 1_000:
            program.drop_slack()
        rounded = np.round(weight)
        if np.abs(weight - rounded).max() < WHOLE and not self.paths.uncovered(rounded.tolist()):
            self.accept(rounded > 0.5)
        return node

    def _children(self, node: _Node) -> list[_Node]:
        self.program.limit(node.low, node.high)
        if not self._run():
            return []
        near = self.program.basis()  # of the node: closer to its children than the basis of the last trial
        vertex = self._chosen(node, near)
        if vertex is None:
            return []
        children = []
        for value in (0, 1):
            self.program.start_from(near)
            child = self._node(*_decided(node, vertex, value), node.bound)
            if child is not None:
                children.append(child)
                self._learn(node, vertex, value, child.objective)
        return children

    def _chosen(self, node: _Node, near: Basis) -> int | None:
        free = np.flatnonzero(node.low < node.high)
        if not len(free):
            return None
        weight = node.weight[free]
        doubt = np.minimum(weight, 1 - weight)
        if doubt.max() < WHOLE:  # integral but not proven: the most expensive
            return int(free[np.argmax(self.program.cost[free])])
        free, weight, doubt = free[doubt >= WHOLE], weight[doubt >= WHOLE], doubt[doubt >= WHOLE]
        known = self.tried[free].min(axis=1) > 0
        expected = _score(self.gain[free, 0] * weight, self.gain[free, 1] * (1 - weight))
        best = free[known][np.argsort(-expected[known], kind="stable")][:CANDIDATES]
        fresh = free[~known][np.argsort(-doubt[~known] * (1 + self.program.cost[free[~known]]), kind="stable")]
        scores = {int(vertex): float(expected[free == vertex][0]) for vertex in best}
        for vertex in fresh[: max(2, CANDIDATES - len(best))].tolist():
            gains = [self._tried_out(node, vertex, value, near) for value in (0, 1)]
            scores[vertex] = float(_score(np.array(gains[0]), np.array(gains[1])))
            if self._is_late():
                break
        return max(scores, key=lambda vertex: (scores[vertex], -vertex))

    def _tried_out(self, node: _Node, vertex: int, value: int, near: Basis) -> float:
        low, high = _decided(node, vertex, value)
        self.program.limit(low, high)
        if not self.program.is_open():
            return self._learn(node, vertex, value, float(self.cost()))
        self.program.start_from(near)
        if not self._run():
            return 0.0
        return self._learn(node, vertex, value, min(self.program.objective, float(self.cost())))

    def _learn(self, node: _Node, vertex: int, value: int, objective: float) -> float:
        gained = max(0.0, objective - node.objective)
        moved = max(WHOLE, abs(value - node.weight[vertex]))
        times = self.tried[vertex, value]
        self.gain[vertex, value] = (self.gain[vertex, value] * times + gained / moved) / (times + 1)
        self.tried[vertex, value] += 1
        return gained


def _decided(node: _Node, vertex: int, value: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = node.low.copy(), node.high.copy()
    low[vertex] = high[vertex] = value
    return low, high


def _score(down: np.ndarray, up: np.ndarray) -> np.ndarray:
    return np.maximum(down, 1e-6) * np.maximum(up, 1e-6)
