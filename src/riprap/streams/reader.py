"""Reading: history from disk, then new batches from memory or as the mark moves, through one cursor.

A read goes forward from a position. If the writer is in this process and its memory reaches back to that position, the
read is served from there; otherwise it reads segments up to the current stable end, and checks again. Both sources
number rows in the same way, so switching between them is safe.
"""

import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.ipc import read_record_batch

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey
from riprap.streams.description import fitted
from riprap.streams.frame import BATCH, MARKS, PLAIN, FrameHeader, MarkKind
from riprap.streams.live import Live
from riprap.streams.mark import Mark
from riprap.streams.positions import Bounds, Range
from riprap.streams.segment import Start, read_entries, read_start, segment_name, walk
from riprap.streams.segment_summary import Summary
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Readable

if TYPE_CHECKING:
    from riprap.streams.stream import PersistentStream

_POLL_FASTEST, _POLL_SLOWEST = 0.001, 0.02  # seconds between full checks for another process's appends
_made = tuple.__new__  # builds a `StoredBatch` without a check of its length
_WAKE = 0.1  # seconds; how soon a waiting reader notices `stop`


class StoredBatch(NamedTuple):
    """A batch as delivered: the rows within the bounds, and the header of the batch they are from."""

    batch: pa.RecordBatch
    header: FrameHeader
    next_position: int  # where a reader resumes after this batch
    payload: bytes = b""  # opaque bytes that the producer wrote with it

    @property
    def watermark(self) -> OrderKey | None:
        return self.header.watermark


class StoredMark(NamedTuple):
    """A mark as delivered to a reader with `marks=True`."""

    kind: MarkKind
    key: OrderKey | None
    header: FrameHeader
    payload: bytes = b""

    @property
    def next_position(self) -> int:
        """Where a reader resumes. It may see this mark again: a mark has the position of the next row."""
        return self.header.position


Item = StoredBatch | StoredMark


@dataclass
class ReadCounts:
    """How many batches a read got from disk and from memory."""

    stored: int = 0
    live: int = 0


class Reader:
    """An iterator of `StoredBatch`, and with `marks` of `StoredMark`. Created by `PersistentStream.read`."""

    def __init__(
        self,
        stream: "PersistentStream",
        bounds: Bounds,
        columns: list[str] | None,
        follow: bool,
        idle: float | None,
        stop: threading.Event | None,
        marks: bool,
    ) -> None:
        self.counts = ReadCounts()
        self._stream = stream
        self._bounds = bounds
        self._columns = columns
        self._follow = follow
        self._idle = idle  # seconds without rows after which a following read ends
        self._stop = stop or threading.Event()
        self._position = bounds.from_position
        self._resume: tuple[int, int] | None = None  # segment and offset of `_position`, where known
        self._marks = marks
        self._seen: tuple[int, int, int] | None = None  # with marks: the place up to which everything was delivered
        self._held: tuple[int, Readable, Start] | None = None  # the open segment, as it was last read
        self._held_by: Live | None = None  # the writer at that moment, if it is in this process
        self._over = False
        self._keyed = (
            replace(bounds, from_position=0, to_position=None) != Bounds()
        )  # bounds on keys, not only positions
        self._never_falls = stream.description.keys_never_fall
        self._batches = self._run()

    def __iter__(self) -> Iterator[Any]:
        return self._batches  # so that iteration does not go through `__next__`

    def __next__(self) -> Any:
        """A `StoredBatch` or, with `marks`, a `StoredMark`."""
        return next(self._batches)

    def again(self) -> "Reader":
        """Resume a read that has ended, with what was appended since, without a new search."""
        self._batches = self._run()
        return self

    def close(self) -> None:
        self._batches.close()
        self._let_go()

    def _run(self) -> Generator[Item, None, None]:
        clock, poll = self._stream.clock, _POLL_FASTEST
        end = self._stream.stable()
        served_at = clock.monotonic()
        while not self._over and not self._stop.is_set():
            live = self._stream.live()
            # Memory has no marks, and a position does not tell which of the marks at it were delivered; the log does.
            recent = live.since(self._position) if live and self._follow and not self._marks else None
            before = self._position, self._seen
            if recent:
                self._resume = None
                for header, batch, payload in recent:
                    item = self._delivered(header, batch, payload)
                    if item is not None:
                        self.counts.live += 1
                        yield item
                    if self._over:
                        break
            elif self._position < end.position or (self._marks and self._seen != end.place):
                yield from self._stored(end)
            elif not self._follow:
                return
            if (self._position, self._seen) != before:
                served_at, poll = clock.monotonic(), _POLL_FASTEST
            elif self._idle is not None and clock.monotonic() - served_at >= self._idle:
                return
            elif live and live.writing:
                live.wait(end, _WAKE if self._idle is None else min(_WAKE, self._idle))
            elif not self._stream.wait(end, _POLL_SLOWEST):
                clock.sleep(poll)
                poll = min(poll * 2, _POLL_SLOWEST)
            if self._follow:
                end = self._stream.stable()

    def _delivered(self, header: FrameHeader, batch: pa.RecordBatch, payload: bytes) -> StoredBatch | None:
        """The rows of a batch at or after the cursor and within the bounds; moves the cursor past the batch."""
        bounds = self._bounds
        first, last = header.position, header.end
        if last <= self._position:
            return None
        low, high = max(self._position - first, 0), header.rows
        if bounds.to_position is not None:
            if first + low >= bounds.to_position:
                self._over = True
                return None
            high = min(last, bounds.to_position) - first
        if low > 0 or high < header.rows:
            batch = batch.slice(low, high - low)
        if self._keyed:
            if self._never_falls and bounds.passed(header.range):
                self._over = True
                return None
            if not bounds.includes(header.range):
                batch = bounds.rows(batch)
            # The watermark may rule out further rows within the bounds.
            self._over = bounds.to_ts is not None and header.progress_ts >= bounds.to_ts
        self._position = last
        if not batch.num_rows:
            return None
        fitting = fitted(batch, self._stream.description.schema, self._columns)
        return StoredBatch(fitting, header, first + high, payload)

    def _stored(self, end: Mark) -> Iterator[Item]:
        """Everything from the cursor to `end` that the index does not exclude."""
        if self._resume is not None and self._resume[0] == end.segment:  # the cursor is past all finished ones
            yield from self._open(end)
        else:
            yield from self._from_catalogue(end)
        if not self._over and not self._stop.is_set():
            self._position = max(self._position, end.position)
            self._seen = end.place

    def _from_catalogue(self, end: Mark) -> Iterator[Item]:
        catalogue = self._stream.catalogue(end)
        if catalogue.finished:
            self._check_kept(catalogue.finished[0].position)
        if self._marks:
            at = catalogue.first_marked(self._position)
        else:
            at = catalogue.first(replace(self._bounds, from_position=self._position))
        if at > 0:
            self._position = max(self._position, catalogue.finished[at - 1].next_position)
        for item in catalogue.finished[at:]:
            if self._wanted(item):
                yield from self._finished(item)
            if self._over or self._stop.is_set():
                return
            self._position = max(self._position, item.next_position)
        if self._position < end.position or (self._marks and end.segment >= 0):
            yield from self._open(end)

    def _wanted(self, item: Summary) -> bool:
        if self._marks:
            return self._resume is None or item.segment >= self._resume[0]
        return item.next_position > self._position and not self._bounds.excludes(item.range)

    def _check_kept(self, first: int) -> None:
        """A read from 0 starts with the oldest row; one from a later position must not skip trimmed rows silently."""
        if 0 < self._position < first:
            raise DataError(
                f"position {self._position} of {self._stream.files.location} was trimmed: "
                f"the stream starts at {first}; register a reader to retain what it needs"
            )

    def _finished(self, item: Summary) -> Iterator[Item]:
        file = self._open_segment(item.segment)
        try:
            start = read_start(file)
            if self._resume is not None and self._resume[0] == item.segment:
                yield from self._walk(file, start, self._resume[1], item.end, self._position)
            else:
                for offset, until, position in self._runs(read_entries(file, item), item):
                    self._position = max(self._position, position)
                    yield from self._walk(file, start, offset, until, position)
        finally:
            file.close()

    def _runs(self, entries: np.ndarray, item: Summary) -> Iterator[tuple[int, int, int]]:
        """Ranges of the segment that the index does not exclude: offset, end, position of the first row."""
        # Marks at a position may lie before the run that starts with it.
        side: Literal["left", "right"] = "left" if self._marks else "right"
        first = max(int(np.searchsorted(entries["position"], self._position, side)) - 1, 0)
        if not self._keyed and first < len(entries):  # nothing that follows is excluded
            yield int(entries["offset"][first]), item.end, int(entries["position"][first])
            return
        begun: tuple[int, int] | None = None
        for entry in entries[first:].tolist():
            position, offset = entry[:2]
            if self._bounds.excludes(Range(*entry[2:])):
                if begun:
                    yield begun[0], offset, begun[1]
                begun = None
            elif begun is None:
                begun = (offset, position)
        if begun:
            yield begun[0], item.end, begun[1]

    def _open(self, end: Mark) -> Iterator[Item]:
        file, start = self._hold(end.segment)
        self._check_kept(start.carry.position)
        if self._resume is not None and self._resume[0] == end.segment:
            offset, position = self._resume[1], self._position
        else:
            offset, position = self._seek(file, start, end)
            self._position = max(self._position, position)
        yield from self._walk(file, start, offset, end.offset, position)

    def _hold(self, segment: int) -> tuple[Readable, Start]:
        """The open segment, which a following read reads repeatedly: opened once, as long as its name still refers to
        this file (a writer that replaces a fenced one may put another file there)."""
        live = self._stream.live()
        if (
            self._held is not None
            and self._held[0] == segment
            and ((live is not None and live is self._held_by) or self._held[1].named())
        ):
            return self._held[1:]
        self._let_go()
        file = self._open_segment(segment)
        try:
            self._held, self._held_by = (segment, file, read_start(file)), live
        except BaseException:
            file.close()
            raise
        return self._held[1:]

    def _let_go(self) -> None:
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def _seek(self, file: Readable, start: Start, end: Mark) -> tuple[int, int]:
        """The first batch of the open segment that the bounds do not exclude, from the headers."""
        for found in walk(file, start.carry.stream, start.end, end.offset, start.carry.position, bodies=False):
            behind = found.header.end > self._position or (self._marks and found.header.position == self._position)
            if behind and not self._bounds.excludes(found.header.range):
                return found.offset, found.header.position
        return end.offset, end.position

    def _walk(self, file: Readable, start: Start, offset: int, end: int, position: int) -> Iterator[Item]:
        unbounded = not self._keyed and self._bounds.to_position is None
        whole = unbounded and self._columns is None and len(start.schema) == len(self._stream.schema)
        segment, schema, stopped, counts = start.carry.segment, start.schema, self._stop.is_set, self.counts
        try:
            for found in walk(file, start.carry.stream, offset, end, position):
                at, header, data = found
                first = header.position
                self._resume = segment, at + header.length
                item: Item | None = None
                if header.kind != BATCH:
                    if self._marks and first >= self._position:
                        item = StoredMark(MARKS[header.kind], header.watermark, header, found.payload)
                elif whole and first >= self._position:  # the fast path
                    self._position = behind = first + header.rows
                    payload = b"" if header.version == PLAIN else found.payload
                    item = _made(StoredBatch, (read_record_batch(data, schema), header, behind, payload))
                elif self._keyed and self._bounds.excludes(header.range):
                    self._position = max(self._position, header.end)
                    self._over = self._never_falls and self._bounds.passed(header.range)
                else:
                    item = self._delivered(header, read_record_batch(data, schema), found.payload)
                if item is not None:
                    counts.stored += 1
                    del data, found
                    yield item
                    del item
                if self._over or stopped():
                    return
        except Damaged:  # a segment that is trimmed while it is read may be overwritten: then its name is gone
            if segment_name(segment) in self._stream.files.names():
                raise
            raise self._trimmed(segment) from None

    def _open_segment(self, number: int) -> Readable:
        try:
            return self._stream.files.open(segment_name(number))
        except FileNotFoundError:
            raise self._trimmed(number) from None

    def _trimmed(self, number: int) -> DataError:
        return DataError(
            f"segment {number} of {self._stream.files.location} was trimmed while it was read: "
            "register a reader to retain what it needs"
        )
