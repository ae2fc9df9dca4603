"""Specifications of Spark's relational operators: duplicates, joins with static tables, joins that emit rows without a
match.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration
from riprap.expressions import Expression
from riprap.graph.order_keys import TIMER, KeyShape, joined_marks, joined_shape
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, projected_schema, user_columns
from riprap.graph.spec_windowed import Join
from riprap.graph.static_table import StaticTable
from riprap.graph.windows import Count, Time, Window

TABLE_HOWS = ("inner", "left", "left_semi", "left_anti")
EXPIRY_HOWS = ("left", "right", "full", "left_semi", "left_anti")


@dataclass(frozen=True, kw_only=True)
class DropDuplicates(OperatorSpec):
    """Passes the first tuple of each value of the `by` columns, and drops the others.

    Values are equal as keys of groups are: null equals null, NaN equals NaN, -0.0 equals 0.0. `within` microseconds
    after a tuple that passed, its key is forgotten: a tuple is dropped if it comes less than that after the one that
    passed. Without `within` keys are remembered forever.

    The order key of each tuple is unchanged. Punctuations pass.
    """

    kind: ClassVar[str] = "drop duplicates"
    by: tuple[str, ...]
    within: Duration | None = None

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return (self.by,)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (Count(1) if self.within is None else Time(self.within),)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._check_columns(self.by, inputs[0], "key")
        return inputs

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (wanted[0] | frozenset(self.by),)

    def describe(self) -> str:
        within = "" if self.within is None else f" within {format_duration(self.within)}"
        return f"first by {', '.join(self.by)}{within}"


@dataclass(frozen=True, kw_only=True)
class JoinTable(OperatorSpec):
    """Matches each tuple with the rows of a static table.

    A tuple matches the rows with equal `on` columns (null equals nothing, NaN equals NaN, -0.0 equals 0.0) for which
    `predicate` is true, in the order of the table. `inner`: one output per match. `left`: also one, with null in the
    table's columns, for a tuple without a match. `left_semi`, `left_anti`: the tuples with, without a match, as they
    are.

    Output columns: the tuple's, then the table's without `on` columns of the same name; `projections` over them if
    given. Order key: the tuple's, with `_n` as a counter if a tuple can have several matches. Punctuations pass.
    """

    kind: ClassVar[str] = "table join"
    table: StaticTable
    on: tuple[tuple[str, str], ...]
    how: str = "inner"
    predicate: Expression | None = None
    projections: tuple[tuple[str, Expression], ...] | None = None

    @property
    def adds_columns(self) -> bool:
        return self.how in ("inner", "left")

    @property
    def several(self) -> bool:
        """Whether a tuple can cause several outputs."""
        return self.adds_columns and not self.table.unique(tuple(right for _, right in self.on))

    def combined_schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that `predicate` sees."""
        shared = {left for left, right in self.on if left == right}
        added = [field for field in self.table.schema if field.name not in shared]
        clash = [field.name for field in added if field.name in schema.names]
        if clash:
            raise GraphError(
                f"operator {self.name}: the input and table {self.table.name} have column {', '.join(clash)}; "
                "rename it on one side first"
            )
        return pa.schema([*schema, *added])

    def shown_schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that `projections` see."""
        if not self.adds_columns:
            return schema
        combined = self.combined_schema(schema)
        if self.how == "inner":
            return combined
        return pa.schema([f if f.name in schema.names else f.with_nullable(True) for f in combined])

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        if self.how not in TABLE_HOWS:
            raise GraphError(f"operator {self.name}: how={self.how!r} is unknown; write one of {', '.join(TABLE_HOWS)}")
        _check_on(self, self.on, inputs[0], self.table.schema, f"column of table {self.table.name}")
        combined = self.combined_schema(inputs[0])
        if self.predicate is not None:
            self._predicate(self.predicate, combined)
        shown = self.shown_schema(inputs[0])
        return (shown if self.projections is None else projected_schema(self, self.projections, shown),)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (replace(inputs[0], n=inputs[0].n or self.several),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        columns = wanted[0]
        if self.projections is not None:
            columns = frozenset[str]().union(*(user_columns(e) for n, e in self.projections if n in wanted[0]))
        if self.predicate is not None:
            columns |= user_columns(self.predicate)
        return (frozenset(n for n in inputs[0].names if n in columns) | {left for left, _ in self.on},)

    def describe(self) -> str:
        symbol = {"inner": "⋈", "left": "⟕", "left_semi": "⋉", "left_anti": "▷"}[self.how]
        return f"{symbol} table {self.table.name}{_on(self.on)}"


@dataclass(frozen=True, kw_only=True)
class ExpiringJoin(Join):
    """A join over windows of time that emits a tuple without a match when it leaves its window, as in Spark.

    Tuples match as in `Join`: a tuple stays in the window of w for as long as the other port's tuples are younger than
    its own time + w. `left`, `right`, `full`: when a tuple of that port leaves its window and never had a match, it is
    emitted with null in the other port's columns. `left_anti` emits only those, with the left columns. `left_semi`
    emits a left tuple once, with its own columns, at its first match. A tuple with a null key matches nothing.

    Order key: of a match the arriving tuple's, with `_n` as a counter. Of a tuple with time t that leaves without a
    match (t + w, r, its `_seq`, hash of port, `_src` and `_n`), where the rank r is below all others of the inputs: it
    precedes everything else of that time.
    """

    @property
    def semi(self) -> bool:
        return self.how in ("left_semi", "left_anti")

    def outer(self, port: int) -> bool:
        """Whether tuples of `port` without a match are emitted."""
        return self.how == "left_anti" and port == 0 if self.semi else super().outer(port)

    def triggers(self, port: int) -> bool:
        return True

    def single_match(self, port: int) -> bool:
        return False

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        if self.how not in EXPIRY_HOWS:
            raise GraphError(
                f"operator {self.name}: how={self.how!r} is unknown; write one of inner, {', '.join(EXPIRY_HOWS)}"
            )
        if not all(isinstance(window, Time) for window in self.windows) or not self.per_group:
            raise GraphError(
                f"operator {self.name}: how={self.how!r} emits a tuple when it leaves its window, so both windows are "
                "of time, and per group: write on=…, left_window=time(…), right_window=time(…)"
            )
        replace(self, how="inner", projections=None)._checked(inputs)
        shown = self.shown_schema(inputs)
        return (shown if self.projections is None else projected_schema(self, self.projections, shown),)

    def _checked(self, inputs: tuple[pa.Schema, ...]) -> None:
        super().output_schemas(inputs)

    def shown_schema(self, inputs: tuple[pa.Schema, ...]) -> pa.Schema:
        return inputs[0] if self.semi else super().shown_schema(inputs)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        shapes = list(inputs)
        if self.expiry_rank(inputs) is not None:
            rank = self.expiry_rank(inputs)
            assert rank is not None
            shapes.append(KeyShape(src=rank, n=True, origins=frozenset((rank,))))
        return (replace(joined_shape(shapes, n=True), marks=joined_marks(inputs)),)

    def expiry_rank(self, inputs: tuple[KeyShape, ...]) -> int | None:
        """The rank of tuples that leave without a match; None: none are emitted."""
        if not any(self.outer(port) for port in (0, 1)):
            return None
        return min(TIMER, *(rank for shape in inputs for rank in shape.origins)) - 1

    def describe(self) -> str:
        symbol = {"left": "⟕", "right": "⟖", "full": "⟗", "left_semi": "⋉", "left_anti": "▷"}[self.how]
        return f"{self.left_window} {symbol} {self.right_window}{_on(self.on)}, at expiry"


def _check_on(
    spec: OperatorSpec, on: tuple[tuple[str, str], ...], left: pa.Schema, right: pa.Schema, what: str
) -> None:
    for mine, other in on:
        spec._check_columns([mine], left, "join")
        spec._check_columns([other], right, what)
        types = left.field(mine).type, right.field(other).type
        if types[0] != types[1]:
            raise GraphError(
                f"operator {spec.name}: {mine} is {types[0]} and {other} is {types[1]}; cast one before the join"
            )


def _on(on: tuple[tuple[str, str], ...]) -> str:
    pairs = ", ".join(left if left == right else f"{left} = {right}" for left, right in on)
    return f" on {pairs}" if pairs else ""
