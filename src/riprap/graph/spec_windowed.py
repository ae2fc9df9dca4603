"""Specifications of operators with windows: aggregate, join, sort, barrier."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.expressions import Expression
from riprap.graph.aggregates import BOUNDS, AggregateCall
from riprap.graph.mark_keys import caused_shape, own_marks
from riprap.graph.order_keys import TIMER, KeyShape, joined_marks, joined_shape, overlapping
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, projected_schema, user_columns
from riprap.graph.types import is_key
from riprap.graph.windows import Count, Punctuated, Session, Time, Window, Zero

HOWS = ("inner", "left", "right", "full")


@dataclass(frozen=True, kw_only=True)
class Aggregate(OperatorSpec):
    """Functions over a window, per group of equal `by` columns or over all tuples.

    Every tuple enters its group's window. An output has the `by` columns and one column per call.

    window   every    when it emits
    count(n) count(k) at every k-th tuple of the group, over the group's n most recent tuples, this one included.
    time(w)  count(k) at every k-th tuple of the group, over the group's tuples with time > now − w.
    count(n) time(s)  at every multiple of s since 1970, for each group that had a tuple since the last one, over the
                      group's n most recent tuples.
    time(w)  time(s)  at every multiple b of s, for each group that has any, over its tuples with b − w <= time < b.
    punctuated()      at a punctuation, for each group that had a tuple since the last one, over those tuples.
    session_window(g) 1 µs after the time of the group's last tuple + g, over its tuples since the previous session: a
                      tuple at that time still belongs to it, a later one starts the next session.

    With an offset o, boundaries are multiples of s plus o. window_start() and window_end() are b − w and b; for a
    session the time of its first tuple, and that of its last one + g.

    The time of a tuple is the greatest _ts so far, including its own. It differs from its own _ts only for a late
    tuple, which needs a jitter upstream: such a tuple counts as of now.

    The default of `every` is `window`: a tumbling window, which is empty afterwards. `partial=False` (count windows
    only) emits only full windows. A boundary b emits as soon as nothing before b can follow: before the first tuple
    with _ts >= b, or on a watermark. At the end of the stream, windows that time would close are closed; incomplete
    count and punctuated windows are dropped.

    Order key: the tuple's for count triggers, the punctuation's for punctuated windows; (b, TIMER, b / s) for time
    triggers, (b, TIMER, b) for a session that emits at b. Groups that emit together are ordered by the hash of their
    key, which is their `_n`.
    """

    kind: ClassVar[str] = "aggregate"
    calls: tuple[AggregateCall, ...]
    window: Window
    every: Window
    by: tuple[str, ...] = ()
    partial: bool = True

    @property
    def tumbling(self) -> bool:
        return self.every == self.window

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return (self.by,)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (self.window,)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        (schema,) = inputs
        self._check_columns(self.by, schema, "group-by")
        self._check_windows()
        fields = [schema.field(name) for name in self.by]
        for call in self.calls:
            if is_key(call.name) or call.name in (field.name for field in fields):
                raise GraphError(f"operator {self.name}: column {call.name} is taken; choose another name with AS")
            bound = [self.bind(argument, schema) for argument in call.arguments]
            first, second = (*(each.type for each in bound), None, None)[:2]
            try:
                fields.append(call.output_field(first, any(each.nullable for each in bound), second))
            except GraphError as error:
                raise GraphError(f"operator {self.name}: {error}") from error
        if not self.calls:
            raise GraphError(f"operator {self.name}: an aggregate needs at least one call, e.g. 'count(*) AS n'")
        return (pa.schema(fields),)

    def _check_windows(self) -> None:
        for window in (self.window, self.every):
            if not isinstance(window, Window):
                raise GraphError(f"operator {self.name}: {window!r} is not a window; write one, as in count(5)")
        if isinstance(self.window, Zero) or isinstance(self.every, Zero):
            raise GraphError(
                f"operator {self.name}: an aggregate needs a window with tuples; use count, time or punctuated"
            )
        if isinstance(self.window, Punctuated) != isinstance(self.every, Punctuated):
            raise GraphError(f"operator {self.name}: a punctuated() window emits at punctuations; leave out every=")
        if isinstance(self.window, Time) and isinstance(self.every, Time) and self.every.size > self.window.size:
            raise GraphError(f"operator {self.name}: every {self.every} skips tuples of {self.window}; make it shorter")
        if (isinstance(self.every, Session) or isinstance(self.window, Session)) and not self.tumbling:
            raise GraphError(f"operator {self.name}: a session_window() emits when it ends; leave out every=")
        bounded = isinstance(self.window, Session) or (isinstance(self.window, Time) and isinstance(self.every, Time))
        if not bounded and any(call.function in BOUNDS for call in self.calls):
            raise GraphError(
                f"operator {self.name}: {self.window} every {self.every} has no start and end in time; "
                "use window_start() and window_end() with tumbling, sliding or session windows"
            )
        if not self.partial and not (isinstance(self.window, Count) and isinstance(self.every, Count)):
            raise GraphError(
                f"operator {self.name}: partial=False is for count windows that emit by count; "
                f"{self.window} every {self.every} has no full size"
            )

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        if isinstance(self.every, Time | Session):
            return (KeyShape(TIMER, bool(self.by), frozenset((TIMER,)), inputs[0].marks),)
        return (caused_shape(inputs[0]) if isinstance(self.every, Punctuated) else inputs[0],)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        arguments = [user_columns(argument) for call in self.calls for argument in call.arguments]
        return (frozenset(self.by).union(*arguments),)

    def describe(self) -> str:
        group = f" by {', '.join(self.by)}" if self.by else ""
        every = "" if isinstance(self.window, Session) else f" every {self.every}"
        return f"{self.window}{every}{group}"


@dataclass(frozen=True, kw_only=True)
class Join(OperatorSpec):
    """Two ports, each with a window; an arriving tuple is matched with the other port's window.

    A tuple that arrives on one port is matched with the tuples in the window of the other port that have equal `on`
    columns (null equals nothing, NaN equals NaN, -0.0 equals 0.0), oldest first; then it is inserted into its own
    port's window (a zero() window stores nothing). Each match for which `predicate` is true emits one output.

    `how`: "left" also emits a tuple of the left port that has no match when it arrives, with nulls for the right
    columns; "right" does the same for the right port; "full" for both. Later tuples do not retract such an output: they
    emit when they arrive themselves.

    `per_group`: one window per value of the `on` columns; without it, one window for the whole port, where a tuple with
    a null key counts like any other. A time(w) window has the tuples with _ts > now − w, where now is the greatest _ts
    delivered to either port so far, including the arriving tuple; it evicts from its oldest end, so a late tuple stays
    until those before it are evicted.

    Output columns: the left columns, then the right ones without `on` columns of the same name; `projections` over them
    if given. Order key: the arriving tuple's, with `_n` as a counter if one arrival can emit several outputs. Ports are
    merged by order key, the left port first among equal keys. Punctuations of both ports pass.
    """

    kind: ClassVar[str] = "join"
    on: tuple[tuple[str, str], ...]
    left_window: Window
    right_window: Window
    per_group: bool = True
    predicate: Expression | None = None
    projections: tuple[tuple[str, Expression], ...] | None = None
    how: str = "inner"

    @property
    def inputs(self) -> int:
        return 2

    def outer(self, port: int) -> bool:
        """Whether an arrival on `port` without a match emits an output."""
        return self.how in (("left", "full") if port == 0 else ("right", "full"))

    @property
    def stateful(self) -> tuple[bool, ...]:
        return tuple(not isinstance(window, Zero) for window in self.windows)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (self.left_window, self.right_window)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        # A count window over the whole port depends on every tuple of the port; the other windows only on their key's.
        whole = any(isinstance(window, Count) for window in self.windows) and not self.per_group
        if whole or not self.on:
            return ((), ())
        return (tuple(left for left, _ in self.on), tuple(right for _, right in self.on))

    def combined_schema(self, inputs: tuple[pa.Schema, ...]) -> pa.Schema:
        """The columns that `predicate` and `projections` see."""
        left, right = inputs
        shared = {name for name, other in self.on if name == other}
        clash = [name for name in right.names if name in left.names and name not in shared]
        if clash:
            raise GraphError(
                f"operator {self.name}: both inputs have column {', '.join(clash)}; rename it on one side first"
            )
        return pa.schema([*left, *(field for field in right if field.name not in shared)])

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        for left, right in self.on:
            self._check_columns([left], inputs[0], "left join")
            self._check_columns([right], inputs[1], "right join")
            types = inputs[0].field(left).type, inputs[1].field(right).type
            if types[0] != types[1]:
                raise GraphError(
                    f"operator {self.name}: {left} is {types[0]} and {right} is {types[1]}; cast one before the join"
                )
        for window in self.windows:
            if isinstance(window, Punctuated | Session):
                raise GraphError(f"operator {self.name}: a join's window is count, time or zero; {window} is not")
        if self.how not in HOWS:
            raise GraphError(f"operator {self.name}: how={self.how!r} is unknown; write one of {', '.join(HOWS)}")
        if not any(self.stateful):
            raise GraphError(
                f"operator {self.name}: with two zero() windows nothing ever matches; give one port a window"
            )
        if self.per_group and not self.on:
            raise GraphError(f"operator {self.name}: windows per group need on= columns; or set per_group=False")
        combined = self.combined_schema(inputs)
        if self.predicate is not None:
            self._predicate(self.predicate, combined)
        combined = self.shown_schema(inputs)
        if self.projections is None:
            return (combined,)
        return (projected_schema(self, self.projections, combined),)

    def shown_schema(self, inputs: tuple[pa.Schema, ...]) -> pa.Schema:
        """The columns that `projections` see: nullable if the other port's tuples are emitted without a match."""
        shared = {left for left, right in self.on if left == right}
        missing = [name for port in (0, 1) if self.outer(1 - port) for name in inputs[port].names]
        return pa.schema([
            field.with_nullable(field.nullable or (field.name in missing and field.name not in shared))
            for field in self.combined_schema(inputs)
        ])  # fmt: skip

    def triggers(self, port: int) -> bool:
        """Whether an arrival on `port` can emit: the other port has state, or no match is needed."""
        return self.stateful[1 - port] or self.outer(port)

    def single_match(self, port: int) -> bool:
        """Whether an arrival on `port` has at most one match."""
        return self.windows[1 - port] in (Count(1), Zero())

    def renumbers(self, inputs: tuple[KeyShape, ...]) -> bool:
        """Whether several outputs can share a trigger's key, so that `_n` has to count them."""
        triggering = [port for port in (0, 1) if self.triggers(port)]
        single = all(self.single_match(port) for port in triggering)
        return not single or overlapping([inputs[port] for port in triggering])

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        shapes = [inputs[port] for port in (0, 1) if self.triggers(port)]
        return (replace(joined_shape(shapes, n=self.renumbers(inputs)), marks=joined_marks(inputs)),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        columns = user_columns(self.predicate) if self.predicate is not None else frozenset()
        if self.projections is None:
            columns |= wanted[0]
        else:
            columns = columns.union(*(user_columns(e) for name, e in self.projections if name in wanted[0]))
        left = frozenset(name for name in inputs[0].names if name in columns)
        right = frozenset(name for name in inputs[1].names if name in columns and name not in left)
        return (left | {name for name, _ in self.on}, right | {name for _, name in self.on})

    def describe(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        symbol = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗"}[self.how]
        return f"{self.left_window} {symbol} {self.right_window}" + (f" on {on}" if on else "")


@dataclass(frozen=True, kw_only=True)
class Sort(OperatorSpec):
    """Collects a window of tuples, emits them in the order of `by`, then emits a punctuation.

    A count(n) window is emitted when it has n tuples, a time(w) window at every multiple of w since 1970 (when nothing
    before it can follow), a punctuated() window only at a punctuation. A punctuation, and the end of the stream, emit
    the contents of any window; a punctuation passes if the window is empty. Ties are in arrival order; nulls are last,
    and NaN after all numbers, in either direction.

    Order key: the trigger's (the tuple that filled the window, the boundary, the punctuation; at the end the latest
    tuple), numbered with `_n`. Until then the watermark stays before that key, and merges downstream wait.
    """

    kind: ClassVar[str] = "sort"
    by: tuple[tuple[str, bool], ...]  # column, descending
    window: Window

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return ((),)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (self.window,)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._check_columns([name for name, _ in self.by], inputs[0], "sort")
        if not self.by:
            raise GraphError(f"operator {self.name}: a sort needs at least one column")
        if isinstance(self.window, Zero):
            raise GraphError(f"operator {self.name}: a sort needs a window with tuples; use count, time or punctuated")
        if isinstance(self.window, Session):
            raise GraphError(
                f"operator {self.name}: a sort's window is count, time or punctuated; {self.window} is not"
            )
        return inputs

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        shape = caused_shape(inputs[0])
        if isinstance(self.window, Time):
            # At the end of the stream and at punctuations, it emits with the key of a tuple.
            shape = joined_shape([KeyShape(src=TIMER, n=True, origins=frozenset((TIMER,))), shape], n=True)
        return (replace(shape, marks=shape.marks | own_marks(shape)),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (wanted[0] | {name for name, _ in self.by},)

    def describe(self) -> str:
        return f"{self.window} by " + ", ".join(name + (" desc" if desc else "") for name, desc in self.by)


@dataclass(frozen=True, kw_only=True)
class Barrier(OperatorSpec):
    """Combines the i-th tuples of all ports.

    When every port has a waiting tuple, the oldest of each are emitted as one output with all their columns. Order key:
    that of the tuple that completed the set. Punctuations stop here: they do not apply to combined tuples. A lost tuple
    shifts every later combination, so a barrier does not tolerate loss.
    """

    kind: ClassVar[str] = "barrier"
    ports: int

    @property
    def inputs(self) -> int:
        return self.ports

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,) * self.ports

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return ((),) * self.ports

    @property
    def tolerates_loss(self) -> bool:
        return False

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        fields: list[pa.Field] = []
        for schema in inputs:
            for column in schema:
                if column.name in (field.name for field in fields):
                    raise GraphError(
                        f"operator {self.name}: two inputs have column {column.name}; rename it before the barrier"
                    )
                fields.append(column)
        return (pa.schema(fields),)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (replace(joined_shape(list(inputs), n=False), marks=frozenset()),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return tuple(frozenset(schema.names) & wanted[0] for schema in inputs)

    def describe(self) -> str:
        return f"{self.ports} ports"
