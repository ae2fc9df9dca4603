"""An input that is followed and brings nothing: after a while it is taken to be idle, and not waited for.

Whoever writes a stream may log progress in it (`feed.py`). A query of Spark cannot: while it has no rows it does not
run. So with `--idle TIME` a source whose stream brought nothing for that long says that nothing older than TIME will
come: progress of the wall clock less TIME. It is for inputs whose `_ts` is when a tuple came into being, and TIME has
to be longer than a tuple takes from there to the stream. One that takes longer is *late*: left out, and counted.

What a source has said others have acted on, so another life has to say the same. It is written down, before it is
said, in a file of the element's own, `DIR/idle/PE/SOURCE`, as 28 bytes each:

    position   int64   of the row that comes next
    time       int64   microseconds: no row from that position on is at or before it
    late       int64   rows that were left out right there, because of what stands before
    checksum   uint32  CRC-32 of the 24 bytes before it

Entries are only appended; positions and times never fall. A crash leaves an incomplete entry at the end, of which
nobody has heard: it is cut off. A crash of the machine may cost the last entries, as it may a stream its last second.
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
_STEPS = 10  # entries in the time after which an input is idle
_NEVER = np.iinfo(np.int64).min


class Said(NamedTuple):
    position: int
    time: int
    late: int


class IdleLog:
    """What one source of one element has said. `own`: this process may say more."""

    def __init__(self, path: Path, *, own: bool) -> None:
        self.said: list[Said] = []
        self._file: int | None = None
        data = files.read_bytes(path) if files.exists(path) else b""
        width = _ENTRY.size + _CHECK.size
        for at in range(0, len(data) - width + 1, width):
            entry = data[at : at + _ENTRY.size]
            if _CHECK.pack(zlib.crc32(entry)) != data[at + _ENTRY.size : at + width]:
                break
            self.said.append(Said(*_ENTRY.unpack(entry)))
        if own:
            files.make(path.parent)
            self._file = files.descriptor(path, os.O_RDWR | os.O_CREAT)
            os.ftruncate(self._file, len(self.said) * width)
            os.lseek(self._file, 0, os.SEEK_END)

    def say(self, said: Said) -> None:
        assert self._file is not None
        entry = _ENTRY.pack(*said)
        os.write(self._file, entry + _CHECK.pack(zlib.crc32(entry)))
        self.said.append(said)

    @property
    def late(self) -> int:
        return sum(said.late for said in self.said)

    @property
    def judged(self) -> int:
        """Rows before this position have been found late or not."""
        return max((said.position for said in self.said if said.late), default=-1) + 1

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class IdleFeed:
    """A feed that is idle after `idle` microseconds. In a process that only repeats it, it says nothing new."""

    def __init__(self, feed: Feed, rank: int, log: IdleLog, idle: int, clock: Clock, *, own: bool) -> None:
        self._feed, self._rank, self._log, self._idle, self._clock, self._own = feed, rank, log, idle, clock, own
        self.position = feed.position  # of the row that comes next
        self._pieces: deque[tuple[int, pa.RecordBatch]] = deque()  # without late rows, and where each ends
        self._since: int | None = None  # when it was first seen without rows

    @property
    def ended(self) -> bool:
        return self._feed.ended and not self._pieces

    @property
    def late(self) -> int:
        return self._log.late

    @property
    def watermark(self) -> OrderKey | None:
        """Nothing at or below it will come."""
        told, said = self._feed.watermark, self._before(self.position)
        if said is None or self._pieces:
            return told if not self._pieces else None
        key = OrderKey(said, self._rank, END_KEY.seq, END_KEY.n)
        return key if told is None else max(told, key)

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        while not self._pieces:
            batch = self._feed.next(max_rows)
            if batch is None:
                self.position = self._feed.position
                if self._own and not self._feed.ended:
                    self._quiet()
                return None
            self._since = None
            self._pieces += self._timely(batch)
        self.position, piece = self._pieces.popleft()
        return piece

    def _quiet(self) -> None:
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        said, time = self._before(self.position), now - self._idle
        if now - self._since >= self._idle and (said is None or time >= said + self._idle // _STEPS):
            self._log.say(Said(self.position, time, 0))

    def _before(self, position: int) -> int | None:
        """What was said before the row at a position."""
        at = bisect_right(self._log.said, position, key=lambda said: said.position)
        return self._log.said[at - 1].time if at else None

    def _timely(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """The rows that come behind all that was said before them, in pieces without gaps."""
        said, end = self._log.said, self._feed.position
        first = end - batch.num_rows
        places = np.searchsorted([one.position for one in said], np.arange(first, end), side="right")
        limits = np.array([_NEVER, *(one.time for one in said)])[places]
        fine = view(batch.column(TS), np.int64) > limits
        if fine.all():
            return [(end, batch)]
        late = np.flatnonzero(~fine) + first
        new = late[late >= self._log.judged]
        if self._own and len(new):
            self._log.say(Said(int(new[-1]), int(limits[new[-1] - first]), len(new)))
        edges = np.flatnonzero(np.diff(fine, prepend=False, append=False)).reshape(-1, 2)
        return [(first + high, batch.slice(low, high - low)) for low, high in edges.tolist()]

    def close(self) -> None:
        self._log.close()
