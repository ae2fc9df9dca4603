"""Idle inputs: after a while without rows a followed input counts as idle, and merges no longer wait for it.

A producer may log watermarks in a stream (`feed.py`). A Spark query cannot: without rows it does not run. So with
`--idle TIME` a source whose stream had no rows for that long announces a watermark: the wall clock minus TIME. It is
for inputs whose `_ts` is the creation time of a tuple, and TIME has to exceed the time from there to the stream. A
tuple that takes longer is *late*: it is dropped, and counted.

Consumers act on an announced watermark, so a restarted source has to announce the same. It is written to the file
`DIR/idle/PE/SOURCE` before it is announced, as 28 bytes per entry:

    position   int64   of the next row
    time       int64   microseconds: no row from that position on is at or before it
    late       int64   rows that were dropped at that position, because of earlier entries
    checksum   uint32  CRC-32 of the 24 bytes before it

Entries are only appended; positions and times never decrease. A crash may leave an incomplete entry at the end, which
was not announced: it is truncated. A machine crash may cost the last entries, as it may cost a stream its last second.
"""

import os
import struct
import zlib
from bisect import bisect_right
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base import files
from riprap.base.clock import Clock
from riprap.graph.order_keys import END_KEY, TS, OrderKey
from riprap.operators.columns import view
from riprap.runtime.feed import Feed

_ENTRY = struct.Struct("<qqq")
_CHECK = struct.Struct("<I")
_STEPS = 10  # entries per `idle` microseconds
_NEVER = np.iinfo(np.int64).min


class IdleEntry(NamedTuple):
    position: int
    time: int
    late: int


class IdleLog:
    """The watermarks that one source of an element has announced. `own`: this process may append."""

    def __init__(self, path: Path, *, own: bool) -> None:
        self.entries: list[IdleEntry] = []
        self._file: int | None = None
        data = files.read_bytes(path) if files.exists(path) else b""
        width = _ENTRY.size + _CHECK.size
        for at in range(0, len(data) - width + 1, width):
            entry = data[at : at + _ENTRY.size]
            if _CHECK.pack(zlib.crc32(entry)) != data[at + _ENTRY.size : at + width]:
                break
            self.entries.append(IdleEntry(*_ENTRY.unpack(entry)))
        if own:
            files.make(path.parent)
            self._file = files.descriptor(path, os.O_RDWR | os.O_CREAT)
            os.ftruncate(self._file, len(self.entries) * width)
            os.lseek(self._file, 0, os.SEEK_END)

    def append(self, entry: IdleEntry) -> None:
        assert self._file is not None
        data = _ENTRY.pack(*entry)
        os.write(self._file, data + _CHECK.pack(zlib.crc32(data)))
        self.entries.append(entry)

    @property
    def late(self) -> int:
        return sum(entry.late for entry in self.entries)

    @property
    def judged(self) -> int:
        """For rows before this position it was decided whether they are late."""
        return max((entry.position for entry in self.entries if entry.late), default=-1) + 1

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class IdleFeed:
    """A feed that is idle after `idle` microseconds. Without `own` it only repeats announced watermarks."""

    def __init__(self, feed: Feed, rank: int, log: IdleLog, idle: int, clock: Clock, *, own: bool) -> None:
        self._feed, self._rank, self._log, self._idle, self._clock, self._own = feed, rank, log, idle, clock, own
        self.position = feed.position  # of the next row
        self._pieces: deque[tuple[int, pa.RecordBatch]] = deque()  # without late rows, and where each ends
        self._since: int | None = None  # the first poll without rows

    @property
    def ended(self) -> bool:
        return self._feed.ended and not self._pieces

    @property
    def late(self) -> int:
        return self._log.late

    @property
    def watermark(self) -> OrderKey | None:
        """Nothing at or below it will follow."""
        logged, announced = self._feed.watermark, self._before(self.position)
        if announced is None or self._pieces:
            return logged if not self._pieces else None
        key = OrderKey(announced, self._rank, END_KEY.seq, END_KEY.n)
        return key if logged is None else max(logged, key)

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        while not self._pieces:
            batch = self._feed.next(max_rows)
            if batch is None:
                self.position = self._feed.position
                if self._own and not self._feed.ended:
                    self._announce_idle()
                return None
            self._since = None
            self._pieces += self._timely(batch)
        self.position, piece = self._pieces.popleft()
        return piece

    def _announce_idle(self) -> None:
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        announced, time = self._before(self.position), now - self._idle
        if now - self._since >= self._idle and (announced is None or time >= announced + self._idle // _STEPS):
            self._log.append(IdleEntry(self.position, time, 0))

    def _before(self, position: int) -> int | None:
        """The time announced before the row at a position."""
        at = bisect_right(self._log.entries, position, key=lambda entry: entry.position)
        return self._log.entries[at - 1].time if at else None

    def _timely(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """The rows that are not late, in pieces without gaps."""
        entries, end = self._log.entries, self._feed.position
        first = end - batch.num_rows
        places = np.searchsorted([entry.position for entry in entries], np.arange(first, end), side="right")
        limits = np.array([_NEVER, *(entry.time for entry in entries)])[places]
        timely = view(batch.column(TS), np.int64) > limits
        if timely.all():
            return [(end, batch)]
        late = np.flatnonzero(~timely) + first
        new = late[late >= self._log.judged]
        if self._own and len(new):
            self._log.append(IdleEntry(int(new[-1]), int(limits[new[-1] - first]), len(new)))
        edges = np.flatnonzero(np.diff(timely, prepend=False, append=False)).reshape(-1, 2)
        return [(first + high, batch.slice(low, high - low)) for low, high in edges.tolist()]

    def close(self) -> None:
        self._log.close()
