"""What a producer holds for a consumer that cannot do without it, until the consumer says that it has taken it.

Messages are held in memory up to a limit; while the consumer is down and memory is full, further ones are spilled, in
order, and come back from there. When everything spilled has been taken, memory is used again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from riprap.runtime.messages import Message


class Spill(Protocol):
    """A place for messages that do not fit into memory: a persistent stream, or a list in a simulation."""

    def keep(self, message: Message) -> None:
        """Add at the end."""

    def since(self, number: int) -> Iterator[Message]:
        """Messages with items from `number` on."""

    def close(self) -> None:
        """Forget everything."""


class Held:
    """The messages of one channel that are not acknowledged. A cursor tells which of them were sent."""

    def __init__(self, limit: int, spill: Callable[[], Spill]) -> None:
        self._limit = limit  # bytes
        self._make_spill = spill
        self._memory: deque[Message] = deque()
        self._bytes = 0
        self._spill: Spill | None = None
        self._spilled_to = 0  # number after the last item that was spilled
        self._reading: Iterator[Message] | None = None
        self._sent = 0  # items below this number were sent
        self._ahead: Message | None = None  # the next message to send, if it was read from the spill

    @property
    def full(self) -> bool:
        """Memory is used up: better wait than go on, if somebody is taking messages."""
        return self._bytes > self._limit

    @property
    def spilling(self) -> bool:
        return self._spill is not None

    def add(self, message: Message) -> None:
        if self._spill is None and self.full:
            self._spill = self._make_spill()
        if self._spill is not None:
            self._spill.keep(message)
            self._spilled_to = message.number + message.items
        else:
            self._memory.append(message)
            self._bytes += _size(message)

    def release(self, below: int) -> None:
        """The consumer has all items below this number."""
        while self._memory and self._memory[0].number + self._memory[0].items <= below:
            self._bytes -= _size(self._memory.popleft())
        if self._spill is not None and below >= self._spilled_to:
            self._spill.close()
            self._spill, self._reading, self._ahead = None, None, None

    def rewind(self, first: int) -> None:
        """Send again from this item on."""
        self._sent, self._reading, self._ahead = first, None, None

    def next(self) -> Message | None:
        """The first message that has not been sent."""
        for message in self._memory:
            if message.number + message.items > self._sent:
                return message
        if self._spill is None:
            return None
        if self._ahead is None:
            if self._reading is None:
                self._reading = self._spill.since(self._sent)
            self._ahead = next(self._reading, None)
            if self._ahead is None:
                self._reading = None  # look again when more was spilled
        return self._ahead

    def sent(self, message: Message) -> None:
        self._sent = message.number + message.items
        self._ahead = None


def _size(message: Message) -> int:
    return 200 + (message.batch.nbytes if message.batch is not None else 0)
