"""Specifications of operators without windows: source, sink, functor, punctor, split, delay, union, user-defined."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration
from riprap.expressions import Expression
from riprap.expressions.ast import Call
from riprap.graph.mark_keys import own_marks
from riprap.graph.order_keys import KeyShape, joined_shape, overlapping, source_shape
from riprap.graph.recorded_input import RecordedInput
from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, projected_schema, user_columns


@dataclass(frozen=True, kw_only=True)
class Source(OperatorSpec):
    """Where tuples enter. It emits its input, in order.

    `rank` orders the sources of one app. `time` names the column that becomes `_ts` if the input has no `_ts`; the
    order of rows becomes `_seq` if it has no `_seq`.

    `lateness`: the watermark delay in microseconds. Rows within it are sorted, and numbered in that order; later rows
    are dropped and counted (`riprap.engine.lateness`).
    """

    kind: ClassVar[str] = "source"
    schema: pa.Schema
    rank: int
    time: str | None = None
    lateness: Duration | None = None
    recorded: RecordedInput | None = field(default=None, compare=False, repr=False)  # of a source of an existing job

    @property
    def inputs(self) -> int:
        return 0

    def describe(self) -> str:
        return self.kind if self.lateness is None else f"in order, up to {format_duration(self.lateness)} late"

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        if self.time is not None:
            self._check_columns([self.time], self.schema, "time")
            type_ = self.schema.field(self.time).type
            if not (pa.types.is_timestamp(type_) or pa.types.is_int64(type_)):
                raise GraphError(
                    f"operator {self.name}: time column {self.time} is {type_}; it has to be a timestamp, "
                    "or int64 microseconds since 1970"
                )
        return (self.schema,)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (source_shape(self.rank),)


@dataclass(frozen=True, kw_only=True)
class Sink(OperatorSpec):
    """Where tuples leave. It outputs tuples in order, with the whole order key; punctuations end here."""

    kind: ClassVar[str] = "sink"

    @property
    def outputs(self) -> int:
        return 0

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class Functor(OperatorSpec):
    """Filter, project, map, rename: a condition, then columns. The order key of each tuple is unchanged.

    A tuple whose `predicate` is true emits one output with the columns of `projections`, in their order; one whose
    predicate is false or null emits none. Without a predicate every tuple passes; without projections the columns are
    unchanged. Punctuations pass.
    """

    kind: ClassVar[str] = "functor"
    predicate: Expression | None = None
    projections: tuple[tuple[str, Expression], ...] | None = None

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        if self.predicate is not None:
            self._predicate(self.predicate, inputs[0])
        return (self.projected(inputs[0]),)

    def projected(self, schema: pa.Schema) -> pa.Schema:
        if self.projections is None:
            return schema
        return projected_schema(self, self.projections, schema)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        columns = user_columns(self.predicate) if self.predicate is not None else frozenset()
        if self.projections is None:
            return (columns | wanted[0],)
        return (columns.union(*(user_columns(e) for name, e in self.projections if name in wanted[0])),)

    def describe(self) -> str:
        if self.predicate is not None:
            return f"where {self.predicate.text}"
        return "select " + ", ".join(name for name, _ in self.projections or ())


@dataclass(frozen=True, kw_only=True)
class Punctor(OperatorSpec):
    """Passes every tuple, and emits a punctuation after, or `before`, each one for which `predicate` is true.

    A punctuation after a tuple has its key; one before it has the key just below it, which no tuple has.
    """

    kind: ClassVar[str] = "punctor"
    predicate: Expression
    before: bool = False

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        self._predicate(self.predicate, inputs[0])
        return inputs

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (wanted[0] | user_columns(self.predicate),)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (replace(inputs[0], marks=inputs[0].marks | own_marks(inputs[0])),)

    def describe(self) -> str:
        return f"{'before' if self.before else 'after'} {self.predicate.text}"


@dataclass(frozen=True, kw_only=True)
class Split(OperatorSpec):
    """Sends each tuple to the output port of the first of `routes` that is true for it.

    `by`: the column, if the routes were read from a mapping file: each route is a set of its values.

    `otherwise` adds a port for tuples for which no route is true; without it they are dropped. The order key is
    unchanged. Punctuations go to every port.
    """

    kind: ClassVar[str] = "split"
    routes: tuple[Expression, ...]
    otherwise: bool = False
    by: str | None = None

    @property
    def outputs(self) -> int:
        return len(self.routes) + self.otherwise

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        for route in self.routes:
            self._predicate(route, inputs[0])
        return (inputs[0],) * self.outputs

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (frozenset().union(*wanted, *(user_columns(route) for route in self.routes)),)

    def describe(self) -> str:
        rest = " | otherwise" if self.otherwise else ""
        if self.by is not None:
            values = sum(len(cast(Call, route.root).arguments) - 1 for route in self.routes)
            outputs = f"{len(self.routes)} output{'s' * (len(self.routes) > 1)}"
            return f"by {self.by}, {values} value{'s' * (values > 1)} to {outputs}{rest}"
        return " | ".join(route.text for route in self.routes) + rest


@dataclass(frozen=True, kw_only=True)
class Delay(OperatorSpec):
    """Passes every tuple with a later time: `_ts` + `delay`; the other parts of its key are unchanged.

    It has no state: downstream operators process a tuple at its new time. Punctuations are delayed too.
    """

    kind: ClassVar[str] = "delay"
    delay: Duration  # microseconds of event time; below 0 behind a window, whose tuples have the time of its end

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        return inputs

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        # The rank must be a column: a constant rank means that `_seq` orders tuples, also in a merge with other
        # streams.
        marks = inputs[0].marks
        return (replace(inputs[0], src=None, marks=marks | {None} if marks else marks),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (wanted[0],)

    def describe(self) -> str:
        return f"by {format_duration(self.delay)}"


@dataclass(frozen=True, kw_only=True)
class Union(OperatorSpec):
    """Passes every tuple of every port, merged by order key, lower ports first among equal keys.

    The order key is unchanged; if two ports can have the same key, `_n` numbers the tuples. Punctuations pass.
    """

    kind: ClassVar[str] = "union"
    ports: int

    @property
    def inputs(self) -> int:
        return self.ports

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        first = inputs[0]
        for port, schema in enumerate(inputs[1:], 1):
            if [(f.name, f.type) for f in schema] != [(f.name, f.type) for f in first]:
                raise GraphError(
                    f"operator {self.name}: input {port} has columns ({_columns(schema)}) "
                    f"and input 0 has ({_columns(first)}); a union needs the same columns"
                )
        nullable = [any(schema.field(f.name).nullable for schema in inputs) for f in first]
        return (pa.schema([f.with_nullable(null) for f, null in zip(first, nullable, strict=True)]),)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (joined_shape(list(inputs), n=overlapping(list(inputs))),)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return (wanted[0],) * self.ports

    def describe(self) -> str:
        return f"{self.ports} ports"


@dataclass(frozen=True, kw_only=True)
class UserDefined(OperatorSpec):
    """A user-defined operator: a class that processes batches (`riprap.operators.UserOperator`), with options.

    `factory(**options)` creates an instance. The class declares what the graph needs to know; see there.
    """

    kind: ClassVar[str] = "user-defined"
    factory: type[Any]
    options: tuple[tuple[str, Any], ...] = ()
    ports: int = 1

    @property
    def inputs(self) -> int:
        return self.ports

    @property
    def outputs(self) -> int:
        return int(self.factory.outputs)

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (bool(self.factory.stateful),) * self.ports

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        by = dict(self.options).get("by")
        if not self.factory.stateful:
            return (None,) * self.ports
        return ((by,) if isinstance(by, str) else tuple(by or ()),) * self.ports

    @property
    def deterministic(self) -> bool:
        return bool(self.factory.deterministic)

    @property
    def tolerates_loss(self) -> bool:
        return bool(self.factory.tolerates_loss)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        for schema, by in zip(inputs, self.partition_keys, strict=True):
            self._check_columns(by or (), schema, "group-by")
        return tuple(self.factory(**dict(self.options)).output_schemas(inputs))

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return (joined_shape(list(inputs), n=self.renumbers(inputs)),) * self.outputs

    def renumbers(self, inputs: tuple[KeyShape, ...]) -> bool:
        """Whether several outputs can share a trigger's key, so that `_n` has to count them."""
        return not self.factory.one_per_trigger or overlapping(list(inputs))

    def describe(self) -> str:
        return self.factory.__name__


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
