"""Output channels with the retention *while-down*: they write to disk only while the consumer is down.

    consumer up            it gets what is emitted; unacknowledged items are held in memory, and nothing is written
    consumer down          held items go to the shelf, a place on disk that survives this process; then emitted items
                           do, or a share of them
    consumer restarted     it gets the items on the shelf from the number that it expects; all new items go behind them
    consumer caught up     writing stops; acknowledged items leave the shelf

An incarnation finds on the shelf what earlier ones put there. What one of them held in memory when it died is lost, so
the shelf may have gaps: it is read by number, and the consumer counts what is missing. If a share of a batch is
retained, its rows get the last numbers of the batch: it remains one message, with a gap before it.

While the consumer catches up, it blocks no other channel, until as many items have been emitted meanwhile as were on
the shelf at its restart: a consumer slower than its producer would never catch up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.columns import keys_of
from riprap.protocols.channel import Delivered, sampled
from riprap.runtime.element.ledger import InputChannelRecord
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.messages import Message
from riprap.runtime.retention.kind import RetentionKind
from riprap.runtime.retention.output_channel import OutputChannel


class WhileDownOutput(OutputChannel):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._shelf = self._host.shelf(self.id)
        self._held = self._memory()
        self._shelved = self._shelf.next  # number after the last item on the shelf
        self._shelving = self._shelved > 0  # emitted items go to the shelf
        self._reading: Iterator[Message] | None = None
        self._until = 0  # end of the shelf when reading started
        self._read_to = 0  # number after the last item read for this consumer
        self._unsent: Message | None = None  # read, and the consumer had no room
        self._sent_to = 0  # number of the next item for this consumer
        self._allowance = 0  # items to emit before a consumer that catches up blocks
        self._sent_watermark: OrderKey | None = None  # sent to this consumer
        if self.sender.guarded:  # numbers continue; if a machine crash took the ledger, from the shelf
            self.sender.number = max(self.sender.number, self._shelved)

    def _memory(self) -> ResendBuffer:
        return ResendBuffer(self._limit, lambda: self._host.spill(self.id))

    # Emitting ---------------------------------------------------------------------------------------------------------

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        if not self._shelving:
            for message in messages:
                self._held.add(message)
        elif self.sender.up is False and self.stream.share < 1:
            for message in messages:
                part = self._sampled(message)
                self.record.discarded += message.items - (0 if part is None else part.items)
                if part is not None:
                    self._put(part)
        else:
            for message in messages:
                self._allowance -= message.items
                self._put(message)

    def _put(self, message: Message) -> None:
        self._shelf.append(message)
        self._shelved = max(self._shelved, message.number + message.items)

    def _sampled(self, message: Message) -> Message | None:
        """The retained rows, under the last numbers of the message; None: none. Punctuations are always retained."""
        if message.batch is None:
            return message
        rows = np.flatnonzero(sampled(keys_of(message.batch, self.stream.shape), self.stream.share))
        if not len(rows):
            return None
        if len(rows) == message.items:
            return message
        return replace(message, number=message.number + message.items - len(rows), batch=message.batch.take(rows))

    # The consumer -----------------------------------------------------------------------------------------------------

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        self._sent_to, self._sent_watermark, self._unsent, self._reading = next_, None, None, None
        if self._shelving or next_ < self._shelved:
            self._shelve()
            self._read_to = next_
            self._allowance = max(self._shelved - next_, 0)
        else:
            self._held.rewind(next_)

    def consumer_down(self) -> None:
        super().consumer_down()
        self._shelve()
        self._reading = self._unsent = None

    def _shelve(self) -> None:
        """Move held items to the shelf, where emitted items will follow."""
        for message in self._held.emptied():
            self._put(message)
        self._held = self._memory()
        self._shelving = True

    def acknowledged(self, next_: int) -> None:
        self._held.release(next_)
        self._shelf.release(next_)

    # Sending ----------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if not self.sender.up:
            return
        while self._shelving:
            message = self._unsent or self._from_shelf()
            if message is None:
                self._shelving = False  # it has caught up
            elif self._send(message):
                self._unsent = None
            else:
                self._unsent = message
                return
        message = self._held.next()
        while message is not None:
            if not self._send(message):
                return
            self._held.sent()
            message = self._held.next()
        if self._held.drained and self.announced != self._sent_watermark and self._send(self._watermark()):
            self._sent_watermark = self.announced

    def _from_shelf(self) -> Message | None:
        """The next message on the shelf to send; None: all were sent."""
        while self._read_to < self._shelved:
            if self._reading is None:
                self._reading, self._until = self._shelf.since(self._read_to), self._shelved
            message = next(self._reading, None)
            if message is not None:
                self._read_to = message.number + message.items
                return replace(message, epoch=self._epoch)
            self._reading, self._read_to = None, self._until  # there may be more by now
        self._reading = None
        return None

    def _send(self, message: Message) -> bool:
        after = self._sent_to if message.number > self._sent_to else None  # the items in between are lost
        if not self._host.send(self.id, message, after):
            return False
        self._sent_to = message.number + message.items
        return True

    def validate(self) -> None:
        super().validate()
        self._held.validate()
        assert not (self._unsent and not self._shelving), f"{self.id}: a message of the shelf waits after its end"

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        if self._shelving:
            return bool(self.sender.up) and self._allowance <= 0
        return self.sender.up is not False and self._held.unsent

    @property
    def ended(self) -> bool:
        return self._sent_watermark == END_KEY


class WhileDownRetention(RetentionKind):
    """An input resumes at the position of the previous incarnation, and the producer has retained what was sent since.
    What was processed after the checkpoint is forgotten, and counted.
    """

    name, recovery, output = "while-down", "while-down", WhileDownOutput
    gaps = gapless = True

    def count_undone(self, record: InputChannelRecord, saved: int, promised: int) -> None:
        record.forgotten += max(record.received - max(saved, record.at_start), 0)
