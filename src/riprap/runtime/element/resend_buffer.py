"""The resend buffer: what a producer holds for a consumer until the consumer acknowledges it.

Messages are held in memory up to a limit. Beyond it they are spilled, in order, and read back, in order, when there is
room or when everything in memory was sent: a consumer that merges may need more before it can process what it has.
Markers are small: they stay in memory, each in its place between two items. After a broken connection a marker may be
sent twice.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from riprap.runtime.host import Spill
from riprap.runtime.messages import Message


class ResendBuffer:
    """The unacknowledged messages of one channel."""

    def __init__(self, limit: int, spill: Callable[[], Spill], *, lossy: bool = False) -> None:
        """`lossy`: beyond the limit, sent messages are dropped."""
        self._limit, self._lossy = limit, lossy  # bytes
        self._make_spill = spill
        self._memory: deque[Message] = deque()
        self._bytes = 0
        self._sent = 0  # of the messages in memory, how many were sent
        self._spill: Spill | None = None  # the messages after those in memory
        self._reading: Iterator[Message] | None = None
        self._read_to = 0  # number after the last item read back from the spill
        self._spilled_to = 0  # number after the last item that was spilled
        self._markers: deque[Message] = deque()
        self._markers_sent = 0

    def add(self, message: Message) -> None:
        if not message.items:
            self._markers.append(message)
            return
        while self._lossy and self._sent and self._bytes > self._limit:
            self._bytes -= size_of(self._memory.popleft())
            self._sent -= 1
        if self._spill is None and self._bytes > self._limit:
            self._spill, self._read_to = self._make_spill(), message.number
        if self._spill is not None:
            self._spill.append(message)
            self._spilled_to = _end(message)
        else:
            self._hold(message)

    def _hold(self, message: Message) -> None:
        self._memory.append(message)
        self._bytes += size_of(message)

    def adopt(self, other: "ResendBuffer", below: int, epoch: int) -> None:
        """Adopt what another incarnation holds below this number, under this epoch; drop the rest."""
        for message in other.emptied():
            if message.number < below:
                rows = below - message.number
                cut = message.batch is not None and message.items > rows
                if cut and message.batch is not None:  # its watermark was for items that are emitted again
                    message = replace(message, batch=message.batch.slice(0, rows), watermark=None)
                self.add(replace(message, epoch=epoch))

    def first(self, following: int) -> int:
        """The number of the first held item; `following` if there is none."""
        if self._memory:
            return self._memory[0].number
        return following if self._spill is None else self._read_to

    def unsent_from(self, following: int) -> int:
        """The number of the first unsent item; `following` if all were sent."""
        if self._sent < len(self._memory):
            return self._memory[self._sent].number
        return following if self._spill is None else self._read_to

    def messages(self) -> Iterator[Message]:
        """All held messages, in order, without markers."""
        yield from self._memory
        if self._spill is not None:
            for message in self._spill.since(self._read_to):
                yield message
                if _end(message) == self._spilled_to:
                    break

    def emptied(self) -> Iterator[Message]:
        """All held messages, in order, without markers, which belong to another incarnation; then hold nothing."""
        yield from self.messages()
        if self._spill is not None:
            self._spill.close()
            self._spill = None
        self._memory.clear()

    def release(self, below: int) -> None:
        """The consumer has all items below this number."""
        while self._memory and _end(self._memory[0]) <= below:
            self._bytes -= size_of(self._memory.popleft())
            self._sent = max(0, self._sent - 1)
        while self._markers and self._markers_sent and self._markers[0].number < below:
            self._markers.popleft()
            self._markers_sent -= 1

    def release_sent(self) -> None:
        """Release everything that was sent."""
        while self._sent:
            self._bytes -= size_of(self._memory.popleft())
            self._sent -= 1

    def rewind(self, first: int) -> None:
        """Send again from this item on."""
        self._sent = sum(_end(message) <= first for message in self._memory)
        self._markers_sent = sum(marker.number < first for marker in self._markers)

    def next(self) -> Message | None:
        """The first unsent message; None: there is none."""
        self._refill()
        message = self._memory[self._sent] if self._sent < len(self._memory) else None
        return self._marker(message) or message

    def _marker(self, message: Message | None) -> Message | None:
        """The marker to send before this message, which is the next one."""
        if self._markers_sent == len(self._markers):
            return None
        marker = self._markers[self._markers_sent]
        return marker if message is None or marker.number <= message.number else None

    def sent(self) -> None:
        """The message that `next` returned was sent."""
        message = self._memory[self._sent] if self._sent < len(self._memory) else None
        if self._marker(message) is not None:
            self._markers_sent += 1
        else:
            self._sent += 1

    @property
    def unsent(self) -> bool:
        """Messages in memory wait to be sent."""
        return self._sent < len(self._memory) or self._markers_sent < len(self._markers)

    @property
    def drained(self) -> bool:
        """All was sent."""
        return self._spill is None and not self.unsent

    def validate(self) -> None:
        """Raise for a broken invariant."""
        assert self._bytes == sum(map(size_of, self._memory)), "bytes are miscounted"
        assert 0 <= self._sent <= len(self._memory), f"{self._sent} of {len(self._memory)} messages were sent"
        assert 0 <= self._markers_sent <= len(self._markers), "sent markers are miscounted"
        ends = [_end(message) for message in self._memory]
        assert ends == sorted(ends), f"held items are out of order: {ends}"

    def _refill(self) -> None:
        while self._spill is not None and (self._bytes <= self._limit or self._sent == len(self._memory)):
            if self._read_to == self._spilled_to:
                self._spill.close()
                self._spill = self._reading = None
                return
            if self._reading is None:
                self._reading = self._spill.since(self._read_to)
            message = next(self._reading, None)
            if message is None:
                self._reading = None  # it has read to the previous end of the spill
            else:
                self._read_to = _end(message)
                self._hold(message)


def _end(message: Message) -> int:
    return message.number + message.items


def size_of(message: Message) -> int:
    """Bytes in memory, roughly."""
    return 200 + (message.batch.nbytes if message.batch is not None else 0)
