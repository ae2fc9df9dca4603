"""The specification of operators with state of the user's own, per key."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration
from riprap.graph.order_keys import TIMER, KeyShape, joined_shape
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey
from riprap.graph.types import is_key
from riprap.graph.windows import Window, unbounded

# What the function gets and yields: pandas frames, with one state (`applyInPandasWithState`) or with the state
# variables of a processor (`transformWithStateInPandas`); or rows, with state variables (`transformWithState`).
StateStyle = Literal["group state", "pandas", "rows"]
STYLES: tuple[StateStyle, ...] = ("group state", "pandas", "rows")
StateClock = Literal["none", "event", "processing"]
CLOCKS: tuple[StateClock, ...] = ("none", "event", "processing")


NO_DELAY = Duration(0)


@dataclass(frozen=True, kw_only=True)
class StatefulPython(OperatorSpec):
    """Calls the user's function or processor for each tuple, with the state of the tuple's key.

    `style` says what is called: `function(key, frames, state)`, as Spark's `applyInPandasWithState`; or the methods of
    a processor, as its `transformWithStateInPandas` ("pandas") and `transformWithState` ("rows"). Each tuple is one
    call, so that output does not depend on where batches end: as a Spark query with a batch per tuple.

    Timers. With the clock "event" the watermark is the time of the tuple minus `delay`; with "processing" the time of
    processing is taken from the tuples as well. Both are whole milliseconds. A timer fires, and a timeout calls the
    function, when the watermark is above it: before the first tuple that comes so late. A timer that is already below
    the watermark when it is set fires 1 us later. At the end of the stream no timer fires. A value with a time to live
    is gone when the time of processing reaches its end.

    Order key: of what a tuple causes the tuple's, with `_n` as a counter. Of what a timer causes (the time at which it
    fires, r, hash of the key), with `_n` as a counter, where the rank r is below all others of the input. Punctuations
    pass.
    """

    kind: ClassVar[str] = "stateful python"
    function: Any  # a function, or a processor
    by: tuple[str, ...]
    schema: pa.Schema
    style: StateStyle = "group state"
    clock: StateClock = "none"
    delay: Duration = NO_DELAY

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return (self.by,)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (unbounded(),)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._check_columns(self.by, inputs[0], "group-by")
        if not self.by:
            raise GraphError(f"operator {self.name}: state is per key; write by=, as in by='user'")
        if self.style not in STYLES:
            raise GraphError(f"operator {self.name}: style={self.style!r} is unknown; write one of {', '.join(STYLES)}")
        if self.clock not in CLOCKS:
            raise GraphError(f"operator {self.name}: clock={self.clock!r} is unknown; write one of {', '.join(CLOCKS)}")
        if self.style == "group state" and not callable(self.function):
            raise GraphError(
                f"operator {self.name}: {type(self.function).__name__} is not a function of key, frames and state; "
                "for a processor write style='pandas' or style='rows'"
            )
        if self.style != "group state":
            missing = [m for m in ("init", "handleInputRows") if not callable(getattr(self.function, m, None))]
            if missing or isinstance(self.function, type):
                raise GraphError(
                    f"operator {self.name}: style={self.style!r} takes an object with the methods of Spark's "
                    f"StatefulProcessor, and {self.described} "
                    + ("is a class; write it with ()" if isinstance(self.function, type) else f"has no {missing[0]}")
                )
        for name in self.schema.names:
            if is_key(name):
                raise GraphError(f"operator {self.name}: column {name} belongs to the order key; rename it")
        return (self.schema,)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        (shape,) = inputs
        rank = self.timer_rank(inputs)
        if rank is None:
            return (replace(shape, n=True),)
        timers = KeyShape(src=rank, n=True, origins=frozenset((rank,)))
        return (replace(joined_shape([shape, timers], n=True), marks=shape.marks),)

    def timer_rank(self, inputs: tuple[KeyShape, ...]) -> int | None:
        """The rank of what timers cause; None: there are no timers."""
        return None if self.clock == "none" else min(TIMER, *inputs[0].origins) - 1

    def renumbers(self, inputs: tuple[KeyShape, ...]) -> bool:
        """Whether several outputs can share a trigger's key, so that `_n` has to count them."""
        return True

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (frozenset(inputs[0].names),)

    @property
    def described(self) -> str:
        function: Callable[..., Any] = self.function
        return str(getattr(function, "__name__", type(function).__name__))

    def describe(self) -> str:
        return f"{self.described} by {', '.join(self.by)}"
