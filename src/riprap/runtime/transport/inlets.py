"""The receiving end of an element's channels.

A producer connects, opens its channel (`opening.py`) and hears which item is expected next. Then its messages become
arrivals, and acknowledgements go back, at most every 20 ms.

Refused, and logged: whoever does not prove that it knows the token, a channel that does not end here, columns that are
not those of the stream, a producer whose epoch is older than one that was seen, and frames that cannot be. A producer
whose epoch the coordinator has not announced yet waits for the announcement, which may be on its way; where none comes
it is refused too. A producer that connects again takes its channel over: first what had come on its older connection
is taken, then that one is said to be gone.

Faults: a connection that breaks without END gives `ProducerGone`, behind all that had come on it. Nothing is said of
items that were on their way; their numbers tell. A parked channel is not read, so neither its messages nor the end of
its connection are seen before it is read again.
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

_ACKNOWLEDGE_EVERY = 0.02  # seconds: at most so often does a channel acknowledge
_INTRODUCTION = 5.0  # seconds that whoever connects has to say which channel it brings
_STRANGERS = 64  # connections that have not said it yet; beyond, the oldest is closed
_DRAINED = 16 << 20  # bytes that are read at most from a connection that is being replaced, were it to send for ever


class _Connection:
    def __init__(self, to: Socket, peer: str, loop: Loop) -> None:
        self.to = to
        self.peer = peer
        self.since = loop.clock.monotonic()
        self.ready = False  # TLS has agreed, and it was challenged
        self.handshake: Handshake
        self.frame = b""  # the header of its opening, as it came
        self.opening: Opening | None = None  # what it has proved to bring
        self.answered = False  # and it has had the proof of this end
        self.writing = Writing(to, loop)
        self.inlet: _Inlet | None = None
        self.epoch = -1
        self.decoder: Decoder | None = None  # from the hello on
        self.reader: FrameReader
        self.behind = False  # bytes wait in it that no selector sees
        self.over = False


class _Inlet:
    """What is known of one channel."""

    def __init__(self, channel: ChannelId, schema: pa.Schema) -> None:
        self.channel = channel
        self.schema = schema
        self.connection: _Connection | None = None
        self.successor: _Connection | None = None  # has opened, and waits until its predecessor is read
        self.newest = -1  # highest epoch of a producer seen
        self.received = 0  # item after the last that came in this life
        self.ended = False
        self.parked = False
        self.due: int | None = None  # an acknowledgement to be sent
        self.acknowledged_at = -1.0


def _parked(connection: _Connection) -> bool:
    inlet = connection.inlet
    return inlet is not None and inlet.parked and inlet.connection is connection


class Inlets:
    """`expected` is asked which item of a channel its element expects next; `had` how far one from a group has come,
    when these messages are taken too; `issued` which is the highest epoch that a producer of a channel may have.
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
        had: Callable[[ChannelId, list[Message]], Delivered],
        issued: Callable[[ChannelId], float],
    ) -> None:
        self._had, self._issued = had, issued
        self._loop, self._pe, self._epoch, self._expected, self._layout = loop, pe, epoch, expected, layout
        self._token, self._location, self._security = token, location, security
        self._inlets = {channel: _Inlet(channel, schema) for channel, schema in channels.items()}
        self._strangers: dict[_Connection, None] = {}  # in the order in which they came
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
        """Read these channels no more, until told otherwise."""
        for channel, inlet in self._inlets.items():
            park = parked(channel)
            if park != inlet.parked:
                inlet.parked = park
                connection = inlet.connection
                if connection is not None:
                    self._watch(connection)
                    if not park and connection.behind:
                        connection.behind = False
                        self._read(connection)
                if not park and inlet.successor is not None:
                    self._take_over(inlet)

    def renew(self, epoch: int, line: int) -> None:
        """Another life of the element begins in this process: producers are to ask again what it expects."""
        self._epoch, self.line = epoch, line
        for inlet in self._inlets.values():
            for connection in (inlet.connection, inlet.successor):
                if connection is not None:
                    self._close(connection)
            inlet.connection = inlet.successor = inlet.due = None
            inlet.received, inlet.ended = 0, False

    def timers(self, now: float) -> None:
        """Do what is due."""
        self.due_at = now + 1.0
        for inlet in self._inlets.values():
            if inlet.due is not None:
                left = inlet.acknowledged_at + _ACKNOWLEDGE_EVERY - now
                if left <= 0:
                    self._answer(inlet.connection, FrameKind.ACKNOWLEDGEMENT, inlet.due)
                    inlet.due, inlet.acknowledged_at = None, now
                else:
                    self.due_at = min(self.due_at, now + left)
        if self._strangers:
            oldest = next(iter(self._strangers))
            if now - oldest.since > _INTRODUCTION:
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
                self._strangers[connection] = None
                if len(self._strangers) > _STRANGERS:
                    self._refuse(next(iter(self._strangers)), "too many connect and say nothing")
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
        """Agree on TLS, and challenge whoever is there, once; whether the connection lives."""
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
            with contextlib.suppress(OSError):  # what it had sent is still to be read
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
                self._take(connection, header, body)
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
        """What no selector sees, at once or when the channel is read again."""
        if _parked(connection):
            connection.behind = True
        else:
            self._read(connection)

    def _take(self, connection: _Connection, header: WireHeader, body: memoryview | None) -> None:
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
            raise DataError(f"channel {channel}: the columns that come are not those of the stream: {columns}")
        if epoch < inlet.newest:
            raise DataError(f"channel {channel}: the producer of epoch {epoch} was replaced by epoch {inlet.newest}")
        if self._closing:
            raise DataError(f"{self._pe} ends")
        if line != self.line:
            self._turn_away(connection, f"it lives under line {line} and {self._pe} under line {self.line}")
            return
        if epoch > self._issued(channel):
            return  # `announced` asks again
        self._strangers.pop(connection, None)
        connection.inlet, connection.epoch, inlet.newest = inlet, epoch, epoch
        connection.reader.admit = None  # what it may send from here on, its decoder knows
        if inlet.successor is not None:
            self._refuse(inlet.successor, self._replaced(inlet))
        inlet.successor = connection
        if inlet.connection is None or not inlet.parked:
            self._take_over(inlet)

    def announced(self) -> None:
        """The coordinator has said something: perhaps that it has issued the epoch of a producer that waits here."""
        for connection in [stranger for stranger in self._strangers if stranger.opening is not None]:
            assert connection.opening is not None
            try:
                self._open(connection, connection.opening)
            except DataError as wrong:
                self._refuse(connection, str(wrong))

    def _not_here(self, channel: ChannelId) -> str:
        try:
            consumer = self._layout.consumer(channel)
        except (KeyError, IndexError):
            return f"channel {channel} is none of this run"
        return f"channel {channel} ends at {consumer}, not here"

    def _replaced(self, inlet: _Inlet) -> str:
        return f"channel {inlet.channel}: this connection was replaced by one of epoch {inlet.newest}"

    def _take_over(self, inlet: _Inlet) -> None:
        """The successor's turn, behind all that its predecessor had sent."""
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
            return  # `_lost` has let it in
        self._let_in(inlet, successor)

    def _let_in(self, inlet: _Inlet, connection: _Connection) -> None:
        inlet.connection, inlet.ended = connection, False
        connection.decoder = Decoder(inlet.schema)
        self._answer(connection, FrameKind.HELLO, self._next(inlet), had=self._has_had(inlet.channel))
        self._watch(connection)

    def _next(self, inlet: _Inlet) -> int:
        """What has come is as good as taken by the element: it need not be sent again."""
        return max(self._expected(inlet.channel), inlet.received)

    def _has_had(self, channel: ChannelId) -> Delivered:
        """In words that every replica of the producer understands; what has come is as good as taken here too."""
        come = [e.message for e in self._loop.events if isinstance(e, Arrival) and e.channel == channel]
        return self._had(channel, come) if self._layout.retention(channel) in ("remember", "copy") else Delivered()

    # Ends -------------------------------------------------------------------------------------------------------------

    def _lost(self, connection: _Connection) -> None:
        """The connection is over, and all that came on it was read."""
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
                self._let_in(inlet, successor)

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
            self._strangers.pop(connection, None)
            self._loop.forget(connection.to)
            connection.to.close()

    def _answer(
        self,
        connection: _Connection | None,
        kind: FrameKind,
        number: int,
        text: bytes = b"",
        had: Delivered | None = None,
    ) -> None:
        """Best effort: whoever is not there any more is noticed when its connection is read to its end."""
        if connection is None or connection.over or not connection.ready:
            return
        with contextlib.suppress(OSError):
            header = WireHeader(kind, len(text), epoch=self._epoch, number=number)
            if had is not None and had.key > START_KEY:
                header = header._replace(watermark=had.key, born=had.items)
            if kind is FrameKind.REFUSED or connection.answered:
                connection.writing.write([pack(header) + text])
            else:
                connection.answered = True
                connection.writing.write([connection.handshake.answer(header)])
            self._watch(connection)

    def goodbye(self) -> None:
        """Tell every producer that this element ends, and let nobody in any more."""
        self._closing = True
        for connection in list(self._strangers):
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
        for connection in list(self._strangers):
            self._close(connection)
        for inlet in self._inlets.values():
            for open_ in (inlet.connection, inlet.successor):
                if open_ is not None:
                    self._close(open_)


def _late(opening: Opening | None) -> str:
    if opening is None:
        return "it did not say within 5 s which channel it brings"
    return f"channel {opening.channel}: the coordinator has issued no epoch {opening.epoch} of its producer"
