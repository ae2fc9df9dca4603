"""Branch and bound whose every bound is exact: the proof where the solver's own is not fine enough.

HiGHS proves an optimum up to its tolerances. Where costs lie nine orders of magnitude apart that proves nothing about
the smallest of them; here each node of the tree is closed by a bound in whole numbers (`CoveringLp.bound`) or by a row
that can no longer be met.
"""

from collections.abc import Callable

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.covering_lp import CoveringLp
from riprap.planner.ways import Ways

WHOLE = 1e-6  # a fraction this near to 0 or 1 counts as that


def is_proven(
    program: CoveringLp, ways: Ways, cost: Callable[[], int], accept: Callable[[np.ndarray], None], clock: Clock,
    deadline: float,
) -> bool:  # fmt: skip
    """Looks through everything that could cost less than `cost()`, handing plans that cover all ways to `accept`."""
    nodes = [(program.low, program.high)]
    while nodes:
        low, high = nodes.pop()
        program.limit(low, high)
        weight = _relaxed(program, ways, cost, clock, deadline)
        if weight is None:
            if clock.monotonic() >= deadline:
                return False
            continue
        free = np.flatnonzero(low < high)
        whole = np.round(weight)
        if np.abs(weight - whole).max() < WHOLE and not ways.uncovered(whole.tolist()):
            accept(whole > 0.5)
        if not len(free):
            continue
        # The costliest of the undecided: that moves the bound most.
        doubt = np.minimum(weight[free], 1 - weight[free])
        vertex = free[np.argmax(doubt * (program.cost[free] + 1) + 1e-9 * program.cost[free])]
        for value in (0, 1):
            child_low, child_high = low.copy(), high.copy()
            child_low[vertex] = child_high[vertex] = value
            nodes.append((child_low, child_high))
    return True


def _relaxed(
    program: CoveringLp, ways: Ways, cost: Callable[[], int], clock: Clock, deadline: float
) -> np.ndarray | None:
    """The relaxation of a node with all its rows; None if the node is closed, or time is up."""
    while True:
        if any(program.high[list(way)].sum() < program.core.failures for way in program.rows):
            return None
        if not program.run(clock, deadline):
            return None
        bound = program.bound()
        if bound is not None and bound >= cost():
            return None
        weight = np.clip(np.array(program.weight), program.low, program.high)
        if not program.add(ways.uncovered(weight.tolist())):
            return weight
