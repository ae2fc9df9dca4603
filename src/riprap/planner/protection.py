"""What each technique does for an operator, and what it takes.

A failure of operator v is followed by an *effective outage*, during which its input is missed, and leaves a state of
some *age*:

    technique            time until it runs again     age of its state
    restart              restart                      lost
    checkpoint (τ)       restart + reading the state  τ/2 (on average)
    HA group             fail-over                    kept

Where all operators that feed v keep a backup of their output (or v is a source, whose input is always kept), what it
missed is replayed: the effective outage is 0, and with a checkpoint, or without any state, all is as if nothing had
happened. Expected loss is failures per day × the assessed quality impact of that outage and age, summed over the
operators: a sum leaves out that failures may coincide and that one operator's loss may hide another's.

What a technique takes is what was measured in runs (`costs.py`); one that was not measured is not chosen. Without any
costs it is estimated from what the operator takes, from its state and from its output.

T(v), for the bound on recovery latency, is the time until it runs again plus what it has to reprocess (τ/2).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from riprap.base.quantities import Duration, format_duration
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.costs import Cost

Technique = Literal["restart", "checkpoint", "ha_group"]


class Resources(NamedTuple):
    """What protection takes beyond running the app."""

    cpu: float = 0.0  # cores
    memory: float = 0.0  # bytes
    storage: float = 0.0  # bytes/s written
    network: float = 0.0  # bytes/s sent

    def plus(self, other: "Resources") -> "Resources":
        return Resources(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Option:
    """One way to protect one operator."""

    technique: Technique
    interval: Duration | None  # between checkpoints
    resources: Resources
    latency: Duration  # T
    loss: float  # expected per day when its input is not kept
    loss_replayed: float  # expected per day when it is

    def describe(self) -> str:
        if self.technique == "checkpoint":
            assert self.interval is not None
            return f"checkpoint every {format_duration(self.interval)}"
        return {"restart": "restart", "ha_group": "HA group"}[self.technique]


def options(assessment: AssessedApp, operator: str) -> list[Option]:
    """Restart first; then checkpoints, longest interval first; then the HA group."""
    impact, settings = assessment.operators[operator], assessment.settings
    # An operator without state has none to lose: what it gets again it processes as if nothing had happened.
    gone = LOST if impact.state else Duration(0)
    found = [_option(impact, "restart", None, Resources(), settings.restart, settings.restart, gone, gone)]
    if impact.state and _known(assessment, operator, "checkpoint"):
        takes = [_checkpoint_resources(assessment, operator, interval) for interval in settings.intervals]
        pairs = zip(reversed(settings.intervals), reversed(takes), strict=True)
        found += [_checkpoint(impact, settings, interval, resources) for interval, resources in pairs]
    if not _known(assessment, operator, "ha_group"):
        return found
    extra = settings.replicas - 1
    replica = measured(assessment, operator, "ha_group") or Cost(impact.cpu, impact.memory, 0.0, impact.output)
    replicas = Resources(*(extra * part for part in replica))
    kept = Duration(0)
    found.append(_option(impact, "ha_group", None, replicas, settings.failover, settings.failover, kept, kept))
    return found


def _known(assessment: AssessedApp, operator: str, technique: str) -> bool:
    return not assessment.costs or measured(assessment, operator, technique) is not None


def measured(assessment: AssessedApp, operator: str, technique: str) -> Cost | None:
    costs = assessment.costs.get(operator)
    return None if costs is None else costs.techniques.get(technique)


def _checkpoint_resources(assessment: AssessedApp, operator: str, interval: Duration) -> Resources:
    cost = measured(assessment, operator, "checkpoint")
    if cost is None:
        rate = assessment.operators[operator].state / (interval / 1e6)
        return Resources(rate / assessment.settings.write_per_core, 0.0, rate)
    share = assessment.costs[operator].every / interval  # twice as often takes twice as much, but for memory
    return Resources(cost.cores * share, cost.memory, cost.written * share, cost.sent * share)


def _checkpoint(impact: OperatorImpact, settings: RecoveryTimes, interval: Duration, takes: Resources) -> Option:
    running = Duration(settings.restart + round(impact.state / settings.read * 1e6))
    age = Duration(interval // 2)
    return _option(impact, "checkpoint", interval, takes, running, Duration(running + age), age, Duration(0))


def _option(
    impact: OperatorImpact,
    technique: Technique,
    interval: Duration | None,
    takes: Resources,
    outage: Duration,
    latency: Duration,
    age: Duration,
    age_replayed: Duration,
) -> Option:
    missed = impact.failures_per_day * impact.quality_impact(outage, age)
    # Nothing missed and nothing lost is no failure, whatever ages were assessed.
    again = 0.0 if age_replayed == 0 else impact.quality_impact(Duration(0), age_replayed)
    replayed = impact.failures_per_day * again
    return Option(technique, interval, takes, latency, missed, min(missed, replayed))


def backup_resources(assessment: AssessedApp, operator: str) -> Resources | None:
    """Of keeping all output streams of an operator; None: that was not measured."""
    cost = measured(assessment, operator, "backup")
    if cost is not None:
        return Resources(*cost)
    if assessment.costs:
        return None
    output = assessment.operators[operator].output
    return Resources(output / assessment.settings.write_per_core, 0.0, output)
