"""Frames from a connection, as they come.

What comes is read into one scratch buffer that all connections of a loop share; it never outlives a call. A frame's
body gets memory of its own, of exactly its length, once its header is checked, and the rest of a long body is read
straight into it; where long ones come, little is read at first, so that little is copied. So no view that an operator
keeps holds more than its own message, and a claim of a length costs nothing unless it is true: memory grows with what
has come.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from riprap.base.errors import DataError
from riprap.runtime.transport.sockets import Socket
from riprap.runtime.transport.wire_frame import HEADER_SIZE, WireHeader, unpack

SCRATCH_BYTES = 1 << 18
_LONG = 1 << 16  # bytes of a body that is worth a call of its own, where long ones come
_LONG_TASTE = 1 << 12

Frame = tuple[WireHeader, memoryview | None]
Admit = Callable[[WireHeader, bytes], None]


class ReaderState(Enum):
    MORE = "something came, and more may be there"
    EMPTY = "nothing is there now"
    OVER = "nothing will come"


class Received(NamedTuple):
    frames: list[Frame]
    state: ReaderState
    error: DataError | None = None  # what was wrong behind the frames


class FrameReader:
    """The receiving end of one connection.

    `admit` sees the header of each frame, and its bytes, before anything is made for it.
    """

    def __init__(self, scratch: memoryview, admit: Admit) -> None:
        self._scratch = scratch
        self.admit: Admit | None = admit  # None: whoever is there may send what it likes
        self._left = b""  # the beginning of a header
        self._header: WireHeader | None = None  # of the body that is being filled
        self._body: memoryview | None = None
        self._rest = memoryview(b"")  # of the body, what has not come
        self._taste = SCRATCH_BYTES // 2  # how much is read where a header is expected
        self._asked = 0  # bytes
        self._error: DataError | None = None

    def receive(self, source: Socket) -> Received:
        """Read what is there. What is no frame, or none that is admitted, is the error behind those that were."""
        frames: list[Frame] = []
        count = self._read(source, frames)
        if not count:
            return Received(frames, _EMPTY if count is None else _OVER, self._error)
        total = count
        # On with it while all that was asked for came: the rest of a long body, straight to its place, and the next.
        while count and count == self._asked and total < SCRATCH_BYTES and self._error is None:
            count = self._read(source, frames)
            total += count or 0
        return Received(frames, _MORE, self._error)

    def _read(self, source: Socket, frames: list[Frame]) -> int | None:
        kept, header = len(self._left), self._header
        if kept:
            self._scratch[:kept] = self._left
        free = self._scratch[kept : kept + self._taste]
        self._asked = len(free) if header is None else len(self._rest) + len(free)
        count = source.receive((free,) if header is None else (self._rest, free))
        if not count:
            return count
        came = count
        if header is not None:
            taken = min(count, len(self._rest))
            self._rest = self._rest[taken:]
            count -= taken
            if len(self._rest):
                return came
            frames.append((header, self._body))
            self._header = self._body = None
        try:
            self._parse(kept + count, frames)
        except DataError as error:
            self._error = error
        return came

    def _parse(self, end: int, frames: list[Frame]) -> None:
        at, scratch = 0, self._scratch
        while end - at >= HEADER_SIZE:
            header = unpack(scratch, at)
            if self.admit is not None:
                self.admit(header, bytes(scratch[at : at + HEADER_SIZE]))
            at += HEADER_SIZE
            length = header.body
            if not length:
                frames.append((header, None))
                continue
            self._taste = _LONG_TASTE if length > _LONG else SCRATCH_BYTES // 2
            body = np.empty(length, np.uint8).data
            if end - at < length:
                taken = end - at
                body[:taken] = scratch[at:end]
                self._header, self._body, self._rest = header, body, body[taken:]
                self._left = b""
                return
            body[:] = scratch[at : at + length]
            at += length
            frames.append((header, body))
        self._left = bytes(scratch[at:end]) if at < end else b""


_MORE, _EMPTY, _OVER = ReaderState.MORE, ReaderState.EMPTY, ReaderState.OVER
