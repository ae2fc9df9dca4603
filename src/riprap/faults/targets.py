"""Target selection: which operators need trials of their own.

An operator is a target if a fault at its input has a different effect from a fault at the input of its upstream
operator. Only operators on a path to an assessed sink count; sinks are never targets. An operator that is not chosen
behaves like its upstream operator.

    loss, duplicate    sources; operators whose upstream operator feeds several; operators with several inputs;
                       operators behind a stateful one; if a loss also loses state, stateful operators: their
                       upstream operator has different state, or none
    diverge, corrupt…  the same, and operators behind one that computes new attributes: other values can be wrong there
    corrupt-state, sdc the same, and stateful operators
    reorder            operators with several inputs: the order within a stream does not change
"""

from collections.abc import Iterable
from dataclasses import dataclass

from riprap.base.errors import UsageError, known
from riprap.expressions.ast import ColumnRef
from riprap.faults.models import ALTERS, KEPT, FaultKind, StateOutcome
from riprap.graph.graph import Graph
from riprap.graph.specs import Functor, Join, JoinTable, MapBatches, MapPython, OperatorSpec, Scan, Sink, Source


@dataclass(frozen=True)
class TargetChoice:
    """Whether an operator is a target, and why; if not, which operator it behaves like ("": a fault has no effect)."""

    operator: str
    chosen: bool
    reason: str
    like: str = ""


def placements(graph: Graph, kind: FaultKind, sinks: Iterable[str], state: StateOutcome = KEPT) -> list[TargetChoice]:
    """One entry per operator, upstream first. `state`: a target's state after the fault, as asked for."""
    assessed_sinks = frozenset(sinks)
    choices: dict[str, TargetChoice] = {}
    for spec in graph:
        if isinstance(spec, Sink):
            continue
        if not graph.reachable(spec.name) & assessed_sinks:
            choices[spec.name] = TargetChoice(spec.name, False, "no path leads from it to the assessed sink")
            continue
        reason = _reason(graph, spec, kind, state)
        if reason:
            choices[spec.name] = TargetChoice(spec.name, True, reason)
        elif kind == "reorder":
            choices[spec.name] = TargetChoice(spec.name, False, "it has one input stream, whose order does not change")
        else:
            upstream = graph.upstream(spec.name)[0]
            like = upstream if choices[upstream].chosen else choices[upstream].like
            choices[spec.name] = TargetChoice(spec.name, False, f"a fault here has the same effect as at {like}", like)
    return list(choices.values())


def _reason(graph: Graph, spec: OperatorSpec, kind: FaultKind, state: StateOutcome) -> str:
    if kind == "reorder":
        return f"it has {spec.inputs} input streams, which can get out of step" if spec.inputs > 1 else ""
    if isinstance(spec, Source):
        return "it is a source"
    if spec.inputs > 1:
        return f"it has {spec.inputs} input streams"
    (upstream,) = graph.upstream(spec.name)
    if len(graph.outputs(upstream)) > 1:
        return f"its upstream operator {upstream} feeds several operators"
    if any(graph[upstream].stateful):
        return f"its upstream operator {upstream} is stateful"
    if state != KEPT and any(spec.stateful):
        return "it has state, which a failure loses"
    if kind in ("corrupt-state", "sdc") and any(spec.stateful):
        return "it has state that can be wrong"
    if kind in ALTERS and _computes(graph[upstream]):
        return f"its upstream operator {upstream} computes new attributes"
    return ""


def _computes(spec: OperatorSpec) -> bool:
    if isinstance(spec, MapPython | MapBatches):
        return True
    if isinstance(spec, JoinTable):
        return spec.adds_columns
    projections = spec.projections if isinstance(spec, Functor | Join | Scan) else None
    return any(not isinstance(expression.root, ColumnRef) for _, expression in projections or ())


def chosen_targets(
    graph: Graph, text: str, kind: FaultKind, sinks: Iterable[str], state: StateOutcome = KEPT
) -> list[str]:
    """`auto`, `all`, or names separated by commas (`A+B` is one target of operators that fail together)."""
    choices = placements(graph, kind, sinks, state)
    names = [placement.operator for placement in choices if placement.like or placement.chosen]
    if text == "auto":
        targets = [placement.operator for placement in choices if placement.chosen]
        if not targets:
            raise UsageError(f"no operator of {graph.name} is sensitive to fault model {kind}; choose another one")
        return targets
    if text == "all":
        return names
    targets = [part.strip() for part in text.split(",") if part.strip()]
    for target in targets:
        for name in target.split("+"):
            if name not in names:
                raise UsageError(f"{name} cannot be a target of {kind}; operators that can: {known(names, name)}")
    if not targets:
        raise UsageError(f"no targets in {text!r}; write auto, all, or names separated by commas")
    return targets
