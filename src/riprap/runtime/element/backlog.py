"""The backlog: messages that an element has accepted and cannot pass to its merges or operators yet, in order.

A merge exerts no back pressure, since a split that joins again would deadlock. But memory is bounded: messages beyond
the bound wait here, on disk. So do messages that are accepted while a consumer has no room.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator

from riprap.runtime.element.resend_buffer import size_of
from riprap.runtime.host import Spill
from riprap.runtime.messages import Message


class Backlog:
    """The backlog of one channel. A watermark is passed on when all items before it have been."""

    def __init__(self, limit: int, spill: Callable[[], Spill]) -> None:
        self._limit, self._make_spill = limit, spill  # bytes
        self._memory: deque[tuple[Message, int]] = deque()  # with the position of each in its log
        self._bytes = 0
        self._spill: Spill | None = None
        self._spilled: deque[int] = deque()  # positions of the messages on disk
        self._reading: Iterator[Message] | None = None
        self._read_to = 0  # number after the last item read back from disk
        self._last: tuple[Message, int] | None = None  # a watermark or the end, after all items

    def __bool__(self) -> bool:
        return bool(self._memory) or self._spill is not None or self._last is not None

    def add(self, message: Message, position: int) -> None:
        if not message.items:
            self._last = (message, position)
            return
        self._last = None  # items after it imply it
        if self._spill is None and self._bytes > self._limit:
            self._spill, self._read_to = self._make_spill(), message.number
        if self._spill is not None:
            self._spill.append(message)
            self._spilled.append(position)
        else:
            self._memory.append((message, position))
            self._bytes += size_of(message)

    def pop(self) -> tuple[Message, int]:
        """The next message, and its position."""
        if not self._memory and self._spill is not None:
            message = next(self._reading, None) if self._reading is not None else None
            if message is None:  # it has read to the previous end of the spill
                self._reading = self._spill.since(self._read_to)
                message = next(self._reading)
            self._read_to = message.number + message.items
            position = self._spilled.popleft()
            if not self._spilled:
                self._spill.close()
                self._spill = self._reading = None
            return message, position
        if self._memory:
            message, position = self._memory.popleft()
            self._bytes -= size_of(message)
            return message, position
        assert self._last is not None
        last, self._last = self._last, None
        return last

    def all(self) -> Iterator[Message]:
        """Everything, oldest first, for a checkpoint."""
        yield from (message for message, _ in self._memory)
        if self._spill is not None:
            self._reading = None  # one reader at a time
            yield from itertools.islice(self._spill.since(self._read_to), len(self._spilled))
        if self._last is not None:
            yield self._last[0]

    def validate(self) -> None:
        """Raise for a broken invariant."""
        assert self._bytes == sum(size_of(message) for message, _ in self._memory), "bytes are miscounted"
        assert (self._spill is None) == (not self._spilled), "messages on disk are miscounted"
