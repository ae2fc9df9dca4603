"""The sending end of a channel.

A sender finds the consumer, opens the channel, and posts `ConsumerUp` with the item that the consumer expects. From
then on it takes messages into a bounded queue and sends them in order, joined where several wait. When the connection
breaks it drops its queue, posts `ConsumerDown`, and tries again: the newest life of the consumer, which may be the
same one. While it is not connected it takes nothing.

What a broken connection means: of the messages sent or queued since the last acknowledgement nobody knows how many
arrived. The `next` of the following `ConsumerUp` tells exactly. On a buffer channel no item may be left out, so after
each `ConsumerUp` the queue takes first the item `next`, or an earlier one: an element that has not yet seen that its
consumer came back cannot tear a hole.

Back pressure: a full inbox at the consumer stops the stream, then the queue fills (`buffer_bytes`), then `offer`
waits or says no. A consumer that hangs stops the stream too, and a write that waits for it cannot be called off. When
a newer life of the consumer is known, that connection is left to itself and a new one is opened beside it.

Threads: one that connects and writes, and one per connection that reads the answers.
"""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread

import pyarrow as pa
from pyarrow import flight

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import DataError
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp
from riprap.runtime.endpoint import describe
from riprap.runtime.envelope import AnswerKind, decode_answer, encode
from riprap.runtime.form import OPTIONS, Form
from riprap.runtime.inbox import Inbox
from riprap.runtime.messages import Message
from riprap.runtime.run import Run
from riprap.runtime.transport.joining import take_joined
from riprap.runtime.transport.weight import Weigher
from riprap.runtime.wire import Address, call_options, connect

# The newest known address of an element's life after the given epoch; waits for one up to a timeout in seconds. With
# timeout 0 it must be cheap: senders ask on their way.
Find = Callable[[str, int, float], Address | None]

_log = logging.getLogger(__name__)

_JOINED_ROWS = 16_384  # measured: longer messages are not faster
_PAUSE = 0.0003  # seconds that a sender lets messages gather after a small one; the first after a silence goes at once
_LOOK = 0.25  # seconds between looks for a newer consumer while nothing happens
_RETRY = 0.02  # seconds until an address that did not answer is tried again
_RETRY_MOST = 1.0  # seconds; until there each attempt waits twice as long as the one before
_FAREWELL = 5.0  # seconds that a consumer has to end the call when the sender closes
_BROKEN = (flight.FlightError, pa.ArrowException, OSError, StopIteration, DataError)


class _Connection:
    """One call to one life of the consumer. Its flags are guarded by the sender's condition."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.greeted = False  # the consumer has answered at least once
        self.up = False  # it has, and the connection is not over
        self.over = False  # broken, ended, or left to itself
        self.goodbye = False  # the consumer ends: this life of it will not answer again
        self.client: flight.FlightClient | None = None
        self.writer: flight.MetadataRecordBatchWriter | None = None
        self.reader: flight.MetadataRecordBatchReader | None = None

    def end(self, *, drained: bool) -> None:
        """Hang up; then the answers end too. `drained`: the consumer lives, and is to read what was written.

        A broken call is cancelled, which is safe at any time. To end its writing could end it a second time, as the
        reading side does so when it fails, and then gRPC aborts the process.
        """
        with suppress(*_BROKEN):
            if drained and self.writer is not None:
                self.writer.done_writing()
            elif self.reader is not None:
                self.reader.cancel()

    def free(self) -> None:
        """When nobody reads any more."""
        with suppress(*_BROKEN):
            if self.writer is not None:
                self.writer.close()
        with suppress(*_BROKEN):
            if self.client is not None:
                self.client.close()


class Sender:
    """`pe` is the consumer; `epoch` is the producer's, whose life this sender belongs to."""

    def __init__(
        self, channel: ChannelId, schema: pa.Schema, epoch: int, find: Find, pe: str, inbox: Inbox, run: Run
    ) -> None:
        self._channel = channel
        self._schema = schema
        self._epoch = epoch
        self._find = find
        self._consumer = pe
        self._inbox = inbox
        self._token, self._tls = run.token, run.tls
        self._limit = run.buffer_bytes
        self._most_rows = min(_JOINED_ROWS, run.batch_rows)
        self._gapless = run.layout.link(channel.stream).recovery == "buffer"
        self._changed = Condition()
        self._connection: _Connection | None = None  # the current one, from the attempt to connect on
        self._queue: deque[Message] = deque()
        self._weigher = Weigher()
        self._weights: deque[int] = deque()  # bytes of each message in the queue
        self._bytes = 0  # of the queue
        self._writing = 0  # items between the queue and the connection
        self._next = 0  # the item after the last that was queued, or that the consumer expects
        self._closed = False
        self._draining = False
        self._complaint = ""  # the last that was logged, so that trying again does not fill the log
        self._thread = self._started()

    # For the element --------------------------------------------------------------------------------------------------

    def offer(self, message: Message, timeout: float) -> bool:
        """Queue a message. False: not connected, no room within `timeout` seconds, or it would tear a hole."""
        size = self._weigher.weigh(message)
        with self._changed:
            self._changed.wait_for(lambda: not self._takes() or self._bytes < self._limit, timeout)
            if self._takes() and self._bytes < self._limit:
                if self._gapless and message.number > self._next:
                    return False
                self._next = message.number + message.items
                self._bytes += size
                self._weights.append(size)
                self._queue.append(message)
                self._changed.notify_all()
                return True
        self._leave_if_replaced()
        return False

    def pending(self) -> int:
        """Items that were taken and not yet handed to the connection."""
        with self._changed:
            return self._writing + sum(message.items for message in self._queue)

    def close(self, drain: bool) -> None:
        """End the connection; with `drain`, once the consumer has everything, if it is there.

        That can take as long as the consumer likes: who must give signs of life meanwhile waits for `Acknowledged`
        first.
        """
        with self._changed:
            self._draining = drain
            self._closed = True
            self._changed.notify_all()
        while drain and self._thread.is_alive():
            self._thread.join(_LOOK)
            self._leave_if_replaced()
        self._thread.join(_FAREWELL)

    def _takes(self) -> bool:
        return not self._closed and self._connection is not None and self._connection.up

    # Connecting -------------------------------------------------------------------------------------------------------

    def _started(self) -> Thread:
        thread = Thread(target=self._run, name=f"sender of {self._channel}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        past = 0  # lives up to this epoch will not answer again
        delay = _RETRY
        while not self._closed:
            address = self._find(self._consumer, past, _LOOK)
            if address is None:
                continue
            connection = _Connection(address)
            with self._changed:
                self._connection = connection
            self._converse(connection)
            with self._changed:
                if self._connection is not connection:
                    return  # it was left to itself: another thread goes on
            if connection.goodbye:
                past = address.epoch
            elif connection.greeted:
                delay = _RETRY
            elif not self._closed:
                self._find(self._consumer, address.epoch, delay)
                delay = min(2 * delay, _RETRY_MOST)

    def _converse(self, connection: _Connection) -> None:
        """Open the channel, and write until the connection is over."""
        listener = Thread(target=self._listen, args=(connection,), name=f"answers on {self._channel}", daemon=True)
        listener.start()
        try:
            self._write(connection)
        except _BROKEN as error:
            self._complain(connection, error)
        drained = self._draining and not connection.over
        self._over(connection)
        connection.end(drained=drained)
        listener.join()
        connection.free()

    def _leave_if_replaced(self) -> None:
        """Leave the current connection to itself if it leads to an older life of the consumer than there is."""
        connection = self._connection
        if connection is None or self._find(self._consumer, connection.address.epoch, 0.0) is None:
            return
        with self._changed:
            if self._connection is connection and not connection.over:
                self._over(connection)
                self._connection = None
                self._thread = self._started()

    def _over(self, connection: _Connection) -> None:
        with self._changed:
            if connection.up:
                self._queue.clear()
                self._weights.clear()
                self._bytes = self._writing = 0
                if not self._closed:
                    self._inbox.post(ConsumerDown(self._channel))
            connection.over = True
            connection.up = False
            self._changed.notify_all()

    def _complain(self, connection: _Connection, error: BaseException) -> None:
        """Say why the consumer refused. That it is not there is no news: the coordinator knows."""
        text = str(error)
        if not isinstance(error, flight.FlightUnavailableError | StopIteration) and text != self._complaint:
            self._complaint = text
            _log.warning("%s to epoch %d: %s", self._channel, connection.address.epoch, text)

    # Writing and listening --------------------------------------------------------------------------------------------

    def _write(self, connection: _Connection) -> None:
        form: Form | None = None
        while (message := self._take(connection)) is not None:
            metadata = encode(message)
            assert connection.writer is not None, "nothing is queued before the consumer has answered"
            if message.batch is None:
                connection.writer.write_metadata(metadata)
            else:
                if form is None:
                    form = Form(self._schema, message.batch)
                    connection.writer.begin(form.schema, options=OPTIONS)
                connection.writer.write_with_metadata(form.give(message.batch), metadata)
            if message.items < self._most_rows // 2:
                SYSTEM_CLOCK.sleep(_PAUSE)

    def _take(self, connection: _Connection) -> Message | None:
        """The next message to be written; None when nothing is to be written any more."""
        while True:
            with self._changed:
                if not connection.over:
                    self._writing = 0
                self._changed.wait_for(lambda: connection.over or self._closed or self._queue, _LOOK)
                if connection.over or (self._closed and not (self._draining and self._queue)):
                    return None
                if self._queue:  # so the connection is up
                    message, parts = take_joined(self._queue, self._most_rows)
                    self._bytes -= sum(self._weights.popleft() for _ in range(parts))
                    self._writing = message.items
                    self._changed.notify_all()
                    return message
            self._leave_if_replaced()

    def _listen(self, connection: _Connection) -> None:
        try:
            connection.client = connect(connection.address.location, self._tls)
            connection.writer, connection.reader = connection.client.do_exchange(
                describe(self._channel, self._epoch), call_options(self._token)
            )
            self._hear(connection, connection.reader)
        except _BROKEN as error:
            self._complain(connection, error)
        self._over(connection)

    def _hear(self, connection: _Connection, reader: flight.MetadataRecordBatchReader) -> None:
        """Take answers until the connection is over."""
        while True:
            kind, epoch, following = decode_answer(reader.read_chunk().app_metadata.to_pybytes())
            with self._changed:
                if connection.over:
                    return
                if kind is AnswerKind.GOODBYE:
                    connection.goodbye = True
                    return
                if kind is AnswerKind.HELLO:
                    connection.greeted = connection.up = True
                    self._next = following
                    self._inbox.post(ConsumerUp(self._channel, epoch, following))
                else:
                    self._inbox.post(Acknowledged(self._channel, following))
                self._changed.notify_all()
