"""The retention *log*: items go to a persistent stream, which the consumer reads."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut
from riprap.runtime.element.ledger import InputChannelRecord, Ledger, OutputChannelRecord
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.retention.kind import RetentionKind, SavedInput
from riprap.runtime.retention.output_channel import OutputChannel

if TYPE_CHECKING:
    from riprap.runtime.host import Host


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


class LogRetention(RetentionKind):
    """An input resumes at the checkpoint, or at the start of the log. Numbers of a log continue from its end: items
    that were numbered and did not reach it do not exist.
    """

    name, recovery, output, committed_output = "log", "replay", LoggingOutput, CommittedOutput
    logged = never_silent = True

    def input_start(self, record: InputChannelRecord, saved: SavedInput) -> tuple[int, int]:
        return self.resumed_at(record, saved, InletCut(0, 0, 0, 0))

    def redelivered(self, *, whole: bool, retains: bool) -> bool:
        return whole

    def next_number(self, channel: ChannelId, ledger: Ledger, host: "Host") -> int:
        record, end = ledger.outputs[channel], host.log_end(channel)
        if end < record.number:  # numbered, but not in the log at the crash
            ledger.begin()
            record.discarded += record.number - end
            record.log_until = host.log_max_time(channel)
            record.number = end
            ledger.commit()
        return record.number

    def emitted(self, record: OutputChannelRecord) -> int:
        return record.number + record.discarded
