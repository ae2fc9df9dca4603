"""The specification of a functor with state variables: `scan`."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.expressions import Expression
from riprap.expressions.kinds import common_type
from riprap.expressions.type_names import name_of
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, projected_schema, user_columns
from riprap.graph.types import is_key
from riprap.graph.windows import Count, Window

_ROUNDS = 4  # in which the types of variables that read each other settle


class StateVariable(NamedTuple):
    """A state variable of a functor, with a value per group: its initial value, and its update per tuple."""

    name: str
    initial: Expression  # of constants
    update: Expression  # of the tuple's columns and of the variables


@dataclass(frozen=True, kw_only=True)
class Scan(OperatorSpec):
    """A functor with state variables, per group of equal `by` columns, or one set for all tuples.

    Every tuple updates the variables of its group, one by one in declaration order: an update sees the new values of
    the variables before it, and the old values of itself and of those after it. Then `predicate` and `projections`,
    like those of a functor, see the tuple and the updated variables. A tuple that the predicate rejects updates them
    too. Without projections the variables follow the tuple's columns.

    The order key of each tuple is unchanged. Punctuations pass.
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
        return (Count(1),)  # of the variables: their values after the latest tuple

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._check_columns(self.by, inputs[0], "group-by")
        if not self.variables:
            raise GraphError(f"operator {self.name}: it has no state variable; use select or map if none is needed")
        seen = self.seen(inputs[0])
        for variable, field in zip(self.variables, list(seen)[len(inputs[0]) :], strict=True):
            updated = self.bind(variable.update, seen).type
            if updated != field.type:
                raise GraphError(
                    f"operator {self.name}: state variable {variable.name} is {name_of(field.type)}, and its update "
                    f"{variable.update.text!r} is {name_of(updated)}; cast one of them"
                )
        if self.predicate is not None:
            self._predicate(self.predicate, seen)
        if self.projections is None:
            return (seen,)
        return (projected_schema(self, self.projections, seen),)

    def seen(self, schema: pa.Schema) -> pa.Schema:
        """The columns that updates, predicate and projections see: the tuple's, then the variables. A variable has the
        type of its updates, if its initial value converts to it: `("0.0", "total + price")` is a double.
        """
        seen = self._initially(schema)
        for _ in range(_ROUNDS):
            updated = [self.bind(variable.update, seen).type for variable in self.variables]
            fields = list(seen)
            for place, type_ in enumerate(updated, len(schema)):
                wider = common_type([fields[place].type, type_])
                fields[place] = fields[place].with_type(fields[place].type if wider is None else wider)
            if pa.schema(fields) == seen:
                break
            seen = pa.schema(fields)
        return seen

    def _initially(self, schema: pa.Schema) -> pa.Schema:
        """The columns with the types of the initial values."""
        fields = list(schema)
        for name, initial, _ in self.variables:
            if is_key(name) or name in (field.name for field in fields):
                raise GraphError(
                    f"operator {self.name}: state variable {name} has the name of a column; choose another"
                )
            if initial.columns:
                raise GraphError(
                    f"operator {self.name}: the initial value {initial.text!r} of state variable {name} reads a "
                    "column; use a constant, and read columns in its update"
                )
            type_ = self.bind(initial, pa.schema([])).type
            if pa.types.is_null(type_):
                raise GraphError(
                    f"operator {self.name}: state variable {name} is initially null; give it a type with CAST"
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
