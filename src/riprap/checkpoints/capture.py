"""Captures the state of an engine for a checkpoint, on the engine's thread. It only copies, so the pause is short."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from riprap.checkpoints.manifest import WindowKind
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState
from riprap.graph.order_keys import OrderKey
from riprap.graph.specs import Aggregate, Join, OperatorSpec
from riprap.graph.windows import Count
from riprap.operators.contract import Operator, OperatorState
from riprap.operators.windowed import WindowedOperator


@dataclass(frozen=True)
class CapturedState:
    """The state of a unit at a cut, in memory."""

    unit: str
    taken_at: int  # microseconds
    states: Mapping[str, OperatorState]  # by operator: a delta since the last capture, or a snapshot
    kinds: Mapping[str, Mapping[str, WindowKind]]  # by operator and by prefix of the tables' names
    mergers: Mapping[str, MergerState]  # by operator
    watermark: Mapping[str, OrderKey]  # by operator: the watermark of its input
    positions: Mapping[str, Any]  # where the element continues: an opaque JSON object
    messages: bytes = b""  # channel state of the element, opaque here


def capture(
    unit: str,
    engine: Engine,
    operators: Iterable[str],
    since: Mapping[str, int],
    positions: Mapping[str, Any],
    now: int,
    mergers: Mapping[str, MergerState] | None = None,
) -> CapturedState:
    """`since`: the versions from the unit's last capture; an operator without one is captured completely.

    `mergers`: the merger contents to save; None: everything that waits in the operators' mergers.
    """
    names = tuple(operators)
    if mergers is None:
        mergers = {name: state for name, state in engine.waiting().items() if name in names}
    return CapturedState(
        unit,
        now,
        {name: _state(engine.operators[name], since.get(name)) for name in names},
        {name: _kinds(engine, name) for name in names},
        mergers,
        {name: engine.reached(name) for name in names},
        dict(positions),
    )


def _state(operator: Operator, since: int | None) -> OperatorState:
    """The changes; or a snapshot if nearly everything changed: that is one part and needs no earlier ones."""
    if since is None or (isinstance(operator, WindowedOperator) and operator.turned_over(since)):
        return operator.snapshot()
    return operator.delta(since)


def _kinds(engine: Engine, name: str) -> dict[str, WindowKind]:
    operator = engine.operators[name]
    if not isinstance(operator, WindowedOperator):
        return {}
    spec = operator.setting.spec
    return {
        f"port{port}": WindowKind(store.period, _slides(spec, port), not isinstance(spec, Join) or spec.per_group)
        for port, store in operator.stores.items()
    }


def _slides(spec: OperatorSpec, port: int) -> int | None:
    """The size of a port's window if it is a sliding count window."""
    if isinstance(spec, Aggregate) and isinstance(spec.window, Count) and not spec.tumbling:
        return spec.window.size
    if isinstance(spec, Join):
        window = spec.windows[port]
        return window.size if isinstance(window, Count) else None
    return None
