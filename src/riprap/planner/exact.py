"""The cheapest backups for a bound, with proof; or, when time is up, the best found and how far it can be from that.

After the reductions each core is a covering problem: choose vertices so that every way that is too long has k of
them. Its rows are generated as needed (`ways`). First the linear relaxation, whose bound is summed from its prices in
whole numbers (`covering_lp`); then, if rounding has not met that bound, integer programs over the rows found so far,
each a relaxation and so a lower bound, until one has a solution that covers all ways. The solver is never believed:
plans are checked with whole numbers, bounds are taken with a margin; where the margin is wider than the smallest cost,
a search with exact bounds (`branching`) completes the proof.

Rows that no optimum breaks make it quicker: if u′ is at least as slow as u, fed by all that feeds u and feeding all
that u feeds, then a backup at u is of no use without one at u′ (every way through u is one through u′, and longer
there).
"""

from dataclasses import dataclass, replace
from math import ceil, isfinite

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.planner.branching import is_proven
from riprap.planner.covering_lp import CoveringLp
from riprap.planner.packing import packed_bound
from riprap.planner.problem import Problem, Solution
from riprap.planner.reductions import Core, reduce
from riprap.planner.rounding import first_plan, rounded
from riprap.planner.ways import Ways

LARGEST_EXACT = 6_000  # vertices of a core; above it, rounds of the linear program take longer than they are worth
WINDOW = 120  # vertices of a stretch that is solved by itself to improve a plan
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

    def __init__(self, core: Core, clock: Clock, deadline: float, plan: np.ndarray | None = None) -> None:
        self.core, self.clock, self.deadline = core, clock, deadline
        self.ways = Ways(core)
        self.program = CoveringLp(core, dominances(core))
        self.best = first_plan(core, clock, deadline) if plan is None else plan
        self.lower = 0

    @property
    def cost(self) -> int:
        return int(self.core.cost[self.best].sum())

    def solve(self) -> _Found:
        self._relax()
        if self.lower < self.cost and self.core.size > 3 * WINDOW and self.core.failures == 1:
            self._improve_windows()
        if self.lower < self.cost and self.clock.monotonic() < self.deadline:
            self._integrate()
        return _Found(self.best, min(self.lower, self.cost))

    def _improve_windows(self) -> None:
        """For a third of the time left: solves stretches of the core exactly while everything else stays as it is."""
        now = self.clock.monotonic()
        until = now + (self.deadline - now) / 3
        width, better = WINDOW, True
        while better or width <= 2 * WINDOW:
            width, better = width if better else 2 * width, False
            for first in range(0, self.core.size, width // 2):
                if self.clock.monotonic() >= until or self.lower >= self.cost:
                    return
                before = self.cost
                self._accept(self._solved_window(first, first + width, until))
                better |= self.cost < before

    def _solved_window(self, first: int, last: int, until: float) -> np.ndarray:
        inside = np.zeros(self.core.size, bool)
        inside[first:last] = True
        stays = self.best & ~inside
        window = replace(
            self.core,
            edges=self.core.edges[~stays[self.core.edges[:, 0]]],
            fixed=np.where(inside, self.core.fixed, 0).astype(np.int8),
        )
        limit = min(until, self.clock.monotonic() + (until - self.clock.monotonic()) / 4)
        return stays | _Covering(window, self.clock, limit, self.best & inside).solve_alone()

    def solve_alone(self) -> np.ndarray:
        """The best plan, without dividing the core further."""
        self._relax()
        if self.lower < self.cost:
            self._integrate()
        return self.best

    def _relax(self) -> None:
        """The linear relaxation to its end; every few rounds a rounding of it."""
        weight = [0.0] * self.core.size
        rounds = 0
        while self.program.add(self.ways.uncovered(weight)) and self.program.run(self.clock, self.deadline):
            bound = self.program.bound()
            if bound is None:
                return
            self.lower = max(self.lower, bound)
            weight = self.program.weight
            rounds += 1
            if rounds % 8 == 0:
                self._round(weight)
            if self.lower >= self.cost:
                return
        if rounds:
            self._round(weight)

    def _raise_lower(self, scaled: float) -> None:
        if not isfinite(scaled):  # a run that was cut short before it had a bound
            return
        claim = scaled * self.program.scale / self.program.unit
        self.lower = max(self.lower, ceil(claim - MARGIN * max(1.0, abs(claim))) * self.program.unit)

    def _round(self, weight: list[float]) -> None:
        self._accept(rounded(self.core, weight, self.clock, self.deadline))

    def _accept(self, plan: np.ndarray) -> None:
        if int(self.core.cost[plan].sum()) < self.cost:
            self.best = plan

    def _integrate(self) -> None:
        self._solve_integer_programs()
        if self.lower < self.cost and self.clock.monotonic() < self.deadline:
            self.program.set_integer(False)
            if is_proven(self.program, self.ways, lambda: self.cost, self._accept, self.clock, self.deadline):
                self.lower = self.cost

    def _solve_integer_programs(self) -> None:
        import highspy

        highs = self.program.highs
        self.program.set_integer(True)
        while self.lower < self.cost:
            begun = highspy.HighsSolution()
            begun.col_value = self.best.astype(float).tolist()
            highs.setSolution(begun)
            if not self.program.run(self.clock, self.deadline):
                return
            finished = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
            self._raise_lower(highs.getInfo().mip_dual_bound)
            values = highs.getSolution().col_value
            if not values:
                return
            chosen = [float(value > 0.5) for value in values]
            missing = self.ways.uncovered(chosen)
            if missing:
                self._round(chosen)
            else:
                self._accept(np.array(chosen) > 0.5)
            if not self.program.add(missing) or not finished:
                return


def dominances(core: Core) -> list[tuple[int, int]]:
    """Pairs (u, u′) such that a backup at u is of no use without one at u′. Only pairs with a common neighbour.

    Equal vertices (twins that differ in nothing) are merged before, so no pair is listed both ways round. None where
    streams lead back: there a way through both may be one that goes round.
    """
    if len(core.back):
        return []
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
