"""The loop under a transport: one selector, one scratch buffer, one list of events, and a bell that other threads ring.

Everything but `ring` belongs to one thread. Handlers run inside `turn` and append to `events` in the order in which
things happened.
"""

import contextlib
import selectors
import socket
from collections.abc import Callable, Sequence

from riprap.base.clock import Clock
from riprap.protocols.events import LinkEvent
from riprap.runtime.hosting import Arrival
from riprap.runtime.transport.columns import Buffer, size_of
from riprap.runtime.transport.reading import SCRATCH_BYTES
from riprap.runtime.transport.sockets import Socket

Event = Arrival | LinkEvent
Handler = Callable[[int], None]

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: list[Event] = []
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.rung = False  # somebody rang since the last look
        self.again: list[Callable[[], None]] = []  # what has bytes that no selector sees
        self._selector = selectors.DefaultSelector()
        self._interest: dict[int, int] = {}
        self._bell, self._ear = socket.socketpair()
        for end in (self._bell, self._ear):
            end.setblocking(False)
        self._selector.register(self._ear, READ, self._hear)

    def watch(self, what: Socket | socket.socket, mask: int, handler: Handler) -> None:
        """Call the handler when one of these may be done; 0: never."""
        number = what.fileno()
        before = self._interest.get(number, 0)
        if mask == before:
            return
        if mask == 0:
            self._selector.unregister(number)
            del self._interest[number]
            return
        self._interest[number] = mask
        if before:
            self._selector.modify(number, mask, handler)
        else:
            self._selector.register(number, mask, handler)

    def forget(self, what: Socket | socket.socket) -> None:
        """Before it is closed: another may get its number."""
        if self._interest.pop(what.fileno(), 0):
            self._selector.unregister(what.fileno())

    def turn(self, timeout: float) -> None:
        """Wait until something can be done, and do it once."""
        if self.again:
            timeout = 0.0
        for key, mask in self._selector.select(timeout):
            if self._interest.get(key.fd) or key.data == self._hear:  # an earlier handler may have closed it
                key.data(mask)
        if self.again:
            again, self.again = self.again, []
            for read in again:
                read()

    def ring(self) -> None:
        """From any thread: make a `turn` that waits, or else the next one, return at once."""
        with contextlib.suppress(OSError):  # full: it rings already; closed: nobody hears
            self._bell.send(b"\0")

    def _hear(self, _: int) -> None:
        self.rung = True
        with contextlib.suppress(OSError):
            while len(self._ear.recv(4096)) == 4096:
                pass

    def close(self) -> None:
        self._selector.close()
        self._bell.close()
        self._ear.close()


class Writing:
    """What of a connection waits for room in the kernel."""

    def __init__(self, to: Socket) -> None:
        self._to = to
        self.waiting: Sequence[Buffer] = ()

    def write(self, buffers: Sequence[Buffer]) -> bool:
        """Send as much as there is room for; whether that was all. Raises `OSError` where nobody is there."""
        self.waiting = [*self.waiting, *buffers] if self.waiting else buffers
        return self.flush()

    def flush(self) -> bool:
        while self.waiting:
            sent = self._to.transmit(self.waiting)
            if sent is None:
                return False
            self.waiting = _behind(self.waiting, sent)
        return True

    @property
    def bytes(self) -> int:
        return sum(map(size_of, self.waiting))


def _behind(buffers: Sequence[Buffer], sent: int) -> Sequence[Buffer]:
    """What follows the first `sent` bytes."""
    for at, buffer in enumerate(buffers):
        size = size_of(buffer)
        if sent < size:
            return [memoryview(buffer).cast("B")[sent:], *buffers[at + 1 :]]
        sent -= size
    return ()
