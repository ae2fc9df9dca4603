"""Reads frames from a connection.

All connections of a loop share one scratch buffer, whose content never outlives a call. Once its header is checked, a
frame's body gets its own memory of exactly its length, and the rest of a long body is read straight into it. After a
long body, reads are short at first, so that little is copied. So a view that an operator retains pins only its own
message, and a false length costs nothing: memory grows with the bytes that arrive.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from riprap.base.errors import DataError
from riprap.runtime.transport.sockets import Socket
from riprap.runtime.transport.wire_frame import HEADER_SIZE, WireHeader, unpack

SCRATCH_BYTES = 1 << 18
_LONG = 1 << 16  # bytes of a body that is worth a separate read
_SHORT_READ = 1 << 12

Frame = tuple[WireHeader, memoryview | None]
Admit = Callable[[WireHeader, bytes], None]


class ReaderState(Enum):
    MORE = "bytes arrived, and more may be available"
    EMPTY = "no bytes are available now"
    OVER = "no more bytes will arrive"


class Received(NamedTuple):
    frames: list[Frame]
    state: ReaderState
    error: DataError | None = None  # what was wrong after the frames


class FrameReader:
    """The receiving end of one connection.

    `admit` sees the header of each frame, and its bytes, before memory is allocated for it.
    """

    def __init__(self, scratch: memoryview, admit: Admit) -> None:
        self._scratch = scratch
        self.admit: Admit | None = admit  # None: every frame is admitted
        self._left = b""  # the start of an incomplete header
        self._header: WireHeader | None = None  # of the body that is being filled
        self._body: memoryview | None = None
        self._rest = memoryview(b"")  # the missing part of the body
        self._read_size = SCRATCH_BYTES // 2  # bytes to read where a header is expected
        self._requested = 0  # bytes
        self._error: DataError | None = None

    def receive(self, source: Socket) -> Received:
        """Read the available frames. `error` reports an invalid or refused frame after them."""
        frames: list[Frame] = []
        count = self._read(source, frames)
        if not count:
            return Received(frames, _EMPTY if count is None else _OVER, self._error)
        total = count
        # Continue while each read was complete: the rest of a long body, read into its place, and the next frame.
        while count and count == self._requested and total < SCRATCH_BYTES and self._error is None:
            count = self._read(source, frames)
            total += count or 0
        return Received(frames, _MORE, self._error)

    def _read(self, source: Socket, frames: list[Frame]) -> int | None:
        left, header = len(self._left), self._header
        if left:
            self._scratch[:left] = self._left
        free = self._scratch[left : left + self._read_size]
        self._requested = len(free) if header is None else len(self._rest) + len(free)
        count = source.receive((free,) if header is None else (self._rest, free))
        if not count:
            return count
        total = count
        if header is not None:
            taken = min(count, len(self._rest))
            self._rest = self._rest[taken:]
            count -= taken
            if len(self._rest):
                return total
            frames.append((header, self._body))
            self._header = self._body = None
        try:
            self._parse(left + count, frames)
        except DataError as error:
            self._error = error
        return total

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
            self._read_size = _SHORT_READ if length > _LONG else SCRATCH_BYTES // 2
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
