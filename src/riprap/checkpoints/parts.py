"""A part of a window checkpoint: rows that some keys of one port received, and the bounds of their windows.

    entries  Arrow IPC stream of one batch, a row per range of a key's rows:
               _key0, _key1, …  the key (absent if there are no keys); _hash  its stable hash
               _from, _rows     insertion index of the first row, and the number of rows here
               _number          the checkpoint that wrote this; of a key's entries, the greatest is valid for …
               _head, _tail     … the range of insertion indices in the window (see `operators.contract.State`),
               _spoke           … where the window last emitted, and
               _rate            … the key's recent tuples per second
    rows     Arrow IPC stream of one batch: those rows, entry after entry

A window consists of its rows in all parts, from `_head` up to `_tail`. Ranges of a key never overlap.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.checkpoints.state_tables import from_ipc, joined, ranges, to_ipc

FROM, ROWS, NUMBER, RATE = "_from", "_rows", "_number", "_rate"
HASH, HEAD, TAIL, SPOKE = "_hash", "_head", "_tail", "_spoke"


class WindowPart(NamedTuple):
    entries: pa.RecordBatch
    rows: pa.RecordBatch

    def column(self, name: str) -> np.ndarray:
        return self.entries.column(name).to_numpy()


def encode_part(part: WindowPart) -> pa.Buffer:
    return to_ipc(part.entries, part.rows)


def decode_part(data: bytes) -> WindowPart:
    return WindowPart(*from_ipc(data))


def chosen(part: WindowPart, which: np.ndarray) -> WindowPart:
    """These entries (ascending indices) and their rows."""
    if len(which) == part.entries.num_rows:
        return part
    return clipped(part, which, part.column(FROM)[which], part.column(ROWS)[which])


def clipped(part: WindowPart, which: np.ndarray, first: np.ndarray, count: np.ndarray) -> WindowPart:
    """These entries in this order, each with `count` rows from insertion index `first` on."""
    starts = np.cumsum(part.column(ROWS)) - part.column(ROWS)
    at = starts[which] + (first - part.column(FROM)[which])
    entries = with_columns(part.entries.take(pa.array(which)), {FROM: first, ROWS: count})
    return WindowPart(entries, part.rows.take(pa.array(ranges(at, count))))


def with_columns(batch: pa.RecordBatch, columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    """The batch with these columns, added or replaced."""
    all_columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    all_columns |= {name: pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_arrays(list(all_columns.values()), names=list(all_columns))


def united(parts: list[WindowPart]) -> WindowPart:
    """All entries, by key, oldest first; adjacent ranges become one, with the bounds of the newest."""
    part = WindowPart(*(joined([part[j] for part in parts], parts[0][j].schema) for j in (0, 1)))
    order = np.lexsort((part.column(NUMBER), part.column(FROM), part.column(HASH)))
    part = clipped(part, order, part.column(FROM)[order], part.column(ROWS)[order])
    keys, first, count = part.column(HASH), part.column(FROM), part.column(ROWS)
    if not len(keys):
        return part
    starts = np.append(True, (keys[1:] != keys[:-1]) | (first[1:] != first[:-1] + count[:-1]))
    run = np.cumsum(starts) - 1
    last = np.flatnonzero(np.append(starts[1:], True))
    total = np.bincount(run, weights=count).astype(np.int64)
    entries = with_columns(part.entries.take(pa.array(last)), {FROM: first[starts], ROWS: total})
    return WindowPart(entries, part.rows)
