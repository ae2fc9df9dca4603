"""The transport of one processing element: all its channels, in the element's own thread.

`poll` is the only place that waits. It returns events in order: the items of a producer before `ProducerGone`, the
acknowledgements of a consumer before `ConsumerDown`. Nothing is read ahead, so the kernel's buffers are the queue, and
they provide back pressure: a parked channel is not read, its connection fills, and `send` at the other end returns
False.

Other threads call `put` (items that log followers read), `post` (events) and `wake`.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.runtime.host import Arrival, HostEvent
from riprap.runtime.messages import Message
from riprap.runtime.run_context import Run
from riprap.runtime.transport.inlets import Inlets
from riprap.runtime.transport.loop import READ, Event, Loop
from riprap.runtime.transport.mailbox import Mailbox
from riprap.runtime.transport.outlets import Find, Outlet, Outlets
from riprap.runtime.transport.sockets import Security, listen
from riprap.runtime.wire import own_address

_BOUND = 1 << 18  # bytes that may wait on a channel outside of the kernel
_HANG_UP = 1.0  # seconds that producers have to hang up when the transport closes


class _All:
    """Every channel."""

    def __contains__(self, channel: object) -> bool:
        return True


ALL: Final = _All()
NONE: Final = frozenset[ChannelId]()
Parked = Collection[ChannelId] | _All


class Transport:
    """`inlets`: the schemas of input channels. `expected` returns the next item that the element expects on one;
    `issued` the highest epoch of its producer that the coordinator has announced; `delivered` its delivered position,
    counting unread messages."""

    def __init__(
        self,
        pe: str,
        epoch: int,
        inlets: Mapping[ChannelId, pa.Schema],
        outlets: Mapping[ChannelId, Outlet],
        expected: Callable[[ChannelId], int],
        find: Find,
        run: Run,
        clock: Clock = SYSTEM_CLOCK,
        *,
        delivered: Callable[[ChannelId, list[Message]], Delivered] = lambda channel, unread: Delivered(),
        issued: Callable[[ChannelId], float] = lambda channel: math.inf,
    ) -> None:
        self._clock = clock
        self._parked: Parked = NONE
        self._closed = False
        security = Security(run.tls)
        self._listening, self.location = listen(run.host or own_address(run.coordinator), run.tls)
        self._loop = Loop(clock)
        self._mailbox = Mailbox(run.buffer_bytes, self._loop.ring)
        self._inlets = Inlets(
            self._loop,
            pe,
            epoch,
            inlets,
            expected,
            run.layout,
            run.token,
            self.location,
            security,
            delivered=delivered,
            issued=issued,
        )
        bound = min(_BOUND, run.buffer_bytes)
        self._outlets = Outlets(self._loop, epoch, outlets, find, run.token, security, bound, run.batch_rows)
        self._loop.watch(self._listening, READ, lambda _: self._inlets.accept(self._listening))

    def poll(self, timeout: float, parked: Parked = NONE) -> list[HostEvent]:
        """The next events; waits up to `timeout` seconds. `parked` channels are not read.

        It also returns, with no event, when it was woken or when a full channel may have room.
        """
        ready = bool(self._loop.events)
        if parked is not self._parked and parked != self._parked:
            self._parked = parked
            self._inlets.park(parked.__contains__)
            ready = ready or self._mailbox.filled  # arrivals of parked channels may be taken now
        self._turn(0.0 if ready or self._loop.events else timeout)
        events, self._loop.events = self._loop.events, []
        if self._mailbox.filled:
            events += self._mailbox.take(parked.__contains__ if parked else None)
        return events

    def _turn(self, timeout: float) -> None:
        inlets, outlets, loop = self._inlets, self._outlets, self._loop
        if outlets.turn():
            timeout = 0.0
        now = self._clock.monotonic()
        if now >= inlets.due_at:
            inlets.timers(now)
        if now >= outlets.due_at:
            outlets.timers(now, rung=False)
        loop.turn(min(timeout, max(min(inlets.due_at, outlets.due_at) - now, 0.0)))
        if loop.rung:
            loop.rung = False
            outlets.timers(self._clock.monotonic(), rung=True)
            inlets.announced()

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        """Accept a message for the consumer. False: not connected, no room, or the message would leave a gap.

        `after`: an intended gap, from this item up to the message.
        """
        return self._outlets.send(channel, message, after)

    @property
    def sent(self) -> int:
        """Bytes, on all connections."""
        return self._loop.sent

    def open(self, channel: ChannelId, epoch: int) -> None:
        """Connect a channel that leaves a group, as this epoch."""
        self._outlets.open(channel, epoch)

    def shut(self, channel: ChannelId) -> None:
        """Disconnect the channel, and do not connect it again."""
        self._outlets.shut(channel)

    def pending(self, channel: ChannelId) -> int:
        """Bytes that were accepted and are not in the kernel yet."""
        return self._outlets.pending(channel)

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        """Acknowledge, soon, all items below `next_`."""
        self._inlets.acknowledge(channel, next_)

    def renew(self, epoch: int, line: int = 0) -> None:
        """Start another incarnation of the element in this process: drop every connection, keep the location.

        Only elements under the same recovery `line` connect to each other.
        """
        self._inlets.renew(epoch, line)
        self._outlets.renew(epoch, line)
        self._mailbox.take()
        self._loop.events = []

    def live_under(self, line: int) -> None:
        """Open new connections under this recovery line; open ones stay."""
        self._inlets.line = self._outlets.line = line

    def close(self, drain: bool = False) -> None:
        """Say goodbye and free the port; with `drain`, after connected consumers have received everything.

        That has no time limit: a caller that must send heartbeats polls first, until nothing is pending.
        """
        if self._closed:
            return
        self._closed = True
        self._mailbox.close()
        with contextlib.suppress(OSError):
            self._loop.forget(self._listening)
            self._listening.close()
        try:
            if drain:
                self._outlets.turn()  # no event reports what goes to the kernel here
                while self._outlets.waiting:
                    self._turn(1.0)
                self._outlets.finish()
                while self._outlets.connected:
                    self._turn(1.0)
            self._outlets.close()
            self._inlets.goodbye()
            self._inlets.park(NONE.__contains__)
            deadline = self._clock.monotonic() + _HANG_UP
            while self._inlets.connected and (left := deadline - self._clock.monotonic()) > 0:
                self._loop.turn(left)
        finally:
            self._outlets.close()
            self._inlets.close()
            self._loop.close()

    # From any thread --------------------------------------------------------------------------------------------------

    def put(self, arrival: Arrival) -> bool:
        """Add an arrival once its channel has room. False: the transport is closed, and the arrival was dropped."""
        return self._mailbox.put(arrival)

    def post(self, event: Event) -> None:
        """Add an event now."""
        self._mailbox.post(event)

    def wake(self) -> None:
        """Make the current or the next `poll` return at once, and check the address book."""
        self._loop.ring()
