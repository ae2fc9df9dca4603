"""Taint tracking in the engine: marks of single tuples follow the data through the real operators.

`marked` adds a column, 0 or 1, to every stream of a graph: a functor passes it on, a window is marked if any of its
tuples is, a joined tuple if either side is. A run of the marked graph over input with a few marked tuples shows how far
a wrong tuple spreads; tests check the model's propagation against it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.engine.engine import Engine
from riprap.expressions import parse
from riprap.graph.aggregates import AggregateCall
from riprap.graph.graph import Graph
from riprap.graph.specs import Aggregate, Functor, Join, OperatorSpec, Sink, Source


def mark_of(operator: str) -> str:
    """The mark column of `operator`'s output; named after it, so that the inputs of a join have different names."""
    return f"mark_{operator}"


def marked(graph: Graph) -> Graph:
    """`graph` with a mark on every tuple. Sources expect the column `mark_NAME` in their input."""
    return Graph(graph.name, tuple(_marked(graph, spec) for spec in graph.operators), graph.streams)


def _marked(graph: Graph, spec: OperatorSpec) -> OperatorSpec:
    name = mark_of(spec.name)
    upstream = [mark_of(stream.source) for stream in graph.inputs(spec.name)]
    match spec:
        case Source():
            return replace(spec, schema=spec.schema.append(pa.field(name, pa.int64(), nullable=False)))
        case Sink():
            return spec
        case Functor():
            columns = spec.projections or tuple((each, parse(each)) for each in graph.schema(spec.name).names)
            return replace(spec, projections=(*columns, (name, parse(upstream[0]))))
        case Aggregate():
            return replace(spec, calls=(*spec.calls, AggregateCall(name, "max", parse(upstream[0]))))
        case Join():
            either = parse(f"CASE WHEN {upstream[0]} > {upstream[1]} THEN {upstream[0]} ELSE {upstream[1]} END")
            columns = spec.projections or tuple((each, parse(each)) for each in graph.schema(spec.name).names)
            return replace(spec, projections=(*columns, (name, either)))
    raise GraphError(f"marks cannot pass {spec.kind} {spec.name}; they pass functors, aggregates and joins")


@dataclass(frozen=True)
class Spread:
    """Effect of marked source tuples: a sink received `tuples`, `wrong` of them with the mark."""

    tuples: int
    wrong: int


def spread(graph: Graph, source: str, batches: Iterable[pa.RecordBatch], positions: Iterable[int]) -> dict[str, Spread]:
    """Runs `graph` with the source tuples at `positions` marked, and counts at every sink."""
    found = {sink.name: Spread(0, 0) for sink in graph.sinks}
    engine = Engine(marked(graph))
    for output in engine.run({source: _with_marks(batches, mark_of(source), frozenset(positions))}):
        if isinstance(output.event, pa.RecordBatch):
            column = next(name for name in output.event.schema.names if name.startswith("mark_"))
            wrong = int(np.count_nonzero(output.event.column(column).to_numpy(zero_copy_only=False)))
            before = found[output.name]
            found[output.name] = Spread(before.tuples + output.event.num_rows, before.wrong + wrong)
    return found


def _with_marks(batches: Iterable[pa.RecordBatch], column: str, positions: frozenset[int]) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        marks = np.zeros(batch.num_rows, np.int64)
        marks[[position - first for position in positions if first <= position < first + batch.num_rows]] = 1
        first += batch.num_rows
        yield batch.append_column(pa.field(column, pa.int64(), nullable=False), pa.array(marks))
