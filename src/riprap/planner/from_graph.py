"""The topology of an app: one task per operator.

The shards of a parallel operator have the same latency and neighbours, so in a cheapest plan all of them are backups
or none is: the operator represents them, and its backup costs one per shard.
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

    A backup costs one per shard or, with `by_bytes`, the bytes/s in the profile. `profiled`: the profile's file.
    """
    names = [operator.name for operator in graph]
    for name in profile:
        if name not in graph:
            raise PlanError(f"the profile has operator {name}, which is not in {graph.name}: {known(names, name)}")
    latency: dict[str, Duration] = {}
    unknown = []
    for operator in graph:
        measured = profile.get(operator.name, TaskProfile())
        interval = measured.checkpoint or operator.annotations.checkpoint_every
        reprocessing = replace(measured, checkpoint=interval).reprocessing(estimate)
        reprocessing = otherwise if reprocessing is None else reprocessing
        if reprocessing is None:
            unknown.append(operator.name)
        else:
            latency[operator.name] = reprocessing
    if unknown:
        where = f" and is not in {profiled}" if profiled is not None else ""
        instead = f"an entry for each in {profiled}" if profiled is not None else "`profile=FILE`"
        raise PlanError(
            f"the time that {', '.join(unknown)} of {graph.name} need to reprocess recent input is unknown{where}: "
            f"give it with `latency=1s` (for all), `latency=NAME=1s`, {instead}, or a checkpoint interval in the app"
        )
    edges = list(dict.fromkeys((stream.source, stream.target) for stream in graph.streams))
    feedback = {(stream.source, stream.target) for stream in graph.streams if stream.feedback is not None}
    cost = {operator.name: operator.parallelism for operator in graph}
    if by_bytes:
        for operator in graph:
            output_bytes = _output_bytes(graph, operator, profile.get(operator.name, TaskProfile()))
            if output_bytes is None and not isinstance(operator, Sink):
                raise PlanError(
                    f"the profile has no cost for {operator.name}: planning by bytes needs one per operator"
                )
            cost[operator.name] = output_bytes or 0
    return topology(graph.name, latency, edges, feedback=feedback, cost=cost)


def _output_bytes(graph: Graph, operator: OperatorSpec, profile: TaskProfile) -> int | None:
    """Bytes/s of all its outputs: from the profile, else measured tuples/s times the width of a row."""
    if profile.cost is not None or profile.output is None:
        return profile.cost
    widths = [sum(_width(column.type) for column in graph.physical(operator.name, p)) for p in range(operator.outputs)]
    return round(profile.output * max(widths, default=0))


def _width(type_: pa.DataType) -> float:
    try:
        return type_.bit_width / 8
    except ValueError:
        return 16.0  # a string: 4 bytes of offset and 12 of text


def plan_with_backups(
    graph: Graph, backups: set[str], bound: Duration | None = None, intervals: Mapping[str, Duration] | None = None
) -> Plan:
    """The app's annotations with these backups instead of its own, and with these intervals where it has none.

    Under a bound, lost items are recomputed from checkpoints of whole elements, so continuous ones are removed.
    """
    operators: dict[str, Annotations] = {}
    for operator in graph:
        own, is_backup = operator.annotations, operator.name in backups
        off = own.checkpoint_off and bound is None  # recovery within a bound needs checkpoints
        planned = replace(
            own,
            checkpoint_every=None if off else own.checkpoint_every or (intervals or {}).get(operator.name),
            checkpoint_off=off,
            backup=is_backup,
            continuous=None,
            stability=own.stability if is_backup or own.persist or isinstance(operator, Sink) else None,
        )
        if planned not in (Annotations(), own) or own != Annotations():
            operators[operator.name] = planned
    return Plan(graph.name, operators, bound)


def problem_of(graph: Graph, assessment: AssessedApp) -> BudgetProblem:
    """The budget problem of an app. Sinks may be missing in the assessment. Other operators that were not assessed have
    no known loss, so they restart."""
    for name in assessment.operators:
        if name not in graph:
            names = [operator.name for operator in graph]
            raise PlanError(
                f"the assessment has operator {name}, which is not in {graph.name}: {known(names, name)}; "
                "assess the app again"
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
    """The plan for these techniques, which replace those in the code. Adjacent replicated operators form one HA
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
        raise PlanError(f"cannot write a plan of {graph.name}: {wrong}")
    return plan
