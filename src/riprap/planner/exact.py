"""The cheapest backups for a bound, with proof; or, at the time limit, the best plan found and its optimality gap.

After the reductions each core is a covering problem: choose vertices so that every path that is too long has k of
them. Its rows are generated on demand (`paths`). Large cores first drop dominated vertices (`dominance`) and get a good
plan by `annealing`. Then the linear relaxation is solved; its bound is summed from the dual prices in integers
(`covering_lp`). If no plan meets that bound, branch and bound searches the rest (`branching`). The solver is never
trusted: plans and bounds are integers, computed here.

Rows that hold in every optimum speed it up: if u′ is at least as slow as u, all predecessors of u feed u′ and u′ feeds
all successors of u, then a backup at u is useless without one at u′ (every path through u is also one through u′, and
longer there).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.planner.branching import Branching
from riprap.planner.covering_lp import CoveringLp
from riprap.planner.neighbours import neighbours
from riprap.planner.paths import COMPILED, LongPaths
from riprap.planner.problem import Problem, Solution
from riprap.planner.reductions import Core, reduce
from riprap.planner.rounding import first_plan, rounded

LARGEST_EXACT = 6_000  # vertices of a core; above it, the linear program takes too long
SHARE = 0.2  # of the time left after the relaxation, for annealing


@dataclass
class _CoreSolution:
    backups: np.ndarray  # bool [n] of the core; meets the bounds
    lower: int


def solve(problem: Problem, *, time_limit: float = 10.0, clock: Clock = SYSTEM_CLOCK) -> Solution:
    """Exact if `time_limit` (seconds) allows. The plan always meets the bounds."""
    deadline = clock.monotonic() + 0.9 * time_limit  # the rest is for steps that cannot be interrupted
    reduced = reduce(problem)
    if any(core.size >= COMPILED for core in reduced.cores):
        started = clock.monotonic()
        _load_compiled()
        deadline += clock.monotonic() - started
    backups = reduced.forced.copy()
    lower = int(problem.topology.costs[backups].sum())
    remaining = sum(core.size for core in reduced.cores)
    for core in sorted(reduced.cores, key=lambda core: core.size):
        # Time in proportion to the size; time that a core does not use goes to the later, larger ones.
        now = clock.monotonic()
        share = now + max(0.0, deadline - now) * core.size / remaining
        remaining -= core.size
        solved = _solve_core(core, clock, share)
        lower += solved.lower
        for vertex in np.flatnonzero(solved.backups):
            backups[core.members[vertex]] = True
    assert problem.is_met(backups), "a plan must meet its bounds"
    return Solution(backups, int(problem.topology.costs[backups].sum()), lower, "exact")


def _solve_core(core: Core, clock: Clock, deadline: float) -> _CoreSolution:
    if core.failures == 1 and np.bincount(core.edges[:, 0], minlength=core.size).max() <= 1 and _is_flat(core):
        plan = first_plan(core, clock, deadline)  # greedy is optimal at equal costs if no task feeds several
        return _CoreSolution(plan, int(core.cost[plan].sum()))
    if core.size > LARGEST_EXACT:
        return _roughly(core, clock, deadline)
    return _Covering(core, clock, deadline).solve()


def _roughly(core: Core, clock: Clock, deadline: float) -> _CoreSolution:
    """For cores too large for a linear program: half of the time is for a plan, half for a bound."""
    if core.failures > 1:
        return _CoreSolution(first_plan(core, clock, deadline), 0)
    from riprap.planner.annealing import annealed, pruned
    from riprap.planner.packing import packed_bound

    near = neighbours(core)
    counted = core.fixed != 0
    among = counted & (np.diff(near.after_start) > 0)
    now = clock.monotonic()
    plan = annealed(core, near, [among], pruned(core, near, among), 0, clock, now + (deadline - now) / 2)
    excess = np.array(LongPaths(core).excess)
    return _CoreSolution(plan, packed_bound(core, near, excess, counted, clock, deadline))


@cache
def _load_compiled() -> None:
    """Compiles the kernels (once per installation), so that compilation does not count as planning time."""
    from riprap.planner.annealing import annealed, pruned
    from riprap.planner.dominance import useful
    from riprap.planner.packing import packed_bound

    size = 6
    edges = np.array([(v, v + 1) for v in range(size - 1)], np.int32)
    ones, none = np.ones(size, np.int64), np.zeros((0, 2), np.int32)
    members = [np.array([v]) for v in range(size)]
    core = Core(ones, 2 * ones, ones, np.full(size, -1, np.int8), edges, members, 1, none)
    near = neighbours(core)
    some = useful(core, near)
    now = SYSTEM_CLOCK.monotonic()
    annealed(core, near, [some], pruned(core, near, some), 0, SYSTEM_CLOCK, now)
    packed_bound(core, near, -core.bound, some, SYSTEM_CLOCK, now)


def _is_flat(core: Core) -> bool:
    return bool(np.all(core.cost == core.cost[0]) and np.all(core.fixed < 0))


class _Covering:
    """One core, as a covering problem."""

    def __init__(self, core: Core, clock: Clock, deadline: float) -> None:
        self.core, self.clock, self.deadline = core, clock, deadline
        self.large = core.failures == 1 and core.size >= COMPILED
        self.useful = np.ones(core.size, bool)
        self.lower = 0
        if self.large:
            from riprap.planner.annealing import pruned
            from riprap.planner.dominance import useful

            self.near = neighbours(core)
            self.useful = useful(core, self.near)
            self.best = pruned(core, self.near, self.useful)
        else:
            self.best = first_plan(core, clock, deadline)
        self.paths = LongPaths(core, self.useful)
        self.program = CoveringLp(core, dominances(core), self.useful)

    @property
    def cost(self) -> int:
        return int(self.core.cost[self.best].sum())

    def solve(self) -> _CoreSolution:
        self._relax()
        if self.lower < self.cost and self.large:
            self._anneal()
        if self.lower < self.cost and self.clock.monotonic() < self.deadline:
            self.program.drop_slack()
            search = Branching(
                self.program, self.paths, lambda: self.cost, self._accept, self.clock, self.deadline,
                dive=not self.large,
            )  # fmt: skip
            self.lower = max(self.lower, search.lower_bound())
        return _CoreSolution(self.best, min(self.lower, self.cost))

    def _anneal(self) -> None:
        from riprap.planner.annealing import annealed

        now = self.clock.monotonic()
        until = now + SHARE * (self.deadline - now)
        hinted = self.useful & (np.array(self.program.weight) > 0)  # used by the relaxation
        among = [hinted, self.useful]
        self._accept(annealed(self.core, self.near, among, self.best, self.lower, self.clock, until))

    def _relax(self) -> None:
        """Solves the linear relaxation; in small cores it is rounded to a plan every few rounds."""
        weight = [0.0] * self.core.size
        rounds = 0
        while self.program.add(self.paths.uncovered(weight)) and self.program.run(self.clock, self.deadline):
            bound = self.program.bound()
            if bound is None:
                return
            self.lower = max(self.lower, bound)
            weight = self.program.weight
            rounds += 1
            if rounds % 8 == 0 and not self.large:
                self._accept(rounded(self.core, weight, self.clock, self.deadline))
            if self.lower >= self.cost:
                return
        if rounds and not self.large:
            self._accept(rounded(self.core, weight, self.clock, self.deadline))

    def _accept(self, plan: np.ndarray) -> None:
        if int(self.core.cost[plan].sum()) < self.cost:
            self.best = plan


def dominances(core: Core) -> list[tuple[int, int]]:
    """Pairs (u, u′) such that a backup at u is useless without one at u′. Only pairs with a common neighbour.

    Equal vertices (twins) were merged before, so (u, u′) and (u′, u) are never both listed. Empty for a core with
    feedback: there a path through both may go round a cycle.
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
        # A vertex that feeds all successors of u is a predecessor of the one with the fewest predecessors.
        through = min(after[u], key=lambda w: len(before[w]))
        if len(before[through]) > 200:
            continue
        for other in before[through]:
            equal = latency[other] == latency[u] and before[other] == before[u] and after[other] == after[u]
            covers = latency[other] >= latency[u] and after[u] <= after[other] and before[u] <= before[other]
            if covers and other != u and not equal and core.fixed[other] != 1:
                pairs.append((u, other))
    return pairs
