"""What to do about each operator, in words that follow from its numbers; and the plan that says the same.

The yardstick is silence: an operator whose outage only makes the output fall silent has an error of 1 in every
section that the outage covers, so that I equals the number of sections covered.

    restart     R and I stay within one section of silence: the output is right again as soon as the operator is back
    checkpoint  the error outlasts the outage, but adds up to less than WORSE times silence
    replicate   the output is wrong by more than that: what the operator goes on giving out is worse than nothing

With several sinks the strongest advice holds: an output that is right soon does not make up for one that stays wrong.

Operators that are to be replicated and stand next to each other, or between which only operators stand that behave
like one of them, form one group: a fail-over of the group loses tuples at its edge alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.quantities import Duration, format_duration
from riprap.faults.campaign import Settings, Target
from riprap.faults.models import StateOutcome
from riprap.faults.placement import Placement
from riprap.faults.summary import TargetSummary
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan

Advice = Literal["restart", "checkpoint", "replicate"]
STRENGTH: tuple[Advice, ...] = get_args(Advice)  # the least first
WORSE = 3.0  # times silence
CHECKPOINT_EVERY = Duration(1_000_000)  # what the plan proposes
GROUP = "critical"


@dataclass(frozen=True)
class Verdict:
    advice: Advice
    sentence: str
    group: tuple[str, ...] = ()  # operators to replicate together, in the order of the graph


def verdicts(
    graph: Graph, placed: Sequence[Placement], summaries: Sequence[TargetSummary], failover: Duration
) -> dict[str, Verdict]:
    """By target."""
    worst = deciding(summaries)
    advice = {name: _advice(summary) for name, summary in worst.items()}
    groups = _groups(graph, placed, advice)
    several = len({summary.sink for summary in summaries}) > 1
    return {
        name: _verdict(summary, advice[name], groups.get(name, ()), failover, several=several)
        for name, summary in worst.items()
    }


def deciding(summaries: Sequence[TargetSummary]) -> dict[str, TargetSummary]:
    """By target, the sink that decides what to do about it: the one that calls for most; of those, the most wrong."""
    found: dict[str, TargetSummary] = {}
    for summary in summaries:
        known = found.get(summary.target)
        if known is None or _weight(summary) > _weight(known):
            found[summary.target] = summary
    return found


def _weight(summary: TargetSummary) -> tuple[int, float, int]:
    return STRENGTH.index(_advice(summary)), summary.paired.I, summary.paired.R


def _advice(summary: TargetSummary) -> Advice:
    metrics, covered = summary.paired, summary.covered
    if covered + 1 >= metrics.R and covered + 1 >= metrics.I:
        return "restart"
    return "replicate" if WORSE * covered < metrics.I else "checkpoint"


def _verdict(
    summary: TargetSummary, advice: Advice, group: tuple[str, ...], failover: Duration, *, several: bool
) -> Verdict:
    metrics, outage = summary.paired, format_duration(summary.longest.duration)
    silence = f"silence for {outage} would cost I = {summary.covered:.1f}"
    output = f"the output at {summary.sink}" if several else "the output"
    if metrics.R == 0:
        every = "any output" if several else "the output"
        return Verdict(advice, f"Restart is enough: an outage of {outage} leaves no section of {every} wrong.")
    if advice == "restart":
        return Verdict(
            advice,
            f"Restart is enough: {output} is right again once the operator is back (R = {metrics.R}; {silence}).",
        )
    lasting = f"{output} stays wrong for {metrics.R} sections and I = {metrics.I:.2f}, where {silence}"
    if advice == "checkpoint":
        return Verdict(advice, f"Checkpoint, and restart quickly: {lasting}.")
    short = [o for o in summary.outages if o.duration <= failover]
    promise = f"; an outage of {format_duration(short[-1].duration)} leaves I = {short[-1].I:.2f}" if short else ""
    others = [name for name in group if name != summary.target]
    together = f", together with {' and '.join(others)}" if others else ""
    return Verdict(advice, f"Replicate{together}: {lasting}{promise}.", group)


def _groups(graph: Graph, placed: Sequence[Placement], advice: Mapping[str, Advice]) -> dict[str, tuple[str, ...]]:
    """For each target to replicate, the operators to replicate with it."""
    like = {p.operator: p.like for p in placed}
    members = {spec.name for spec in graph if advice.get(spec.name, advice.get(like.get(spec.name, ""))) == "replicate"}
    for target in advice:
        if "+" in target and advice[target] == "replicate":
            members |= set(target.split("+"))
    groups: dict[str, tuple[str, ...]] = {}
    for target in advice:
        if advice[target] != "replicate":
            continue
        group, stack = set(target.split("+")), target.split("+")
        while stack:
            name = stack.pop()
            near = {*graph.upstream(name), *graph.downstream(name)} & members - group
            group |= near
            stack += near
        groups[target] = tuple(name for name in graph.order if name in group)
    return groups


def proposed_plan(graph: Graph, found: Mapping[str, Verdict]) -> Plan:
    """The verdicts as a plan."""
    operators: dict[str, Annotations] = {}
    numbers: dict[tuple[str, ...], str] = {}
    for target, verdict in found.items():
        if verdict.advice == "replicate":
            name = numbers.setdefault(verdict.group, GROUP if not numbers else f"{GROUP}-{len(numbers) + 1}")
            operators |= {member: Annotations(ha_group=HaGroup(name, 2)) for member in verdict.group}
        elif verdict.advice == "checkpoint":
            for member in target.split("+"):
                if any(graph[member].stateful):
                    operators.setdefault(member, Annotations(checkpoint_every=CHECKPOINT_EVERY))
    return Plan(graph.name, {name: operators[name] for name in graph.order if name in operators})


def protected_targets(graph: Graph, settings: Settings, plan: Plan, failover: Duration) -> dict[str, Target]:
    """What each operator's fault becomes under a plan; operators for which it changes nothing are left out.

    A member of a replicated group takes the group with it: a loss at the group's edge until the replica takes over. A
    checkpoint loses what came after the last one, in the worst case its whole interval.
    """
    graph = plan.apply(graph)
    groups: dict[str, tuple[str, ...]] = {}
    for spec in graph:
        if spec.annotations.ha_group is not None:
            name = spec.annotations.ha_group.name
            groups[name] = (*groups.get(name, ()), spec.name)
    found: dict[str, Target] = {}
    for spec in graph:
        if spec.annotations.ha_group is not None:
            found[spec.name] = Target(groups[spec.annotations.ha_group.name], at_most=failover)
        elif spec.annotations.checkpoint_every is not None and any(spec.stateful):
            found[spec.name] = Target((spec.name,), StateOutcome("checkpoint", spec.annotations.checkpoint_every))
    assessed = {name for target in settings.targets for name in target.operators}
    return {name: target for name, target in found.items() if name in assessed or assessed & set(target.operators)}
