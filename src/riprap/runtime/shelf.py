"""The shelf: a temporary persistent stream in which a producer retains items while its consumer is down.

It is created with the first message, in `shelves/CHANNEL`, and deleted when the consumer has acknowledged everything:
its directory is renamed first, so after a crash it is complete or gone. An entry's sequence is the number of its last
item, as in `logs.py`, and items may be missing between two entries. It survives this process; what a machine crash
costs depends on its stability.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from riprap.base import files
from riprap.base.clock import Clock
from riprap.graph.annotations import Stability
from riprap.protocols.channels import ChannelId
from riprap.runtime.logs import LogSender, stored_messages
from riprap.runtime.messages import Message
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.stream_files import LocalFiles

_TRIM_EVERY = 5.0  # seconds


class StreamShelf:
    """The shelf of one channel, in one incarnation of its producer."""

    def __init__(
        self, path: Path, channel: ChannelId, schema: pa.Schema, epoch: int, *, stability: Stability, clock: Clock
    ) -> None:
        self._path, self._channel, self._schema, self._epoch = path, channel, schema, epoch
        self._stability, self._clock = stability, clock
        self._log: LogSender | None = None
        self._next = 0  # number after the last deleted item
        self._deleted_bytes = 0
        self._read: deque[tuple[int, int]] = deque()  # number and position behind each message that was read
        self._first = 0  # position of the first item that may still be requested
        self._trimmed_at = clock.monotonic()
        files.remove_tree(self._deleted)
        if is_stream(LocalFiles(path)):
            self._log = self._open()

    @property
    def _deleted(self) -> Path:
        return self._path.with_name(self._path.name + ".gone")

    def _open(self) -> LogSender:
        return LogSender(
            self._path, self._channel, self._schema, self._epoch, stability=self._stability, clock=self._clock,
            holes=True,
        )  # fmt: skip

    @property
    def written(self) -> int:
        """Bytes written in this incarnation."""
        return self._deleted_bytes + (0 if self._log is None else self._log.written)

    @property
    def next(self) -> int:
        return self._next if self._log is None else max(self._next, self._log.next)

    def append(self, message: Message) -> None:
        if self._log is None:
            self._log, self._first = self._open(), 0
        self._log.append(message)
        self._log.flush()

    def since(self, number: int) -> Iterator[Message]:
        self._read.clear()
        if self._log is None:
            return
        stored = PersistentStream.open(LocalFiles(self._path), clock=self._clock).read(
            from_position=self._first, marks=True
        )
        for message, position in stored_messages(stored):
            if message.items:
                self._read.append((message.number + message.items, position))
                if message.number + message.items > number:
                    yield message

    def release(self, below: int) -> None:
        if self._log is None:
            return
        if below >= self._log.next:
            self._next = self._log.next
            self._deleted_bytes += self._log.written
            self._log.close()
            self._log = None
            self._read.clear()
            files.rename(self._path, self._deleted)
            files.remove_tree(self._deleted)
            return
        while self._read and self._read[0][0] <= below:
            self._first = self._read.popleft()[1]
        if self._clock.monotonic() - self._trimmed_at >= _TRIM_EVERY:
            self._trimmed_at = self._clock.monotonic()
            PersistentStream.open(LocalFiles(self._path), clock=self._clock).trim(before_position=self._first)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
