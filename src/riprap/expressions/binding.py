"""Type-checks an expression against a schema and evaluates it on batches."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError, ExpressionError, known
from riprap.expressions import kernels
from riprap.expressions.ast import Call, Cast, Column, Expression, Literal, Node, columns_of
from riprap.expressions.casts import cast
from riprap.expressions.dictionaries import Lifted
from riprap.expressions.functions import RULES
from riprap.expressions.kinds import HELD_BY_ARROW, Kind, kind_of, logical
from riprap.expressions.parser import TOO_DEEP
from riprap.expressions.typed import Mismatch, Typed, literal
from riprap.expressions.vectors import Failure, Vector, constant, from_arrow, full, to_arrow


@dataclass(frozen=True, eq=False)
class Bound:
    """An expression with the types of its columns. Pickles as those two; tables of dictionaries are made anew."""

    expression: Expression
    schema: pa.Schema  # the columns that the expression reads
    _root: Typed = field(repr=False)
    _select: Callable[[pa.RecordBatch], np.ndarray | None] | None = field(repr=False)
    _column: Callable[[pa.RecordBatch], pa.Array] | None = field(repr=False)  # when it is a column and nothing else

    @property
    def type(self) -> pa.DataType:
        """The logical type of the result: string for any encoding of strings."""
        return self._root.type

    @property
    def nullable(self) -> bool:
        """False only when no value can be null."""
        return self._root.nullable

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """One value per row. A column alone is the batch's own column, encoded as it is there."""
        if self._column is not None:
            return self._column(batch)
        with np.errstate(all="ignore"):
            return to_arrow(self._run(batch), self.type, batch.num_rows)

    def selection(self, batch: pa.RecordBatch) -> np.ndarray:
        """Indices of the rows for which a boolean expression is true, ascending."""
        if self._select is not None and (rows := self._select(batch)) is not None:
            return rows
        if self._root.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"a condition must be a boolean, and expression {self.expression.text!r} is {logical(self.type)}"
            )
        with np.errstate(all="ignore"):
            values = full(self._run(batch).values, batch.num_rows)
        return kernels.true_rows(values.view(np.uint8))

    def _run(self, batch: pa.RecordBatch) -> Vector:
        try:
            return self._root.run(batch)
        except Failure as failure:
            raise DataError(f"{failure}, in expression {self.expression.text!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return bind, (self.expression, self.schema)


def bind(expression: Expression, schema: pa.Schema) -> Bound:
    """`expression` over batches with at least its columns of `schema`; an `ExpressionError` if types do not fit."""
    fields = [_field(name, schema, expression) for name in sorted(expression.columns)]
    binder = _Binder({field.name: field for field in fields})
    try:
        root = binder.bind(expression.root)
    except Mismatch as mismatch:
        raise ExpressionError(f"{mismatch}, in expression {expression.text!r}") from None
    except RecursionError:
        raise ExpressionError(TOO_DEEP.format(expression.text[:80])) from None
    column = _load(fields[0]) if expression.column is not None else None
    return Bound(expression, pa.schema(fields), root, binder.selects.get(root), column)


def _field(name: str, schema: pa.Schema, expression: Expression) -> pa.Field:
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return schema.field(places[0])
    if places:
        raise ExpressionError(f"column {name} is there {len(places)} times, in expression {expression.text!r}")
    raise ExpressionError(
        f"unknown column {name} in expression {expression.text!r}; available are {known(schema.names, name)}"
    )


def _load(field: pa.Field) -> Callable[[pa.RecordBatch], pa.Array]:
    name, type_, kind = field.name, field.type, kind_of(field.type)
    fitting = type_  # what the last batch had, if that fits: to compare types is quick, to classify them is not

    def load(batch: pa.RecordBatch) -> pa.Array:
        nonlocal fitting
        try:
            column = batch.column(name)
        except KeyError:
            raise DataError(f"a batch has no column {name}; it has {known(batch.schema.names, name)}") from None
        if column.type != fitting:
            if column.type != type_ and not (kind in HELD_BY_ARROW and kind_of(column.type) is kind):
                raise DataError(f"column {name} is {column.type} in a batch and {type_} in the stream's schema")
            fitting = column.type
        return column

    return load


class _Binder:
    """One expression's rules applied bottom up."""

    def __init__(self, fields: dict[str, pa.Field]) -> None:
        self._fields = fields
        self.selects: dict[Typed, Callable[[pa.RecordBatch], np.ndarray | None]] = {}

    def bind(self, node: Node) -> Typed:
        """The largest parts that read one string column and nothing else are lifted to its dictionary."""
        read = [self._fields[name] for name in columns_of(node)]
        if isinstance(node, Column) or len(read) != 1 or kind_of(read[0].type) not in HELD_BY_ARROW:
            return self._typed(node, self.bind)
        inner = self._whole(node)
        lifted = Lifted(read[0].name, inner, _load(read[0]))
        made = Typed(inner.type, inner.nullable, lifted.run, inner.text)
        if inner.kind is Kind.BOOLEAN:
            self.selects[made] = lifted.select
        return made

    def _whole(self, node: Node) -> Typed:
        """Without lifting parts of it."""
        return self._typed(node, self._whole)

    def _typed(self, node: Node, argument: Callable[[Node], Typed]) -> Typed:
        match node:
            case Column(name):
                return self._column(name)
            case Literal(value, type_):
                made = literal(constant(value, kind_of(type_)), type_, value is None)
            case Call(function, arguments):
                made = RULES[function]([argument(part) for part in arguments])
            case Cast(operand, type_):
                made = cast(argument(operand), type_)
        folded = made.constant
        if folded is None and not columns_of(node):
            try:
                with np.errstate(all="ignore"):
                    folded = made.run(_NOTHING)
            except Failure as failure:
                raise Mismatch(str(failure)) from None
        if folded is None:
            return Typed(made.type, made.nullable, made.run, str(node))
        return replace(literal(folded, made.type, folded.valid is not None), text=str(node))

    def _column(self, name: str) -> Typed:
        field = self._fields[name]
        load = _load(field)
        return Typed(logical(field.type), field.nullable, lambda batch: from_arrow(load(batch)), name)


_NOTHING = pa.RecordBatch.from_arrays([], [])
