"""The expected rows of a workload's sinks, and which are missing, altered or repeated. Reads only inputs and sinks.

A missing row together with an extra row of the same time is one row with another value: *altered*, not lost and
repeated. After a running total, as in WordCount, a single lost row alters every later row of its word.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS, TS
from riprap.operators.contract import Punctuation

Rows = Mapping[str, pa.Table]  # by sink: the time of each row, and its values
_COUNT = "_count"


class RowVerdict(NamedTuple):
    """Rows of the output."""

    lost: int = 0
    repeated: int = 0
    altered: int = 0


def expected(graph: Graph, inputs: Mapping[str, pa.RecordBatch]) -> Rows:
    """The rows of one engine that reads the whole input."""
    found: dict[str, list[pa.RecordBatch]] = {sink.name: [] for sink in graph.sinks}
    for name, event in Engine(graph, cut_everywhere=True).run({name: [batch] for name, batch in inputs.items()}):
        if not isinstance(event, Punctuation):
            found[name].append(event)
    return {name: rows(batches) for name, batches in found.items()}


def rows(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Without order key columns, and with text as strings. Without rows, a table without columns."""
    return pa.concat_tables([pa.table({}), *(pa.table(_plain(batch)) for batch in batches)], promote_options="default")


def _plain(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    names = sorted(name for name in batch.schema.names if name not in KEY_COLUMNS)
    columns = {TS: batch.column(TS).cast(pa.int64()), **{name: batch.column(name) for name in names}}
    return {
        name: values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
        for name, values in columns.items()
    }


def judged(wanted: Rows, found: Rows) -> RowVerdict:
    lost = repeated = altered = 0
    for name in wanted:
        missing, beyond = _differences(wanted[name], found[name])
        other = int(np.minimum(missing, beyond).sum())
        lost, repeated = lost + int(missing.sum()) - other, repeated + int(beyond.sum()) - other
        altered += other
    return RowVerdict(lost, repeated, altered)


def _differences(wanted: pa.Table, found: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """By time: missing rows, and extra rows."""
    sides = [
        table.append_column(_COUNT, pa.array(np.full(len(table), sign, np.int64)))
        for table, sign in ((wanted, -1), (found, 1))
        if len(table)
    ]
    if not sides:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    values = sides[0].column_names[:-1]
    counts = pa.concat_tables(sides).group_by(values).aggregate([(_COUNT, "sum")])
    differing = counts.filter(pc.not_equal(counts[f"{_COUNT}_sum"], 0))
    times, place = np.unique(differing[TS].to_numpy(), return_inverse=True)
    missing, beyond = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
    count = differing[f"{_COUNT}_sum"].to_numpy()
    np.add.at(missing, place[count < 0], -count[count < 0])
    np.add.at(beyond, place[count > 0], count[count > 0])
    return missing, beyond
