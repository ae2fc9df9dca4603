"""The oracle: what should have come out, what did, and the difference.

It reads nothing but the inputs and the files of the sinks. What should have come out is what the engine gives in one
process without faults; what did come out is read with pyarrow alone: segments of a persistent stream are Arrow streams
behind eight bytes, and what a reader cannot parse at the end of the newest one was never finished. So nothing of the
runtime, of recovery or of the summary's counting has a say in the verdict.

Rows are known by their whole order key. *Lost*: a key that should be there and is not. *Doubled*: a key that is there
more than once. *Wrong*: a key that should not be there, or with other values. *Order*: keys ascend.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.graph.graph import Graph
from riprap.graph.keys import KEY_COLUMNS
from riprap.graph.specs import Source

_MAGIC = 8  # bytes before the Arrow stream of a segment


@dataclass(frozen=True)
class SinkVerdict:
    """One sink against what it should have."""

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
    """What each sink gets without faults."""
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


def found_rows(sink: Path, schema: pa.Schema) -> pa.Table:
    """What is in the directory of a sink's persistent stream, or in those of its shards, in the order of the files."""
    folders = sorted(path for path in sink.iterdir() if path.is_dir() and (path / "stream.json").exists())
    batches = [batch for folder in folders or [sink] for batch in _stored(folder)]
    return _plain(batches, schema)


def _stored(folder: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(folder.glob("[0-9]*.arrow")):
        with pa.OSFile(str(file)) as source:
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
    keys = [name for name in KEY_COLUMNS if name in expected.schema.names]
    wanted, got = _numbered(expected, keys), _numbered(found, keys)
    ordered = _ascends(found, keys)
    first, repeats = _first_of_each(got, keys)
    doubled = int(repeats)
    lost = wanted.join(first, keys, join_type="left anti").num_rows
    strange = first.join(wanted, keys, join_type="left anti").num_rows
    both = wanted.join(first, keys, join_type="inner", right_suffix="_found")
    left = expected.take(both.column("_row"))
    right = found.take(both.column("_row_found"))
    differs = np.zeros(both.num_rows, bool)
    for name in expected.schema.names:
        if name not in keys:
            differs |= _differs(left.column(name), right.column(name))
    return SinkVerdict(expected.num_rows, found.num_rows, lost, doubled, strange + int(differs.sum()), ordered)


def _numbered(table: pa.Table, keys: list[str]) -> pa.Table:
    """The keys as whole numbers, and the row of each."""
    columns = {name: table.column(name).cast(pa.int64()) for name in keys}
    return pa.table({**columns, "_row": pa.array(np.arange(table.num_rows))})


def _first_of_each(numbered: pa.Table, keys: list[str]) -> tuple[pa.Table, int]:
    grouped = numbered.group_by(keys).aggregate([("_row", "min")]).rename_columns([*keys, "_row"])
    return grouped, numbered.num_rows - grouped.num_rows


def _ascends(table: pa.Table, keys: list[str]) -> bool:
    """Whether the whole key rises from row to row."""
    if table.num_rows < 2:
        return True
    undecided = np.ones(table.num_rows - 1, bool)
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
