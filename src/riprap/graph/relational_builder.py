"""The methods of a stream for Spark's relational operators."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, parse_duration
from riprap.expressions import Expression
from riprap.graph.builder_text import Protect, annotations_of, parse_column, parse_expression
from riprap.graph.spec_python import Call, MapBatches, MapPython, PythonColumn
from riprap.graph.spec_relational import DropDuplicates, ExpiringJoin, JoinTable
from riprap.graph.spec_stateful import StateClock, StatefulPython, StateStyle
from riprap.graph.specs import Aggregate, Delay, Functor, Join, OperatorSpec
from riprap.graph.static_table import StaticTable
from riprap.graph.types import SchemaLike, schema_of
from riprap.graph.windows import Session, Time, Window

if TYPE_CHECKING:
    from riprap.graph.builder import Stream

On = str | Sequence[str | tuple[str, str]]


class RelationalMethods:
    """The part of `Stream` with joins, duplicates, window times and Python functions."""

    def join(
        self,
        right: "Stream",
        *,
        on: On = (),
        left_window: Window,
        right_window: Window,
        per_group: bool | None = None,
        where: str | None = None,
        select: Sequence[str] | None = None,
        how: str = "inner",
        unmatched: str = "arrival",
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Match two streams over windows: see `riprap.graph.specs.Join`. This stream is the left port.

        `per_group`: one window per value of the `on` columns; by default true if there are any. `how` is inner, left,
        right or full: which side's tuples are also emitted without a match; or left_semi, left_anti: the left tuples
        with, without a match. `unmatched`: when tuples without a match are emitted, at their "arrival", if they match
        nothing then, or at their "expiry", when they leave their window and never had a match, as in Spark.
        """
        pairs = _pairs(on)
        if unmatched not in ("arrival", "expiry"):
            raise GraphError(f"operator {name}: unmatched={unmatched!r} is unknown; write arrival or expiry")
        expiring = how in ("left_semi", "left_anti") or (unmatched == "expiry" and how != "inner")
        spec = (ExpiringJoin if expiring else Join)(
            name=name,
            on=pairs,
            left_window=left_window,
            right_window=right_window,
            per_group=bool(pairs) if per_group is None else per_group,
            predicate=parse_expression(name, where) if where is not None else None,
            projections=_columns(name, select),
            how=how,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec, right)

    def join_table(
        self,
        table: StaticTable,
        *,
        on: On = (),
        how: str = "inner",
        where: str | None = None,
        select: Sequence[str] | None = None,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Match each tuple with the rows of a static table (`app.table`): see `riprap.graph.specs.JoinTable`.

        `how` is inner; left: a tuple without a match is emitted too; left_semi, left_anti: the tuples with, without a
        match. `where` is a further condition over both sides. Without `on` every row is compared.
        """
        if not isinstance(table, StaticTable):
            raise GraphError(
                f"operator {name}: join_table() takes a table, as in app.table('users.parquet', name='users'), not "
                f"{type(table).__name__}; for a stream write join()"
            )
        spec = JoinTable(
            name=name,
            table=table,
            on=_pairs(on),
            how=how,
            predicate=parse_expression(name, where) if where is not None else None,
            projections=_columns(name, select),
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec)

    def drop_duplicates(
        self, *columns: str, within: str | None = None, name: str, protect: Protect = (), parallelism: int = 1
    ) -> "Stream":
        """The first tuple of each value of these columns (default: all): see `riprap.graph.specs.DropDuplicates`.

        `within` ("10s"): a tuple is a duplicate only if it comes less than that after the one that passed. Then the
        state is bounded; else it has every key that ever came.
        """
        duration = None if within is None else parse_duration(within)
        if duration is not None and duration < 1:
            raise GraphError(f"operator {name}: within={within!r} is too short; it is 1us or more")
        spec = DropDuplicates(
            name=name,
            by=columns or tuple(self._stream.columns),
            within=duration,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec)

    def window_time(self, *, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """The same tuples with the event time of their window, its end - 1 us, as Spark's `window_time`.

        For the output of an aggregate over tumbling, sliding or session windows, so that further windows can follow.
        """
        source = self._stream
        spec = next(op for op in source.app._operators if op.name == source.operator)
        while isinstance(spec, Functor | JoinTable):
            (above,) = [s.source for s in source.app._streams if s.target == spec.name]
            spec = next(op for op in source.app._operators if op.name == above)
        if not isinstance(spec, Aggregate) or not isinstance(spec.every, Time | Session):
            raise GraphError(
                f"operator {name}: window_time() follows an aggregate over tumbling, sliding or session windows; "
                f"{spec.name} is not one"
            )
        back = 2 if isinstance(spec.every, Session) else 1  # a session is emitted 1 us after its end
        delay = Delay(
            name=name, delay=Duration(-back), annotations=annotations_of(protect), parallelism=parallelism
        )  # fmt: skip
        return self._added(delay)

    def map_python(
        self,
        column: str,
        function: Callable[..., Any],
        *arguments: str,
        returns: str | pa.DataType,
        call: Call = "rows",
        deterministic: bool = True,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Add or replace a column that a Python function computes: see `riprap.graph.specs.MapPython`.

        `arguments` are expressions. With `call` "rows" the function gets the values of one row, as Spark's `udf`; with
        "pandas" Series, as its `pandas_udf`; with "arrow" Arrow arrays; with "pandas iterator" or "arrow iterator" an
        iterator of them. What it returns for a row must not depend on other rows.
        """
        made = PythonColumn(
            column,
            function,
            tuple(parse_expression(name, text) for text in arguments),
            schema_of({column: returns}).field(0).type,
            call,
        )
        spec = MapPython(
            name=name,
            added=(made,),
            is_deterministic=deterministic,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec)

    def map_batches(
        self,
        function: Callable[..., Any],
        schema: SchemaLike,
        *,
        pandas: bool = False,
        deterministic: bool = True,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Call a function with an iterator of Arrow batches, or `pandas` frames: see `riprap.graph.specs.MapBatches`.

        As Spark's `mapInArrow` and `mapInPandas`. It yields batches with the columns of `schema`, and must not depend
        on where batches end, which is checked.
        """
        spec = MapBatches(
            name=name,
            function=function,
            schema=schema_of(schema),
            pandas=pandas,
            is_deterministic=deterministic,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec)

    def stateful(
        self,
        function: Any,
        schema: SchemaLike,
        *,
        by: str | Sequence[str],
        style: StateStyle = "group state",
        clock: StateClock = "none",
        delay: str = "0s",
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Call user code with state per key, for each tuple and for timers: see `riprap.graph.specs.StatefulPython`.

        `function(key, frames, state)` as in Spark's `applyInPandasWithState`; or with `style` "pandas" or "rows" an
        object with the methods of its `StatefulProcessor`. `clock`: what timers follow, "event" time or "processing"
        time. `delay` is that of the watermark, as in Spark's `withWatermark`.
        """
        spec = StatefulPython(
            name=name,
            function=function,
            schema=schema_of(schema),
            by=(by,) if isinstance(by, str) else tuple(by),
            style=style,
            clock=clock,
            delay=parse_duration(delay),
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._added(spec)

    @property
    def _stream(self) -> "Stream":
        return cast("Stream", self)

    def _added(self, spec: OperatorSpec, *others: "Stream") -> "Stream":
        return self._stream.app._add(spec, (self._stream, *others))[0]


def _pairs(on: On) -> tuple[tuple[str, str], ...]:
    columns = [on] if isinstance(on, str) else on
    return tuple((pair, pair) if isinstance(pair, str) else (pair[0], pair[1]) for pair in columns)


def _columns(name: str, select: Sequence[str] | None) -> tuple[tuple[str, Expression], ...] | None:
    return None if select is None else tuple(parse_column(name, column) for column in select)
