"""Batches for the tests of streams: small, deterministic, of one source unless told otherwise."""

from typing import Any

import numpy as np
import pyarrow as pa

from riprap.streams import Damaged, PersistentStream

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("text", pa.string())])


def batch(first: int, rows: int, step: int = 1000) -> pa.RecordBatch:
    """Rows number `first` … `first + rows - 1`; `_ts` is the number times `step`."""
    seq = np.arange(first, first + rows)
    texts = [None if number % 5 == 4 else f"row {number}" for number in seq]
    return pa.record_batch([pa.array(seq * step, TS), pa.array(seq), pa.array(texts)], schema=SCHEMA)


def batches(sizes: list[int], first: int = 0) -> list[pa.RecordBatch]:
    made = []
    for size in sizes:
        made.append(batch(first, size))
        first += size
    return made


def table(items) -> pa.Table:
    """Of batches, or of what `PersistentStream.read` yields."""
    return pa.Table.from_batches([getattr(item, "batch", item) for item in items], SCHEMA)


def write(stream, items, **identity) -> None:
    with stream.writer(**identity) as writer:
        for item in items:
            writer.append(item)


def read_until_damage(path, **options) -> tuple[list[Any], Damaged | None]:
    """What a read delivered before the damage that it met, and that."""
    got: list[Any] = []
    try:
        for item in PersistentStream.open(path).read(**options):
            got.append(item)
    except Damaged as damage:
        return got, damage
    return got, None
