"""The retention *discard*: what is sent while the consumer is down is lost, and counted."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from riprap.graph.order_keys import END_KEY
from riprap.protocols.channel import Delivered
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.retention.kind import RetentionKind
from riprap.runtime.retention.output_channel import OutputChannel


class DiscardingOutput(OutputChannel):
    """Sends while the consumer is up, and retains nothing."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._outbox: deque[Message] = deque()

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
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


class DiscardRetention(RetentionKind):
    """An input resumes at the position of the previous incarnation: what was sent since is lost."""

    name, recovery, output = "discard", "gap", DiscardingOutput
    gaps = True
