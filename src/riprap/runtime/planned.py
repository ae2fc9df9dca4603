"""The layout of an app under a plan, and validation of the plan.

`run` and `prove` lay out with `planned_layout`, and the planner writes only plans in which `wrong_with` finds nothing.
"""

from collections.abc import Mapping, Sequence

from riprap.base.errors import RiprapError, UsageError
from riprap.base.quantities import format_duration
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan
from riprap.protocols.registry import BOUNDED, DEFAULT, FAILOVERS, configured
from riprap.runtime.fusion import Fuse
from riprap.runtime.layout import Layout, arrange


def planned_layout(
    graph: Graph,
    plan: Plan | None,
    fuse: Fuse = "auto",
    parallelism: Mapping[str, int] | None = None,
    *,
    protocol: str = DEFAULT.name,
    interval: str | None = None,
    log: str | None = None,
    scope: str | None = None,
    rule: str | None = None,
    failover: str = FAILOVERS[0],
    sinks: str | None = None,
    virtual: bool = False,
    former: Sequence[Mapping[str, int]] = (),
) -> Layout:
    """Lay out the graph under the plan, with the protocol of either. Raises for what cannot run."""
    if plan is not None:
        graph = plan.apply(graph)
        protocol, interval, sinks = _protocol(graph, plan, protocol, interval, sinks)
    spec, settings = configured(
        protocol, interval=interval, log=log, scope=scope, rule=rule, failover=failover, sinks=sinks, virtual=virtual
    )
    return arrange(graph, fuse, parallelism, spec, settings, former=former)


def wrong_with(graph: Graph, plan: Plan) -> str:
    """Why an app cannot run under a plan, as `run` and `prove` lay it out; "": it can."""
    try:
        planned_layout(graph, plan, "auto")
        planned_layout(graph, plan, "none")
    except RiprapError as error:
        return str(error)
    return ""


def _protocol(
    graph: Graph, plan: Plan, name: str, interval: str | None, sinks: str | None
) -> tuple[str, str | None, str | None]:
    """The protocol, its interval and its kind of sinks: those of the plan, if it specifies them."""
    if plan.recovery is not None:
        if name not in (DEFAULT.name, BOUNDED.name):
            raise UsageError(
                f"the plan has a recovery bound, which is met by recomputing, and `protocol` is {name}: leave "
                "`protocol` out, or recovery in the plan"
            )
        replicated = [op.name for op in graph if op.annotations.ha_group or op.annotations.copies > 1]
        if replicated:
            raise UsageError(
                f"the plan has a recovery bound, which is met by recomputing, and {replicated[0]} runs in "
                "replicas that fail over: leave out the replicas, or recovery in the plan"
            )
        name = BOUNDED.name
    if plan.protocol is not None:
        if name not in (DEFAULT.name, plan.protocol):
            raise UsageError(f"the plan specifies protocol = {plan.protocol!r} and `protocol` is {name}: leave one out")
        name, sinks = plan.protocol, sinks or plan.sinks
        if interval is None and plan.interval is not None:
            interval = format_duration(plan.interval)
    return name, interval, sinks
