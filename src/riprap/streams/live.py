"""The newest batches of a stream, in the memory of the writing process, for followers in the same process.

Bounded by bytes: the oldest batches are dropped, and followers that lag behind read them from disk. Only stable batches
are published here. Positions are exact, so a follower switches between disk and memory without loss or repetition.
"""

import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from riprap.streams.frame import BATCH, FramedMessage, FrameHeader, payload_of
from riprap.streams.mark import Mark


class Recent(NamedTuple):
    """A batch as it was written."""

    header: FrameHeader
    batch: pa.RecordBatch
    payload: bytes


def recent_batches(messages: Sequence[FramedMessage], batches: Sequence[pa.RecordBatch]) -> list[Recent]:
    return [
        Recent(message.header, batch, payload_of(message.header, memoryview(message.head)))
        for message, batch in zip(messages, batches, strict=True)
        if message.header.kind == BATCH
    ]


class Live:
    def __init__(self, mark: Mark, memory_bytes: int) -> None:
        self.mark = mark  # how far the stream is stable; replaced, never changed
        self.writing = True
        self._memory_bytes = memory_bytes
        self.remembers = memory_bytes > 0
        self._bytes = 0
        self._batches: deque[Recent] = deque()
        self._changed = threading.Condition()

    def publish(self, batches: list[Recent], mark: Mark) -> None:
        with self._changed:
            if batches:
                self._batches.extend(batches)
                self._bytes += sum(recent.header.length for recent in batches)
                while self._batches and self._bytes > self._memory_bytes:
                    self._bytes -= self._batches.popleft().header.length
            self.mark = mark
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.writing = False
            self._batches.clear()
            self._changed.notify_all()

    def since(self, position: int) -> list[Recent] | None:
        """The batches with rows at or after `position`; None if memory does not reach back that far."""
        with self._changed:
            if not self._batches or position < self._batches[0].header.position:
                return None
            back = 0
            for recent in reversed(self._batches):
                if recent.header.end <= position:
                    break
                back += 1
            return list(islice(self._batches, len(self._batches) - back, None))

    def wait(self, mark: Mark, seconds: float) -> None:
        """Wait until something after `mark` is stable, the writer closes, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.mark.place != mark.place or not self.writing, seconds)


# Streams that this process writes, by the real path of the open segment's directory.
_WRITTEN: dict[str, Live] = {}


def announce(directory: str, live: Live) -> None:
    _WRITTEN[directory] = live


def withdraw(directory: str, live: Live) -> None:
    if _WRITTEN.get(directory) is live:
        del _WRITTEN[directory]
    live.close()


def written_here(directory: str) -> Live | None:
    return _WRITTEN.get(directory)
