"""Small appends that come quickly, written together.

What an append costs is mostly what is done once for each: a frame, checks, a system call, a place in the index; so much
for every reader, too. Where nobody waits for a sync, appends that follow each other within a millisecond are gathered,
and batches that may lie in one entry are joined: `Unframed` says what an entry would be, `joined` makes fewer of many.

An entry that was joined has the sequence of its last append: a producer that comes back goes on behind it. Where its
producer numbers rows (an append of n rows has a sequence n higher than the one before), so does the entry; appends
whose sequences leave some out are not joined, nor those with other payloads.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from riprap.graph.order_keys import OrderKey
from riprap.streams.positions import Range


class Unframed(NamedTuple):
    """A batch that was given a place in the stream, and is not an entry yet."""

    batch: pa.RecordBatch
    range: Range
    watermark: OrderKey | None
    counted: bool  # its sequence is the one after the last append's, and says nothing of rows
    sequence: int
    position: int
    written_at: int
    born: int
    payload: bytes


def joined(appends: Sequence[Unframed], most_rows: int) -> Iterator[Unframed]:
    """The same rows in the same order, in fewer batches of at most so many rows, but for those that have more."""
    run: list[Unframed] = []
    rows = 0
    for one in appends:
        if run and not (rows + one.batch.num_rows <= most_rows and _follows(one, run[-1])):
            yield _one(run)
            run, rows = [], 0
        run.append(one)
        rows += one.batch.num_rows
    if run:
        yield _one(run)


def _follows(one: Unframed, last: Unframed) -> bool:
    numbered = one.counted == last.counted and (one.counted or one.sequence - last.sequence == one.batch.num_rows)
    return numbered and one.payload == last.payload


def _one(run: list[Unframed]) -> Unframed:
    if len(run) == 1:
        return run[0]
    first, last = run[0], run[-1]
    ranges = [one.range for one in run]
    return Unframed(
        pa.Table.from_batches([one.batch for one in run]).combine_chunks().to_batches()[0],
        Range(
            min(range_.min_ts for range_ in ranges),
            max(range_.max_ts for range_ in ranges),
            min(range_.min_seq for range_ in ranges),
            max(range_.max_seq for range_ in ranges),
        ),
        max((one.watermark for one in run if one.watermark is not None), default=None),
        last.counted,
        last.sequence,
        first.position,
        first.written_at,
        min((one.born for one in run if one.born), default=0),
        first.payload,
    )
