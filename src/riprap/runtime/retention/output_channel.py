"""The output channel: what all kinds of retention have in common.

An output channel receives numbered messages, and sends, holds or logs them. It reacts to its consumer's connection and
acknowledgements. It announces a watermark with the last message where possible, else behind it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from riprap.graph.order_keys import END_KEY, START_KEY, KeyShape, OrderKey
from riprap.protocols.channel import Delivered, SendingEnd
from riprap.protocols.channels import ChannelId
from riprap.runtime.host import Host
from riprap.runtime.messages import Message, MessageKind

if TYPE_CHECKING:
    from riprap.runtime.element.ledger import OutputChannelRecord
    from riprap.runtime.element.shard_merge import EngineEvent


class OutputStream(NamedTuple):
    """What an output channel knows of its stream."""

    shape: KeyShape
    share: float = 1.0  # of the rows that are retained while the consumer is down


class OutputChannel:
    """One output channel, in one incarnation of its element."""

    emitted_to: Delivered | None = None  # the position up to which it has emitted, if consumers drop duplicates by key

    def __init__(
        self, id_: ChannelId, epoch: int, sender: SendingEnd, record: "OutputChannelRecord", host: Host, limit: int,
        stream: "OutputStream",
    ) -> None:  # fmt: skip
        self.id, self.sender, self.record, self.stream = id_, sender, record, stream
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

    def start(self, restored: Delivered | None, *, copied: bool) -> None:
        """The element starts; `restored`: up to where the copy whose state it has had emitted on this channel."""

    def tick(self) -> None:
        """Time passes."""

    def append_record(self, record: bytes) -> None:
        """Log a record of the element's state."""
        raise NotImplementedError

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        """Emit the messages of one engine call, at least one; the last may carry the watermark.

        `record`: of the element's state, to be logged with them.
        """
        raise NotImplementedError

    def announce(self, born: int = 0) -> None:
        """`announced` has changed, and no message carries it."""

    def send_marker(self, marker: bytes, *, ahead: bool) -> None:
        """Send a marker behind all messages, or ahead of those that wait."""
        raise NotImplementedError

    def number_items(self, items: int, event: "EngineEvent") -> int:
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
