"""The linear program of a covering problem: rows are added as they are found, and its bound is exact.

HiGHS is asked for prices (dual values) and nothing else is believed: for any prices y ≥ 0 on the rows,

    k·Σy + Σ over vertices of the least of (cost − prices paid)·M, M between its limits

is a lower bound on every plan. It is summed in whole numbers, so that it proves an optimum at any costs.
"""

from itertools import compress
from math import gcd
from typing import Any

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.reductions import Core

SLACK = 0.3  # a row that holds this much more than it needs is not worth keeping
Basis = Any  # of the solver
_LARGEST = 1e3  # costs given to the solver: its tolerances are absolute, 1e-10 at best


class CoveringLp:
    def __init__(self, core: Core, dominances: list[tuple[int, int]], counted: np.ndarray) -> None:
        """`counted`: the vertices that may be backups."""
        import highspy

        self.core, self.dominances = core, dominances
        self.rows: dict[tuple[int, ...], None] = {}
        self.lengths, self.tasks = _flat([])  # of the rows, all in one
        self.masters = np.array(dominances, np.int64).reshape(-1, 2)
        self.cost = core.cost
        self.unit = gcd(*core.cost.tolist()) or 1  # costs are whole multiples of it, and so is the optimum
        self.scale = max(float(core.cost.max()), 1.0) / (1.0 if core.cost.max() < _LARGEST else _LARGEST)
        self.low = np.where(core.fixed == 1, 1, 0)
        self.high = np.where((core.fixed != 0) & counted, 1, 0)
        # Prices in fractions of a unit of cost, as fine as whole numbers of 64 bits carry.
        self.fraction = 2 ** max(0, min(40, 60 - int(core.cost.sum() * core.failures + core.size).bit_length()))
        self.highs = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("dual_feasibility_tolerance", 1e-10)):
            self.highs.setOptionValue(option, value)
        self.highs.addVars(core.size, self.low.astype(float), self.high.astype(float))
        everyone = np.arange(core.size, dtype=np.int32)
        self.highs.changeColsCost(core.size, everyone, core.cost / self.scale)
        for slave, master in dominances:
            self.highs.addRow(0.0, np.inf, 2, np.array([master, slave], np.int32), np.array([1.0, -1.0]))

    def add(self, ways: list[tuple[int, ...]]) -> bool:
        """Each way must hold k backups. False if all of them are known."""
        fresh = [way for way in ways if way not in self.rows]
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
        """Each M from now on lies between these."""
        changed = np.flatnonzero((low != self.low) | (high != self.high)).astype(np.int32)
        self.low, self.high = low, high
        if len(changed):
            self.highs.changeColsBounds(len(changed), changed, low[changed].astype(float), high[changed].astype(float))

    def drop_slack(self) -> None:
        """Rows that the solution more than meets go; where they are missed they are found again.

        They are most of the rows, and a run takes time in proportion to them. The solver forgets its basis when rows
        go, so it is given what is left of it: rows that are slack are basic, and what remains is a basis.
        """
        count = len(self.dominances)
        slack = np.array(self.highs.getSolution().row_value)[count:] > self.core.failures + SLACK
        if not slack.any():
            return
        basis = self.basis()
        places = (np.flatnonzero(slack) + count).astype(np.int32)
        self.highs.deleteRows(len(places), places)
        self.rows = dict.fromkeys(way for way, gone in zip(self.rows, slack.tolist(), strict=True) if not gone)
        self.tasks = self.tasks[np.repeat(~slack, self.lengths)]
        self.lengths = self.lengths[~slack]
        kept = [True] * count + (~slack).tolist()
        basis.row_status = list(compress(basis.row_status, kept))
        self.begin_at(basis)

    def basis(self) -> Basis:
        """Where the last run ended."""
        return self.highs.getBasis()

    def begin_at(self, basis: Basis) -> None:
        """The next run begins there, unless rows came or went since."""
        if basis.valid and len(basis.row_status) == self.highs.getNumRow():
            self.highs.setBasis(basis)

    def run(self, clock: Clock, deadline: float) -> bool:
        """False if there was no time for it."""
        import highspy

        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        # The solver's clock goes on from run to run, and its limit is on all of them together.
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
        self.highs.run()
        return bool(self.highs.getModelStatus() != highspy.HighsModelStatus.kTimeLimit)

    @property
    def objective(self) -> float:
        """What the solver says the relaxation costs: to compare by, not to prove with."""
        return float(self.highs.getInfo().objective_function_value) * self.scale

    @property
    def weight(self) -> list[float]:
        return [max(0.0, value) for value in self.highs.getSolution().col_value]

    def bound(self) -> int | None:
        """No plan within the limits costs less. None where the solver has no prices."""
        solution = self.highs.getSolution()
        if not solution.dual_valid:
            return None
        dual = np.maximum(np.array(solution.row_dual), 0.0) * self.scale * self.fraction
        price = np.minimum(dual, float(2**60 // (len(dual) + 1))).astype(np.int64)
        paid = np.zeros(self.core.size, np.int64)
        count = len(self.dominances)
        np.subtract.at(paid, self.masters[:, 0], price[:count])
        np.add.at(paid, self.masters[:, 1], price[:count])
        ways = price[count:]
        np.add.at(paid, self.tasks, np.repeat(ways, self.lengths))
        unpaid = self.cost * self.fraction - paid
        total = self.core.failures * int(ways.sum()) + int(np.minimum(unpaid * self.low, unpaid * self.high).sum())
        return -(-total // (self.fraction * self.unit)) * self.unit


def _flat(ways: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Their lengths, and all their tasks one after the other."""
    lengths = np.array([len(way) for way in ways], np.int64)
    return lengths, np.array([task for way in ways for task in way], np.int32)
