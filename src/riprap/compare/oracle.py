"""What a workload's sinks should hold, and what of it is missing or there twice. Reads inputs and sinks alone."""

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.keys import KEY_COLUMNS
from riprap.operators.contract import Punctuation

Rows = Mapping[str, Counter[tuple[object, ...]]]  # by sink


def expected(graph: Graph, inputs: Mapping[str, pa.RecordBatch]) -> Rows:
    """From one engine that reads the whole input."""
    found: dict[str, Counter[tuple[object, ...]]] = {sink.name: Counter() for sink in graph.sinks}
    for name, event in Engine(graph, cut_everywhere=True).run({name: [batch] for name, batch in inputs.items()}):
        if not isinstance(event, Punctuation):
            found[name] += rows([event])
    return found


def rows(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for batch in batches:
        names = sorted(name for name in batch.schema.names if name not in KEY_COLUMNS or name == "_ts")
        columns = [batch.column(name) for name in names]
        found.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return found


def judged(wanted: Rows, found: Rows) -> tuple[int, int]:
    """Rows that are missing, and rows that are there more often than they should be."""
    missing = sum((wanted[name] - found[name]).total() for name in wanted)
    return missing, sum((found[name] - wanted[name]).total() for name in wanted)
