"""The topology of an app: one task per operator.

The shards of a parallel operator are alike (same latency, same neighbours), so in a cheapest plan all of them keep a
backup or none does: the operator stands for them, and a backup of it counts once per shard.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from riprap.base.errors import PlanError, known
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import connected, replicable
from riprap.graph.plan_file import Plan
from riprap.graph.specs import OperatorSpec, Sink
from riprap.planner.assessment_file import AssessedApp, OperatorImpact
from riprap.planner.budget import BudgetPlan, BudgetProblem, budget_problem
from riprap.planner.topology import Topology, topology
from riprap.planner.topology_files import Estimate, TaskProfile
from riprap.runtime.planned import wrong_with

UNASSESSED = OperatorImpact(0.0, {Duration(0): ((Duration(1_000_000), 0.0),)})


def topology_of(
    graph: Graph,
    profile: Mapping[str, TaskProfile],
    *,
    otherwise: Duration | None = None,
    estimate: Estimate = "average",
    by_bytes: bool = False,
    profiled: Path | None = None,
) -> Topology:
    """T(v) from the profile, else from the operator's checkpoint interval, else `otherwise`.

    A backup costs one per shard, or, `by_bytes`, the bytes/s that the profile says. `profiled`: the profile's file.
    """
    names = [operator.name for operator in graph]
    for name in profile:
        if name not in graph:
            raise PlanError(
                f"the profile names operator {name}, which {graph.name} does not have: {known(names, name)}"
            )
    latency: dict[str, Duration] = {}
    unknown = []
    for operator in graph:
        given = profile.get(operator.name, TaskProfile())
        interval = given.checkpoint or operator.annotations.checkpoint_every
        found = replace(given, checkpoint=interval).reprocessing(estimate)
        found = otherwise if found is None else found
        if found is None:
            unknown.append(operator.name)
        else:
            latency[operator.name] = found
    if unknown:
        where = f", and {profiled} does not say it" if profiled is not None else ""
        instead = f"an entry of each in {profiled}" if profiled is not None else "--profile FILE"
        raise PlanError(
            f"how long {', '.join(unknown)} of {graph.name} need to reprocess their recent input is not known{where}: "
            f"give it with --latency 1s (for all), --latency NAME=1s, {instead}, or a checkpoint interval in the app"
        )
    edges = list(dict.fromkeys((stream.source, stream.target) for stream in graph.streams))
    feedback = {(stream.source, stream.target) for stream in graph.streams if stream.feedback is not None}
    cost = {operator.name: operator.parallelism for operator in graph}
    if by_bytes:
        for operator in graph:
            bytes_kept = _bytes_kept(graph, operator, profile.get(operator.name, TaskProfile()))
            if bytes_kept is None and not isinstance(operator, Sink):
                raise PlanError(f"the profile has no cost of {operator.name}: planning by bytes needs one per operator")
            cost[operator.name] = bytes_kept or 0
    return topology(graph.name, latency, edges, feedback=feedback, cost=cost)


def _bytes_kept(graph: Graph, operator: OperatorSpec, profile: TaskProfile) -> int | None:
    """Bytes/s of all its outputs: as stated, else measured tuples/s times the width of a row."""
    if profile.cost is not None or profile.output is None:
        return profile.cost
    widths = [sum(_width(column.type) for column in graph.physical(operator.name, p)) for p in range(operator.outputs)]
    return round(profile.output * max(widths, default=0))


def _width(type_: pa.DataType) -> float:
    try:
        return type_.bit_width / 8
    except ValueError:
        return 16.0  # a string: four bytes of offset and a dozen of text


def plan_with_backups(
    graph: Graph, backups: set[str], bound: Duration | None = None, intervals: Mapping[str, Duration] | None = None
) -> Plan:
    """What the code asks for, with these backups instead of its own, and these intervals where it has none.

    Under a bound what was lost is recomputed from checkpoints of whole elements, so there are no continuous ones.
    """
    operators: dict[str, Annotations] = {}
    for operator in graph:
        own, kept = operator.annotations, operator.name in backups
        off = own.checkpoint_off and bound is None  # what has to be back in time has to be saved
        wanted = replace(
            own,
            checkpoint_every=None if off else own.checkpoint_every or (intervals or {}).get(operator.name),
            checkpoint_off=off,
            backup=kept,
            continuous=None,
            stability=own.stability if kept or own.persist or isinstance(operator, Sink) else None,
        )
        if wanted not in (Annotations(), own) or own != Annotations():
            operators[operator.name] = wanted
    return Plan(graph.name, operators, bound)


def problem_of(graph: Graph, assessment: AssessedApp) -> BudgetProblem:
    """What can be chosen for the operators of an app. Sinks hand over what they get: an assessment may leave them out.
    Of others that were not assessed nothing is known to be lost, so they restart."""
    for name in assessment.operators:
        if name not in graph:
            names = [operator.name for operator in graph]
            raise PlanError(
                f"the assessment has operator {name}, which {graph.name} does not have: {known(names, name)}; assess "
                "the app again"
            )
    sinks = {sink.name for sink in graph.sinks}
    assessed = assessment.operators
    operators = {
        spec.name: assessed.get(spec.name, UNASSESSED) for spec in graph if spec.name not in sinks - assessed.keys()
    }
    between = [stream for stream in graph.streams if stream.target in operators]
    return budget_problem(
        replace(assessment, operators=operators),
        [(stream.source, stream.target) for stream in between if stream.feedback is None],
        [(stream.source, stream.target) for stream in between if stream.feedback is not None],
        together=replicable(graph),
        sinks=frozenset(stream.source for stream in graph.streams if stream.target in sinks),
    )


def plan_with_protection(graph: Graph, protection: BudgetPlan, replicas: int) -> Plan:
    """A plan file for a choice of techniques, instead of those in the code. Neighbours that are replicated form one HA
    group."""
    replicated = {name for name, option in protection.chosen.items() if option.technique == "ha_group"}
    group = {name: HaGroup(part[0], replicas) for part in connected(graph, replicated) for name in part}
    operators = {}
    for name, option in protection.chosen.items():
        annotations = Annotations(option.interval, None, name in protection.backups, group.get(name))
        if Annotations() != annotations or graph[name].annotations != annotations:
            operators[name] = annotations
    plan = Plan(graph.name, operators)
    if wrong := wrong_with(graph, plan):
        raise PlanError(f"no plan of {graph.name} can be written: {wrong}")
    return plan
