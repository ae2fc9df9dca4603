"""Input whose times fall: sorted within a bound, and counted beyond it.

Rows of a source with a lateness L may come in another order than that of their times. A row is *late* if its time is
more than L before the greatest time that came before it; late rows are left out and counted. All others are given out
in the order of their times, rows of equal times as they came, and numbered in that order: a `_seq` of the input does
not count. A row is given out once the greatest time is L after it, because nothing before it can be taken any more.
The result depends on the order of the rows alone, not on how they are cut into batches. Beginning again means reading
from the beginning: what is held is not saved.
"""

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import SEQ, TS
from riprap.operators.columns import concatenated, view


class Sorter:
    """The rows of one source on their way in."""

    def __init__(self, lateness: int) -> None:
        self.late = 0  # rows that were left out
        self._lateness = lateness  # microseconds
        self._greatest: int | None = None  # time so far
        self._held: pa.RecordBatch | None = None  # in the order of their times

    def take(self, batch: pa.RecordBatch, moments: pa.Array) -> pa.RecordBatch | None:
        """Rows as they come, and their times (as `_ts`); gives those that can go, in order."""
        if not batch.num_rows:
            return None
        times = view(moments, np.int64)
        before = times[0] if self._greatest is None else self._greatest
        reached = np.maximum.accumulate(np.maximum(times, before))
        kept = np.flatnonzero(times >= reached - self._lateness)
        self.late += len(times) - len(kept)
        self._greatest = int(reached[-1])
        names = [name for name in batch.schema.names if name not in (TS, SEQ)]
        rows = pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), moments], names=[*names, TS])
        self._hold(rows.take(pa.array(kept)))
        return self._given(self._greatest - self._lateness)

    def rest(self) -> pa.RecordBatch | None:
        """What is held when nothing more will come."""
        return None if self._greatest is None else self._given(self._greatest)

    def _hold(self, rows: pa.RecordBatch) -> None:
        if self._held is not None and self._held.num_rows:
            columns = [concatenated([self._held.column(name), rows.column(name)]) for name in rows.schema.names]
            rows = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        order = np.argsort(view(rows.column(TS), np.int64), kind="stable")
        self._held = rows.take(pa.array(order))

    def _given(self, until: int) -> pa.RecordBatch | None:
        """Rows up to a time, which leave."""
        if self._held is None:
            return None
        count = int(np.searchsorted(view(self._held.column(TS), np.int64), until, side="right"))
        given, self._held = self._held.slice(0, count), self._held.slice(count)
        return given if count else None
