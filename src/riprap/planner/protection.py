"""The effect and the cost of each technique for an operator.

A failure of operator v causes an *effective outage*, during which v misses its input, and leaves v with state of some
*age*:

    technique            time until v runs again      age of the state
    restart              restart                      lost
    checkpoint (τ)       restart + reading the state  τ/2 (on average)
    HA group             fail-over, at its outputs    current

When any member of an HA group fails, another replica takes over, and what every member would have sent out of the group
until then is lost: the impact is the largest of these at the group's edge (`budget.lost_over`).

If all operators that feed v are backups (or v is a source, whose input is always retained), the missed input is
replayed: the effective outage is 0, and with a checkpoint, or without any state, the failure has no effect. Expected
loss is failures per day × the assessed quality impact of that outage and age, summed over the operators. The sum
ignores that failures may coincide and that the loss of one operator may hide that of another.

The cost of a technique was measured in runs (`costs.py`). A technique that was not measured is not chosen.

T(v), for the bound on recovery latency, is the time until v runs again plus the time to reprocess its input (τ/2).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from riprap.base.quantities import Duration, format_duration
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact
from riprap.planner.costs import Cost

Technique = Literal["restart", "checkpoint", "ha_group"]


class Resources(NamedTuple):
    """Resources that protection uses in addition to those of the app."""

    cpu: float = 0.0  # cores
    memory: float = 0.0  # bytes
    storage: float = 0.0  # bytes/s written
    network: float = 0.0  # bytes/s sent

    def plus(self, other: "Resources") -> "Resources":
        return Resources(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Option:
    """A technique for one operator, with its parameters, cost and effect."""

    technique: Technique
    interval: Duration | None  # between checkpoints
    resources: Resources
    latency: Duration  # T
    loss: float  # expected per day if its input is not retained; of an HA group, if it is one alone
    loss_replayed: float  # expected per day if its input is retained
    failover_impact: float = 0.0  # of an HA group: of one fail-over, if others need what it sends

    def describe(self) -> str:
        if self.technique == "checkpoint":
            assert self.interval is not None
            return f"checkpoint every {format_duration(self.interval)}"
        return {"restart": "restart", "ha_group": "HA group"}[self.technique]


def options(assessment: AssessedApp, operator: str) -> list[Option]:
    """Restart first; then checkpoints, longest interval first; then the HA group."""
    impact, settings = assessment.operators[operator], assessment.settings
    # A stateless operator has no state to lose: replayed input is processed as if there had been no failure.
    age_after_restart = LOST if impact.state else Duration(0)
    choices = [
        _option(
            impact, "restart", None, Resources(), settings.restart, settings.restart, age_after_restart,
            age_after_restart,
        )
    ]  # fmt: skip
    checkpoint = measured(assessment, operator, "checkpoint")
    if impact.state and checkpoint is not None:
        running = Duration(settings.restart + round(impact.state / settings.read * 1e6))
        for interval in reversed(settings.intervals):
            # Halving the interval doubles every cost except memory.
            scale = assessment.costs[operator].every / interval
            resources = Resources(
                checkpoint.cores * scale, checkpoint.memory, checkpoint.written * scale, checkpoint.sent * scale
            )
            age = Duration(interval // 2)
            latency = Duration(running + age)
            choices.append(_option(impact, "checkpoint", interval, resources, running, latency, age, Duration(0)))
    replica = measured(assessment, operator, "ha_group")
    if replica is not None:
        replicas = Resources(*((settings.replicas - 1) * part for part in replica))
        lost = impact.failover_impact(settings.failover)
        loss = impact.failures_per_day * lost
        choices.append(Option("ha_group", None, replicas, settings.failover, loss, 0.0, lost))
    return choices


def measured(assessment: AssessedApp, operator: str, technique: str) -> Cost | None:
    costs = assessment.costs.get(operator)
    return None if costs is None else costs.techniques.get(technique)


def _option(
    impact: OperatorImpact,
    technique: Technique,
    interval: Duration | None,
    resources: Resources,
    outage: Duration,
    latency: Duration,
    age: Duration,
    age_replayed: Duration,
) -> Option:
    loss = impact.failures_per_day * impact.quality_impact(outage, age)
    # With no input missed and no state lost there is no impact, whatever ages were assessed.
    impact_replayed = 0.0 if age_replayed == 0 else impact.quality_impact(Duration(0), age_replayed)
    loss_replayed = impact.failures_per_day * impact_replayed
    return Option(technique, interval, resources, latency, loss, min(loss, loss_replayed))


def backup_resources(assessment: AssessedApp, operator: str) -> Resources | None:
    """Cost of making all output streams of an operator persistent; None: not measured."""
    cost = measured(assessment, operator, "backup")
    return None if cost is None else Resources(*cost)
