"""The trade-off curve: the least loss for every share of a budget, its knee, and the change at each step."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from riprap.base.errors import PlanError
from riprap.base.quantities import format_duration
from riprap.planner.budget import Budget, BudgetPlan, BudgetProblem, best_protection, cheapest_protection
from riprap.planner.protection import Resources, backup_resources

SUM_NOTE = (
    "The expected loss is a prediction: a sum over single operators, interpolated from the assessment. "
    "It ignores failures that coincide and losses that hide each other."
)
_MOST_STEPS = 60
_LEAST_STEP = 1e-4  # shares of the budget closer than this are one step


@dataclass(frozen=True)
class Step:
    share: float  # of the budget: the largest of used / allowed over the bounded resources
    protection: BudgetPlan
    buys: str  # the change from the previous step, in words


@dataclass(frozen=True)
class Tradeoff:
    budget: Budget
    steps: tuple[Step, ...]  # share ascending, loss falling
    knee: int  # index into steps


def tradeoff(problem: BudgetProblem, budget: Budget) -> Tradeoff:
    """From the largest share down: find the least loss, the least share for it, then continue below that share."""
    if not budget.limits():
        budget = replace(budget, **_everything(problem)._asdict())
    best_by_share: list[tuple[float, BudgetPlan]] = []
    allowed = 1.0
    while len(best_by_share) < _MOST_STEPS:
        try:
            best = best_protection(problem, _scaled(budget, allowed))
        except PlanError:  # too little to meet the recovery bound
            if not best_by_share:
                raise
            break
        cheapest = cheapest_protection(problem, budget, best.loss)
        if cheapest is not None and share_of(cheapest, budget) <= share_of(best, budget) + _LEAST_STEP / 2:
            best = cheapest
        best_by_share.append((share_of(best, budget), best))
        allowed = best_by_share[-1][0] - _LEAST_STEP
        if allowed <= 0:
            if best_by_share[-1][0] > 0:
                allowed = 0.0
                continue
            break
    best_by_share.reverse()
    steps = []
    for number, (share, protection) in enumerate(best_by_share):
        steps.append(
            Step(share, protection, _describe_step(best_by_share[number - 1][1] if number else None, protection))
        )
    return Tradeoff(budget, tuple(steps), knee([(step.share, step.protection.loss) for step in steps]))


def _scaled(budget: Budget, share: float) -> Budget:
    scaled = {Resources._fields[i]: limit * share for i, limit in budget.limits().items()}
    return replace(budget, **scaled)  # type: ignore[arg-type]


def _everything(problem: BudgetProblem) -> Resources:
    """The most expensive option and a backup for every operator: a budget that never binds."""
    total = Resources()
    for name, choices in problem.options.items():
        dearest = Resources(*(max(option.resources[i] for option in choices) for i in range(len(total))))
        total = total.plus(dearest).plus(backup_resources(problem.assessment, name) or Resources())
    return total


def share_of(protection: BudgetPlan, budget: Budget) -> float:
    return max((protection.resources[i] / limit for i, limit in budget.limits().items() if limit), default=0.0)


def knee(points: Iterable[tuple[float, float]]) -> int:
    """The point farthest below the straight line from the first to the last, both axes scaled to 1."""
    listed = list(points)
    (x0, y0), (x1, y1) = listed[0], listed[-1]
    if x1 == x0 or y1 == y0:
        return len(listed) - 1

    def below(point: tuple[float, float]) -> float:
        return (y0 - point[1]) / (y0 - y1) - (point[0] - x0) / (x1 - x0)

    return max(range(len(listed)), key=lambda i: (below(listed[i]), -i))


def _describe_step(before: BudgetPlan | None, after: BudgetPlan) -> str:
    changes = []
    for name, option in after.chosen.items():
        old = before.chosen[name].describe() if before is not None else "restart"
        if option.describe() != old:
            changes.append(f"{name}: {option.describe()}" + ("" if old == "restart" else f" instead of {old}"))
    old_backups = before.backups if before is not None else frozenset()
    if added := sorted(after.backups - old_backups):
        changes.append(f"backup at {', '.join(added)}")
    if dropped := sorted(old_backups - after.backups):
        changes.append(f"no backup at {', '.join(dropped)}")
    if before is None:
        start = "; ".join(changes) or "every operator restarts without state"
        return f"{start}: an expected loss of {after.loss:.4g} a day"
    change = "; ".join(changes) or "the same measures"
    return f"{change}: the expected loss falls from {before.loss:.4g} to {after.loss:.4g} a day"


def to_json(curve: Tradeoff) -> dict[str, Any]:
    return {
        "budget": {
            "cpu": curve.budget.cpu,
            "memory": curve.budget.memory,
            "storage": curve.budget.storage,
            "network": curve.budget.network,
            "recovery": None if curve.budget.recovery is None else format_duration(curve.budget.recovery),
        },
        "knee": curve.knee,
        "note": SUM_NOTE,
        "steps": [
            {
                "share": round(step.share, 6),
                "loss": step.protection.loss,
                "buys": step.buys,
                "resources": step.protection.resources._asdict(),
                "worst": format_duration(step.protection.worst),
                "backups": sorted(step.protection.backups),
                "operators": {name: option.describe() for name, option in step.protection.chosen.items()},
            }
            for step in curve.steps
        ],
    }
