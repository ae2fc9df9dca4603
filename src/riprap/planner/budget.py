"""The best protection for a budget: least expected loss within bounds on CPU, memory, storage, network and recovery
latency.

Solved exactly, as an integer program: one binary per operator, option and "its input is retained"; one per backup; a
latency per operator, scaled by the bound; and rows for combinations that cannot run (`possible`). The solution is
evaluated again from the definitions (`evaluate`), independently of the program. A solution that fails there is cut off
and the program is solved again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.base.errors import PlanError, UsageError, known
from riprap.base.quantities import Duration, show_duration
from riprap.planner.assessment_file import AssessedApp
from riprap.planner.protection import Option, Resources, backup_resources, options

_TOLERANCE = 1e-9  # relative, for comparing floating-point numbers


@dataclass(frozen=True)
class Budget:
    """Bounds; None: no bound. `recovery` is in microseconds."""

    cpu: float | None = None
    memory: float | None = None
    storage: float | None = None
    recovery: Duration | None = None
    network: float | None = None

    def limits(self) -> dict[int, float]:
        """Bounds by index in `Resources`."""
        bounds = (self.cpu, self.memory, self.storage, self.network)
        return {i: limit for i, limit in enumerate(bounds) if limit is not None}


@dataclass(frozen=True)
class BudgetPlan:
    """An option for every operator, the backups, and their total effect and cost."""

    chosen: Mapping[str, Option]
    backups: frozenset[str]
    loss: float  # expected per day
    resources: Resources
    worst: Duration  # recovery latency


@dataclass(frozen=True, eq=False)
class BudgetProblem:
    assessment: AssessedApp
    edges: tuple[tuple[str, str], ...]  # streams of the app between assessed operators, without feedback
    must: frozenset[str] = frozenset()  # must be backups or replicated: they feed a feedback stream
    # Replicable operator → all operators that must be replicated with it; None: any operator can, alone.
    together: Mapping[str, frozenset[str]] | None = None
    sinks: frozenset[str] = frozenset()  # operators that feed a sink

    @cached_property
    def options(self) -> dict[str, list[Option]]:
        by_operator = {name: options(self.assessment, name) for name in self.assessment.operators}
        if self.together is None:
            return by_operator
        return {
            name: [option for option in choices if option.technique != "ha_group" or name in self.together]
            for name, choices in by_operator.items()
        }

    @cached_property
    def outside(self) -> dict[str, frozenset[str]]:
        """Operator → its consumers ("": a sink). A replica can be a backup only if all of them are in its group."""
        fed = {name: {""} if name in self.sinks else set() for name in self.assessment.operators}
        for source, target in self.edges:
            fed[source].add(target)
        return {name: frozenset(targets) for name, targets in fed.items()}

    @cached_property
    def upstream(self) -> dict[str, list[str]]:
        before: dict[str, list[str]] = {name: [] for name in self.assessment.operators}
        for source, target in self.edges:
            before[target].append(source)
        return before

    @cached_property
    def order(self) -> list[str]:
        waiting = {name: len(before) for name, before in self.upstream.items()}
        ready = [name for name, count in waiting.items() if not count]
        for name in ready:
            for source, target in self.edges:
                if source == name:
                    waiting[target] -= 1
                    if not waiting[target]:
                        ready.append(target)
        return ready


def budget_problem(
    assessment: AssessedApp,
    edges: list[tuple[str, str]],
    feedback: list[tuple[str, str]],
    *,
    together: Mapping[str, frozenset[str]] | None = None,
    sinks: frozenset[str] = frozenset(),
) -> BudgetProblem:
    """`edges` and `feedback` name operators of the app; all must be assessed."""
    for name in {end for edge in (*edges, *feedback) for end in edge}:
        if name not in assessment.operators:
            assessed = known(assessment.operators, name)
            raise PlanError(f"operator {name} is not in the assessment of {assessment.app}, which has {assessed}")
    must = frozenset(source for source, _ in feedback)
    return BudgetProblem(assessment, tuple(dict.fromkeys(edges)), must, together, sinks)


def evaluate(problem: BudgetProblem, chosen: Mapping[str, Option], backups: frozenset[str]) -> BudgetPlan:
    """Computes loss, cost and latency from the definitions."""
    loss, resources = 0.0, Resources()
    late: dict[str, int] = {}
    over = lost_over(problem, chosen)
    for name in problem.order:
        option, before = chosen[name], problem.upstream[name]
        retained = all(source in backups for source in before)  # the input of a source always is
        if name in over and not retained:
            loss += problem.assessment.operators[name].failures_per_day * over[name]
        else:
            loss += option.loss_replayed if retained else option.loss
        resources = resources.plus(option.resources)
        if name in backups:
            resources = resources.plus(backup_resources(problem.assessment, name) or Resources())
        late[name] = option.latency + max((late[u] for u in before if u not in backups), default=0)
    return BudgetPlan(dict(chosen), backups, loss, resources, Duration(max(late.values())))


def lost_over(problem: BudgetProblem, chosen: Mapping[str, Option]) -> dict[str, float]:
    """By replicated operator, the impact of a fail-over of its group: the largest of those at the group's edge."""
    replicated = [name for name in problem.order if chosen[name].technique == "ha_group"]
    impact = {}
    for name in replicated:
        fed = problem.outside[name]
        impact[name] = 0.0 if fed and fed <= set(replicated) else chosen[name].failover_impact
    near = [(a, b) for a, b in problem.edges if a in impact and b in impact]
    for _ in replicated:  # a path through a group is shorter than it has members
        for a, b in near:
            impact[a] = impact[b] = max(impact[a], impact[b])
    return impact


def possible(problem: BudgetProblem, protection: BudgetPlan) -> bool:
    """Whether it can run: HA groups are complete, and replicas are backups only within their group."""
    replicated = {name for name, option in protection.chosen.items() if option.technique == "ha_group"}
    backups = protection.backups
    return (
        all((problem.together or {}).get(name, {name}) <= replicated for name in replicated)
        and all(problem.outside[name] <= replicated for name in replicated & backups)
        and all(backup_resources(problem.assessment, name) is not None for name in backups)
        and problem.must <= replicated | backups
    )


def fits(protection: BudgetPlan, budget: Budget) -> bool:
    within = all(
        protection.resources[i] <= limit + _TOLERANCE * max(1.0, limit) for i, limit in budget.limits().items()
    )
    return within and (budget.recovery is None or protection.worst <= budget.recovery)


def best_protection(problem: BudgetProblem, budget: Budget) -> BudgetPlan:
    """The protection with the least expected loss that fits the budget."""
    best = _Program(problem, budget).solve()
    if best is None:
        raise PlanError(_why_impossible(problem, budget))
    return best


def cheapest_protection(problem: BudgetProblem, budget: Budget, loss: float) -> BudgetPlan | None:
    """The protection with at most this expected loss and the least share of the scarcest resource of the budget."""
    return _Program(problem, budget, loss).solve()


class _Program:
    def __init__(self, problem: BudgetProblem, budget: Budget, most_loss: float | None = None) -> None:
        import highspy

        self.problem, self.budget, self.most_loss = problem, budget, most_loss
        self.names = problem.order
        # Columns: z[v, option, retained], then M[v], then L[v] (a share of the bound), then the share of the budget.
        self.z = {
            key: i
            for i, key in enumerate(
                (v, o, retained) for v in self.names for o in range(len(problem.options[v])) for retained in (0, 1)
            )
        }
        self.m = {v: len(self.z) + i for i, v in enumerate(self.names)}
        self.late = {v: len(self.z) + len(self.m) + i for i, v in enumerate(self.names)}
        self.share = len(self.z) + 2 * len(self.names)
        # Of operators that can be replicated: [v feeds only replicas of its group], then the impact of a fail-over of
        # its group, then the same if v's input is not retained; both as shares of the largest.
        self.over = [v for v in self.names if any(o.technique == "ha_group" for o in problem.options[v])]
        self.worst_over = max((o.failover_impact for v in self.over for o in problem.options[v]), default=0.0) or 1.0
        first = self.share + 1
        self.inside, self.lost, self.charged = (
            {v: first + part * len(self.over) + i for i, v in enumerate(self.over)} for part in range(3)
        )
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 1e-9)
        count = self.share + 1 + 3 * len(self.over)
        high = np.ones(count)
        high[[self.m[v] for v in self.names if backup_resources(problem.assessment, v) is None]] = 0.0
        self.highs.addVars(count, np.zeros(count), high)
        integers = np.arange(self.share - len(self.names), dtype=np.int32)
        self.highs.changeColsIntegrality(len(integers), integers, np.full(len(integers), highspy.HighsVarType.kInteger))
        self._choices()
        self._replicas()
        self._failovers()
        self._resources()
        self._latencies()
        self._objective()

    def _row(self, low: float, high: float, terms: Mapping[int, float]) -> None:
        self.highs.addRow(low, high, len(terms), np.array(list(terms), np.int32), np.array(list(terms.values())))

    def _choices(self) -> None:
        for v in self.names:
            span = range(len(self.problem.options[v]))
            self._row(1.0, 1.0, {self.z[v, o, retained]: 1.0 for o in span for retained in (0, 1)})
            for u in self.problem.upstream[v]:  # retained only if every operator that feeds v is a backup
                self._row(0.0, np.inf, {self.m[u]: 1.0} | {self.z[v, o, 1]: -1.0 for o in span})

    def _replicated(self, v: str, retained: tuple[int, ...] = (0, 1)) -> dict[int, float]:
        """The terms that add up to 1 if v is replicated."""
        choices = enumerate(self.problem.options.get(v, []))
        return {self.z[v, o, r]: 1.0 for o, option in choices if option.technique == "ha_group" for r in retained}

    def _failovers(self) -> None:
        """The definition of `lost_over`."""
        for v in self.over:
            own, fed = self._replicated(v), self.problem.outside[v]
            others = [self._replicated(w) for w in sorted(fed)]
            inside = {self.inside[v]: 1.0}
            for terms in [own, *others] if fed else [{}]:
                self._row(-np.inf, 0.0, inside | dict.fromkeys(terms, -1.0))
            if fed:
                together = inside | {column: -1.0 for terms in [own, *others] for column in terms}
                self._row(-float(len(fed)), np.inf, together)
            impact = next(o.failover_impact for o in self.problem.options[v] if o.technique == "ha_group")
            share = impact / self.worst_over
            self._row(0.0, np.inf, {self.lost[v]: 1.0, self.inside[v]: share} | dict.fromkeys(own, -share))
            self._row(
                -1.0, np.inf,
                {self.charged[v]: 1.0, self.lost[v]: -1.0} | dict.fromkeys(self._replicated(v, (0,)), -1.0),
            )  # fmt: skip
        for a, b in self.problem.edges:
            if a in self.lost and b in self.lost and a != b:
                both = self._replicated(a) | self._replicated(b)
                for v, w in ((a, b), (b, a)):
                    self._row(-2.0, np.inf, {self.lost[v]: 1.0, self.lost[w]: -1.0} | dict.fromkeys(both, -1.0))

    def _replicas(self) -> None:
        """The constraints of `possible`."""
        replicas = {v: self._replicated(v) for v in self.problem.options}
        for v, own in replicas.items():
            if v in self.problem.must:
                self._row(1.0, np.inf, {self.m[v]: 1.0} | own)
            for w in (self.problem.together or {}).get(v, frozenset()) - {v} if own else ():
                self._row(-np.inf, 0.0, own | dict.fromkeys(replicas.get(w, {}), -1.0))
            for w in self.problem.outside[v] - {v} if own else ():
                others = dict.fromkeys(replicas.get(w, {}), -1.0)
                self._row(-np.inf, 1.0, {self.m[v]: 1.0} | own | others)

    def _resources(self) -> None:
        for i, limit in self.budget.limits().items():
            terms: dict[int, float] = {}
            scale = limit or 1.0
            for v in self.names:
                for o, option in enumerate(self.problem.options[v]):
                    for retained in (0, 1):
                        terms[self.z[v, o, retained]] = option.resources[i] / scale
                terms[self.m[v]] = (backup_resources(self.problem.assessment, v) or Resources())[i] / scale
            if limit:
                self._row(-np.inf, 0.0, terms | {self.share: -1.0})
            else:
                self._row(-np.inf, 0.0, terms)

    def _latencies(self) -> None:
        if self.budget.recovery is None:
            return
        for v in self.names:
            own = {
                self.z[v, o, retained]: -option.latency / self.budget.recovery
                for o, option in enumerate(self.problem.options[v])
                for retained in (0, 1)
            }
            self._row(0.0, np.inf, {self.late[v]: 1.0} | own)
            for u in self.problem.upstream[v]:
                self._row(0.0, np.inf, {self.late[v]: 1.0, self.late[u]: -1.0, self.m[u]: 1.0} | own)

    def _objective(self) -> None:
        losses: dict[int, float] = {}
        for v in self.names:
            for o, option in enumerate(self.problem.options[v]):
                losses[self.z[v, o, 0]] = 0.0 if option.technique == "ha_group" else option.loss
                losses[self.z[v, o, 1]] = option.loss_replayed
        for v in self.over:
            losses[self.charged[v]] = self.problem.assessment.operators[v].failures_per_day * self.worst_over
        scale = max(losses.values()) or 1.0
        if self.most_loss is None:
            self.highs.changeColsCost(
                len(losses), np.array(list(losses), np.int32), np.array(list(losses.values())) / scale
            )
        else:
            limit = self.most_loss / scale
            self._row(-np.inf, limit + 1e-9, {column: loss / scale for column, loss in losses.items()})
            self.highs.changeColCost(self.share, 1.0)
            # Of plans with equal shares the one with the fewest measures: none without an effect.
            for v in self.names:
                self.highs.changeColCost(self.m[v], 1e-6)
                for o in range(1, len(self.problem.options[v])):
                    for retained in (0, 1):
                        self.highs.changeColCost(self.z[v, o, retained], 1e-6)

    def solve(self) -> BudgetPlan | None:
        import highspy

        while True:
            self.highs.run()
            if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            values = self.highs.getSolution().col_value
            picked = {key: column for key, column in self.z.items() if values[column] > 0.5}
            backups = frozenset(v for v in self.names if values[self.m[v]] > 0.5)
            protection = evaluate(self.problem, {v: self.problem.options[v][o] for v, o, _ in picked}, backups)
            if fits(protection, self.budget) and possible(self.problem, protection):
                return protection
            # Within the solver's tolerance but outside the bounds: exclude exactly this choice.
            ones = [*picked.values(), *(self.m[v] for v in backups)]
            zeros = [self.m[v] for v in self.names if v not in backups]
            self._row(1.0 - len(ones), np.inf, dict.fromkeys(ones, -1.0) | dict.fromkeys(zeros, 1.0))


def _why_impossible(problem: BudgetProblem, budget: Budget) -> str:
    if budget.recovery is not None:
        fastest = {v: min(problem.options[v], key=lambda option: option.latency) for v in problem.order}
        best = evaluate(problem, fastest, frozenset(problem.order))
        if best.worst > budget.recovery:
            slow = max(problem.order, key=lambda v: fastest[v].latency)
            return (
                f"no protection recovers within {show_duration(budget.recovery)}: {slow} takes "
                f"{show_duration(fastest[slow].latency)} even with {fastest[slow].describe()}"
            )
        return "no protection fits the budget together with the recovery bound: raise one of them"
    return (
        f"no protection fits the budget: {', '.join(sorted(problem.must))} feeds back into a cycle and needs a backup"
    )


def parse_budget(text: str, recovery: Duration | None) -> Budget:
    """`cpu=0.5,memory=2GiB,storage=10MB,network=1MB`: extra cores, bytes, and bytes/s."""
    from riprap.base.quantities import parse_size

    values: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, amount = part.partition("=")
        if not equals or name not in Resources._fields:
            raise UsageError(
                f"cannot read {part!r} in a budget: write cpu=CORES, memory=SIZE, and storage=SIZE or "
                "network=SIZE per second"
            )
        if name in values:
            raise UsageError(f"the budget has {name} twice")
        if name == "cpu":
            try:
                values[name] = float(amount)
            except ValueError:
                values[name] = -1.0
            if not 0 <= values[name] < float("inf"):
                raise UsageError(f"cannot read {amount!r} as cores: write a number such as 0.5")
        else:
            values[name] = float(parse_size(amount))
    return Budget(values.get("cpu"), values.get("memory"), values.get("storage"), recovery, values.get("network"))
