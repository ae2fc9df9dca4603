"""The output channels of an element: one class for each retention of a link.

An output channel receives numbered messages, and sends, holds or logs them. It reacts to its consumer's connection and
acknowledgements. It announces a watermark with the last message where possible, else behind it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.protocols.channel import Delivered, Retention, SendingEnd
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import OutputChannelRecord
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.element.shard_merge import EngineEvent
from riprap.runtime.host import Host
from riprap.runtime.messages import Message, MessageKind


class OutputChannel:
    """One output channel, in one incarnation of its element."""

    def __init__(
        self,
        id_: ChannelId,
        epoch: int,
        sender: SendingEnd,
        record: OutputChannelRecord,
        host: Host,
        limit: int,
    ) -> None:
        self.id, self.sender, self.record = id_, sender, record
        self._announced = self._last_before_end = START_KEY  # announced watermark, and the last one before the end
        self._epoch, self._host, self._limit = epoch, host, limit

    @property
    def announced(self) -> OrderKey:
        """The announced watermark."""
        return self._announced

    @announced.setter
    def announced(self, watermark: OrderKey) -> None:
        self._announced = watermark
        if watermark != END_KEY:
            self._last_before_end = watermark

    def emit(self, messages: Sequence[Message]) -> None:
        """Emit the messages of one engine call, at least one; the last may carry the watermark."""
        raise NotImplementedError

    def announce(self, born: int = 0) -> None:
        """`announced` has changed, and no message carries it."""

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        """Send a marker behind all messages, or ahead of those that wait."""
        raise NotImplementedError

    def number_items(self, items: int, event: EngineEvent) -> int:
        """Number the items of an emitted event, in the ledger too; returns the first number."""
        sender, record = self.sender, self.record
        number = sender.numbered(items)
        if sender.number > record.number:
            record.number = sender.number
        return number

    @property
    def emitted(self) -> int:
        """Items emitted by all incarnations, each counted once, as a checkpoint stores it."""
        return self.sender.number

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        """The consumer is up and expects item `next_`; `delivered` is the same position for other numberings."""
        self.sender.up = True

    def consumer_down(self) -> None:
        self.sender.up = False

    def acknowledged(self, next_: int) -> None:
        """The consumer will not request items below this number again."""

    def resend(self, first: int) -> None:
        """Send held items again, from this number on."""

    def activate(self, term: int, *, plain: bool) -> None:
        """Make this replica active, under this term."""
        raise NotImplementedError

    def deactivate(self) -> None:
        """Another replica is active."""
        raise NotImplementedError

    def release(self, delivered: Delivered, by_all: Delivered | None = None) -> None:
        """The consumer has this delivered position, from any replica; all its copies have reached `by_all`."""
        raise NotImplementedError

    def stamp(self, header: bytes) -> None:
        """Items numbered from now on carry this header."""
        self.sender.header = header

    def adopt(self, previous: "OutputChannel") -> None:
        """Adopt what the previous incarnation in this process holds below the numbers of this one."""

    def flush(self) -> None:
        """Send what there is room for."""

    @property
    def ready(self) -> bool:
        """It is known whether the consumer is up."""
        return self.sender.up is not None

    blocked = False  # the consumer may be up, and has no room for pending messages

    @property
    def ended(self) -> bool:
        """The stream has ended, and nothing waits to be sent."""
        return self.announced == END_KEY

    @property
    def finished(self) -> bool:
        """As `ended`, published or not."""
        return self.ended

    def validate(self) -> None:
        """Raise for a broken invariant."""
        assert self._last_before_end <= self._announced, f"{self.id}: announced {self._announced}"
        assert self.emitted <= self.record.number, f"{self.id}: {self.emitted} items, counted {self.record.number}"

    def _watermark(self, born: int = 0) -> Message:
        kind = MessageKind.END if self.announced == END_KEY else MessageKind.WATERMARK
        return Message(
            kind,
            self._epoch,
            self.sender.number,
            watermark=self.announced,
            born=born,
            header=self.sender.header,
        )

    def _before_end(self) -> Message:
        """The last watermark before the end: in a cycle it tells how far event time goes."""
        return Message(
            MessageKind.WATERMARK,
            self._epoch,
            self.sender.number,
            watermark=self._last_before_end,
            header=self.sender.header,
        )

    def _marker(self, marker: bytes) -> Message:
        return Message(MessageKind.MARKER, self._epoch, self.sender.number, header=marker)


class DiscardingOutput(OutputChannel):
    """Sends while the consumer is up, and retains nothing."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._outbox: deque[Message] = deque()

    def emit(self, messages: Sequence[Message]) -> None:
        if self.sender.up is False:
            self.record.discarded += sum(message.items for message in messages)
        else:
            self._outbox.extend(messages)

    def announce(self, born: int = 0) -> None:
        if self.sender.up is False:
            return  # announced when the consumer is up
        outbox, message = self._outbox, self._watermark(born)
        if outbox and outbox[-1].kind is MessageKind.WATERMARK and message.kind is MessageKind.WATERMARK:
            outbox[-1] = message
        elif outbox and outbox[-1].kind is MessageKind.ROWS and message.kind is MessageKind.WATERMARK:
            outbox[-1] = replace(outbox[-1], watermark=self.announced)
        else:
            outbox.append(message)

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        if self.sender.up is not False:
            (self._outbox.appendleft if ahead else self._outbox.append)(self._marker(marker))

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        if self.announced == END_KEY:
            self._outbox.append(self._before_end())
        self._outbox.append(self._watermark())

    def consumer_down(self) -> None:
        super().consumer_down()
        self._outbox.clear()

    def flush(self) -> None:
        outbox = self._outbox
        while outbox and self._host.send(self.id, outbox[0]):
            outbox.popleft()

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return bool(self._outbox)

    @property
    def ended(self) -> bool:
        return self.announced == END_KEY and not self._outbox


class HoldingOutput(OutputChannel):
    """Sends, and holds items until they are acknowledged."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._held = ResendBuffer(self._limit, lambda: self._host.spill(self.id), lossy=self.sender.lossy)
        self._sent_watermark: OrderKey | None = None  # sent to this consumer
        self._markers: deque[Message] = deque()  # to send ahead of all messages
        self._hole: int | None = None  # the expected item, if it was lost with the incarnation that held it

    def emit(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._held.add(message)

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        if ahead:
            if self.sender.up is not False:
                self._markers.append(self._marker(marker))
        else:
            self._held.add(self._marker(marker))

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        self._hole = next_ if self._held.first(self.sender.number) > next_ else None
        self._held.rewind(next_)  # unacknowledged items below it stay: a consumer that rolls back may request them
        self._sent_watermark = None

    def consumer_down(self) -> None:
        super().consumer_down()
        self._markers.clear()

    def acknowledged(self, next_: int) -> None:
        self._held.release(next_)

    def resend(self, first: int) -> None:
        self._held.rewind(first)

    def adopt(self, previous: OutputChannel) -> None:
        if isinstance(previous, HoldingOutput):
            self._held.adopt(previous._held, self.sender.number, self._epoch)

    def flush(self) -> None:
        if not self.sender.up:
            return
        while self._markers:
            if not self._send(self._markers[0]):
                return
            self._markers.popleft()
        held = self._held
        message = held.next()
        while message is not None:
            if not self._send(message):
                return
            held.sent()
            if message.watermark is not None:
                self._sent_watermark = message.watermark
            message = held.next()
        if not held.drained or self.announced == self._sent_watermark:
            return
        if self.announced == END_KEY and self._sent_watermark != self._last_before_end:
            if not self._send(self._before_end()):
                return
            self._sent_watermark = self._last_before_end
        if self._send(self._watermark()):
            self._sent_watermark = self.announced

    def validate(self) -> None:
        super().validate()
        self._held.validate()

    def _send(self, message: Message) -> bool:
        if not self._host.send(self.id, message, self._hole):
            return False
        if message.kind is not MessageKind.MARKER:
            self._hole = None
        return True

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return self.sender.up is not False and (self._held.unsent or bool(self._markers))

    @property
    def ended(self) -> bool:
        return self._sent_watermark == END_KEY


class LoggingOutput(OutputChannel):
    """Appends to the persistent stream of the channel, or of a sink."""

    ready = True  # type: ignore[assignment]

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        for message in messages[:-1]:
            self._host.append(self.id, message)
        self._host.append(self.id, messages[-1], record)

    def append_record(self, record: bytes) -> None:
        """Log a record of the element's state."""
        self._host.append_record(self.id, record)

    def announce(self, born: int = 0) -> None:
        self._host.append(self.id, self._watermark(born))

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        self._host.append(self.id, self._marker(marker))


class CommittedOutput(LoggingOutput):
    """Withholds output until no element will roll back to before it (`protocols/commitment.py`)."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._unpublished = ResendBuffer(self._limit, lambda: self._host.spill(self.id))
        self._published = START_KEY  # published watermark

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        for message in messages:
            self._unpublished.add(message)

    def announce(self, born: int = 0) -> None:
        """The watermark is published with the items before it."""

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        raise AssertionError("a committed channel carries no markers")

    @property
    def unpublished(self) -> Iterator[Message]:
        return self._unpublished.messages()

    def publish(self, below: int, watermark: OrderKey) -> None:
        """Publish the items below this number, and the watermark."""
        message = self._unpublished.next()
        while message is not None and message.number < below:
            self._host.append(self.id, message)
            self._unpublished.sent()
            message = self._unpublished.next()
        self._unpublished.release_sent()
        if watermark > self._published:
            self._published = watermark
            kind = MessageKind.END if watermark == END_KEY else MessageKind.WATERMARK
            self._host.append(self.id, Message(kind, self._epoch, below, watermark=watermark))

    @property
    def finished(self) -> bool:
        return self.announced == END_KEY

    @property
    def ended(self) -> bool:
        return self._published == END_KEY


class RecomputedOutput(HoldingOutput):
    """Holds only what has not been sent: a consumer that misses more recomputes it.

    While a restarted consumer processes what was held for it, new items are held too, and no other channel is blocked.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._catching_up = False

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        self._catching_up = self._held.unsent

    def flush(self) -> None:
        super().flush()
        self._held.release_sent()
        self._catching_up = self._catching_up and self._held.unsent

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return not self._catching_up and super().blocked


OUTPUTS: dict[Retention, type[OutputChannel]] = {
    "discard": DiscardingOutput, "hold": HoldingOutput, "log": LoggingOutput, "recompute": RecomputedOutput,
}  # fmt: skip
