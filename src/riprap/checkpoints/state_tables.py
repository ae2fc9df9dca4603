"""Arrow tables as bytes, and ranges of their rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def to_ipc(*batches: pa.RecordBatch) -> pa.Buffer:
    """One Arrow IPC stream per batch, concatenated."""
    sink = pa.BufferOutputStream()
    for batch in batches:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return sink.getvalue()


def from_ipc(data: bytes) -> list[pa.RecordBatch]:
    """The inverse of `to_ipc`."""
    source = pa.BufferReader(data)
    batches = []
    while source.tell() < len(data):
        (batch,) = pa.ipc.open_stream(source)
        batches.append(batch)
    return batches


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with dictionaries decoded: a dictionary may be much larger than the part of it that is used."""
    if not any(pa.types.is_dictionary(field.type) for field in batch.schema):
        return batch
    arrays = [array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The concatenated batches; all have this schema."""
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema)


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The concatenated ranges starts[i], starts[i] + 1, …, each with counts[i] numbers."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)
