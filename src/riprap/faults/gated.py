"""Engines of trials: one engine for all targets and faults, with a gate before every operator.

Operators in compiled loops have their gates in the loop's code (`operators/step_gate.py`); the others have an injection
operator in front that passes everything until a fault is set. So golden runs and trials run the same code, and trials
with state kept compile nothing.

Faults that a gate cannot inject at an operator within a loop (lost or old state, a single tuple) use a separate engine
without compiled loops.
"""

from dataclasses import replace

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.alterations import wrong_values
from riprap.faults.injection import InjectedOperator, Ports, check_reorder, with_fault
from riprap.faults.models import ALTERS, NOTHING, STRIKES_ONCE, Fault
from riprap.graph.graph import Graph
from riprap.graph.order_keys import just_before
from riprap.graph.specs import Sink
from riprap.operators.contract import Operator
from riprap.operators.step_gate import TWICE

_TIMES = {"loss": 0, "duplicate": 2}


def golden_engine(graph: Graph, jitter: Jitter | None) -> Engine:
    """With the code of trials, and no fault."""
    return Engine(graph, jitter=jitter, gated=True)


def trial_engine(graph: Graph, jitter: Jitter | None) -> Engine:
    """An engine that can inject a fault at any operator."""
    inside = {name for name, _ in golden_engine(graph, jitter).gates}
    alone = [spec.name for spec in graph.operators if spec.name not in inside and not isinstance(spec, Sink)]
    return Engine(with_fault(graph, alone, NOTHING), jitter=jitter, gated=True)


def can_strike(engine: Engine, targets: Ports, fault: Fault) -> bool:
    """Whether the gates of an engine can inject this fault."""
    struck = [(name, port) for name, port in engine.gates if port in targets.get(name, ())]
    if fault.kind == "duplicate" and len({name for name, _ in struck}) > TWICE:
        return False
    if fault.kind == "reorder" and any(port for _, port in struck):
        return False  # it would hold back one of several ports
    return not struck or (fault.keeps_state and fault.kind not in STRIKES_ONCE)


def strike(graph: Graph, engine: Engine, targets: Ports, fault: Fault) -> None:
    """Sets this fault and clears any other. The caller restores the state afterwards."""
    for name in targets:
        check_reorder(graph, name, fault)
    for (name, port), gate in engine.gates.items():
        gate.open()
        if port in targets.get(name, ()):
            wrong = wrong_values(fault, list(gate.columns)) if fault.kind in ALTERS else None
            gate.strike(fault.start, fault.end, _TIMES.get(fault.kind, 1), wrong)
    for name, operator in engine.operators.items():
        if isinstance(operator, InjectedOperator):
            operator.set_fault(replace(fault, ports=targets[name]) if name in targets else NOTHING)


def still_striking(engine: Engine, targets: Ports, fault: Fault) -> bool:
    """Whether tuples of the outage are still in flight to a target, or held back by it."""
    return any(engine.reached(name) < just_before(fault.end) or _holds(engine.operators[name]) for name in targets)


def _holds(operator: Operator) -> bool:
    return isinstance(operator, InjectedOperator) and operator.holding
