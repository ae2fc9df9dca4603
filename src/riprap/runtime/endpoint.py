"""The receiving end of a processing element's channels: a Flight server that fills the inbox.

Each channel is one `DoExchange` call, opened by its producer; the descriptor names the channel and the producer's
epoch. The first answer tells the producer which item is expected next. Then messages come in and acknowledgements go
back. (`DoExchange`, not `DoPut`, because there the schema follows with the first rows, when the sender knows which
columns come as dictionaries.)

Refused, and logged: calls without the token (`wire.py`), a channel that does not end here, a producer whose epoch is
older than one that was seen, and columns that are not those of the stream. A producer that connects again takes its
channel over: what the older connection still sends is refused.

Faults: a connection that breaks without END posts `ProducerGone`. Nothing is said of items that were on their way;
their numbers tell. Threads: one per connected channel (Flight's own), one for acknowledgements.
"""

import json
import logging
from collections.abc import Callable, Mapping
from threading import Condition, Lock, Thread

import pyarrow as pa
from pyarrow import flight

from riprap.base.errors import DataError
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ProducerGone
from riprap.runtime.envelope import Answer, AnswerKind, decode, encode_answer
from riprap.runtime.hosting import Arrival
from riprap.runtime.inbox import Inbox
from riprap.runtime.messages import Kind
from riprap.runtime.run import Run
from riprap.runtime.wire import Server, location, own_address, server_arguments

_log = logging.getLogger(__name__)

_ACKNOWLEDGE_EVERY = 0.02  # seconds: at most so often does a channel acknowledge
_GOODBYE = 5.0  # seconds that producers have to hang up when the endpoint closes


def describe(channel: ChannelId, epoch: int) -> flight.FlightDescriptor:
    """How a producer names what it opens."""
    return flight.FlightDescriptor.for_command(json.dumps([*channel, epoch]).encode())


def described(descriptor: flight.FlightDescriptor) -> tuple[ChannelId, int]:
    try:
        stream, source, target, epoch = json.loads(descriptor.command or b"")
        return ChannelId(str(stream), int(source), int(target)), int(epoch)
    except (ValueError, TypeError) as error:
        raise DataError(f"a descriptor that names no channel: {descriptor.command!r}") from error


class _Connection:
    """One call of one producer. `answer` may be called from any thread, also after the call is over."""

    def __init__(self, epoch: int, writer: flight.MetadataRecordBatchWriter) -> None:
        self.epoch = epoch
        self.superseded = False
        self._writer: flight.MetadataRecordBatchWriter | None = writer
        self._lock = Lock()

    def answer(self, answer: Answer) -> None:
        with self._lock:
            if self._writer is not None:
                try:
                    self._writer.write_metadata(encode_answer(answer))
                except (flight.FlightError, pa.ArrowException, OSError):
                    self._writer = None  # broken: the call's own thread finds out by itself

    def over(self) -> None:
        with self._lock:
            self._writer = None


class _Channel:
    """What the endpoint knows of one channel. `turn` is held by the connection that fills the inbox."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.turn = Lock()
        self.connection: _Connection | None = None
        self.newest = -1  # highest epoch of a producer seen
        self.received = 0  # item after the last that went into the inbox in this life
        self.ended = False


class Endpoint:
    """`expected` is asked from other threads which item of a channel its element expects next."""

    def __init__(
        self,
        pe: str,
        epoch: int,
        channels: Mapping[ChannelId, pa.Schema],
        expected: Callable[[ChannelId], int],
        inbox: Inbox,
        run: Run,
    ) -> None:
        self._pe = pe
        self._epoch = epoch
        self._expected = expected
        self._inbox = inbox
        self._layout = run.layout
        self._channels = {channel: _Channel(schema) for channel, schema in channels.items()}
        self._due: dict[ChannelId, int] = {}  # acknowledgements to be sent
        self._wanted = Condition()
        self._closed = False
        host = run.host or own_address(run.coordinator)
        arguments = server_arguments(f"the endpoint of {pe}", host, run.token, run.tls)
        self._server = Server(self.receive, (DataError,), flight.FlightServerError, **arguments)
        self.location = location(host, self._server.port, run.tls)
        self._acknowledger = Thread(target=self._acknowledge, name=f"acknowledgements of {pe}", daemon=True)
        self._acknowledger.start()

    def acknowledge(self, channel: ChannelId, next: int) -> None:
        """Tell the producer, soon, that all items below `next` are taken. Never waits."""
        with self._wanted:
            self._due[channel] = next
            self._wanted.notify()

    def close(self) -> None:
        """Say goodbye to every producer and free the port. Close the inbox first: connections may wait for it."""
        with self._wanted:
            if self._closed:
                return
            self._closed = True
            self._wanted.notify()
        self._acknowledger.join()
        for channel, state in self._channels.items():
            if (connection := state.connection) is not None:
                connection.answer(Answer(AnswerKind.GOODBYE, self._epoch, self._next(channel)))
        # The server waits for its calls; where a hanging producer does not hang up, the port goes with the process.
        closing = Thread(target=self._server.shutdown, name=f"closing the endpoint of {self._pe}", daemon=True)
        closing.start()
        closing.join(_GOODBYE)

    def _next(self, channel: ChannelId) -> int:
        """What is in the inbox is as good as taken by the element: it need not be sent again."""
        return max(self._expected(channel), self._channels[channel].received)

    def _acknowledge(self) -> None:
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._due or self._closed)
                due, self._due = self._due, {}
            for channel, following in due.items():
                if (connection := self._channels[channel].connection) is not None:
                    connection.answer(Answer(AnswerKind.ACKNOWLEDGEMENT, self._epoch, following))
            with self._wanted:
                if self._wanted.wait_for(lambda: self._closed, _ACKNOWLEDGE_EVERY) and not self._due:
                    return

    # One call -----------------------------------------------------------------------------------------------------

    def receive(
        self,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Serve one connection of a producer until it ends, breaks, or is taken over."""
        channel, epoch = described(descriptor)
        state = self._channels.get(channel)
        if state is None:
            raise DataError(self._not_here(channel))
        connection = _Connection(epoch, writer)
        self._take_over(channel, state, connection)
        try:
            if self._closed:  # set before the goodbyes: whom they did not reach is told here
                raise DataError(f"{self._pe} ends")
            connection.answer(Answer(AnswerKind.HELLO, self._epoch, self._next(channel)))
            self._read(channel, state, connection, reader)
        finally:
            connection.over()
            with state.turn:
                if not connection.superseded:
                    state.connection = None
                    self._gone(channel, state, connection)

    def _not_here(self, channel: ChannelId) -> str:
        try:
            consumer = self._layout.consumer(channel)
        except KeyError:
            return f"channel {channel} is none of this run"
        return f"channel {channel} ends at {consumer}, not here"

    def _take_over(self, channel: ChannelId, state: _Channel, connection: _Connection) -> None:
        with state.turn:
            if connection.epoch < state.newest:
                raise DataError(
                    f"channel {channel}: the producer of epoch {connection.epoch} was replaced by epoch {state.newest}"
                )
            if state.connection is not None:
                state.connection.superseded = True
                self._gone(channel, state, state.connection)
            state.newest = connection.epoch
            state.ended = False
            state.connection = connection

    def _gone(self, channel: ChannelId, state: _Channel, connection: _Connection) -> None:
        if not state.ended:
            self._inbox.post(ProducerGone(channel, connection.epoch))

    def _read(
        self,
        channel: ChannelId,
        state: _Channel,
        connection: _Connection,
        reader: flight.MetadataRecordBatchReader,
    ) -> None:
        checked = False
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            except (flight.FlightError, pa.ArrowException, OSError):
                return  # broken; whether that is news depends on END
            if chunk.data is not None and not checked:
                _check_schema(channel, state.schema, chunk.data.schema)
                checked = True
            message = decode(chunk.app_metadata.to_pybytes() if chunk.app_metadata is not None else b"", chunk.data)
            with state.turn:
                if connection.superseded:
                    raise DataError(f"channel {channel}: this connection was replaced by one of epoch {state.newest}")
                state.ended = message.kind is Kind.END
                if not self._inbox.put(Arrival(channel, message)):
                    return
                state.received = max(state.received, message.number + message.items)


def _check_schema(channel: ChannelId, expected: pa.Schema, given: pa.Schema) -> None:
    if plain_schema(given) != plain_schema(expected):
        raise DataError(f"channel {channel}: the columns that come are not those of the stream: {given.names}")


def plain_schema(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types, whether a column is dictionary-encoded or not."""
    return [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
