"""From verdicts to a plan, and from a plan to what becomes of each operator's fault under it."""

from collections.abc import Mapping

from riprap.base.quantities import Duration
from riprap.faults.campaign import Settings, Target
from riprap.faults.models import StateOutcome
from riprap.faults.verdict import Verdict
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan

CHECKPOINT_EVERY = Duration(1_000_000)  # what the plan proposes
GROUP = "critical"


def proposed_plan(graph: Graph, found: Mapping[str, Verdict]) -> Plan:
    """The verdicts as a plan."""
    operators: dict[str, Annotations] = {}
    names: dict[tuple[str, ...], str] = {}
    for target, verdict in found.items():
        if verdict.advice == "replicate":
            name = names.setdefault(verdict.group, f"{GROUP}-{len(names) + 1}" if names else GROUP)
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
