"""The event loop of a transport: one poll, one scratch buffer, one list of events, and a bell for other threads.

Everything except `ring` belongs to one thread. Handlers run inside `turn` and append to `events` in order.

The loop calls the system's `epoll` directly (or `poll`, which has the same constants): `selectors` creates an object
and a list per event, and a process that wakes for a single message pays for every line of cold code.
"""

import contextlib
import select
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from riprap.base.clock import Clock
from riprap.protocols.events import LinkEvent
from riprap.runtime.host import Arrival, HostEvent
from riprap.runtime.transport.frame_reader import SCRATCH_BYTES
from riprap.runtime.transport.sockets import Socket
from riprap.runtime.transport.wire_columns import Buffer, size_of

Event = Arrival | LinkEvent
Handler = Callable[..., None]  # the last argument is the mask of possible operations

READ, WRITE = select.POLLIN, select.POLLOUT
_POLL: Any = getattr(select, "epoll", select.poll)
_SECOND = 1.0 if hasattr(select, "epoll") else 1e3  # in the unit of its timeouts

_SHORT = 0.006  # seconds: shorter waits are exact to the microsecond; `epoll` rounds to milliseconds


class Loop:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: list[HostEvent] = []
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.rung = False  # the bell rang since this was last cleared
        self.again: list[Callable[[], None]] = []  # readers of connections with bytes that no selector reports
        self.sent = 0  # bytes, on all connections
        self._poll = _POLL()
        self._fine = _SECOND == 1.0 and self._poll.fileno() < 1024  # the limit of `select`
        self._watched: dict[int, tuple[int, Handler]] = {}  # by file descriptor: the mask and the handler
        self._bell, self._ear = socket.socketpair()
        for end in (self._bell, self._ear):
            end.setblocking(False)
        self.watch(self._ear, READ, self._answer_bell)

    def watch(self, what: Socket | socket.socket, mask: int, handler: Handler, *arguments: object) -> None:
        """Call the handler with the arguments and the mask when an operation of `mask` is possible; 0: never."""
        number = what.fileno()
        before = self._watched.get(number)
        if before is not None and before[0] == mask:
            return
        if mask == 0:
            if before is not None:
                self._poll.unregister(number)
                del self._watched[number]
            return
        self._watched[number] = mask, partial(handler, *arguments) if arguments else handler
        if before is not None:
            self._poll.modify(number, mask)
        else:
            self._poll.register(number, mask)

    def forget(self, what: Socket | socket.socket) -> None:
        """Call this before closing it: another socket may get its file descriptor."""
        if self._watched.pop(what.fileno(), None) is not None:
            self._poll.unregister(what.fileno())

    def turn(self, timeout: float) -> None:
        """Wait until an operation is possible, and call the handlers once."""
        if self.again:
            timeout = 0.0
        if 0.0 < timeout < _SHORT and self._fine:  # a source that waits for its next row would wake late
            select.select((self._poll,), (), (), timeout)
            timeout = 0.0
        for number, happened in self._poll.poll(timeout * _SECOND):
            watched = self._watched.get(number)
            if watched is None:  # an earlier handler has closed it
                continue
            mask, handler = watched
            if happened != READ:  # the handler finds errors and hang-ups when it reads or writes
                happened = (READ if happened & ~WRITE else 0) | (WRITE if happened & ~READ else 0)
            if happened & mask:
                handler(happened & mask)
        if self.again:
            again, self.again = self.again, []
            for read in again:
                read()

    def ring(self) -> None:
        """From any thread: make the current or the next `turn` return at once."""
        with contextlib.suppress(OSError):  # full: it rings already; closed: nothing to wake
            self._bell.send(b"\0")

    def _answer_bell(self, _: int) -> None:
        self.rung = True
        with contextlib.suppress(OSError):
            while len(self._ear.recv(4096)) == 4096:
                pass

    def close(self) -> None:
        if hasattr(self._poll, "close"):
            self._poll.close()
        self._bell.close()
        self._ear.close()


class Writing:
    """The bytes of a connection that wait for room in the kernel."""

    def __init__(self, to: Socket, loop: Loop) -> None:
        self._to, self._loop = to, loop
        self.waiting: Sequence[Buffer] = ()

    def write(self, buffers: Sequence[Buffer]) -> bool:
        """Send as much as there is room for; whether that was all. Raises `OSError` if the connection is lost."""
        if len(buffers) == 1 and not self.waiting:
            sent = self._to.transmit(buffers) or 0
            self._loop.sent += sent
            if sent == size_of(buffers[0]):
                return True
            buffers = _behind(buffers, sent)
        self.waiting = [*self.waiting, *buffers] if self.waiting else buffers
        return self.flush()

    def flush(self) -> bool:
        while self.waiting:
            sent = self._to.transmit(self.waiting)
            if sent is None:
                return False
            self._loop.sent += sent
            self.waiting = _behind(self.waiting, sent)
        return True

    @property
    def bytes(self) -> int:
        return sum(map(size_of, self.waiting))


def _behind(buffers: Sequence[Buffer], sent: int) -> Sequence[Buffer]:
    """The buffers after the first `sent` bytes."""
    for at, buffer in enumerate(buffers):
        size = size_of(buffer)
        if sent < size:
            return [memoryview(buffer).cast("B")[sent:], *buffers[at + 1 :]]
        sent -= size
    return ()
