"""The receiving end of an element's channels.

A producer connects, opens its channel (`opening.py`) and learns which item is expected next. Then its messages become
arrivals, and acknowledgements are sent, at most every 20 ms.

Refused and logged: a process that does not prove that it knows the token, a channel that does not end here, columns
that differ from the stream's, a producer with an older epoch than one seen before, and invalid frames. A producer whose
epoch is not announced yet waits, since the coordinator's announcement may be in flight; without one it is refused.
A producer that connects again replaces its older connection: everything that arrived on that one is read first, then
`ProducerGone` follows.

Faults: a connection that breaks without END causes `ProducerGone`, after all its arrivals. The numbers of items show
what was in flight. A parked channel is not read, so neither its messages nor the end of its connection are noticed
until it is unparked.
"""

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.order_keys import START_KEY
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ProducerGone
from riprap.runtime.host import Arrival
from riprap.runtime.layout import Layout
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.codec import Decoder
from riprap.runtime.transport.frame_reader import FrameReader, ReaderState, Received
from riprap.runtime.transport.loop import READ, WRITE, Loop, Writing
from riprap.runtime.transport.opening import Handshake, Opening, columns_of, read_opening
from riprap.runtime.transport.sockets import Security, Socket, of_same_user
from riprap.runtime.transport.wire_frame import MAX_ANSWER, FrameKind, WireHeader, pack

_log = logging.getLogger(__name__)

_ACKNOWLEDGE_EVERY = 0.02  # seconds between acknowledgements of a channel
_OPENING_TIMEOUT = 5.0  # seconds that a new connection has to open its channel
_MAX_UNOPENED = 64  # connections without an open channel; beyond, the oldest is closed
_DRAINED = 16 << 20  # bytes: the most that is read from a connection that is being replaced; it may never stop sending


class _Connection:
    def __init__(self, to: Socket, peer: str, loop: Loop) -> None:
        self.to = to
        self.peer = peer
        self.since = loop.clock.monotonic()
        self.ready = False  # the TLS handshake is done, and the challenge was sent
        self.handshake: Handshake
        self.frame = b""  # the raw header of its opening
        self.opening: Opening | None = None  # set once its proof was verified
        self.answered = False  # this end has sent its own proof
        self.writing = Writing(to, loop)
        self.inlet: _Inlet | None = None
        self.epoch = -1
        self.decoder: Decoder | None = None  # from the hello on
        self.reader: FrameReader
        self.buffered = False  # it holds bytes that no selector reports
        self.over = False


class _Inlet:
    """The state of one channel."""

    def __init__(self, channel: ChannelId, schema: pa.Schema) -> None:
        self.channel = channel
        self.schema = schema
        self.connection: _Connection | None = None
        self.successor: _Connection | None = None  # is open, and waits until its predecessor is read
        self.newest = -1  # highest epoch of a producer seen
        self.received = 0  # item after the last that arrived in this incarnation
        self.ended = False
        self.parked = False
        self.due: int | None = None  # the acknowledgement to be sent
        self.acknowledged_at = -1.0


def _parked(connection: _Connection) -> bool:
    inlet = connection.inlet
    return inlet is not None and inlet.parked and inlet.connection is connection


class Inlets:
    """`expected` returns the next item that the element expects on a channel; `delivered` the delivered position of one
    from a group, counting these messages; `issued` the highest epoch that a producer of a channel may have.
    """

    def __init__(
        self,
        loop: Loop,
        pe: str,
        epoch: int,
        channels: Mapping[ChannelId, pa.Schema],
        expected: Callable[[ChannelId], int],
        layout: Layout,
        token: str,
        location: str,
        security: Security,
        *,
        delivered: Callable[[ChannelId, list[Message]], Delivered],
        issued: Callable[[ChannelId], float],
    ) -> None:
        self._delivered_position, self._issued = delivered, issued
        self._loop, self._pe, self._epoch, self._expected, self._layout = loop, pe, epoch, expected, layout
        self._token, self._location, self._security = token, location, security
        self._inlets = {channel: _Inlet(channel, schema) for channel, schema in channels.items()}
        self._unopened: dict[_Connection, None] = {}  # oldest first
        self._closing = False
        self.line = 0
        self.due_at = 0.0  # when `timers` is to be called

    # For the element --------------------------------------------------------------------------------------------------

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        inlet = self._inlets[channel]
        if inlet.due is None:
            self.due_at = min(self.due_at, inlet.acknowledged_at + _ACKNOWLEDGE_EVERY)
        inlet.due = next_

    def park(self, parked: Callable[[ChannelId], bool]) -> None:
        """Stop reading these channels, until the next call."""
        for channel, inlet in self._inlets.items():
            park = parked(channel)
            if park != inlet.parked:
                inlet.parked = park
                connection = inlet.connection
                if connection is not None:
                    self._watch(connection)
                    if not park and connection.buffered:
                        connection.buffered = False
                        self._read(connection)
                if not park and inlet.successor is not None:
                    self._take_over(inlet)

    def renew(self, epoch: int, line: int) -> None:
        """Another incarnation of the element starts in this process: producers must connect again."""
        self._epoch, self.line = epoch, line
        for inlet in self._inlets.values():
            for connection in (inlet.connection, inlet.successor):
                if connection is not None:
                    self._close(connection)
            inlet.connection = inlet.successor = inlet.due = None
            inlet.received, inlet.ended = 0, False

    def timers(self, now: float) -> None:
        """Send due acknowledgements, and close connections that did not open a channel in time."""
        self.due_at = now + 1.0
        for inlet in self._inlets.values():
            if inlet.due is not None:
                left = inlet.acknowledged_at + _ACKNOWLEDGE_EVERY - now
                if left <= 0:
                    self._answer(inlet.connection, FrameKind.ACKNOWLEDGEMENT, inlet.due)
                    inlet.due, inlet.acknowledged_at = None, now
                else:
                    self.due_at = min(self.due_at, now + left)
        if self._unopened:
            oldest = next(iter(self._unopened))
            if now - oldest.since > _OPENING_TIMEOUT:
                self._refuse(oldest, _late(oldest.opening))

    # Connections ------------------------------------------------------------------------------------------------------

    def accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, peer = listening.accept()
                if not of_same_user(plain):  # before anything is made for it
                    plain.close()
                    continue
                name = "a process of this machine" if plain.family == socket.AF_UNIX else str(peer[0])
                connection = _Connection(self._security.accepted(plain), name, self._loop)
                connection.reader = FrameReader(self._loop.scratch, self._admitting(connection))
                connection.handshake = Handshake(self._token, self._location)
                self._unopened[connection] = None
                if len(self._unopened) > _MAX_UNOPENED:
                    self._refuse(next(iter(self._unopened)), "too many connections open no channel")
                if self._challenged(connection):
                    self._watch(connection)

    def _admitting(self, connection: _Connection) -> Callable[[WireHeader, bytes], None]:
        def admit(header: WireHeader, frame: bytes) -> None:
            if connection.frame:
                raise DataError("a frame before the hello")
            if header.kind is not FrameKind.OPEN:
                raise DataError("a stranger: it carried no proof, and this endpoint belongs to a run")
            connection.frame = frame

        return admit

    def _challenged(self, connection: _Connection) -> bool:
        """Complete the TLS handshake, and send the challenge once; whether the connection is alive."""
        try:
            if not connection.ready and connection.to.handshake():
                connection.ready = True
                connection.writing.write([connection.handshake.challenge()])
        except OSError as error:
            self._refuse(connection, f"no connection of this run ({error})")
            return False
        return True

    def _watch(self, connection: _Connection) -> None:
        mask = 0 if _parked(connection) else READ
        if connection.writing.waiting:
            mask |= WRITE
        self._loop.watch(connection.to, mask, self._happened, connection)

    def _happened(self, connection: _Connection, mask: int) -> None:
        if mask == READ and connection.ready:
            self._read(connection)
            return
        if not connection.ready and not (self._challenged(connection) and connection.ready):
            return
        if mask & WRITE and connection.writing.waiting:
            with contextlib.suppress(OSError):  # what it sent before must still be read
                connection.writing.flush()
            self._watch(connection)
        if mask & READ:
            self._read(connection)

    def _read(self, connection: _Connection) -> Received | None:
        """Read once; None: the connection is over."""
        if connection.over:
            return None
        received = connection.reader.receive(connection.to)
        error = received.error
        try:
            for header, body in received.frames:
                self._process(connection, header, body)
        except DataError as wrong:
            error = wrong
        if connection.over:
            return None
        if error is not None:
            self._refuse(connection, str(error))
            return None
        if received.state is ReaderState.OVER:
            self._lost(connection)
            return None
        if connection.to.more:
            self._loop.again.append(lambda: self._read_again(connection))
        return received

    def _read_again(self, connection: _Connection) -> None:
        """Read bytes that no selector reports, now or when the channel is unparked."""
        if _parked(connection):
            connection.buffered = True
        else:
            self._read(connection)

    def _process(self, connection: _Connection, header: WireHeader, body: memoryview | None) -> None:
        inlet = connection.inlet
        if inlet is None:
            if not connection.handshake.admits(connection.frame, body):
                raise DataError("a stranger: it carried a wrong proof, and this endpoint belongs to a run")
            connection.opening = read_opening(header, body)
            self._open(connection, connection.opening)
            return
        if connection.decoder is None:
            raise DataError(f"channel {inlet.channel}: a message before the hello")
        message = connection.decoder.decode(header, body)
        if message is not None:
            inlet.ended = message.kind is MessageKind.END
            inlet.received = max(inlet.received, message.number + message.items)
            self._loop.events.append(Arrival(inlet.channel, message))

    def _open(self, connection: _Connection, opening: Opening) -> None:
        channel, epoch, columns, line = opening
        inlet = self._inlets.get(channel)
        if inlet is None:
            raise DataError(self._not_here(channel))
        if columns != columns_of(inlet.schema):
            raise DataError(f"channel {channel}: the columns differ from those of the stream: {columns}")
        if epoch < inlet.newest:
            raise DataError(f"channel {channel}: the producer of epoch {epoch} was replaced by epoch {inlet.newest}")
        if self._closing:
            raise DataError(f"{self._pe} ends")
        if line != self.line:
            self._turn_away(connection, f"it works under line {line} and {self._pe} under line {self.line}")
            return
        if epoch > self._issued(channel):
            return  # `announced` tries again
        self._unopened.pop(connection, None)
        connection.inlet, connection.epoch, inlet.newest = inlet, epoch, epoch
        connection.reader.admit = None  # from here on its decoder checks the frames
        if inlet.successor is not None:
            self._refuse(inlet.successor, self._replaced(inlet))
        inlet.successor = connection
        if inlet.connection is None or not inlet.parked:
            self._take_over(inlet)

    def announced(self) -> None:
        """The coordinator sent news: perhaps the epoch of a producer that waits here."""
        for connection in [unopened for unopened in self._unopened if unopened.opening is not None]:
            assert connection.opening is not None
            try:
                self._open(connection, connection.opening)
            except DataError as wrong:
                self._refuse(connection, str(wrong))

    def _not_here(self, channel: ChannelId) -> str:
        try:
            consumer = self._layout.consumer(channel)
        except (KeyError, IndexError):
            return f"channel {channel} does not belong to this run"
        return f"channel {channel} ends at {consumer}, not here"

    def _replaced(self, inlet: _Inlet) -> str:
        return f"channel {inlet.channel}: this connection was replaced by one of epoch {inlet.newest}"

    def _take_over(self, inlet: _Inlet) -> None:
        """Switch to the successor, after everything that its predecessor has sent."""
        older = inlet.connection
        read = 0
        while older is not None and read < _DRAINED:
            received = self._read(older)
            if received is None or received.state is ReaderState.EMPTY:
                break
            read += len(self._loop.scratch)
        successor, inlet.successor = inlet.successor, None
        if inlet.connection is not None:
            self._refuse(inlet.connection, self._replaced(inlet))
        if successor is None:
            return  # `_lost` has accepted it
        self._accept_producer(inlet, successor)

    def _accept_producer(self, inlet: _Inlet, connection: _Connection) -> None:
        inlet.connection, inlet.ended = connection, False
        connection.decoder = Decoder(inlet.schema)
        self._answer(connection, FrameKind.HELLO, self._next(inlet), delivered=self._delivered(inlet.channel))
        self._watch(connection)

    def _next(self, inlet: _Inlet) -> int:
        """The next item to send. Received items count as delivered: they need not be sent again."""
        return max(self._expected(inlet.channel), inlet.received)

    def _delivered(self, channel: ChannelId) -> Delivered:
        """The delivered position in a form that is valid for every replica of the producer; received items count."""
        if not self._layout.kind(channel).replicated:
            return Delivered()
        unread = [e.message for e in self._loop.events if isinstance(e, Arrival) and e.channel == channel]
        return self._delivered_position(channel, unread)

    # Ends -------------------------------------------------------------------------------------------------------------

    def _lost(self, connection: _Connection) -> None:
        """The connection is over, and everything on it was read."""
        self._close(connection)
        inlet = connection.inlet
        if inlet is None:
            return
        if inlet.successor is connection:
            inlet.successor = None
        if inlet.connection is connection:
            inlet.connection = None
            if not inlet.ended:
                self._loop.events.append(ProducerGone(inlet.channel, connection.epoch))
            if inlet.successor is not None:
                successor, inlet.successor = inlet.successor, None
                self._accept_producer(inlet, successor)

    def _refuse(self, connection: _Connection, why: str) -> None:
        _log.warning("the endpoint of %s refused %s: %s", self._pe, connection.peer, why)
        self._turn_away(connection, why)

    def _turn_away(self, connection: _Connection, why: str) -> None:
        text = why.encode()[: MAX_ANSWER - 8]
        self._answer(connection, FrameKind.REFUSED, 0, text + b" " * (-len(text) & 7))
        connection.to.end()
        self._lost(connection)

    def _close(self, connection: _Connection) -> None:
        if not connection.over:
            connection.over = True
            self._unopened.pop(connection, None)
            self._loop.forget(connection.to)
            connection.to.close()

    def _answer(
        self,
        connection: _Connection | None,
        kind: FrameKind,
        number: int,
        text: bytes = b"",
        delivered: Delivered | None = None,
    ) -> None:
        """Best effort: a lost producer is noticed when its connection is read to the end."""
        if connection is None or connection.over or not connection.ready:
            return
        with contextlib.suppress(OSError):
            header = WireHeader(kind, len(text), epoch=self._epoch, number=number)
            if delivered is not None and delivered.key > START_KEY:
                header = header._replace(watermark=delivered.key, born=delivered.items)
            if kind is FrameKind.REFUSED or connection.answered:
                connection.writing.write([pack(header) + text])
            else:
                connection.answered = True
                connection.writing.write([connection.handshake.answer(header)])
            self._watch(connection)

    def goodbye(self) -> None:
        """Tell every producer that this element ends, and accept no more connections."""
        self._closing = True
        for connection in list(self._unopened):
            self._close(connection)
        for inlet in self._inlets.values():
            for open_ in (inlet.connection, inlet.successor):
                if open_ is not None:
                    self._answer(open_, FrameKind.GOODBYE, self._next(inlet))
                    open_.to.end()

    @property
    def connected(self) -> bool:
        return any(inlet.connection is not None for inlet in self._inlets.values())

    def close(self) -> None:
        for connection in list(self._unopened):
            self._close(connection)
        for inlet in self._inlets.values():
            for open_ in (inlet.connection, inlet.successor):
                if open_ is not None:
                    self._close(open_)


def _late(opening: Opening | None) -> str:
    if opening is None:
        return "it did not open a channel within 5 s"
    return f"channel {opening.channel}: the coordinator has issued no epoch {opening.epoch} of its producer"
