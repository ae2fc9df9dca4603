"""Engines of trials: one for every target and fault, with a gate before every operator.

Operators that run in a loop have their gates in its text (`operators/step_gate.py`); those that run on their own stand
behind an injection that lets everything pass until it is told otherwise. So golden runs and trials run the same texts,
and the trials of a campaign that keep state compile nothing of their own.

What a gate cannot do at an operator within a loop (state that is lost or old, one tuple struck alone) is done in an
engine of its own, in which every operator runs on its own.
"""

from collections.abc import Sequence

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.alterations import wrong_values
from riprap.faults.injection import InjectedOperator, check_reorder, with_fault
from riprap.faults.models import ALTERS, NOTHING, STRIKES_ONCE, Fault
from riprap.graph.graph import Graph
from riprap.graph.order_keys import just_before
from riprap.graph.specs import Sink
from riprap.operators.contract import Operator
from riprap.operators.step_gate import TWICE

_TIMES = {"loss": 0, "duplicate": 2}


def golden_engine(graph: Graph, jitter: Jitter | None) -> Engine:
    """With the texts of trials, and no fault."""
    return Engine(graph, jitter=jitter, gated=True)


def trial_engine(graph: Graph, jitter: Jitter | None) -> Engine:
    """In which any operator can be struck."""
    inside = {name for name, _ in golden_engine(graph, jitter).gates}
    alone = [spec.name for spec in graph.operators if spec.name not in inside and not isinstance(spec, Sink)]
    return Engine(with_fault(graph, alone, NOTHING), jitter=jitter, gated=True)


def can_strike(engine: Engine, targets: Sequence[str], fault: Fault) -> bool:
    """Whether the gates of an engine can do what a fault does."""
    struck = [port for port in engine.gates if port[0] in targets]
    if fault.kind == "duplicate" and len({name for name, _ in struck}) > TWICE:
        return False
    if fault.kind == "reorder" and any(port for _, port in struck):
        return False  # it holds back what one of several ports was given
    return not struck or (fault.keeps_state and fault.kind not in STRIKES_ONCE)


def strike(graph: Graph, engine: Engine, targets: Sequence[str], fault: Fault) -> None:
    """Let this fault strike, and no other. What another one left is forgotten; the state is restored afterwards."""
    for name in targets:
        check_reorder(graph, name, fault)
    for (name, _), gate in engine.gates.items():
        gate.open()
        if name in targets:
            wrong = wrong_values(fault, list(gate.columns)) if fault.kind in ALTERS else None
            gate.strike(fault.start, fault.end, _TIMES.get(fault.kind, 1), wrong)
    for name, operator in engine.operators.items():
        if isinstance(operator, InjectedOperator):
            operator.begin(fault if name in targets else NOTHING)


def still_striking(engine: Engine, targets: Sequence[str], fault: Fault) -> bool:
    """Whether the fault has tuples to strike yet: they are on their way to a target, or held back by it."""
    return any(engine.reached(name) < just_before(fault.end) or _holds(engine.operators[name]) for name in targets)


def _holds(operator: Operator) -> bool:
    return isinstance(operator, InjectedOperator) and operator.holding
