"""The specification of a functor with state variables: `scan`."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.expressions import Expression
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, projected_schema, user_columns
from riprap.graph.types import is_key
from riprap.graph.windows import Count, Window


class StateVariable(NamedTuple):
    """A value that a functor keeps for each group: what it is at first, and what it becomes with each tuple."""

    name: str
    initial: Expression  # of constants
    update: Expression  # of the tuple's columns and of the variables


@dataclass(frozen=True, kw_only=True)
class Scan(OperatorSpec):
    """A functor with state variables, per group of equal `by` columns or for everything.

    Every tuple updates the variables of its group, one after the other in the order in which they were declared: an
    update sees the new values of those before it, and the old values of itself and of those after it. Then `predicate`
    and `projections`, as those of a functor, see the tuple and the variables after the update. A tuple for which the
    predicate is not true has updated them too. Without projections the variables follow the tuple's columns.

    Keeps each tuple's order key. Punctuation passes.
    """

    kind: ClassVar[str] = "functor with state"
    variables: tuple[StateVariable, ...]
    by: tuple[str, ...] = ()
    predicate: Expression | None = None
    projections: tuple[tuple[str, Expression], ...] | None = None

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return (self.by,)

    @property
    def windows(self) -> tuple[Window, ...]:
        return (Count(1),)  # of the variables: what they became with the latest tuple

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._columns_exist(self.by, inputs[0], "group-by")
        if not self.variables:
            raise GraphError(f"operator {self.name}: it has no state variable; use select or map where none is needed")
        seen = self.seen(inputs[0])
        for variable, field in zip(self.variables, list(seen)[len(inputs[0]) :], strict=True):
            found = self.bind(variable.update, seen).type
            if found != field.type:
                raise GraphError(
                    f"operator {self.name}: state variable {variable.name} begins as {field.type} and becomes {found} "
                    f"with {variable.update.text!r}; cast one of them"
                )
        if self.predicate is not None:
            self._predicate(self.predicate, seen)
        if self.projections is None:
            return (seen,)
        return (projected_schema(self, self.projections, seen),)

    def seen(self, schema: pa.Schema) -> pa.Schema:
        """The columns that updates, predicate and projections see: the tuple's, then the variables."""
        fields = list(schema)
        for name, initial, _ in self.variables:
            if is_key(name) or name in (field.name for field in fields):
                raise GraphError(
                    f"operator {self.name}: state variable {name} has the name of a column; choose another"
                )
            if initial.columns:
                raise GraphError(
                    f"operator {self.name}: state variable {name} begins with {initial.text!r}, which reads a column; "
                    "begin with a constant, and let its update read columns"
                )
            type_ = self.bind(initial, pa.schema([])).type
            if pa.types.is_null(type_):
                raise GraphError(
                    f"operator {self.name}: state variable {name} begins with null; give it a type with CAST"
                )
            fields.append(pa.field(name, type_))
        return pa.schema(fields)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        columns = frozenset(self.by).union(*(user_columns(variable.update) for variable in self.variables))
        if self.predicate is not None:
            columns |= user_columns(self.predicate)
        if self.projections is None:
            columns |= wanted[0]
        else:
            columns = columns.union(*(user_columns(e) for name, e in self.projections if name in wanted[0]))
        return (columns & frozenset(inputs[0].names),)

    def describe(self) -> str:
        group = f" by {', '.join(self.by)}" if self.by else ""
        where = f" where {self.predicate.text}" if self.predicate is not None else ""
        return ", ".join(f"{v.name} := {v.update.text}" for v in self.variables) + group + where
