"""Deduplication on a channel whose producer runs in copies.

Copies are deterministic: they emit the same items in the same key order, and a consumer accepts each item from the copy
that delivers it first. It stores only one key per channel, because copies ascend by key. (The published technique
stores a table of tuples and clears it by punctuations.) That is only correct without gaps: a copy that skipped an item
would move the key past it. So items of a copy count only while their numbers are contiguous, from the first item that
was undelivered when the copy connected; a copy that cannot start there is mute (`runtime/element/copy_output.py`).

Few items share a key; for those the items per copy are counted.

Values are not compared: what a corrupted copy sends under a new key is accepted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import ALL, Delivered
from riprap.protocols.channels import ChannelId

HOLE = -1  # `Seen.fresh`: items before these are missing


class Seen:
    """Each copy of the producer has its own strand."""

    def __init__(self, delivered: Delivered | None = None) -> None:
        self.delivered = Delivered() if delivered is None else delivered
        self.dropped = 0  # duplicates: items that another copy had delivered
        self._next: dict[ChannelId, int] = {}  # by strand: the next number
        self._at: dict[ChannelId, Delivered] = {}  # by strand: its position since it was connected
        self._reconnected: dict[ChannelId, int] = {}  # by reconnected strand: its first number since then

    def expected(self, strand: ChannelId) -> int:
        """The number of the next item of a strand."""
        return self._next.get(strand, 0)

    def connected(self, strand: ChannelId, unread: Iterable[tuple[int, Keys, OrderKey | None]] = ()) -> Delivered:
        """A strand is connected. Returns the position behind which it is to continue; `unread` messages arrived before.

        It starts with the first item of a key, even if some with that key were delivered: so they can be counted.
        """
        then = Seen(self.delivered)
        then._next, then._at, then._reconnected = dict(self._next), dict(self._at), dict(self._reconnected)
        for number, keys, watermark in unread:
            then.fresh(strand, number, keys, watermark)
        self._reconnected[strand] = then.expected(strand)
        return then.delivered if then.delivered.items == ALL else then.delivered._replace(items=0)

    def joins(self, strand: ChannelId) -> bool:
        """Whether messages of a strand may be joined: not those of two connections."""
        return strand not in self._reconnected

    def fresh(self, strand: ChannelId, number: int, keys: Keys, watermark: OrderKey | None = None) -> int:
        """How many of the first items to drop. `HOLE`: drop all, and count nothing."""
        expected, count = self._next.get(strand, 0), len(keys.ts)
        if number > expected:
            return HOLE
        end = number + count
        if strand in self._reconnected and end > self._reconnected[strand]:
            del self._reconnected[strand]
            self._at[strand] = Delivered()
        known = min(expected - number, count)  # of this strand itself
        self._next[strand] = max(expected, end)
        skip, delivered = known, self.delivered
        if known < count:
            at = self._at.get(strand, Delivered())
            if keys.at(known) <= delivered.key:
                below = bisect_left(range(count), delivered.key, lo=known, key=keys.at)
                same = bisect_right(range(count), delivered.key, lo=below, key=keys.at) - below
                brought = at.items if at.key == delivered.key else 0
                skip = below + min(max(delivered.items - brought, 0), same)
                self.dropped += skip - known
            last = keys.at(count - 1)
            same = count - bisect_left(range(count), last, lo=known, key=keys.at)
            at = self._at[strand] = Delivered(last, same + (at.items if at.key == last else 0))
            self.delivered = delivered = max(delivered, at)
        if watermark is not None and watermark >= delivered.key:
            self.delivered = Delivered(watermark, ALL)
        return skip
