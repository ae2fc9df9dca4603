"""Sorts out-of-order input within a watermark delay, and drops and counts rows that are later.

Rows of a source with a lateness L may arrive out of order. A row is *late* if its time is more than L before the
greatest time so far; late rows are dropped and counted. All others are emitted in the order of their times, with ties
in arrival order, and numbered in that order: a `_seq` of the input is ignored. A row is emitted once the greatest time
is L after it, because every earlier row would be late now. The result depends only on the order of the rows, not on how
they are cut into batches. Buffered rows are not checkpointed: a restart reads from the start of the input.
"""

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import SEQ, TS
from riprap.operators.columns import concatenated, view


class Sorter:
    """Sorts the input of one source."""

    def __init__(self, lateness: int) -> None:
        self.late = 0  # dropped rows
        self._lateness = lateness  # microseconds
        self._greatest: int | None = None  # time so far
        self._buffer: pa.RecordBatch | None = None  # in the order of their times

    def take(self, batch: pa.RecordBatch, moments: pa.Array) -> pa.RecordBatch | None:
        """Add rows and their times (as `_ts`); returns the rows that can be emitted, in order."""
        if not batch.num_rows:
            return None
        times = view(moments, np.int64)
        before = times[0] if self._greatest is None else self._greatest
        reached = np.maximum.accumulate(np.maximum(times, before))
        in_time = np.flatnonzero(times >= reached - self._lateness)
        self.late += len(times) - len(in_time)
        self._greatest = int(reached[-1])
        names = [name for name in batch.schema.names if name not in (TS, SEQ)]
        rows = pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), moments], names=[*names, TS])
        self._add(rows.take(pa.array(in_time)))
        return self._release(self._greatest - self._lateness)

    def rest(self) -> pa.RecordBatch | None:
        """The buffered rows at the end of the input."""
        return None if self._greatest is None else self._release(self._greatest)

    def _add(self, rows: pa.RecordBatch) -> None:
        if self._buffer is not None and self._buffer.num_rows:
            columns = [concatenated([self._buffer.column(name), rows.column(name)]) for name in rows.schema.names]
            rows = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        order = np.argsort(view(rows.column(TS), np.int64), kind="stable")
        self._buffer = rows.take(pa.array(order))

    def _release(self, until: int) -> pa.RecordBatch | None:
        """Remove and return the rows up to a time."""
        if self._buffer is None:
            return None
        count = int(np.searchsorted(view(self._buffer.column(TS), np.int64), until, side="right"))
        released, self._buffer = self._buffer.slice(0, count), self._buffer.slice(count)
        return released if count else None
