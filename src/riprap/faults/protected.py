"""Converts advice to a plan, and derives the effect of a plan on each operator's fault."""

from collections.abc import Iterable, Mapping

from riprap.base.quantities import Duration
from riprap.faults.campaign_settings import CHECKPOINT_EVERY, CampaignSettings, Target
from riprap.faults.models import StateOutcome
from riprap.faults.operator_advice import OperatorAdvice
from riprap.faults.targets import TargetChoice
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import connected, replicable
from riprap.graph.plan_file import Plan

GROUP = "critical"


def proposed_plan(graph: Graph, advice: Mapping[str, OperatorAdvice]) -> Plan:
    """A plan that follows the advice and replaces the protection in the code.

    Groups are completed with the operators that they require. An operator that cannot be replicated is checkpointed.
    """
    together = replicable(graph)
    sinks = {sink.name for sink in graph.sinks}
    operators = {s.name: Annotations() for s in graph if s.annotations != Annotations() and s.name not in sinks}
    groups: list[set[str]] = []
    for target, verdict in advice.items():
        members = [*verdict.group, *target.split("+")] if verdict.advice in ("replicate", "checkpoint") else []
        for member in members:
            if any(graph[member].stateful):
                operators[member] = Annotations(checkpoint_every=CHECKPOINT_EVERY)
        group = {name for member in verdict.group for name in together.get(member, ())}
        for other in [one for one in groups if one & group]:
            groups.remove(other)
            group |= other
        groups += [group] if group else []
    parts = [part for group in groups for part in connected(graph, group)]
    for number, part in enumerate(parts):
        name = f"{GROUP}-{number + 1}" if number else GROUP
        operators |= {member: Annotations(ha_group=HaGroup(name, 2)) for member in part}
    return Plan(graph.name, {name: operators[name] for name in graph.order if name in operators})


def protected_targets(
    graph: Graph, settings: CampaignSettings, placed: Iterable[TargetChoice], plan: Plan, failover: Duration
) -> dict[str, Target]:
    """Each operator's fault under a plan; without the operators whose fault does not change.

    A failure in an HA group makes another replica active, which has the state: what is lost until then is what leaves
    the group. With checkpoints, the input since the last one is lost, in the worst case that of a whole interval.
    """
    graph = plan.apply(graph)
    groups: dict[str, tuple[str, ...]] = {}
    for spec in graph:
        if spec.annotations.ha_group is not None:
            name = spec.annotations.ha_group.name
            groups[name] = (*groups.get(name, ()), spec.name)
    targets: dict[str, Target] = {}
    for spec in graph:
        if spec.annotations.ha_group is not None:
            targets[spec.name] = Target(groups[spec.annotations.ha_group.name], at_most=failover, fails_over=True)
        elif spec.annotations.checkpoint_every is not None and any(spec.stateful):
            targets[spec.name] = Target((spec.name,), StateOutcome("checkpoint", spec.annotations.checkpoint_every))
    assessed = {name for target in settings.targets for name in target.operators}
    assessed |= {place.operator for place in placed if place.like in assessed}
    return {name: target for name, target in targets.items() if name in assessed or assessed & set(target.operators)}
