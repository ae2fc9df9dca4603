"""The best protection for a budget: least expected loss within bounds on CPU, memory, storage, network and recovery
latency.

Exact, as an integer program: one binary per operator, option and "its input is kept"; one per backup; a latency per
operator, scaled by the bound; and rows for what cannot run together (`possible`). The solver's answer is evaluated
again from the definitions (`evaluate`), which share nothing with the program; an answer that does not hold there is cut
off and the program solved again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.base.errors import PlanError, UsageError, known
from riprap.base.quantities import Duration, show_duration
from riprap.planner.assessment_file import AssessedApp
from riprap.planner.protection import Option, Resources, backup_resources, options

_TOLERANCE = 1e-9  # relative: budgets are compared as floating-point numbers


@dataclass(frozen=True)
class Budget:
    """Bounds; None is no bound. `recovery` in microseconds."""

    cpu: float | None = None
    memory: float | None = None
    storage: float | None = None
    recovery: Duration | None = None
    network: float | None = None

    def limits(self) -> dict[int, float]:
        """Bounded resources by their place in `Resources`."""
        bounds = (self.cpu, self.memory, self.storage, self.network)
        return {i: limit for i, limit in enumerate(bounds) if limit is not None}


@dataclass(frozen=True)
class BudgetPlan:
    """A choice for every operator, and what it comes to."""

    chosen: Mapping[str, Option]
    backups: frozenset[str]
    loss: float  # expected per day
    resources: Resources
    worst: Duration  # recovery latency


@dataclass(frozen=True, eq=False)
class BudgetProblem:
    assessment: AssessedApp
    edges: tuple[tuple[str, str], ...]  # streams of the app between assessed operators, without feedback
    must: frozenset[str] = frozenset()  # backups unless they are replicated: they feed a stream that leads back
    # By operator that can be replicated, all that are replicated with it; None: any can, by itself.
    together: Mapping[str, frozenset[str]] | None = None
    sinks: frozenset[str] = frozenset()  # operators that feed a sink

    @cached_property
    def options(self) -> dict[str, list[Option]]:
        found = {name: options(self.assessment, name) for name in self.assessment.operators}
        if self.together is None:
            return found
        return {
            name: [option for option in choices if option.technique != "ha_group" or name in self.together]
            for name, choices in found.items()
        }

    @cached_property
    def outside(self) -> dict[str, frozenset[str]]:
        """By operator, what it feeds; a backup of it beside replicas needs all of that in its group. "": a sink."""
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
    """`edges` and `feedback` name operators of the app; each must be assessed."""
    for name in {end for edge in (*edges, *feedback) for end in edge}:
        if name not in assessment.operators:
            assessed = known(assessment.operators, name)
            raise PlanError(f"operator {name} is not in the assessment of {assessment.app}, which has {assessed}")
    must = frozenset(source for source, _ in feedback)
    return BudgetProblem(assessment, tuple(dict.fromkeys(edges)), must, together, sinks)


def evaluate(asked: BudgetProblem, chosen: Mapping[str, Option], backups: frozenset[str]) -> BudgetPlan:
    """From the definitions alone."""
    loss, takes = 0.0, Resources()
    late: dict[str, int] = {}
    for name in asked.order:
        option, before = chosen[name], asked.upstream[name]
        kept = all(source in backups for source in before)  # a source's own input always is
        loss += option.loss_replayed if kept else option.loss
        takes = takes.plus(option.resources)
        if name in backups:
            takes = takes.plus(backup_resources(asked.assessment, name) or Resources())
        late[name] = option.latency + max((late[u] for u in before if u not in backups), default=0)
    return BudgetPlan(dict(chosen), backups, loss, takes, Duration(max(late.values())))


def possible(asked: BudgetProblem, protection: BudgetPlan) -> bool:
    """Whether a run can have it: replicas fail over together where they have to, and write no backup together."""
    replicated = {name for name, option in protection.chosen.items() if option.technique == "ha_group"}
    backups = protection.backups
    return (
        all((asked.together or {}).get(name, {name}) <= replicated for name in replicated)
        and all(asked.outside[name] <= replicated for name in replicated & backups)
        and all(backup_resources(asked.assessment, name) is not None for name in backups)
        and asked.must <= replicated | backups
    )


def fits(protection: BudgetPlan, budget: Budget) -> bool:
    within = all(
        protection.resources[i] <= limit + _TOLERANCE * max(1.0, limit) for i, limit in budget.limits().items()
    )
    return within and (budget.recovery is None or protection.worst <= budget.recovery)


def best_protection(asked: BudgetProblem, budget: Budget) -> BudgetPlan:
    """The protection with the least expected loss that fits; among those, one that takes least."""
    found = _Program(asked, budget).solve()
    if found is None:
        raise PlanError(_why_impossible(asked, budget))
    return found


def cheapest_protection(asked: BudgetProblem, budget: Budget, loss: float) -> BudgetPlan | None:
    """With no more than this expected loss: the least share of the budget, that of its scarcest resource."""
    return _Program(asked, budget, loss).solve()


class _Program:
    def __init__(self, asked: BudgetProblem, budget: Budget, most_loss: float | None = None) -> None:
        import highspy

        self.asked, self.budget, self.most_loss = asked, budget, most_loss
        self.names = asked.order
        # Columns: z[v, option, kept], then M[v], then L[v] (a share of the bound), then the share of the budget.
        self.z = {
            key: i
            for i, key in enumerate(
                (v, o, kept) for v in self.names for o in range(len(asked.options[v])) for kept in (0, 1)
            )
        }
        self.m = {v: len(self.z) + i for i, v in enumerate(self.names)}
        self.late = {v: len(self.z) + len(self.m) + i for i, v in enumerate(self.names)}
        self.share = len(self.z) + 2 * len(self.names)
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 1e-9)
        count = self.share + 1
        high = np.ones(count)
        high[[self.m[v] for v in self.names if backup_resources(asked.assessment, v) is None]] = 0.0
        self.highs.addVars(count, np.zeros(count), high)
        whole = np.arange(self.share - len(self.names), dtype=np.int32)
        self.highs.changeColsIntegrality(len(whole), whole, np.full(len(whole), highspy.HighsVarType.kInteger))
        self._choices()
        self._replicas()
        self._resources()
        self._latencies()
        self._objective()

    def _row(self, low: float, high: float, terms: Mapping[int, float]) -> None:
        self.highs.addRow(low, high, len(terms), np.array(list(terms), np.int32), np.array(list(terms.values())))

    def _choices(self) -> None:
        for v in self.names:
            span = range(len(self.asked.options[v]))
            self._row(1.0, 1.0, {self.z[v, o, kept]: 1.0 for o in span for kept in (0, 1)})
            for u in self.asked.upstream[v]:  # "kept" only where every operator that feeds v keeps a backup
                self._row(0.0, np.inf, {self.m[u]: 1.0} | {self.z[v, o, 1]: -1.0 for o in span})

    def _replicas(self) -> None:
        """What `possible` says."""
        replicas = {
            v: {
                self.z[v, o, kept]: 1.0
                for o, one in enumerate(choices)
                if one.technique == "ha_group"
                for kept in (0, 1)
            }
            for v, choices in self.asked.options.items()
        }
        for v, own in replicas.items():
            if v in self.asked.must:
                self._row(1.0, np.inf, {self.m[v]: 1.0} | own)
            for w in (self.asked.together or {}).get(v, frozenset()) - {v} if own else ():
                self._row(-np.inf, 0.0, own | dict.fromkeys(replicas.get(w, {}), -1.0))
            for w in self.asked.outside[v] - {v} if own else ():
                others = dict.fromkeys(replicas.get(w, {}), -1.0)
                self._row(-np.inf, 1.0, {self.m[v]: 1.0} | own | others)

    def _resources(self) -> None:
        for i, limit in self.budget.limits().items():
            terms: dict[int, float] = {}
            scale = limit or 1.0
            for v in self.names:
                for o, option in enumerate(self.asked.options[v]):
                    for kept in (0, 1):
                        terms[self.z[v, o, kept]] = option.resources[i] / scale
                terms[self.m[v]] = (backup_resources(self.asked.assessment, v) or Resources())[i] / scale
            if limit:
                self._row(-np.inf, 0.0, terms | {self.share: -1.0})
            else:
                self._row(-np.inf, 0.0, terms)

    def _latencies(self) -> None:
        if self.budget.recovery is None:
            return
        for v in self.names:
            own = {
                self.z[v, o, kept]: -option.latency / self.budget.recovery
                for o, option in enumerate(self.asked.options[v])
                for kept in (0, 1)
            }
            self._row(0.0, np.inf, {self.late[v]: 1.0} | own)
            for u in self.asked.upstream[v]:
                self._row(0.0, np.inf, {self.late[v]: 1.0, self.late[u]: -1.0, self.m[u]: 1.0} | own)

    def _objective(self) -> None:
        losses: dict[int, float] = {}
        for v in self.names:
            for o, option in enumerate(self.asked.options[v]):
                losses[self.z[v, o, 0]] = option.loss
                losses[self.z[v, o, 1]] = option.loss_replayed
        scale = max(losses.values()) or 1.0
        if self.most_loss is None:
            self.highs.changeColsCost(
                len(losses), np.array(list(losses), np.int32), np.array(list(losses.values())) / scale
            )
        else:
            limit = self.most_loss / scale
            self._row(-np.inf, limit + 1e-9, {column: loss / scale for column, loss in losses.items()})
            self.highs.changeColCost(self.share, 1.0)
            # Of plans with equal shares the one with fewest measures, so that none is there for nothing.
            for v in self.names:
                self.highs.changeColCost(self.m[v], 1e-6)
                for o in range(1, len(self.asked.options[v])):
                    for kept in (0, 1):
                        self.highs.changeColCost(self.z[v, o, kept], 1e-6)

    def solve(self) -> BudgetPlan | None:
        import highspy

        while True:
            self.highs.run()
            if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            values = self.highs.getSolution().col_value
            picked = {key: column for key, column in self.z.items() if values[column] > 0.5}
            kept = frozenset(v for v in self.names if values[self.m[v]] > 0.5)
            found = evaluate(self.asked, {v: self.asked.options[v][o] for v, o, _ in picked}, kept)
            if fits(found, self.budget) and possible(self.asked, found):
                return found
            # Within the solver's tolerance but not within the bounds: exclude exactly this choice.
            ones = [*picked.values(), *(self.m[v] for v in kept)]
            zeros = [self.m[v] for v in self.names if v not in kept]
            self._row(1.0 - len(ones), np.inf, dict.fromkeys(ones, -1.0) | dict.fromkeys(zeros, 1.0))


def _why_impossible(asked: BudgetProblem, budget: Budget) -> str:
    if budget.recovery is not None:
        fastest = {v: min(asked.options[v], key=lambda option: option.latency) for v in asked.order}
        best = evaluate(asked, fastest, frozenset(asked.order))
        if best.worst > budget.recovery:
            slow = max(asked.order, key=lambda v: fastest[v].latency)
            return (
                f"no protection recovers within {show_duration(budget.recovery)}: {slow} takes "
                f"{show_duration(fastest[slow].latency)} even with {fastest[slow].describe()}"
            )
        return "no protection fits the budget together with the recovery bound: raise one of them"
    return f"no protection fits the budget: {', '.join(sorted(asked.must))} needs a backup, to come back from a cycle"


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
            raise UsageError(f"the budget gives {name} twice")
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
