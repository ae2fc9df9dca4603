"""The linear program of a covering problem: rows are added as they are found, and its bound is exact.

HiGHS is asked for prices (dual values) and nothing else is believed: for any prices y ≥ 0 on the rows,

    k·Σy + Σ over vertices of the least of (cost − prices paid)·M, M between its limits

is a lower bound on every plan. It is summed in whole numbers, so that it proves an optimum at any costs.
"""

from math import gcd

import numpy as np

from riprap.base.clock import Clock
from riprap.planner.reductions import Core

_LARGEST = 1e3  # costs given to the solver: its tolerances are absolute, 1e-10 at best


class CoveringLp:
    def __init__(self, core: Core, dominances: list[tuple[int, int]]) -> None:
        import highspy

        self.core, self.dominances = core, dominances
        self.rows: dict[tuple[int, ...], None] = {}
        self.cost = core.cost
        self.unit = gcd(*core.cost.tolist()) or 1  # costs are whole multiples of it, and so is the optimum
        self.scale = max(float(core.cost.max()), 1.0) / (1.0 if core.cost.max() < _LARGEST else _LARGEST)
        self.low = np.where(core.fixed == 1, 1, 0)
        self.high = np.where(core.fixed == 0, 0, 1)
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
        lengths = np.array([len(way) for way in fresh])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
        count, entries = len(fresh), int(lengths.sum())
        need = np.full(count, float(self.core.failures))
        indices = np.concatenate([np.array(way, np.int32) for way in fresh])
        self.highs.addRows(count, need, np.full(count, np.inf), entries, starts, indices, np.ones(entries))
        return True

    def limit(self, low: np.ndarray, high: np.ndarray) -> None:
        """Each M from now on lies between these."""
        changed = np.flatnonzero((low != self.low) | (high != self.high)).astype(np.int32)
        self.low, self.high = low, high
        if len(changed):
            self.highs.changeColsBounds(len(changed), changed, low[changed].astype(float), high[changed].astype(float))

    def set_integer(self, integer: bool) -> None:
        import highspy

        kind = highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
        everyone = np.arange(self.core.size, dtype=np.int32)
        self.highs.changeColsIntegrality(self.core.size, everyone, np.full(self.core.size, kind))
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 0.5 * self.unit / self.scale)

    def run(self, clock: Clock, deadline: float) -> bool:
        """False if there was no time for it."""
        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        self.highs.setOptionValue("time_limit", float(left))
        self.highs.run()
        return True

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
        if count:
            slaves, masters = np.array(self.dominances).T
            np.add.at(paid, masters, price[:count])
            np.subtract.at(paid, slaves, price[:count])
        ways = price[count:]
        if len(ways):
            lengths = np.fromiter((len(way) for way in self.rows), np.int64, len(self.rows))
            np.add.at(paid, np.concatenate([np.array(way) for way in self.rows]), np.repeat(ways, lengths))
        unpaid = self.cost * self.fraction - paid
        total = self.core.failures * int(ways.sum()) + int(np.minimum(unpaid * self.low, unpaid * self.high).sum())
        return -(-total // (self.fraction * self.unit)) * self.unit
