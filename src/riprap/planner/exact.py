"""The cheapest backups for a bound, with proof; or, when time is up, the best found and how far it can be from that.

After the reductions each core is a covering problem: choose vertices so that every way that is too long has k of
them. Its rows are generated as needed (`ways`). First the linear relaxation, whose bound is recomputed here from the
dual values alone; then, if rounding has not met that bound, integer programs over the rows found so far, each a
relaxation and so a lower bound, until one has a solution that covers all ways. The solver is never believed: plans
are checked with whole numbers, bounds are taken with a margin.

Rows that no optimum breaks make it quicker: if u′ is at least as slow as u, fed by all that feeds u and feeding all
that u feeds, then a backup at u is of no use without one at u′ (every way through u is one through u′, and longer
there).
"""

from dataclasses import dataclass
from math import ceil, gcd

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.planner.packing import packed_bound
from riprap.planner.problem import Problem, Solution
from riprap.planner.reductions import Core, reduce
from riprap.planner.rounding import first_plan, rounded
from riprap.planner.ways import Ways

LARGEST_EXACT = 6_000  # vertices of a core; above it, rounds of the linear program take longer than they are worth
MARGIN = 1e-6  # relative: how far a bound of the solver's is believed


@dataclass
class _Found:
    backups: np.ndarray  # bool [n] of the core; meets the bounds
    lower: int


def solve(asked: Problem, *, time_limit: float = 10.0, clock: Clock = SYSTEM_CLOCK) -> Solution:
    """Exact if `time_limit` (seconds) allows. The plan meets the bounds in any case."""
    deadline = clock.monotonic() + 0.9 * time_limit  # the rest is for what cannot be interrupted
    reduced = reduce(asked)
    backups = reduced.forced.copy()
    lower = int(asked.topology.costs[backups].sum())
    remaining = sum(core.size for core in reduced.cores)
    for core in sorted(reduced.cores, key=lambda core: core.size):
        # Time in proportion to what is left; what a core does not use goes to the later, larger ones.
        now = clock.monotonic()
        share = now + max(0.0, deadline - now) * core.size / remaining
        remaining -= core.size
        found = _solve_core(core, clock, share)
        lower += found.lower
        for vertex in np.flatnonzero(found.backups):
            backups[core.members[vertex]] = True
    assert asked.is_met(backups), "a plan must meet its bounds"
    return Solution(backups, int(asked.topology.costs[backups].sum()), lower, "exact")


def _solve_core(core: Core, clock: Clock, deadline: float) -> _Found:
    if core.failures == 1 and np.bincount(core.edges[:, 0], minlength=core.size).max() <= 1 and _is_flat(core):
        plan = first_plan(core, clock, deadline)  # greedy is optimal where no task feeds several, at equal costs
        return _Found(plan, int(core.cost[plan].sum()))
    if core.size > LARGEST_EXACT:
        lower = packed_bound(core)
        return _Found(first_plan(core, clock, deadline), lower)
    return _Covering(core, clock, deadline).solve()


def _is_flat(core: Core) -> bool:
    return bool(np.all(core.cost == core.cost[0]) and np.all(core.fixed < 0))


class _Covering:
    """One core, as a covering problem in HiGHS."""

    def __init__(self, core: Core, clock: Clock, deadline: float) -> None:
        import highspy

        self.core, self.clock, self.deadline = core, clock, deadline
        self.ways = Ways(core)
        self.rows: dict[tuple[int, ...], None] = {}
        self.unit = gcd(*core.cost.tolist()) or 1  # costs are whole multiples of it, and so is the optimum
        self.scale = float(core.cost.max() or 1)
        self.best = first_plan(core, clock, deadline)
        self.lower = 0
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        free = core.fixed < 0
        self.highs.addVars(core.size, np.where(free, 0.0, core.fixed), np.where(free, 1.0, core.fixed))
        everyone = np.arange(core.size, dtype=np.int32)
        self.highs.changeColsCost(core.size, everyone, core.cost / self.scale)
        self._add_dominance()

    @property
    def cost(self) -> int:
        return int(self.core.cost[self.best].sum())

    def solve(self) -> _Found:
        self._relax()
        if self.lower < self.cost and self.clock.monotonic() < self.deadline:
            self._integrate()
        return _Found(self.best, min(self.lower, self.cost))

    def _add_dominance(self) -> None:
        self.dominances = dominances(self.core)
        for slave, master in self.dominances:
            self.highs.addRow(0.0, np.inf, 2, np.array([master, slave], np.int32), np.array([1.0, -1.0]))

    def _add(self, ways: list[tuple[int, ...]]) -> bool:
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

    def _run(self) -> bool:
        left = self.deadline - self.clock.monotonic()
        if left <= 0:
            return False
        self.highs.setOptionValue("time_limit", float(left))
        self.highs.run()
        return True

    def _relax(self) -> None:
        """The linear relaxation to its end; every few rounds a rounding of it."""
        weight = [0.0] * self.core.size
        rounds = 0
        while self._add(self.ways.uncovered(weight)) and self._run():
            if not self._accept_dual_bound():
                return
            weight = [max(0.0, value) for value in self.highs.getSolution().col_value]
            rounds += 1
            if rounds % 8 == 0:
                self._round(weight)
            if self.lower >= self.cost:
                return
        if rounds:
            self._round(weight)

    def _accept_dual_bound(self) -> bool:
        """For any prices y ≥ 0 on the rows, k·Σy + the least of Σ (cost − paid)·M is a lower bound."""
        solution = self.highs.getSolution()
        if not solution.dual_valid:
            return False
        dual = np.maximum(np.array(solution.row_dual), 0.0)
        paid = np.zeros(self.core.size)
        dominance = dual[: len(self.dominances)]
        for (slave, master), value in zip(self.dominances, dominance, strict=True):
            paid[master] += value
            paid[slave] -= value
        ways = dual[len(self.dominances) :]
        lengths = np.fromiter((len(way) for way in self.rows), np.int64, len(self.rows))
        np.add.at(paid, np.concatenate([np.array(way) for way in self.rows]), np.repeat(ways, lengths))
        unpaid = self.core.cost / self.scale - paid
        chosen_by_price = np.select(
            [self.core.fixed == 1, self.core.fixed == 0], [unpaid, 0.0], np.minimum(unpaid, 0.0)
        )
        self._raise_lower(float(self.core.failures * ways.sum() + chosen_by_price.sum()))
        return True

    def _raise_lower(self, scaled: float) -> None:
        claim = scaled * self.scale / self.unit
        self.lower = max(self.lower, ceil(claim - MARGIN * max(1.0, abs(claim))) * self.unit)

    def _round(self, weight: list[float]) -> None:
        self._accept(rounded(self.core, weight, self.clock, self.deadline))

    def _accept(self, plan: np.ndarray) -> None:
        if int(self.core.cost[plan].sum()) < self.cost:
            self.best = plan

    def _integrate(self) -> None:
        import highspy

        everyone = np.arange(self.core.size, dtype=np.int32)
        kinds = np.full(self.core.size, highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(self.core.size, everyone, kinds)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 0.5 * self.unit / self.scale)
        while self.lower < self.cost:
            begun = highspy.HighsSolution()
            begun.col_value = self.best.astype(float).tolist()
            self.highs.setSolution(begun)
            if not self._run():
                return
            self._raise_lower(self.highs.getInfo().mip_dual_bound)
            values = self.highs.getSolution().col_value
            if not values:
                return
            chosen = [float(value > 0.5) for value in values]
            missing = self.ways.uncovered(chosen)
            if missing:
                self._round(chosen)
            else:
                self._accept(np.array(chosen) > 0.5)
            if not self._add(missing) or self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return


def dominances(core: Core) -> list[tuple[int, int]]:
    """Pairs (u, u′) such that a backup at u is of no use without one at u′. Only pairs with a common neighbour.

    Equal vertices (twins that differ in nothing) are merged before, so no pair is listed both ways round.
    """
    before: list[set[int]] = [set() for _ in range(core.size)]
    after: list[set[int]] = [set() for _ in range(core.size)]
    for source, target in core.edges.tolist():
        before[target].add(source)
        after[source].add(target)
    latency = core.latency.tolist()
    pairs = []
    for u in range(core.size):
        if core.fixed[u] == 1 or not after[u]:
            continue
        # Whoever feeds all that u feeds is among the feeders of the least fed of them.
        through = min(after[u], key=lambda w: len(before[w]))
        if len(before[through]) > 200:
            continue
        for other in before[through]:
            equal = latency[other] == latency[u] and before[other] == before[u] and after[other] == after[u]
            covers = latency[other] >= latency[u] and after[u] <= after[other] and before[u] <= before[other]
            if covers and other != u and not equal and core.fixed[other] != 1:
                pairs.append((u, other))
    return pairs
