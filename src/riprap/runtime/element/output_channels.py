"""How what was given out leaves an element: one output for each retention of a link.

A output gets the messages of its channel, numbered, and sends, holds or keeps them. It hears of its consumer and of
acknowledgements. Progress is told behind the last message; where it can be, with it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.protocols.channel import Delivered, Retention, SendingEnd
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import OutputChannelRecord
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.element.shard_merge import Given
from riprap.runtime.host import Host
from riprap.runtime.messages import Message, MessageKind


class OutputChannel:
    """A channel out of an element, in one life."""

    def __init__(
        self,
        channel: ChannelId,
        epoch: int,
        sender: SendingEnd,
        record: OutputChannelRecord,
        host: Host,
        limit: int,
    ) -> None:
        self.id, self.sender, self.record = channel, sender, record
        self._announced = self._last = START_KEY  # progress that was given out, and that before the end
        self._epoch, self._host, self._limit = epoch, host, limit

    @property
    def announced(self) -> OrderKey:
        """Progress that was given out."""
        return self._announced

    @announced.setter
    def announced(self, watermark: OrderKey) -> None:
        self._announced = watermark
        if watermark != END_KEY:
            self._last = watermark

    def emit(self, messages: Sequence[Message]) -> None:
        """Messages of one call of the engine, the last of which may tell progress; never none."""
        raise NotImplementedError

    def announce(self, born: int = 0) -> None:
        """`told` has changed, and no message tells it."""

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        """Send a marker, behind everything or in front of what waits."""
        raise NotImplementedError

    def number_items(self, items: int, event: Given) -> int:
        """Number the items of an event that is given out, in the ledger too; gives the first number."""
        sender, record = self.sender, self.record
        number = sender.numbered(items)
        if sender.number > record.number:
            record.number = sender.number
        return number

    @property
    def emitted(self) -> int:
        """Items that were given out, in all lives, each counted once: what a checkpoint has."""
        return self.sender.number

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        """The consumer is there and expects item `next_`; `had` says the same to a producer with other numbers."""
        self.sender.up = True

    def consumer_down(self) -> None:
        self.sender.up = False

    def acknowledged(self, next_: int) -> None:
        """The consumer will never ask for what is below."""

    def resend(self, first: int) -> None:
        """Send what is held again."""

    def activate(self, term: int, *, plain: bool) -> None:
        """This replica is to give out, under this term."""
        raise NotImplementedError

    def deactivate(self) -> None:
        """Another replica is."""
        raise NotImplementedError

    def release(self, delivered: Delivered, by_all: Delivered | None = None) -> None:
        """The consumer has come so far, whoever gave it that; of a consumer in copies all have come to `by_all`."""
        raise NotImplementedError

    def stamp(self, header: bytes) -> None:
        """Items that are numbered from now on carry it."""
        self.sender.header = header

    def adopt(self, previous: "OutputChannel") -> None:
        """Another life in this process had this output: what it held below the numbers of this one stays."""

    def flush(self) -> None:
        """Send what there is room for."""

    @property
    def ready(self) -> bool:
        """It is known whether the consumer is there."""
        return self.sender.up is not None

    blocked = False  # the consumer is not known to be down, and has no room for what it is to get

    @property
    def ended(self) -> bool:
        """The stream has ended, and nothing waits to be sent."""
        return self.announced == END_KEY

    @property
    def finished(self) -> bool:
        """As `ended`, whether it can be seen or not."""
        return self.ended

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
        """How far the stream had come before it ended: in a cycle that says how far time goes on in it."""
        return Message(
            MessageKind.WATERMARK,
            self._epoch,
            self.sender.number,
            watermark=self._last,
            header=self.sender.header,
        )

    def _marker(self, marker: bytes) -> Message:
        return Message(MessageKind.MARKER, self._epoch, self.sender.number, header=marker)


class DiscardingOutput(OutputChannel):
    """Sends while somebody is there, and forgets."""

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
            return  # it is told when somebody is there
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
    """Sends, and remembers until it is acknowledged."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._held = ResendBuffer(self._limit, lambda: self._host.spill(self.id), lossy=self.sender.lossy)
        self._sent_watermark: OrderKey | None = None  # progress that this consumer was told
        self._markers: deque[Message] = deque()  # to be sent ahead of everything
        self._hole: int | None = None  # the item that the consumer expects, if that was lost with a life that held it

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
        self._held.rewind(next_)  # below it, what was not acknowledged stays: a consumer that goes back may ask again
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
        if self.announced == END_KEY and self._sent_watermark != self._last:
            if not self._send(self._before_end()):
                return
            self._sent_watermark = self._last
        if self._send(self._watermark()):
            self._sent_watermark = self.announced

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
        """Keep a record of the element's own state."""
        self._host.append_record(self.id, record)

    def announce(self, born: int = 0) -> None:
        self._host.append(self.id, self._watermark(born))

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        self._host.append(self.id, self._marker(marker))


class CommittedOutput(LoggingOutput):
    """Keeps to itself what it is given, until nobody will go back to before it (`protocols/commitment.py`)."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._unseen = ResendBuffer(self._limit, lambda: self._host.spill(self.id))
        self._shown = START_KEY  # progress that can be seen

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        for message in messages:
            self._unseen.add(message)

    def announce(self, born: int = 0) -> None:
        """It is told with what comes before it."""

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        raise AssertionError("markers do not wait for a line")

    @property
    def unseen(self) -> Iterator[Message]:
        return self._unseen.messages()

    def show(self, below: int, told: OrderKey) -> None:
        """Items below this number can be seen, and that this much progress was made."""
        message = self._unseen.next()
        while message is not None and message.number < below:
            self._host.append(self.id, message)
            self._unseen.sent()
            message = self._unseen.next()
        self._unseen.release_sent()
        if told > self._shown:
            self._shown = told
            kind = MessageKind.END if told == END_KEY else MessageKind.WATERMARK
            self._host.append(self.id, Message(kind, self._epoch, below, watermark=told))

    @property
    def finished(self) -> bool:
        return self.announced == END_KEY

    @property
    def ended(self) -> bool:
        return self._shown == END_KEY


class RecomputedOutput(HoldingOutput):
    """Holds what has not been sent, and nothing else: a consumer that misses more recomputes it.

    While a consumer that came back takes what was held for it meanwhile, what follows is held too, and nobody else
    waits for it.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._behind = False

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        self._behind = self._held.unsent

    def flush(self) -> None:
        super().flush()
        self._held.release_sent()
        self._behind = self._behind and self._held.unsent

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return not self._behind and super().blocked


OUTPUTS: dict[Retention, type[OutputChannel]] = {
    "discard": DiscardingOutput, "hold": HoldingOutput, "log": LoggingOutput, "recompute": RecomputedOutput,
}  # fmt: skip
