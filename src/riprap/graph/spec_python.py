"""Specifications of operators that call the user's Python functions: new columns, and whole batches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.expressions import Expression
from riprap.graph.order_keys import KeyShape
from riprap.graph.spec_base import Columns, OperatorSpec, user_columns
from riprap.graph.types import is_key

# What a function gets: Python values of one row, or pandas Series or Arrow arrays of many; or an iterator of those.
Call = Literal["rows", "pandas", "arrow", "pandas iterator", "arrow iterator"]
CALLS: tuple[Call, ...] = ("rows", "pandas", "arrow", "pandas iterator", "arrow iterator")


@dataclass(frozen=True)
class PythonColumn:
    """A column that a function computes from expressions."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]
    type: pa.DataType
    call: Call = "rows"


@dataclass(frozen=True, kw_only=True)
class MapPython(OperatorSpec):
    """Adds or replaces columns, each of which a function computes from the tuple alone.

    With `call` "rows" a function gets one row at a time, else as many as there are: what it returns for a row must not
    depend on the others. The order key of each tuple is unchanged. Punctuations pass.
    """

    kind: ClassVar[str] = "python columns"
    added: tuple[PythonColumn, ...]
    is_deterministic: bool = True

    @property
    def deterministic(self) -> bool:
        return self.is_deterministic

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        fields = {field.name: field for field in inputs[0]}
        for column in self.added:
            if is_key(column.name):
                raise GraphError(f"operator {self.name}: column {column.name} belongs to the order key; rename it")
            if column.call not in CALLS:
                raise GraphError(
                    f"operator {self.name}: call={column.call!r} is unknown; write one of {', '.join(CALLS)}"
                )
            for argument in column.arguments:
                self.bind(argument, inputs[0])
            fields[column.name] = pa.field(column.name, column.type)
        return (pa.schema(list(fields.values())),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        made = [column for column in self.added if column.name in wanted[0]]
        read = frozenset[str]().union(*(user_columns(a) for column in made for a in column.arguments))
        passed = (wanted[0] & frozenset(inputs[0].names)) - {column.name for column in self.added}
        return (passed | read,)

    def describe(self) -> str:
        return "python " + ", ".join(column.name for column in self.added)


@dataclass(frozen=True, kw_only=True)
class MapBatches(OperatorSpec):
    """Calls a function with an iterator of batches; it yields batches with the columns of `schema`.

    Spark's mapInArrow and mapInPandas. The function must not depend on where batches end: what it yields for two
    batches is what it yields for the first, then for the second. So every output follows from one tuple, its trigger,
    which is found by the columns that the function passes on; where these do not tell tuples apart, the function is
    called with one tuple at a time. Order key: the trigger's, with `_n` as a counter. Punctuations pass.
    """

    kind: ClassVar[str] = "python batches"
    function: Callable[..., Any]
    schema: pa.Schema
    pandas: bool = False
    is_deterministic: bool = True

    @property
    def deterministic(self) -> bool:
        return self.is_deterministic

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (replace(inputs[0], n=True),)

    def describe(self) -> str:
        return f"{'pandas' if self.pandas else 'arrow'} {getattr(self.function, '__name__', 'function')}"
