"""Adjacency of a core in compressed rows, for compiled code.

The neighbours of v are at start[v] … start[v + 1] − 1, ascending.
"""

from dataclasses import dataclass

import numpy as np

from riprap.planner.reductions import Core


@dataclass(frozen=True, eq=False)
class Neighbours:
    before_start: np.ndarray  # int64 [n + 1]
    before: np.ndarray  # int32 [m]
    after_start: np.ndarray  # int64 [n + 1]
    after: np.ndarray  # int32 [m]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.before_start, self.before, self.after_start, self.after


def neighbours(core: Core) -> Neighbours:
    source, target = core.edges[:, 0], core.edges[:, 1]
    return Neighbours(*_grouped(core.size, target, source), *_grouped(core.size, source, target))


def _grouped(size: int, by: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((others, by))
    start = np.searchsorted(by[order], np.arange(size + 1)).astype(np.int64)
    return start, np.ascontiguousarray(others[order], np.int32)
