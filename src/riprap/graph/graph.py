"""The graph: operators and the streams between them, as immutable data.

The constructor validates: names are unique, every input port is connected once, every expression fits the columns of
its input, and every cycle passes through a feedback stream. Derived data (schemas, key shapes, order) is computed once.
Two graphs are equal if their operators and streams are equal.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Literal

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.graph.order_keys import TIMER, KeyShape, physical_schema
from riprap.graph.specs import OperatorSpec, Sink, Source

Partitioning = Literal["forward", "key", "broadcast"]
Lateness = Literal["deliver", "drop"]


@dataclass(frozen=True)
class StreamSpec:
    """An edge: from an output port to an input port."""

    source: str
    source_port: int
    target: str
    target_port: int
    partitioning: Partitioning = "forward"  # how tuples reach the shards of the target
    feedback: pa.Schema | None = None  # the declared columns of a stream that closes a cycle; None: an ordinary stream
    delay: int = 0  # microseconds of event time that a feedback stream adds; > 0 for those
    late: Lateness = "deliver"  # what to do with tuples that arrive after their consumer continued without them

    @property
    def id(self) -> str:
        """`Source→TradeQuote`, with port numbers where they are not 0."""
        source = self.source + (f".{self.source_port}" if self.source_port else "")
        target = self.target + (f".{self.target_port}" if self.target_port else "")
        return f"{source}→{target}"


@dataclass(frozen=True)
class Graph:
    """An app: a name, its operators, its streams."""

    name: str
    operators: tuple[OperatorSpec, ...]
    streams: tuple[StreamSpec, ...]
    _derived: "_Derived" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_derived", _derive(self))

    def __getitem__(self, name: str) -> OperatorSpec:
        try:
            return self._by_name[name]
        except KeyError:
            raise GraphError(f"app {self.name} has no operator {name}; it has {known(self._by_name, name)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> Mapping[str, OperatorSpec]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def fingerprint(self) -> str:
        """A hash that identifies this graph in every process; it ignores parallelism.

        It also ignores the addresses of user objects, which differ between processes, and the modules of classes,
        which are `__main__` in a script.
        """
        text = repr([self.name, [replace(operator, parallelism=1) for operator in self.operators], self.streams])
        text = re.sub(r"<class '(?:[^']*\.)?(\w+)'>", r"\1", re.sub(r"0x[0-9a-f]+", "", text))
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def check_runs(self) -> None:
        """Raise if the app can be assessed and planned, but not run by our engine."""

    # Walking ----------------------------------------------------------------------------------------------------

    @property
    def order(self) -> tuple[str, ...]:
        """Operator names in topological order, ignoring feedback streams."""
        return self._derived.order

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(op for op in self.operators if isinstance(op, Source))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(op for op in self.operators if isinstance(op, Sink))

    def inputs(self, name: str) -> tuple[StreamSpec, ...]:
        """The streams into an operator, one per input port, in port order."""
        return self._derived.inputs[name]

    def outputs(self, name: str) -> tuple[StreamSpec, ...]:
        """The streams out of an operator, by port and then in order of creation."""
        return self._derived.outputs[name]

    def upstream(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream.source for stream in self.inputs(name)))

    def downstream(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream.target for stream in self.outputs(name)))

    def reachable(self, name: str) -> frozenset[str]:
        """Every operator that a tuple of `name` may affect, including itself."""
        seen = {name}
        stack = [name]
        while stack:
            for target in self.downstream(stack.pop()):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return frozenset(seen)

    # Derived from the operators --------------------------------------------------------------------------------------

    def schema(self, name: str, port: int = 0) -> pa.Schema:
        """The user's columns of an output port."""
        return self._derived.schemas[name][port]

    def shape(self, name: str, port: int = 0) -> KeyShape:
        """The key shape of an output port."""
        return self._derived.shapes[name][port]

    def stream_schema(self, stream: StreamSpec) -> pa.Schema:
        return stream.feedback or self.schema(stream.source, stream.source_port)

    def stream_shape(self, stream: StreamSpec) -> KeyShape:
        return self._feedback_shape if stream.feedback else self.shape(stream.source, stream.source_port)

    def physical(self, name: str, port: int = 0) -> pa.Schema:
        """The schema of a batch of an output port, including the order key."""
        return physical_schema(self.schema(name, port), self.shape(name, port))

    def input_schemas(self, name: str) -> tuple[pa.Schema, ...]:
        return tuple(self.stream_schema(stream) for stream in self.inputs(name))

    def input_shapes(self, name: str) -> tuple[KeyShape, ...]:
        return tuple(self.stream_shape(stream) for stream in self.inputs(name))

    @property
    def cyclic(self) -> bool:
        return any(stream.feedback is not None for stream in self.streams)

    @cached_property
    def _feedback_shape(self) -> KeyShape:
        return KeyShape(src=None, n=True, origins=frozenset((TIMER, *(source.rank for source in self.sources))))

    # Rewriting ----------------------------------------------------------------------------------------------------

    def with_operator(self, operator: OperatorSpec) -> "Graph":
        """The same graph with the operator of that name replaced."""
        self[operator.name]
        return replace(self, operators=tuple(operator if op.name == operator.name else op for op in self.operators))

    def insert(self, stream: StreamSpec, operator: OperatorSpec) -> "Graph":
        """The same graph with an operator of one input and one output inserted into a stream."""
        if stream not in self.streams:
            raise GraphError(f"app {self.name} has no stream {stream.id}; it has {known(s.id for s in self.streams)}")
        before = replace(stream, target=operator.name, target_port=0, partitioning="forward", feedback=None, delay=0)
        after = replace(stream, source=operator.name, source_port=0)
        streams = [part for old in self.streams for part in ((before, after) if old == stream else (old,))]
        return replace(self, operators=(*self.operators, operator), streams=tuple(streams))

    def leading_to(self, name: str) -> "Graph":
        """The subgraph that an operator depends on, including itself."""
        self[name]
        members = {op.name for op in self.operators if name in self.reachable(op.name)}
        return Graph(
            self.name,
            tuple(op for op in self.operators if op.name in members),
            tuple(stream for stream in self.streams if {stream.source, stream.target} <= members),
        )

    def __iter__(self) -> Iterator[OperatorSpec]:
        return (self[name] for name in self.order)


@dataclass(frozen=True)
class _Derived:
    order: tuple[str, ...]
    inputs: Mapping[str, tuple[StreamSpec, ...]]
    outputs: Mapping[str, tuple[StreamSpec, ...]]
    schemas: Mapping[str, tuple[pa.Schema, ...]]
    shapes: Mapping[str, tuple[KeyShape, ...]]


def _derive(graph: Graph) -> _Derived:
    """Validate the graph and compute derived data; raises `GraphError` for the first problem."""
    operators: dict[str, OperatorSpec] = {}
    for operator in graph.operators:
        if operator.name in operators:
            raise GraphError(f"two operators are called {operator.name}; names have to be unique in app {graph.name}")
        if operator.parallelism < 1:
            raise GraphError(f"operator {operator.name}: parallelism {operator.parallelism}; it has to be 1 or more")
        for port in operator.annotations.persist or ():
            if port not in range(operator.outputs):
                raise GraphError(
                    f"operator {operator.name}: cannot persist output {port}; it has {operator.outputs} outputs"
                )
        operators[operator.name] = operator
    if not any(isinstance(op, Source) for op in graph.operators):
        raise GraphError(f"app {graph.name} has no source; add one with app.source(…)")
    inputs = {name: _input_streams(graph, op) for name, op in operators.items()}
    outputs = {
        name: tuple(sorted((s for s in graph.streams if s.source == name), key=lambda s: s.source_port))
        for name in operators
    }
    order = _topological(graph, operators)
    schemas: dict[str, tuple[pa.Schema, ...]] = {}
    shapes: dict[str, tuple[KeyShape, ...]] = {}
    feedback = graph._feedback_shape
    for name in order:
        streams = inputs[name]
        schemas[name] = operators[name].output_schemas(
            tuple(s.feedback if s.feedback is not None else schemas[s.source][s.source_port] for s in streams)
        )
        shapes[name] = operators[name].output_shapes(
            tuple(feedback if s.feedback is not None else shapes[s.source][s.source_port] for s in streams)
        )
        _check_partitioning(operators[name], streams)
    for stream in graph.streams:
        if stream.feedback is not None and stream.delay < 1:
            raise GraphError(f"feedback stream {stream.id} has no delay; a feedback delay is 1us or more")
        if stream.feedback is not None and schemas[stream.source][stream.source_port] != stream.feedback:
            raise GraphError(
                f"feedback stream {stream.id} carries ({_names(schemas[stream.source][stream.source_port])}) "
                f"but was declared with ({_names(stream.feedback)})"
            )
    return _Derived(order, inputs, outputs, schemas, shapes)


def _input_streams(graph: Graph, operator: OperatorSpec) -> tuple[StreamSpec, ...]:
    ports: dict[int, StreamSpec] = {}
    for stream in graph.streams:
        if stream.target != operator.name:
            continue
        if stream.target_port in ports:
            raise GraphError(f"operator {operator.name}: two streams lead into input port {stream.target_port}")
        ports[stream.target_port] = stream
    missing = [port for port in range(operator.inputs) if port not in ports]
    if missing:
        raise GraphError(f"operator {operator.name}: input port {missing[0]} is not connected")
    extra = [port for port in ports if port >= operator.inputs]
    if extra:
        raise GraphError(f"operator {operator.name} has {operator.inputs} input ports; a stream leads into {extra[0]}")
    return tuple(ports[port] for port in range(operator.inputs))


def _topological(graph: Graph, operators: Mapping[str, OperatorSpec]) -> tuple[str, ...]:
    waiting: dict[str, int] = dict.fromkeys(operators, 0)
    for stream in graph.streams:
        for end, port, ports in (
            (stream.source, stream.source_port, "outputs"),
            (stream.target, stream.target_port, "inputs"),
        ):
            if end not in operators:
                raise GraphError(
                    f"stream {stream.id} ends at {end}, which is not an operator; known: {known(operators, end)}"
                )
            if port >= getattr(operators[end], ports):
                raise GraphError(f"stream {stream.id}: {end} has no {ports[:-1]} port {port}")
        if stream.feedback is None:
            waiting[stream.target] += 1
    order: list[str] = []
    ready = [name for name, count in waiting.items() if count == 0]
    while ready:
        name = ready.pop(0)
        order.append(name)
        for stream in graph.streams:
            if stream.source == name and stream.feedback is None:
                waiting[stream.target] -= 1
                if waiting[stream.target] == 0:
                    ready.append(stream.target)
    if len(order) < len(operators):
        raise GraphError(
            f"app {graph.name} has a cycle through {_cycle(graph, {n for n, c in waiting.items() if c})}; "
            "close it with a feedback stream (app.feedback) or cut it"
        )
    return tuple(order)


def _cycle(graph: Graph, among: set[str]) -> str:
    """One cycle among the operators that have no topological order, for the message."""
    after = {s.source: s.target for s in graph.streams if {s.source, s.target} <= among and s.feedback is None}
    path = [next(iter(after))]
    while path[-1] not in path[:-1] and path[-1] in after:
        path.append(after[path[-1]])
    return " → ".join(path[path.index(path[-1]) :])


def _check_partitioning(operator: OperatorSpec, streams: tuple[StreamSpec, ...]) -> None:
    if operator.parallelism == 1:
        return
    for port, (stream, key) in enumerate(zip(streams, operator.partition_keys, strict=True)):
        if key == () and stream.partitioning != "broadcast":
            raise GraphError(
                f"operator {operator.name}: parallelism {operator.parallelism}, but the state of input port {port} "
                "is not divided by a key; group it with by= or on=, or leave parallelism at 1"
            )


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
