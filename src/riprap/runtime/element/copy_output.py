"""How what a copy gives out leaves it: the output of the retention *copy*, also of sources that feed copies.

Everything is held until all copies of the consumer have had it (`release`, told by the director as keys), so that one
that was restarted, and goes on from the state of another, finds what follows that. When a consumer connects, it says
how far it has come, whoever brought it that, and what follows is sent with the numbers that it expects:

    number on the wire = number here + offset

The ledger counts items once, whatever a copy gives out again: one that was restored goes on with the count of the
snapshot, and one that begins empty, as no other was left, counts what lies behind the last key of the life before it.

A copy that was restored holds nothing from before `since`, what had been given out when the snapshot was taken. While a
consumer has not come there the copy is *mute* to it: it would carry the consumer past what others bring. If nobody
else is left it speaks all the same (`activate`), and what lies between is lost.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from riprap.graph.order_keys import END_KEY, KeyShape, OrderKey
from riprap.operators.columns import keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.views import Views
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.runtime.element.arrivals import renumbered
from riprap.runtime.element.output_channels import HoldingOutput
from riprap.runtime.element.remember_output import keys_of_message
from riprap.runtime.element.shard_merge import Given
from riprap.runtime.messages import Message

_REMIND = 100  # ticks


class CopyOutput(HoldingOutput):
    shape: KeyShape  # of the channel's rows

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.sender.guarded = False  # what a consumer has had it drops, by key
        self.since = Delivered()  # what was given out before it was restored
        self.given = Delivered()  # what was given out
        self._offset = 0
        self._ends: deque[tuple[OrderKey, int]] = deque()  # of what is held: last key, number behind
        self.restored = self._spoke = False  # it began with the state of another; and has spoken since
        self._looks = 0
        self._mute: tuple[int, Delivered] | None = None  # what the consumer said that has not come to `since`
        self._emitted = self.sender.number  # items, each counted once
        self._again: OrderKey | None = None  # what comes up to this key was counted in another life

    def begin_since(self, given: Delivered) -> None:
        """It was restored, and this was given out before."""
        self.since = self.given = given
        self.restored = True

    def begin_empty(self) -> None:
        """It has no state, and may give out again what the life before it did."""
        self._again = self.record.key

    @property
    def emitted(self) -> int:
        return self._emitted

    def number_items(self, items: int, event: Given) -> int:
        number = self.sender.numbered(items)
        if not isinstance(event, Late):
            items = self._uncounted(items, event)
        self._emitted += items
        if self._emitted > self.record.number:
            self.record.number = self._emitted
        return number

    def _uncounted(self, items: int, event: Views | Punctuation) -> int:
        """How many of these items no life has counted."""
        rows = event if isinstance(event, Views) else None
        last = event.last_key(self.shape) if isinstance(event, Views) else event.key
        if self._again is not None:
            if last <= self._again:
                return 0
            if rows is not None:
                items -= bisect_right(range(items), self._again, key=keys_of(rows, self.shape).at)
            self._again = None
        if last > self.record.key:
            self.record.key = last
        return items

    def remind(self) -> None:
        """A director that has begun since does not know that it is mute."""
        self._looks += 1
        if self._mute is not None and self._looks % _REMIND == 0:
            self._tell(mute=True)

    def emit(self, messages: Sequence[Message]) -> None:
        super().emit(messages)
        for message in messages:
            keys = keys_of_message(message, self.shape)
            self._ends.append((keys.at(len(keys.ts) - 1), message.number + message.items))
            self.given = self.given.after(keys, None)

    # The consumer -----------------------------------------------------------------------------------------------------

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        if not self._beyond(delivered):
            self._mute, self.sender.up = (next_, delivered), False
            self._tell(mute=True)
        else:
            self._speak(next_, delivered)

    def _beyond(self, delivered: Delivered) -> bool:
        """The consumer has had all that this copy does not hold, and the whole key of it: it counts items of a key."""
        since = self.since.key
        return not self.since.items or delivered.key > since or (delivered.key == since and delivered.items == ALL)

    def _speak(self, next_: int, delivered: Delivered) -> None:
        if self._mute is not None or (self.restored and not self._spoke):
            self._tell(mute=False)
        self._mute, self._spoke = None, True
        self.sender.up, self._sent_watermark = True, None
        skip, first = Skip(delivered), self._held.first(self.sender.number)
        for message in self._held.messages():
            first = message.number + skip.of(keys_of_message(message, self.shape))
            if skip.over:
                break
        self._offset = next_ - first
        self._held.rewind(first)

    def _tell(self, *, mute: bool) -> None:
        self._host.send_to_director({"full": {"strand": list(self.id), "mute": mute}})

    def consumer_down(self) -> None:
        super().consumer_down()
        self._mute = None

    def activate(self, term: int, *, plain: bool) -> None:
        """Nobody else is left: speak, whatever is missing."""
        self.since = Delivered()
        if self._mute is not None:
            self._speak(*self._mute)

    def release(self, delivered: Delivered, by_all: Delivered | None = None) -> None:
        if self._mute is not None and self._beyond(delivered):
            self._speak(*self._mute)
        by_all, below = delivered if by_all is None else by_all, 0
        while self._ends and (
            self._ends[0][0] < by_all.key or (self._ends[0][0] == by_all.key and by_all.items == ALL)
        ):
            below = self._ends.popleft()[1]
        if below:
            unsent = self._held.unsent_from(self.sender.number)
            self._held.release(below)
            # What others brought meanwhile is not sent any more, and leaves no hole in the numbers on the wire.
            self._offset -= self._held.unsent_from(self.sender.number) - unsent

    def _send(self, message: Message) -> bool:
        return self._host.send(self.id, renumbered(message, self._offset))

    @property
    def ready(self) -> bool:
        """Whoever is there: what is not sent is held."""
        return True

    @property
    def ended(self) -> bool:
        return self.announced == END_KEY if self._mute is not None else self._sent_watermark == END_KEY
