"""Type-check an expression against a schema, and evaluate it on batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError, ExpressionError, known
from riprap.expressions import kernels
from riprap.expressions.ast import Expression
from riprap.expressions.checking import typed
from riprap.expressions.column_functions import ColumnFunction, Shape, folded, in_full, shape_of
from riprap.expressions.kinds import HELD_BY_ARROW, ValueKind, kind_of, logical
from riprap.expressions.parser import TOO_DEEP
from riprap.expressions.type_names import name_of
from riprap.expressions.typed import EvaluationError, Mismatch, Typed
from riprap.expressions.vectors import full, to_arrow


@dataclass(frozen=True, eq=False)
class Bound:
    """An expression with the types of its columns. Pickling keeps those two; lookup tables are built again."""

    expression: Expression
    schema: pa.Schema  # the columns that the expression reads
    _root: Typed = field(repr=False)
    _loads: Sequence[Callable[[pa.RecordBatch], pa.Array]] = field(repr=False)
    _functions: dict[tuple[Shape, ...], ColumnFunction] = field(
        repr=False, default_factory=dict
    )  # by the shapes of columns

    @property
    def type(self) -> pa.DataType:
        """The logical type of the result: string for any encoding of strings."""
        return self._root.type

    @property
    def nullable(self) -> bool:
        """False only when no value can be null."""
        return self._root.nullable

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """One value per row. A single column is returned as it is in the batch, with its encoding."""
        if self.expression.column is not None:
            return self._loads[0](batch)
        columns = [in_full(load(batch)) for load in self._loads]
        try:
            return to_arrow(self._on(columns).run(columns), self.type, batch.num_rows)
        except EvaluationError as failure:
            raise DataError(str(failure)) from None

    def selection(self, batch: pa.RecordBatch) -> np.ndarray:
        """Indices of the rows for which a boolean expression is true, ascending."""
        if self._root.kind not in (ValueKind.BOOLEAN, ValueKind.NULL):
            raise ExpressionError(
                f"a condition must be a boolean; expression {self.expression.text!r} is {name_of(self.type)}"
            )
        columns = [in_full(load(batch)) for load in self._loads]
        function = self._on(columns)
        if (looked_up := function.truth(columns)) is not None:
            return kernels.true_codes(*looked_up)
        try:
            values = full(function.run(columns).values, batch.num_rows)
        except EvaluationError as failure:
            raise DataError(str(failure)) from None
        return kernels.true_rows(values.astype(np.bool_, copy=False).view(np.uint8))

    def _on(self, columns: Sequence[pa.Array]) -> ColumnFunction:
        shapes = tuple([shape_of(column) for column in columns])
        function = self._functions.get(shapes)
        if function is None:
            function = ColumnFunction(folded(self.expression.root), list(self.schema), shapes, self.expression.text)
            self._functions[shapes] = function
        return function

    def __reduce__(self) -> tuple[Any, ...]:
        return bind, (self.expression, self.schema)


def bind(expression: Expression, schema: pa.Schema) -> Bound:
    """`expression` over batches that have its columns of `schema`; raises `ExpressionError` if the types do not fit."""
    fields = [_field(name, schema, expression) for name in sorted(expression.columns)]
    try:
        root = typed(expression.root, {field.name: field for field in fields})
    except Mismatch as mismatch:
        raise ExpressionError(f"{mismatch}, in expression {expression.text!r}") from None
    except RecursionError:
        raise ExpressionError(TOO_DEEP.format(expression.text[:80])) from None
    return Bound(expression, pa.schema(fields), root, [_load(field) for field in fields])


def _field(name: str, schema: pa.Schema, expression: Expression) -> pa.Field:
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return schema.field(places[0])
    if places:
        raise ExpressionError(f"column {name} occurs {len(places)} times, in expression {expression.text!r}")
    raise ExpressionError(
        f"unknown column {name} in expression {expression.text!r}; available columns: {known(schema.names, name)}"
    )


def _load(field: pa.Field) -> Callable[[pa.RecordBatch], pa.Array]:
    name, type_, kind = field.name, field.type, kind_of(field.type)
    fitting = type_  # the last batch's type if it fits: comparing types is fast, classifying them is slow

    def load(batch: pa.RecordBatch) -> pa.Array:
        nonlocal fitting
        try:
            column = batch.column(name)
        except KeyError:
            raise DataError(f"a batch has no column {name}; it has {known(batch.schema.names, name)}") from None
        if column.type != fitting:
            if column.type != type_ and not (kind in HELD_BY_ARROW and logical(column.type) == logical(type_)):
                raise DataError(f"column {name} is {column.type} in a batch and {type_} in the stream's schema")
            fitting = column.type
        return column

    return load
