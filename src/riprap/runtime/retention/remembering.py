"""Output channels with the retention *remember*: those that leave an HA group.

A replica holds every item that was not delivered to the consumer, from any replica; the director sends the delivered
position as a key (`release`). A standby replica sends nothing. When it becomes active, it opens the channel under the
term of its activation, the consumer answers with the key of its last delivered item, and the replica sends the items
after it, under the numbers that the consumer expects:

    number on the wire = number here + offset

The offset is set when the consumer answers: by its number if this replica has sent to it in this term, else by its key.
With `plain` the replica starts with what it emits next. Held items are dropped, which leaves a gap in the numbers and
counts as lost. Items that the consumer got from the other replica and this one emits again are dropped too, and
reported as doubled.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.runtime.element.arrivals import keys_of_message, renumbered
from riprap.runtime.messages import Message
from riprap.runtime.retention.holding import HoldingOutput
from riprap.runtime.retention.kind import RetentionKind

if TYPE_CHECKING:
    from riprap.runtime.element.element_inputs import InputChannel
    from riprap.runtime.element.shard_merge import EngineEvent


class RememberOutput(HoldingOutput):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.sender.guarded = False  # the delivered key decides, in all incarnations
        self._term = 0  # 0: another replica is active
        self._offset_term = 0  # the term in which the offset was set
        self._plain = False
        self._offset = 0
        self._ends: deque[tuple[OrderKey, int]] = deque()  # of held messages: last key, number after the last item
        self._dropped = self._seen = 0  # items held at the takeover: not sent, delivered by another replica
        self._sent_term = 0  # the term in which something was sent

    def number_items(self, items: int, event: "EngineEvent") -> int:
        return self.sender.numbered(items)  # the ledger counts items when they are sent

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        super().emit(messages, record)
        for message in messages:
            keys = keys_of_message(message, self.stream.shape)
            self._ends.append((keys.at(len(keys.ts) - 1), message.number + message.items))

    def validate(self) -> None:
        self._held.validate()  # items are counted when they are sent, under other numbers

    # Activation -------------------------------------------------------------------------------------------------------

    def activate(self, term: int, *, plain: bool) -> None:
        self._term, self._plain = term, plain
        self.sender.up = None
        self._sent_watermark = None
        self._host.open(self.id, term)

    def deactivate(self) -> None:
        if self._term:
            self._term = 0
            self.sender.up = False
            self.sender.guarded = False
            self.sender.skip = None
            self._host.shut(self.id)

    # The consumer -----------------------------------------------------------------------------------------------------

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        if not self._term:
            return  # the channel was opened in an earlier term
        self.sender.up = True
        self._sent_watermark = None
        sender, held_from = self.sender, self._held.first(self.sender.number)
        if self._offset_term != self._term:
            self._offset_term = self._term
            skip = sender.skip = Skip(delivered)
            first = self._first_undelivered(skip, held_from)
            sender.guarded = not skip.over
            self._offset = next_ - first
            self._dropped, self._seen = (sender.number - first if self._plain else 0), skip.skipped
        if self._plain:
            self._held.rewind(sender.number)
            return
        first = max(next_ - self._offset, held_from)
        self._offset = next_ - first
        self._held.rewind(first)

    def _first_undelivered(self, skip: Skip, held_from: int) -> int:
        """The number of the first item that was not delivered to the consumer."""
        first = held_from
        for message in self._held.messages():
            seen = skip.of(keys_of_message(message, self.stream.shape))
            first = message.number + seen
            if skip.over:
                break
        return first

    def release(self, delivered: Delivered, by_all: Delivered | None = None) -> None:
        below = 0
        while self._ends and (
            self._ends[0][0] < delivered.key or (self._ends[0][0] == delivered.key and delivered.items == ALL)
        ):
            below = self._ends.popleft()[1]
        if below:
            self._held.release(below)

    def flush(self) -> None:
        if self._term:
            super().flush()

    def _send(self, message: Message) -> bool:
        end = message.number + self._offset + message.items
        sent = self._host.send(self.id, replace(renumbered(message, self._offset), epoch=self._term))
        if sent:
            if end > self.record.number:
                self.record.number = end
            if message.items and self._sent_term != self._term:
                self._sent_term = self._term
                self._host.send_to_director({"ha": self._resumption()})
        return sent

    def _resumption(self) -> dict[str, int | str]:
        skip = self.sender.skip
        doubled = skip.skipped - self._seen if self._plain and skip is not None else 0
        channel, dropped = str(self.id), self._dropped
        return {"resumed": self._term, "channel": channel, "dropped": dropped, "doubled": doubled}

    @property
    def ready(self) -> bool:
        """Always: what is not sent is held."""
        return True

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return bool(self._term) and super().blocked

    @property
    def ended(self) -> bool:
        return self._sent_watermark == END_KEY if self._term else self.announced == END_KEY


class RememberRetention(RetentionKind):
    """As discard, but the standby replicas may still hold what was sent since."""

    name, recovery, output = "remember", "failover", RememberOutput
    by_keys = replicated = by_term = True

    def gapless_under(self, settings: Mapping[str, Any]) -> bool:
        return settings.get("failover") != "plain"

    def start_input(self, input_: "InputChannel", restored: Delivered | None, *, copied: bool) -> None:
        input_.delivered = input_.record.delivered
