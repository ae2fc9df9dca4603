"""The retention *hold*: the producer holds items until they are acknowledged."""

from collections import deque
from collections.abc import Sequence

from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.cut import InletCut
from riprap.runtime.element.ledger import InputChannelRecord
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.retention.kind import RetentionKind, SavedInput
from riprap.runtime.retention.output_channel import OutputChannel


class HoldingOutput(OutputChannel):
    """Sends, and holds items until they are acknowledged."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._held = ResendBuffer(self._limit, lambda: self._host.spill(self.id), lossy=self.sender.lossy)
        self._sent_watermark: OrderKey | None = None  # sent to this consumer
        self._markers: deque[Message] = deque()  # to send ahead of all messages
        self._hole: int | None = None  # the expected item, if it was lost with the incarnation that held it

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
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


class HoldRetention(RetentionKind):
    """An input resumes at the checkpoint of its operator, since the producer holds what follows; for an operator
    without checkpoints, at the first item that it had not released.
    """

    name, recovery, output = "hold", "buffer", HoldingOutput
    gaps = gapless = acknowledged = rolls_back = True

    def input_start(self, record: InputChannelRecord, saved: SavedInput) -> tuple[int, int]:
        if not saved.in_unit:
            return record.retained_from, -1
        return self.resumed_at(record, saved, InletCut(0, 0, -1, -1))

    def redelivered(self, *, whole: bool, retains: bool) -> bool:
        return whole or retains

    def count_undone(self, record: InputChannelRecord, saved: int, promised: int) -> None:
        record.position = min(record.position, promised)  # delivered again from there, and output up to it was emitted
