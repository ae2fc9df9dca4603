"""The sending end of an element's channels.

A channel finds its consumer in the address book, connects, opens (`opening.py`) and reports `ConsumerUp` with the item
that the consumer expects. It disconnects from a process that cannot prove that it knows the token. From then on
messages go straight into the kernel's buffer: the first of each iteration of the loop at once, the others joined at the
end of the iteration. When the buffer is full, messages wait, up to a small bound, and are joined; beyond the bound
`send` returns False.

When the connection breaks, the channel drops waiting messages, reports `ConsumerDown`, and connects to the newest
incarnation of the consumer, which may be the same one. The `next` of the following `ConsumerUp` tells exactly how many
of the last messages arrived. On a gapless channel no item may be left out, so after each `ConsumerUp` it first accepts
the item `next`, or an earlier one: an element that has not yet noticed that its consumer recovered cannot leave a gap.

A hanging consumer keeps its connection, and its channel is full. When the address book has a newer incarnation of it,
the old connection is closed. (TCP timeouts would also end connections to consumers that only stall.)
"""

import contextlib
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.codec import Encoder
from riprap.runtime.transport.frame_reader import FrameReader, ReaderState
from riprap.runtime.transport.joining import take_joined
from riprap.runtime.transport.loop import READ, WRITE, Loop, Writing
from riprap.runtime.transport.opening import Handshake, Opening, columns_of
from riprap.runtime.transport.sockets import Security, Socket, start_connecting
from riprap.runtime.transport.weight import weight_of
from riprap.runtime.transport.wire_frame import FrameKind, WireHeader, credentials
from riprap.runtime.wire import Address

# The newest known address of an element after the given epoch, or None. It must be cheap with timeout 0.
Find = Callable[[str, int, float], Address | None]

_log = logging.getLogger(__name__)

_JOINED_ROWS = 16_384  # measured: longer messages are not faster
_RETRY = 0.02  # seconds until an address that did not answer is tried again
_RETRY_MOST = 1.0  # seconds: the limit of the exponential backoff
_LOOK = 0.25  # seconds between checks for a newer consumer without a wake-up
_CONNECTING = 5.0  # seconds that a machine has to accept a connection


class Outlet(NamedTuple):
    """One output channel of an element. `gapless`: no item may be left out, not even after a lost connection.

    `replicated`: its producer has replicas; it is connected from `open` to `shut`.
    """

    schema: pa.Schema
    consumer: str
    gapless: bool
    replicated: bool = False


class _Connection:
    def __init__(self, address: Address, plain: socket.socket, since: float) -> None:
        self.address = address
        self.plain = plain  # being connected
        self.since = since
        self.to: Socket | None = None  # connected
        self.writing: Writing
        self.reader: FrameReader
        self.secured = False
        self.handshake: Handshake | None = None  # from the consumer's challenge on
        self.believed = False  # the consumer has proved that it knows the token
        self.greeted = False  # the consumer has sent HELLO: messages may be sent
        self.goodbye = False  # this incarnation of the consumer ends and will not answer again


class _Channel:
    def __init__(self, name: ChannelId, outlet: Outlet) -> None:
        self.name = name
        self.outlet = outlet
        self.epoch: int | None = None  # to open it with; None: the element's
        self.shut = outlet.replicated
        self.connection: _Connection | None = None
        self.encoder: Encoder
        self.up = False
        self.turn = -1  # iteration of the last message that was sent
        self.queue: deque[Message] = deque()  # waits for room in the kernel, or for the end of the iteration
        self.weights: deque[int] = deque()
        self.queued = 0  # bytes
        self.refused = False  # a message was refused since there last was room
        self.next = 0  # the item after the last that was accepted, or that the consumer expects
        self.fences: set[int] = set()  # messages are not joined across these numbers
        self.past = 0  # incarnations of the consumer up to this epoch will not answer again
        self.tried = -1  # the epoch that was tried last
        self.retry_at = 0.0
        self.delay = _RETRY
        self.complaint = ""  # the last that was logged, so that retries do not fill the log

    def wait(self, message: Message) -> None:
        size = weight_of(message)
        self.queue.append(message)
        self.weights.append(size)
        self.queued += size

    @property
    def waits(self) -> bool:
        return bool(self.queue) or (self.connection is not None and self.up and bool(self.connection.writing.waiting))


class Outlets:
    """`bound`: bytes that may wait on a channel outside of the kernel. `epoch` is the producer's."""

    def __init__(
        self,
        loop: Loop,
        epoch: int,
        channels: Mapping[ChannelId, Outlet],
        find: Find,
        token: str,
        security: Security,
        bound: int,
        batch_rows: int,
    ) -> None:
        self._loop, self._epoch, self._find, self._token, self._security = loop, epoch, find, token, security
        self._bound, self._most_rows = bound, min(_JOINED_ROWS, batch_rows)
        self._channels = {name: _Channel(name, outlet) for name, outlet in channels.items()}
        self._look_at = 0.0
        self._closing = False
        self.line = 0
        self._turn = 0  # counts polls
        self._gathered: list[_Channel] = []  # with messages that wait for the end of this iteration
        self.due_at = 0.0  # when to call `timers`

    # For the element --------------------------------------------------------------------------------------------------

    def send(self, name: ChannelId, message: Message, after: int | None = None) -> bool:
        """Accept a message. False: not connected, no room, or it would leave a gap other than from `after` to it."""
        channel = self._channels[name]
        connection = channel.connection
        if not channel.up or connection is None:
            return False
        first = message.number if after is None else after
        if channel.outlet.gapless and first > channel.next and message.kind is not MessageKind.MARKER:
            return False
        if connection.writing.waiting or channel.queue:
            if channel.queued >= self._bound:
                channel.refused = True
                return False
            channel.wait(message)
        elif channel.turn == self._turn and message.items < self._most_rows:
            channel.wait(message)  # to be joined with the other messages of this iteration
            self._gathered.append(channel)
        else:
            channel.turn = self._turn
            buffers = channel.encoder.encode(message)
            try:
                written = connection.writing.write(buffers)
            except OSError as error:
                self._broken(channel, str(error))
                return False
            if not written:
                self._watch(channel, connection)
        if message.kind is MessageKind.MARKER:
            if message.number > channel.next:  # sent ahead: items below its number follow
                channel.fences = {number for number in channel.fences if number > channel.next} | {message.number}
        else:
            channel.next = message.number + message.items
        return True

    def turn(self) -> bool:
        """End an iteration of the loop: send the messages that were gathered in it.

        Returns whether that made room where a message was refused: then the caller must not wait.
        """
        self._turn += 1
        room = False
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            for channel in gathered:
                connection = channel.connection
                if channel.up and connection is not None and not connection.writing.waiting:
                    try:
                        self._flush(channel, connection)
                    except OSError as error:
                        self._broken(channel, str(error))
                if channel.refused and channel.queued < self._bound:
                    channel.refused, room = False, True
        return room

    def pending(self, name: ChannelId) -> int:
        """Bytes that were accepted and are not in the kernel yet."""
        channel = self._channels[name]
        return channel.queued + (
            channel.connection.writing.bytes if channel.connection is not None and channel.up else 0
        )

    def renew(self, epoch: int, line: int) -> None:
        """Another incarnation of the element starts in this process."""
        self._epoch, self.line = epoch, line
        for channel in self._channels.values():
            if channel.connection is not None:
                self._drop(channel, channel.connection)
            channel.tried, channel.delay, channel.up = -1, _RETRY, False

    def open(self, name: ChannelId, epoch: int) -> None:
        """Connect to the consumer, as this epoch."""
        channel = self._channels[name]
        if channel.connection is not None:
            self._drop(channel, channel.connection)
        channel.epoch, channel.shut, channel.tried, channel.delay = epoch, False, -1, _RETRY
        self._look(channel, self._loop.clock.monotonic())
        self.due_at = 0.0

    def shut(self, name: ChannelId) -> None:
        """Disconnect, and do not connect again."""
        channel = self._channels[name]
        channel.shut = True
        if channel.connection is not None:
            self._drop(channel, channel.connection)

    # Connecting -------------------------------------------------------------------------------------------------------

    def timers(self, now: float, *, rung: bool) -> None:
        """Check the address book, retry connections, and drop those that take too long."""
        if rung or now >= self._look_at:
            self._look_at = now + _LOOK
            for channel in self._channels.values():
                self._look(channel, now)
        due = self._look_at
        for channel in self._channels.values():
            connection = channel.connection
            if connection is None:
                if channel.tried >= 0 and now >= channel.retry_at:
                    self._look(channel, now)
                if channel.connection is None and channel.tried >= 0:
                    due = min(due, max(channel.retry_at, now + 0.001))
            elif not connection.secured and now - connection.since > _CONNECTING:
                self._broken(channel, f"{connection.address.location} does not accept connections")
        self.due_at = due

    def _look(self, channel: _Channel, now: float) -> None:
        """Find the consumer, or a newer incarnation than the connected one."""
        connection = channel.connection
        consumer = channel.outlet.consumer
        if channel.shut:
            channel.tried = -1
            return
        if connection is not None:
            if self._find(consumer, connection.address.epoch, 0.0) is None:
                return
            self._down(channel, connection)
        if self._closing:
            return
        address = self._find(consumer, channel.past, 0.0)
        if address is None:
            channel.tried = -1
        elif address.epoch != channel.tried or now >= channel.retry_at:
            if address.epoch != channel.tried:
                channel.delay = _RETRY
            channel.tried = address.epoch
            self._connect(channel, address, now)

    def _connect(self, channel: _Channel, address: Address, now: float) -> None:
        try:
            plain = start_connecting(address.location)
        except (OSError, DataError) as error:
            self._complain(channel, address, str(error))
            self._retry_later(channel)
            return
        channel.connection = connection = _Connection(address, plain, now)
        self._loop.watch(plain, WRITE, self._happened, channel, connection)

    def _happened(self, channel: _Channel, connection: _Connection, mask: int) -> None:
        try:
            if connection.to is None:
                failure = connection.plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if failure:
                    raise OSError(failure, os.strerror(failure))
                self._loop.forget(connection.plain)
                connection.to = self._security.connected(connection.plain)
                connection.writing = Writing(connection.to, self._loop)
                connection.reader = FrameReader(self._loop.scratch, self._admitting(connection))
            if not connection.secured:
                connection.secured = connection.to.handshake()
                self._watch(channel, connection)
                return
            if mask & WRITE:
                self._flush(channel, connection)
        except OSError as error:
            self._broken(channel, str(error), unless=_absent(error))
            return
        if mask & READ:
            self._receive(channel, connection)

    def _watch(self, channel: _Channel, connection: _Connection) -> None:
        assert connection.to is not None
        mask = READ | WRITE if connection.writing.waiting or channel.queue else READ
        self._loop.watch(connection.to, mask, self._happened, channel, connection)

    def _flush(self, channel: _Channel, connection: _Connection) -> None:
        """Send waiting messages, joined, while there is room."""
        while connection.writing.flush() and channel.queue:
            message, parts = take_joined(channel.queue, self._most_rows, channel.fences)
            channel.queued -= sum(channel.weights.popleft() for _ in range(parts))
            connection.writing.write(channel.encoder.encode(message))
        self._watch(channel, connection)

    # Answers ----------------------------------------------------------------------------------------------------------

    def _admitting(self, connection: _Connection) -> Callable[[WireHeader, bytes], None]:
        """Allows a challenge, then the proof, then any answer of a consumer; or a refusal."""

        def admit(header: WireHeader, frame: bytes) -> None:
            kind = header.kind
            if kind < FrameKind.HELLO or (kind is FrameKind.CHALLENGE) != (connection.handshake is None):
                if kind is not FrameKind.REFUSED:
                    raise DataError(f"a frame of kind {kind.name} where another answer was expected")
            elif connection.handshake is None:
                challenge, _ = credentials(frame)
                connection.handshake = Handshake(self._token, connection.address.location, challenge)
            elif not connection.believed and kind is not FrameKind.REFUSED:
                if kind is FrameKind.ACKNOWLEDGEMENT or not connection.handshake.believes(frame):
                    raise DataError("the process that listens there does not prove that it belongs to this run")
                connection.believed = True

        return admit

    def _open(self, channel: _Channel, connection: _Connection) -> None:
        assert connection.handshake is not None
        epoch = self._epoch if channel.epoch is None else channel.epoch
        opening = Opening(channel.name, epoch, columns_of(channel.outlet.schema), self.line)
        with contextlib.suppress(OSError):  # a lost consumer is noticed when its connection is read
            connection.writing.write([connection.handshake.opening(opening)])
            self._watch(channel, connection)

    def _receive(self, channel: _Channel, connection: _Connection) -> bool:
        """Process the consumer's answers; whether more may follow."""
        assert connection.to is not None
        received = connection.reader.receive(connection.to)
        for header, body in received.frames:
            match header.kind:
                case FrameKind.CHALLENGE:
                    self._open(channel, connection)
                case FrameKind.HELLO:
                    channel.encoder = Encoder(channel.outlet.schema)
                    connection.greeted = channel.up = True
                    channel.next, channel.delay, channel.complaint = header.number, _RETRY, ""
                    delivered = Delivered() if header.watermark is None else Delivered(header.watermark, header.born)
                    self._loop.events.append(ConsumerUp(channel.name, header.epoch, header.number, delivered))
                case FrameKind.ACKNOWLEDGEMENT:
                    self._loop.events.append(Acknowledged(channel.name, header.number))
                case FrameKind.GOODBYE:
                    connection.goodbye = True
                    self._down(channel, connection)
                    return False
                case FrameKind.REFUSED:
                    why = "" if body is None else body.tobytes().decode(errors="replace").strip()
                    connection.greeted = False
                    self._complain(channel, connection.address, why)
                    self._down(channel, connection)
                    return False
        if received.error is not None:
            self._complain(channel, connection.address, str(received.error))
            self._down(channel, connection)
            return False
        if received.state is ReaderState.OVER:
            self._down(channel, connection)
            return False
        if connection.to.more:
            self._loop.again.append(lambda: self._receive_again(channel, connection))
        return received.state is ReaderState.MORE

    def _receive_again(self, channel: _Channel, connection: _Connection) -> None:
        if channel.connection is connection:
            self._receive(channel, connection)

    # Ends -------------------------------------------------------------------------------------------------------------

    def _broken(self, channel: _Channel, why: str, *, unless: bool = False) -> None:
        """Nothing can be sent any more; earlier answers of the consumer are still processed."""
        connection = channel.connection
        if connection is None:
            return
        if connection.secured and connection.to is not None:
            while channel.connection is connection and self._receive(channel, connection):
                pass
        elif not unless:
            self._complain(channel, connection.address, why)
        if channel.connection is connection:
            self._down(channel, connection)

    def _down(self, channel: _Channel, connection: _Connection) -> None:
        was_up = channel.up
        self._drop(channel, connection)
        if was_up and not self._closing:
            self._loop.events.append(ConsumerDown(channel.name))
        if connection.goodbye:
            channel.past, channel.tried = connection.address.epoch, -1
        elif connection.greeted:
            channel.retry_at = self._loop.clock.monotonic()
        else:
            self._retry_later(channel)
        self.due_at = 0.0

    def _retry_later(self, channel: _Channel) -> None:
        channel.retry_at = self._loop.clock.monotonic() + channel.delay
        channel.delay = min(2 * channel.delay, _RETRY_MOST)

    def _drop(self, channel: _Channel, connection: _Connection) -> None:
        channel.connection, channel.up = None, False
        channel.queue.clear()
        channel.weights.clear()
        channel.queued = 0
        end = connection.to or connection.plain
        self._loop.forget(end)
        end.close()

    def _complain(self, channel: _Channel, address: Address, why: str) -> None:
        """Log why the consumer refused. An absent consumer is not logged: the coordinator knows."""
        if why and why != channel.complaint:
            channel.complaint = why
            _log.warning("%s to epoch %d: %s", channel.name, address.epoch, why)

    @property
    def waiting(self) -> bool:
        """Whether an accepted message is not in the kernel yet."""
        return any(channel.waits for channel in self._channels.values())

    def finish(self) -> None:
        """Send nothing more: consumers read to the end, and hang up."""
        self._closing = True
        for channel in self._channels.values():
            if channel.connection is not None and channel.connection.to is not None:
                channel.connection.to.end()

    @property
    def connected(self) -> bool:
        return any(channel.up for channel in self._channels.values())

    def close(self) -> None:
        self._closing = True
        for channel in self._channels.values():
            if channel.connection is not None:
                self._drop(channel, channel.connection)


def _absent(error: OSError) -> bool:
    return error.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT)
