"""Output channels with the retention *copy*: those of copies, and those of sources that feed copies.

An item is held until it was delivered to all copies of the consumer (`release`, which the director sends as keys), so
a copy that restarts from the state of another one finds the items that follow. A consumer that connects reports its
delivered position, from any copy, and the items behind it are sent under the numbers that it expects:

    number on the wire = number here + offset

The ledger counts each item once, even if a copy emits it again. A restored copy continues the count of the snapshot. A
copy that starts empty, because no other was left, counts items beyond the last key of its previous incarnation.

A restored copy holds nothing from before `since`, the position up to which the snapshot had emitted. Until a consumer
has reached `since`, the copy is *mute* towards it: sending would carry the consumer past items of other copies. If no
other copy is left, it sends anyway (`activate`), and the items in between are lost.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.columns import keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.views import Views
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.replication.seen import Seen
from riprap.runtime.element.arrivals import keys_of_message, renumbered
from riprap.runtime.element.ledger import InputChannelRecord
from riprap.runtime.messages import Message
from riprap.runtime.retention.holding import HoldingOutput
from riprap.runtime.retention.kind import RetentionKind, SavedInput

if TYPE_CHECKING:
    from riprap.runtime.element.element_inputs import InputChannel
    from riprap.runtime.element.shard_merge import EngineEvent

_REMIND = 100  # ticks


class CopyOutput(HoldingOutput):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.sender.guarded = False  # the consumer drops duplicates, by key
        self.since = Delivered()  # position up to which the restored state had emitted
        self.emitted_to: Delivered = Delivered()  # position up to which it has emitted
        self._offset = 0
        self._ends: deque[tuple[OrderKey, int]] = deque()  # of held messages: last key, number after the last item
        self.restored = self._has_sent = False  # it started from the state of another copy; and has sent since
        self._ticks = 0
        self._mute: tuple[int, Delivered] | None = None  # position of a consumer that has not reached `since`
        self._emitted = self.sender.number  # items, each counted once
        self._counted_to: OrderKey | None = None  # items up to this key were counted in a previous incarnation

    def start(self, restored: Delivered | None, *, copied: bool) -> None:
        if restored is not None:
            self.since = self.emitted_to = restored
            self.restored = True
        elif copied:  # it has no state, and may emit again what its previous incarnation emitted
            self._counted_to = self.record.key

    @property
    def emitted(self) -> int:
        return self._emitted

    def number_items(self, items: int, event: "EngineEvent") -> int:
        number = self.sender.numbered(items)
        if not isinstance(event, Late):
            items = self._uncounted(items, event)
        self._emitted += items
        if self._emitted > self.record.number:
            self.record.number = self._emitted
        return number

    def validate(self) -> None:
        self._held.validate()  # a restored copy continues the count of another one with what it emits next

    def _uncounted(self, items: int, event: Views | Punctuation) -> int:
        """How many of these items no incarnation has counted."""
        rows = event if isinstance(event, Views) else None
        last = event.last_key(self.stream.shape) if isinstance(event, Views) else event.key
        if self._counted_to is not None:
            if last <= self._counted_to:
                return 0
            if rows is not None:
                items -= bisect_right(range(items), self._counted_to, key=keys_of(rows, self.stream.shape).at)
            self._counted_to = None
        if last > self.record.key:
            self.record.key = last
        return items

    def tick(self) -> None:
        """Report again that it is mute, for a director that has started since."""
        self._ticks += 1
        if self._mute is not None and self._ticks % _REMIND == 0:
            self._report(mute=True)

    def emit(self, messages: Sequence[Message], record: bytes = b"") -> None:
        super().emit(messages, record)
        for message in messages:
            keys = keys_of_message(message, self.stream.shape)
            self._ends.append((keys.at(len(keys.ts) - 1), message.number + message.items))
            self.emitted_to = self.emitted_to.after(keys, None)

    # The consumer -----------------------------------------------------------------------------------------------------

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        if not self._beyond(delivered):
            self._mute, self.sender.up = (next_, delivered), False
            self._report(mute=True)
        else:
            self._start_sending(next_, delivered)

    def _beyond(self, delivered: Delivered) -> bool:
        """Whether the consumer has received every item that is older than those this copy holds."""
        since = self.since.key
        return not self.since.items or delivered.key > since or (delivered.key == since and delivered.items == ALL)

    def _start_sending(self, next_: int, delivered: Delivered) -> None:
        if self._mute is not None or (self.restored and not self._has_sent):
            self._report(mute=False)
        self._mute, self._has_sent = None, True
        self.sender.up, self._sent_watermark = True, None
        skip, first = Skip(delivered), self._held.first(self.sender.number)
        for message in self._held.messages():
            first = message.number + skip.of(keys_of_message(message, self.stream.shape))
            if skip.over:
                break
        self._offset = next_ - first
        self._held.rewind(first)

    def _report(self, *, mute: bool) -> None:
        self._host.send_to_director({"full": {"strand": list(self.id), "mute": mute}})

    def consumer_down(self) -> None:
        super().consumer_down()
        self._mute = None

    def activate(self, term: int, *, plain: bool) -> None:
        """No other copy is left: send, even if items are missing."""
        self.since = Delivered()
        if self._mute is not None:
            self._start_sending(*self._mute)

    def release(self, delivered: Delivered, by_all: Delivered | None = None) -> None:
        if self._mute is not None and self._beyond(delivered):
            self._start_sending(*self._mute)
        by_all, below = delivered if by_all is None else by_all, 0
        while self._ends and (
            self._ends[0][0] < by_all.key or (self._ends[0][0] == by_all.key and by_all.items == ALL)
        ):
            below = self._ends.popleft()[1]
        if below:
            unsent = self._held.unsent_from(self.sender.number)
            self._held.release(below)
            # Items that other copies sent meanwhile are skipped, and leave no gap in the numbers on the wire.
            self._offset -= self._held.unsent_from(self.sender.number) - unsent

    def _send(self, message: Message) -> bool:
        return self._host.send(self.id, renumbered(message, self._offset))

    @property
    def ready(self) -> bool:
        """Always: what is not sent is held."""
        return True

    @property
    def ended(self) -> bool:
        return self.announced == END_KEY if self._mute is not None else self._sent_watermark == END_KEY


class CopyRetention(RetentionKind):
    """An input resumes at the snapshot of another copy; without one, as with discard."""

    name, recovery, output = "copy", "copies", CopyOutput
    by_keys = replicated = gapless = never_silent = per_copy = True

    def input_start(self, record: InputChannelRecord, saved: SavedInput) -> tuple[int, int]:
        if saved.whole is not None:
            copied = saved.whole
            record.next, record.retained_from, record.missed = copied.passed, copied.passed, copied.missed
        return record.next, -1

    def start_input(self, input_: "InputChannel", restored: Delivered | None, *, copied: bool) -> None:
        before = input_.record.delivered  # a copy starts from the restored position, not from its previous incarnation
        input_.seen = Seen(restored or (None if copied else before))
        input_.delivered_before = before if copied and restored is None else Delivered()
