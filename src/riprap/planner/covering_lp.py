"""The linear program of a covering problem: rows are added on demand, and its bound is exact.

Only the prices (dual values) of HiGHS are used. For any prices y ≥ 0 on the rows,

    k·Σy + Σ over vertices of the least of (cost − prices paid)·M, M between its limits

is a lower bound on every plan. It is summed in integers, so it proves an optimum at any costs.
"""

from itertools import compress
from math import gcd
from typing import Any

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.reductions import Core

SLACK = 0.3  # rows with at least this slack are dropped
Basis = Any  # of the solver
_LARGEST = 1e3  # costs given to the solver: its tolerances are absolute, 1e-10 at best


class CoveringLp:
    def __init__(self, core: Core, dominances: list[tuple[int, int]], counted: np.ndarray) -> None:
        """`counted`: the vertices that may be backups."""
        import highspy

        self.core, self.dominances = core, dominances
        self.rows: dict[tuple[int, ...], None] = {}
        self.lengths, self.tasks = _flat([])  # of all rows
        self.masters = np.array(dominances, np.int64).reshape(-1, 2)
        self.cost = core.cost
        self.unit = gcd(*core.cost.tolist()) or 1  # costs are multiples of it, and so is the optimum
        self.scale = max(float(core.cost.max()), 1.0) / (1.0 if core.cost.max() < _LARGEST else _LARGEST)
        self.low = np.where(core.fixed == 1, 1, 0)
        self.high = np.where((core.fixed != 0) & counted, 1, 0)
        # Prices are integers: fractions of a unit of cost, as fine as 64 bits allow.
        self.fraction = 2 ** max(0, min(40, 60 - int(core.cost.sum() * core.failures + core.size).bit_length()))
        self.highs = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("dual_feasibility_tolerance", 1e-10)):
            self.highs.setOptionValue(option, value)
        self.highs.addVars(core.size, self.low.astype(float), self.high.astype(float))
        every_column = np.arange(core.size, dtype=np.int32)
        self.highs.changeColsCost(core.size, every_column, core.cost / self.scale)
        for slave, master in dominances:
            self.highs.addRow(0.0, np.inf, 2, np.array([master, slave], np.int32), np.array([1.0, -1.0]))

    def add(self, paths: list[tuple[int, ...]]) -> bool:
        """Adds a row for each path: it must have k backups. False if all rows exist."""
        fresh = [path for path in paths if path not in self.rows]
        if not fresh:
            return False
        self.rows.update(dict.fromkeys(fresh))
        lengths, tasks = _flat(fresh)
        self.lengths, self.tasks = np.concatenate([self.lengths, lengths]), np.concatenate([self.tasks, tasks])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
        count, entries = len(fresh), len(tasks)
        need = np.full(count, float(self.core.failures))
        self.highs.addRows(count, need, np.full(count, np.inf), entries, starts, tasks, np.ones(entries))
        return True

    def is_open(self) -> bool:
        """Whether every row can still be met within the limits."""
        if not len(self.lengths):
            return True
        most = np.add.reduceat(self.high[self.tasks], np.cumsum(self.lengths) - self.lengths)
        return bool(np.all(most >= self.core.failures))

    def limit(self, low: np.ndarray, high: np.ndarray) -> None:
        """Sets the limits of each M."""
        changed = np.flatnonzero((low != self.low) | (high != self.high)).astype(np.int32)
        self.low, self.high = low, high
        if len(changed):
            self.highs.changeColsBounds(len(changed), changed, low[changed].astype(float), high[changed].astype(float))

    def drop_slack(self) -> None:
        """Drops slack rows; they are generated again if needed.

        They are most of the rows, and a run takes time in proportion to them. The solver discards its basis when rows
        are deleted, so the rest of the basis is set again: slack rows are basic, so the remainder is still a basis.
        """
        count = len(self.dominances)
        slack = np.array(self.highs.getSolution().row_value)[count:] > self.core.failures + SLACK
        if not slack.any():
            return
        basis = self.basis()
        places = (np.flatnonzero(slack) + count).astype(np.int32)
        self.highs.deleteRows(len(places), places)
        self.rows = dict.fromkeys(
            path for path, is_slack in zip(self.rows, slack.tolist(), strict=True) if not is_slack
        )
        self.tasks = self.tasks[np.repeat(~slack, self.lengths)]
        self.lengths = self.lengths[~slack]
        remaining = [True] * count + (~slack).tolist()
        basis.row_status = list(compress(basis.row_status, remaining))
        self.start_from(basis)

    def basis(self) -> Basis:
        """The basis at the end of the last run."""
        return self.highs.getBasis()

    def start_from(self, basis: Basis) -> None:
        """Starts the next run from this basis, unless rows were added or deleted since."""
        if basis.valid and len(basis.row_status) == self.highs.getNumRow():
            self.highs.setBasis(basis)

    def run(self, clock: Clock, deadline: float) -> bool:
        """False if the deadline was too near."""
        import highspy

        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        # The solver's clock and time limit are cumulative over runs.
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
        self.highs.run()
        return bool(self.highs.getModelStatus() != highspy.HighsModelStatus.kTimeLimit)

    @property
    def objective(self) -> float:
        """The solver's cost of the relaxation: for comparison, not for proofs."""
        return float(self.highs.getInfo().objective_function_value) * self.scale

    @property
    def weight(self) -> list[float]:
        return [max(0.0, value) for value in self.highs.getSolution().col_value]

    def bound(self) -> int | None:
        """No plan within the limits costs less. None if the solver has no prices."""
        solution = self.highs.getSolution()
        if not solution.dual_valid:
            return None
        dual = np.maximum(np.array(solution.row_dual), 0.0) * self.scale * self.fraction
        price = np.minimum(dual, float(2**60 // (len(dual) + 1))).astype(np.int64)
        paid = np.zeros(self.core.size, np.int64)
        count = len(self.dominances)
        np.subtract.at(paid, self.masters[:, 0], price[:count])
        np.add.at(paid, self.masters[:, 1], price[:count])
        paths = price[count:]
        np.add.at(paid, self.tasks, np.repeat(paths, self.lengths))
        unpaid = self.cost * self.fraction - paid
        total = self.core.failures * int(paths.sum()) + int(np.minimum(unpaid * self.low, unpaid * self.high).sum())
        return -(-total // (self.fraction * self.unit)) * self.unit


def _flat(paths: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the paths, and their tasks concatenated."""
    lengths = np.array([len(path) for path in paths], np.int64)
    return lengths, np.array([task for path in paths for task in path], np.int32)
