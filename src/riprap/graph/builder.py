"""Builds a graph: `App` and `Stream`, in the style of PySpark. Building executes nothing.

    app = App("bargain-discovery")
    ticks = app.source("Source", "ticker string, type string, price double, size long")
    trades = ticks.filter("type = 'TRADE'", name="TradeFilter")
    sums = trades.aggregate("sum(size) AS volume", window=count(5), every=count(1), by="ticker", name="Aggregator")
    sums.sink("Sink")
    graph = app.build()

Every method that adds an operator checks it against the columns that reach it and raises at that line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, get_args

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.base.quantities import Duration, parse_duration
from riprap.expressions import Expression, parse
from riprap.graph.aggregates import AggregateCall
from riprap.graph.annotations import Annotations
from riprap.graph.builder_text import Protect, annotations_of, parse_aggregate, parse_column, parse_expression
from riprap.graph.graph import Graph, Lateness, Partitioning, StreamSpec
from riprap.graph.ha_groups import copied
from riprap.graph.mapping import routes_of
from riprap.graph.relational_builder import RelationalMethods
from riprap.graph.spec_scan import StateVariable
from riprap.graph.specs import (
    Aggregate,
    Barrier,
    Delay,
    Functor,
    OperatorSpec,
    Punctor,
    Scan,
    Sink,
    Sort,
    Source,
    Split,
    Union,
    UserDefined,
)
from riprap.graph.static_table import StaticTable, TableLike
from riprap.graph.types import SchemaLike, is_key, schema_of
from riprap.graph.windows import Count, Sliding, Window, unbounded


class App:
    """A stream graph being built."""

    def __init__(self, name: str, *, protect: Protect = ()) -> None:
        """`protect`: protection of the whole app; only `full_replication(n)`."""
        self.name = name
        self._protection = annotations_of(protect)
        if replace(self._protection, copies=1) != Annotations():
            raise GraphError(
                f"app {name}: only full_replication() protects a whole app; give other annotations to operators"
            )
        self._operators: list[OperatorSpec] = []
        self._streams: list[StreamSpec] = []
        self._schemas: dict[str, tuple[pa.Schema, ...]] = {}
        self._tables: list[StaticTable] = []
        self._open_loops: dict[str, list[tuple[str, int]]] = {}  # feedback name → ports that wait for it
        self._loop_schemas: dict[str, pa.Schema] = {}
        self._loop_delays: dict[str, Duration] = {}

    def source(
        self,
        name: str,
        schema: SchemaLike,
        *,
        time: str | None = None,
        lateness: str | None = None,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Where tuples enter. `time` names the column with the event time if the input has no `_ts`.

        `lateness` ("5s") is the watermark delay: input within it is sorted; later rows are dropped and counted.
        """
        if lateness is not None and parallelism > 1:
            raise GraphError(f"operator {name}: a source with a lateness sorts its whole input; use parallelism 1")
        rank = sum(isinstance(op, Source) for op in self._operators)
        spec = Source(
            name=name,
            schema=schema_of(schema),
            rank=rank,
            time=time,
            lateness=None if lateness is None else parse_duration(lateness),
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self._add(spec, ())[0]

    def table(self, source: TableLike, schema: SchemaLike | None = None, *, name: str) -> StaticTable:
        """Static rows for `stream.join_table`: a Parquet file, a directory of them, or Arrow data. No fault targets it.

        `schema` chooses columns and their types; without it the table has the columns of its source.
        """
        if any(table.name == name for table in self._tables):
            raise GraphError(f"two tables are called {name}; names have to be unique in app {self.name}")
        table = StaticTable(name, source, schema)
        self._tables.append(table)
        return table

    def feedback(self, name: str, schema: SchemaLike, *, delay: str) -> "Stream":
        """A stream that closes a cycle: read it like an input, connect it later with `stream.feed(name)`.

        A tuple on it arrives `delay` ("10ms", more than 0) of event time after its trigger.
        """
        if name in self._loop_schemas:
            raise GraphError(f"two feedback streams are called {name}; names have to be unique in app {self.name}")
        duration = parse_duration(delay)
        if duration < 1:
            raise GraphError(f"feedback stream {name}: delay {delay} is too short; a feedback delay is 1us or more")
        self._loop_delays[name] = duration
        self._loop_schemas[name] = schema_of(schema)
        self._open_loops[name] = []
        return Stream(self, loop=name)

    def build(self) -> Graph:
        """The immutable graph, validated."""
        for name, ports in self._open_loops.items():
            if ports:
                raise GraphError(f"feedback stream {name} is read but never fed; call stream.feed({name!r})")
        graph = Graph(self.name, tuple(self._operators), tuple(self._streams))
        return copied(graph, self._protection.copies) if self._protection.copies > 1 else graph

    def _schema_of(self, stream: "Stream") -> pa.Schema:
        if stream.loop is not None:
            return self._loop_schemas[stream.loop]
        return self._schemas[stream.operator][stream.port]

    def _add(self, spec: OperatorSpec, inputs: Sequence["Stream"]) -> tuple["Stream", ...]:
        if any(op.name == spec.name for op in self._operators):
            raise GraphError(f"two operators are called {spec.name}; names have to be unique in app {self.name}")
        if not spec.name or any(char in spec.name for char in "→/\\\n"):
            raise GraphError(f"operator name {spec.name!r} is empty or contains →, / or \\; choose another")
        for stream in inputs:
            if stream.app is not self:
                raise GraphError(f"operator {spec.name}: its input belongs to app {stream.app.name}, not {self.name}")
        schemas = spec.output_schemas(tuple(self._schema_of(stream) for stream in inputs))
        self._operators.append(spec)
        self._schemas[spec.name] = schemas
        for port, (stream, key) in enumerate(zip(inputs, spec.partition_keys, strict=True)):
            if stream.loop is not None:
                self._open_loops[stream.loop].append((spec.name, port))
                continue
            how: Partitioning = "broadcast" if stream.broadcasting else "key" if key else "forward"
            self._streams.append(StreamSpec(stream.operator, stream.port, spec.name, port, how, late=stream.lateness))
        return tuple(Stream(self, spec.name, port) for port in range(len(schemas)))

    def _close(self, loop: str, stream: "Stream") -> None:
        if loop not in self._open_loops:
            raise GraphError(f"app {self.name} has no feedback stream {loop}; it has {known(self._open_loops, loop)}")
        if not self._open_loops[loop]:
            raise GraphError(f"feedback stream {loop} is fed twice, or nothing reads it")
        for target, port in self._open_loops[loop]:
            spec = next(op for op in self._operators if op.name == target)
            how: Partitioning = "key" if spec.partition_keys[port] else "forward"
            schema, delay = self._loop_schemas[loop], self._loop_delays[loop]
            self._streams.append(StreamSpec(stream.operator, stream.port, target, port, how, schema, delay))
        self._open_loops[loop] = []


@dataclass(frozen=True)
class Stream(RelationalMethods):
    """An output port of an operator. Each method adds a downstream operator and returns its output."""

    app: App
    operator: str = ""
    port: int = 0
    broadcasting: bool = False
    loop: str | None = None  # the name of a feedback stream, on its reading side
    lateness: Lateness = "deliver"

    @property
    def schema(self) -> pa.Schema:
        """The user's columns."""
        return self.app._schema_of(self)

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def filter(self, condition: str, *, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """Tuples for which `condition` is true."""
        return self._functor(name, protect, parallelism, predicate=parse_expression(name, condition))

    where = filter

    def select(
        self, *columns: str, name: str, where: str | None = None, protect: Protect = (), parallelism: int = 1
    ) -> "Stream":
        """These columns: names, or expressions with `AS name`; only tuples for which `where` is true, if given."""
        return self._functor(
            name,
            protect,
            parallelism,
            predicate=parse_expression(name, where) if where is not None else None,
            projections=tuple(parse_column(name, column) for column in columns),
        )

    def map(self, *columns: str, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """All columns, with these added or replaced: `map("total / volume AS vwap", name="VWAP")`."""
        changed = dict(parse_column(name, column) for column in columns)
        existing = [(column, changed.pop(column, parse(_quoted(column)))) for column in self.columns]
        return self._functor(name, protect, parallelism, projections=(*existing, *changed.items()))

    def rename(self, names: dict[str, str], *, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """The same columns under other names."""
        for old in names:
            if old not in self.columns:
                raise GraphError(f"operator {name}: column {old} is unknown; available: {known(self.columns, old)}")
        renamed = tuple((names.get(column, column), parse(_quoted(column))) for column in self.columns)
        return self._functor(name, protect, parallelism, projections=renamed)

    def drop(self, *columns: str, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """All columns but these."""
        for column in columns:
            if column not in self.columns:
                raise GraphError(
                    f"operator {name}: column {column} is unknown; available: {known(self.columns, column)}"
                )
        remaining = tuple((column, parse(_quoted(column))) for column in self.columns if column not in columns)
        return self._functor(name, protect, parallelism, projections=remaining)

    def scan(
        self,
        *columns: str,
        state: Mapping[str, tuple[str, str]],
        by: str | Sequence[str] = (),
        where: str | None = None,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """A functor with state variables: see `riprap.graph.specs.Scan`.

        `state` maps each variable to its initial value and its update per tuple: `{"volume": ("0", "volume + size")}`.
        `columns` and `where` see the tuple and the variables; without `columns`, all of them are emitted.
        """
        for variable, expressions in state.items():
            if isinstance(expressions, str) or len(expressions) != 2:
                raise GraphError(f"operator {name}: state variable {variable} needs two expressions: (initial, update)")
        spec = Scan(
            name=name,
            variables=tuple(
                StateVariable(variable, parse_expression(name, initial), parse_expression(name, update))
                for variable, (initial, update) in state.items()
            ),
            by=(by,) if isinstance(by, str) else tuple(by),
            predicate=parse_expression(name, where) if where is not None else None,
            projections=tuple(parse_column(name, column) for column in columns) or None,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self,))[0]

    def delay(self, by: str, *, name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """The same tuples with a later event time: `delay("2s", name="Delayed")`."""
        duration = parse_duration(by)
        if duration < 1:
            raise GraphError(f"operator {name}: delay {by} is too short; a delay is 1us or more")
        spec = Delay(name=name, delay=duration, annotations=annotations_of(protect), parallelism=parallelism)
        return self.app._add(spec, (self,))[0]

    def aggregate(
        self,
        *calls: str | AggregateCall,
        window: Window | Sliding,
        every: Window | None = None,
        by: str | Sequence[str] = (),
        partial: bool = True,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """Functions over a window: see `riprap.graph.specs.Aggregate`. Without `every`, windows are tumbling, and
        unbounded() emits at every tuple.
        """
        if isinstance(window, Sliding):
            if every is not None:
                raise GraphError(f"operator {name}: tumbling() and sliding() define when they emit; leave out every=")
            every, window = window.every, window.window
        if every is None:
            every = Count(1) if window == unbounded() else window
        parsed = tuple(parse_aggregate(name, call) if isinstance(call, str) else call for call in calls)
        spec = Aggregate(
            name=name,
            calls=parsed,
            window=window,
            every=every,
            by=(by,) if isinstance(by, str) else tuple(by),
            partial=partial,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self,))[0]

    def sort(self, *by: str, window: Window, name: str, protect: Protect = ()) -> "Stream":
        """Emit one window at a time, in the order of `by` (`"price"`, `"price desc"`), then a punctuation."""
        columns = tuple(_sort_column(name, text) for text in by)
        spec = Sort(name=name, by=columns, window=window, annotations=annotations_of(protect))
        return self.app._add(spec, (self,))[0]

    def barrier(self, *others: "Stream", name: str, protect: Protect = ()) -> "Stream":
        """Combine the n-th tuples of all streams into one."""
        spec = Barrier(name=name, ports=1 + len(others), annotations=annotations_of(protect))
        return self.app._add(spec, (self, *others))[0]

    def punctuate(
        self,
        after: str | None = None,
        *,
        before: str | None = None,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> "Stream":
        """A punctuation after each tuple for which `after` is true, or before each for which `before` is."""
        condition = after if before is None else before
        if condition is None or (after is not None and before is not None):
            raise GraphError(f"operator {name}: a punctor has one condition: give either after= or before=")
        spec = Punctor(
            name=name,
            predicate=parse_expression(name, condition),
            before=before is not None,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self,))[0]

    def split(
        self,
        *conditions: str,
        by: str | None = None,
        mapping: str | PathLike[str] | None = None,
        otherwise: bool = False,
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
    ) -> tuple["Stream", ...]:
        """One stream per condition: a tuple goes to the first that is true; `otherwise` adds a stream for the rest.

        Instead of conditions: a column (`by`) and a `mapping` file of its values (`riprap.graph.mapping`).
        """
        if (by is None) != (mapping is None) or (conditions and by is not None) or not (conditions or by):
            raise GraphError(f"operator {name}: a split needs conditions, or by= a column with a mapping= file")
        if by is not None and mapping is not None:
            routes = self._mapped(name, by, mapping)
        else:
            routes = tuple(parse_expression(name, condition) for condition in conditions)
        spec = Split(
            name=name,
            routes=routes,
            otherwise=otherwise,
            by=by,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self,))

    def union(self, *others: "Stream", name: str, protect: Protect = (), parallelism: int = 1) -> "Stream":
        """All tuples of all streams, in the order of their keys."""
        spec = Union(name=name, ports=1 + len(others), annotations=annotations_of(protect), parallelism=parallelism)
        return self.app._add(spec, (self, *others))[0]

    def apply(
        self,
        operator: type[Any],
        *others: "Stream",
        name: str,
        protect: Protect = (),
        parallelism: int = 1,
        **options: Any,
    ) -> tuple["Stream", ...]:
        """A user-defined operator (`riprap.operators.UserOperator`): `operator(**options)` on these streams."""
        spec = UserDefined(
            name=name,
            factory=operator,
            options=tuple(sorted(options.items())),
            ports=1 + len(others),
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self, *others))

    def broadcast(self) -> "Stream":
        """The same stream; every shard of the next operator receives every tuple."""
        return replace(self, broadcasting=True)

    def late(self, lateness: Lateness) -> "Stream":
        """The same stream; `late("drop")` drops tuples that arrive after the next operator continued without them.

        This happens in a run if the stream is not persistent and its producer was down.
        """
        if lateness not in get_args(Lateness):
            raise GraphError(f"late({lateness!r}): expected one of {', '.join(get_args(Lateness))}")
        return replace(self, lateness=lateness)

    def feed(self, loop: str) -> None:
        """Close a cycle: this stream becomes the feedback stream of that name."""
        self.app._close(loop, self)

    def sink(self, name: str, *, protect: Protect = (), parallelism: int = 1) -> None:
        """Where tuples leave."""
        self.app._add(Sink(name=name, annotations=annotations_of(protect), parallelism=parallelism), (self,))

    def _mapped(self, name: str, by: str, mapping: str | PathLike[str]) -> tuple[Expression, ...]:
        if by not in self.columns:
            raise GraphError(f"operator {name}: split column {by} is unknown; available: {known(self.columns, by)}")
        type_ = self.schema.field(by).type
        if not (pa.types.is_string(type_) or (pa.types.is_integer(type_) and not pa.types.is_uint64(type_))):
            raise GraphError(f"operator {name}: column {by} is {type_}; a mapping needs a string or an integer")
        return routes_of(name, by, type_, mapping)

    def _functor(
        self,
        name: str,
        protect: Protect,
        parallelism: int,
        predicate: Expression | None = None,
        projections: tuple[tuple[str, Expression], ...] | None = None,
    ) -> "Stream":
        spec = Functor(
            name=name,
            predicate=predicate,
            projections=projections,
            annotations=annotations_of(protect),
            parallelism=parallelism,
        )
        return self.app._add(spec, (self,))[0]


def _sort_column(name: str, text: str) -> tuple[str, bool]:
    words = text.split()
    direction = words[1].lower() if len(words) == 2 else "asc"
    if not words or len(words) > 2 or direction not in ("asc", "desc") or is_key(words[0]):
        raise GraphError(f"operator {name}: cannot sort by {text!r}; write a column, as in 'price' or 'price desc'")
    return words[0], direction == "desc"


def _quoted(column: str) -> str:
    return f"`{column}`"
