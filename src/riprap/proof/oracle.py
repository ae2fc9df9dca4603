"""The oracle: the expected output, the actual output, and the difference.

It reads only the inputs and the files of the sinks. The expected output is what the engine emits in one process without
faults. The actual output is read with pyarrow alone: segments of a persistent stream are Arrow streams after eight
bytes, and an unparsable end of the newest one was never finished. So the verdict does not depend on the runtime, on
recovery or on the summary's counts.

The whole order key identifies a row. *Lost*: an expected key that is missing. *Doubled*: a key that occurs more than
once. *Wrong*: an unexpected key, or one with other values. *Order*: keys ascend, in each shard of a sink.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.base import files
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS, TS
from riprap.graph.specs import Source

_MAGIC = 8  # bytes before the Arrow stream of a segment


class SinkRows(NamedTuple):
    """The actual output at a sink, one shard after another."""

    rows: pa.Table
    begins: tuple[int, ...] = ()  # the first rows of all shards except the first


class Differing(NamedTuple):
    """Rows that differ from the expected ones: their event times in microseconds, ascending."""

    lost: np.ndarray
    wrong: np.ndarray


@dataclass(frozen=True)
class SinkVerdict:
    """One sink, compared with its expected output."""

    expected: int
    found: int
    lost: int
    doubled: int
    wrong: int
    ordered: bool

    @property
    def exact(self) -> bool:
        return self.ordered and not (self.lost or self.doubled or self.wrong)


def expected_rows(graph: Graph, inputs: Mapping[str, Path]) -> dict[str, pa.Table]:
    """The output of each sink without faults."""
    engine = Engine(graph)
    feeds = {source.name: _input(source, inputs[source.name]) for source in graph.sources}
    batches: dict[str, list[pa.RecordBatch]] = {sink.name: [] for sink in graph.sinks}
    for output in engine.run(feeds):
        if isinstance(output.event, pa.RecordBatch):
            batches[output.name].append(output.event)
    tables = {}
    for sink in graph.sinks:
        stream = graph.inputs(sink.name)[0]
        tables[sink.name] = _plain(batches[sink.name], graph.physical(stream.source, stream.source_port))
    return tables


def _input(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    return keyed(read_file(path), source)


def found_rows(sink: Path, schema: pa.Schema) -> SinkRows:
    """The rows in a sink's persistent stream, or in those of its shards, in the order of the files."""
    shards = [_plain(list(_stored(folder)), schema) for folder in streams_of(sink)]
    begins = np.cumsum([shard.num_rows for shard in shards])[:-1]
    return SinkRows(pa.concat_tables(shards or [_plain([], schema)]).combine_chunks(), tuple(begins.tolist()))


def streams_of(sink: Path) -> list[Path]:
    """The directories of a sink's persistent streams: one per shard, or its own; none if nothing was written."""
    if not sink.exists():
        return []
    shards = [path for path in sink.iterdir() if path.is_dir() and (path / "stream.json").exists()]
    return sorted(shards, key=lambda path: (len(path.name), path.name)) or [sink]


def _stored(folder: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(folder.glob("[0-9]*.arrow")):
        with pa.BufferReader(files.mapped(file)) as source:
            source.seek(_MAGIC)
            reader = pa.ipc.open_stream(source)
            while True:
                try:
                    batch = reader.read_next_batch()
                except (StopIteration, pa.ArrowInvalid, OSError):
                    break
                if batch.num_rows:
                    yield batch


def _plain(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """One table of the schema's columns, without dictionaries."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    columns = [
        pa.chunked_array([batch.column(field.name).cast(field.type) for batch in batches], field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks()


def compare(expected: pa.Table, found: pa.Table) -> SinkVerdict:
    """The verdict on a sink with one shard."""
    return difference(expected, SinkRows(found))[0]


def difference(expected: pa.Table, found: SinkRows) -> tuple[SinkVerdict, Differing]:
    keys = [name for name in KEY_COLUMNS if name in expected.schema.names]
    rows = found.rows
    wanted, got = _numbered(expected, keys), _numbered(rows, keys)
    first, doubled = _first_of_each(got, keys)
    lost = wanted.join(first, keys, join_type="left anti")
    unexpected = first.join(wanted, keys, join_type="left anti")
    both = wanted.join(first, keys, join_type="inner", right_suffix="_found")
    left = expected.take(both.column("_row"))
    right = rows.take(both.column("_row_found"))
    differs = np.zeros(both.num_rows, bool)
    for name in expected.schema.names:
        if name not in keys:
            differs |= _differs(left.column(name), right.column(name))
    wrong = np.concatenate([_due(unexpected), _due(both)[differs]])
    verdict = SinkVerdict(
        expected.num_rows, rows.num_rows, lost.num_rows, doubled, len(wrong), _ascends(rows, keys, found.begins)
    )
    return verdict, Differing(np.sort(_due(lost)), np.sort(wrong))


def _due(numbered: pa.Table) -> np.ndarray:
    return np.asarray(numbered.column(TS).to_numpy())


def _numbered(table: pa.Table, keys: list[str]) -> pa.Table:
    """The keys as integers, with row numbers."""
    columns = {name: table.column(name).cast(pa.int64()) for name in keys}
    return pa.table({**columns, "_row": pa.array(np.arange(table.num_rows))})


def _first_of_each(numbered: pa.Table, keys: list[str]) -> tuple[pa.Table, int]:
    grouped = numbered.group_by(keys).aggregate([("_row", "min")]).rename_columns([*keys, "_row"])
    return grouped, int(numbered.num_rows - grouped.num_rows)


def _ascends(table: pa.Table, keys: list[str], begins: tuple[int, ...]) -> bool:
    """Whether the whole key increases from row to row, except at the start of another shard."""
    if table.num_rows < 2:
        return True
    undecided = np.ones(table.num_rows - 1, bool)
    undecided[[begin - 1 for begin in begins if 0 < begin < table.num_rows]] = False
    for name in keys:
        values = table.column(name).cast(pa.int64()).to_numpy()
        if (undecided & (values[1:] < values[:-1])).any():
            return False
        undecided &= values[1:] == values[:-1]
    return not undecided.any()


def _differs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    same = pc.fill_null(pc.equal(left, right), False)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
