"""What a consumer has taken of a channel that copies bring, whichever of them brought it.

Copies are deterministic: they give out the same items, in the same order of keys, and a consumer takes each item from
whoever brings it first. One key per channel is all that it remembers, because copies ascend by key. (The published
technique keeps a table of tuples and clears it by punctuations.) That is only right without holes: a copy that left an
item out would carry the key past it. So what a copy brings counts only while its numbers follow each other, from the
first item that the consumer had not had when the copy connected; a copy that cannot begin there is mute (`copying.py`).

Few items share a key, and of those it is counted how many each copy has brought.

Values are not compared: what a corrupted copy brings under a key that nobody has brought yet is taken.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import ALL, Delivered
from riprap.protocols.channels import ChannelId

HOLE = -1  # `Seen.fresh`: items are missing in front of these


class Seen:
    """Copies are known by their strands."""

    def __init__(self, delivered: Delivered | None = None) -> None:
        self.delivered = Delivered() if delivered is None else delivered
        self.dropped = 0  # items that another copy had brought
        self._next: dict[ChannelId, int] = {}  # by strand: the number that follows
        self._at: dict[ChannelId, Delivered] = {}  # how far each strand has come since it was connected
        self._anew: dict[ChannelId, int] = {}  # by strand that was connected again: from which number on

    def expected(self, strand: ChannelId) -> int:
        """The number that the next item of a strand is to have."""
        return self._next.get(strand, 0)

    def connected(self, strand: ChannelId, unread: Iterable[tuple[int, Keys, OrderKey | None]] = ()) -> Delivered:
        """A strand is connected, and is to go on behind what this gives; `unread` came on it before, and counts.

        It begins with the first item of a key, also if some with that key were had: so they can be counted.
        """
        then = Seen(self.delivered)
        then._next, then._at, then._anew = dict(self._next), dict(self._at), dict(self._anew)
        for number, keys, watermark in unread:
            then.fresh(strand, number, keys, watermark)
        self._anew[strand] = then.expected(strand)
        return then.delivered if then.delivered.items == ALL else then.delivered._replace(items=0)

    def joins(self, strand: ChannelId) -> bool:
        """Whether messages of a strand may be made one: not those of two connections."""
        return strand not in self._anew

    def fresh(self, strand: ChannelId, number: int, keys: Keys, watermark: OrderKey | None = None) -> int:
        """How many of the first items are not to be taken. `HOLE`: none is, and nothing counts."""
        expected, count = self._next.get(strand, 0), len(keys.ts)
        if number > expected:
            return HOLE
        end = number + count
        if strand in self._anew and end > self._anew[strand]:
            del self._anew[strand]
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
