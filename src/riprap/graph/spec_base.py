"""The base class of operator specifications.

A specification has what the graph needs before anything runs: the number of ports, the schema and the key shape of each
output for given inputs, which input ports are stateful and by which key their state is divided, and which input columns
a set of output columns needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from riprap.base.errors import ExpressionError, GraphError, known
from riprap.expressions import Bound, Expression, bind
from riprap.graph.annotations import Annotations
from riprap.graph.order_keys import KeyShape, visible_schema
from riprap.graph.types import is_key, not_a_key
from riprap.graph.windows import Window, Zero

Columns = frozenset[str]
PartitionKey = tuple[str, ...] | None  # None: any tuple to any shard; (): all tuples to one; else by these columns


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """A vertex. Its subclasses are all kinds of operators."""

    kind: ClassVar[str]
    name: str
    parallelism: int = 1
    annotations: Annotations = field(default_factory=Annotations)

    @property
    def inputs(self) -> int:
        """The number of input ports."""
        return 1

    @property
    def outputs(self) -> int:
        """The number of output ports."""
        return 1

    @property
    def stateful(self) -> tuple[bool, ...]:
        """For each input port, whether its tuples become state."""
        return (False,) * self.inputs

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        """For each input port, how its tuples may be divided over shards."""
        return (None,) * self.inputs

    @property
    def deterministic(self) -> bool:
        """Whether equal inputs in equal order give equal outputs."""
        return True

    @property
    def tolerates_loss(self) -> bool:
        """Whether its output stays useful when input tuples are lost (a barrier's does not: it pairs wrong tuples)."""
        return True

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window of each input port; Zero: no state."""
        return (Zero(),) * self.inputs

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        """The user's columns of each output; raises `GraphError` for invalid inputs."""
        raise NotImplementedError

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        """The key shape of each output."""
        return (inputs[0],) * self.outputs

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        """For each input port, the columns that the `wanted` columns of the outputs depend on."""
        return tuple(frozenset(schema.names) for schema in inputs)

    def describe(self) -> str:
        """One line for drawings and tables."""
        return self.kind

    def bind(self, expression: Expression, schema: pa.Schema) -> Bound:
        """Type-check an expression of this operator; the error names the operator."""
        try:
            return bind(expression, visible_schema(schema))
        except ExpressionError as error:
            raise GraphError(f"operator {self.name}: {error}") from error

    def _predicate(self, expression: Expression, schema: pa.Schema) -> Bound:
        bound = self.bind(expression, schema)
        if not pa.types.is_boolean(bound.type):
            raise GraphError(
                f"operator {self.name}: {expression.text!r} is {bound.type}, and a condition has to be boolean"
            )
        return bound

    def _check_columns(self, names: Sequence[str], schema: pa.Schema, what: str) -> None:
        """Whether they exist, and their values can be compared."""
        for name in names:
            if name not in schema.names:
                raise GraphError(
                    f"operator {self.name}: {what} column {name} is unknown; available: {known(schema.names, name)}"
                )
            if why := not_a_key(schema.field(name).type):
                raise GraphError(f"operator {self.name}: {what} column {name} {why}")


def user_columns(expression: Expression) -> Columns:
    """The columns that an expression reads, without the order key, which every stream has."""
    return frozenset(name for name in expression.columns if not is_key(name))


def projected_schema(spec: OperatorSpec, projections: Sequence[tuple[str, Expression]], schema: pa.Schema) -> pa.Schema:
    """The schema of named expressions over `schema`."""
    fields: list[pa.Field] = []
    for name, expression in projections:
        if is_key(name):
            raise GraphError(f"operator {spec.name}: column {name} belongs to the order key; choose another name")
        if name in (field.name for field in fields):
            raise GraphError(f"operator {spec.name}: two output columns are called {name}; rename one with AS")
        bound = spec.bind(expression, schema)
        if pa.types.is_null(bound.type):
            raise GraphError(f"operator {spec.name}: column {name} is always null; give it a type with CAST")
        fields.append(pa.field(name, bound.type, bound.nullable))
    return pa.schema(fields)
