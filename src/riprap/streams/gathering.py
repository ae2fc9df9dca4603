"""Joins small appends in quick succession.

Most of an append's cost is per append: a frame, checksums, a system call, an index entry; the same holds for readers.
If no append waits for a sync, appends within a millisecond of each other are gathered, and batches that may share an
entry are joined: `Unframed` is a future entry, and `joined` merges them.

A joined entry has the sequence of its last append: a restarted producer resumes after it. If the producer numbers rows
(an append of n rows has a sequence n higher than the one before), so does the entry; appends with gaps between their
sequences or with different payloads are not joined.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from riprap.graph.order_keys import OrderKey
from riprap.streams.positions import Range


class Unframed(NamedTuple):
    """A batch with an assigned position that is not an entry yet."""

    batch: pa.RecordBatch
    range: Range
    watermark: OrderKey | None
    counted: bool  # its sequence is the last append's plus 1, and does not count rows
    sequence: int
    position: int
    written_at: int
    born: int
    payload: bytes


def joined(appends: Sequence[Unframed], most_rows: int) -> Iterator[Unframed]:
    """The same rows in the same order, in fewer batches of at most `most_rows`, except batches that are larger."""
    run: list[Unframed] = []
    rows = 0
    for append in appends:
        if run and not (rows + append.batch.num_rows <= most_rows and _follows(append, run[-1])):
            yield _join(run)
            run, rows = [], 0
        run.append(append)
        rows += append.batch.num_rows
    if run:
        yield _join(run)


def _follows(append: Unframed, last: Unframed) -> bool:
    by_rows = append.sequence - last.sequence == append.batch.num_rows
    return append.counted == last.counted and (append.counted or by_rows) and append.payload == last.payload


def _join(run: list[Unframed]) -> Unframed:
    if len(run) == 1:
        return run[0]
    first, last = run[0], run[-1]
    ranges = [append.range for append in run]
    return Unframed(
        pa.Table.from_batches([append.batch for append in run]).combine_chunks().to_batches()[0],
        Range(
            min(range_.min_ts for range_ in ranges),
            max(range_.max_ts for range_ in ranges),
            min(range_.min_seq for range_ in ranges),
            max(range_.max_seq for range_ in ranges),
        ),
        max((append.watermark for append in run if append.watermark is not None), default=None),
        last.counted,
        last.sequence,
        first.position,
        first.written_at,
        min((append.born for append in run if append.born), default=0),
        first.payload,
    )
