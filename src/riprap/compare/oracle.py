"""What a workload's sinks should hold, and what of it is missing, altered or there twice. Reads inputs and sinks alone.

A row that is missing at a time at which another one is there too many is one row with another value: *altered*, not
lost and repeated. Behind a running total, as WordCount has one, a single lost row alters every later one of its word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.keys import KEY_COLUMNS, TS
from riprap.operators.contract import Punctuation

Rows = Mapping[str, Counter[tuple[object, ...]]]  # by sink; the time of a row is its first value


class Verdict(NamedTuple):
    """Rows of the output."""

    lost: int = 0
    repeated: int = 0
    altered: int = 0


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
        names = sorted(name for name in batch.schema.names if name not in KEY_COLUMNS)
        columns = [batch.column(name) for name in (TS, *names)]
        found.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return found


def judged(wanted: Rows, found: Rows) -> Verdict:
    lost = repeated = altered = 0
    for name in wanted:
        missing, beyond = _by_time(wanted[name] - found[name]), _by_time(found[name] - wanted[name])
        other = (missing & beyond).total()
        lost, repeated, altered = lost + missing.total() - other, repeated + beyond.total() - other, altered + other
    return Verdict(lost, repeated, altered)


def _by_time(rows: Counter[tuple[object, ...]]) -> Counter[object]:
    found: Counter[object] = Counter()
    for row, count in rows.items():
        found[row[0]] += count
    return found
