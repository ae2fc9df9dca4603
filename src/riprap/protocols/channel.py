"""What every protocol shares: the two ends of a channel, as machines over numbers and order keys.

Items of a channel are numbered from 0 over the whole run. A consumer knows the number that it expects next, so of any
message it can tell what is new, repeated or missing, however items were cut into messages and whoever was restarted.

*Retention* is a property of a link: what its producer does with items that their consumer may ask for again.

    discard  nothing: what is numbered while nobody is there is lost (in `partial`: a gap)
    hold     keeps them in memory, and beyond a limit on disk, until the consumer acknowledges them (a buffer)
    log      appends them to a persistent stream, from which the consumer reads (a replay)
    remember of a replicated producer: the active replica discards, its backups keep what the consumer has not had
    recompute  nothing once they are sent: the consumer recomputes what it misses, from what its producers work on
    while-down  nothing while the consumer is there; when it is gone they go to disk, or a share of them, and when it
             has caught up writing stops
    copy     of a producer or a consumer in copies: keeps them until every copy of the consumer has had them

Two rules keep the order of keys over crashes where numbers cannot: an inlet drops what is *late*, at or below a key
that its operator has passed without it; an outlet drops what was *promised* not to come, at or below a key that another
life had come to.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import ALL_VALID, Keys
from riprap.operators.kernels.hashing import SEED, hash_words

Retention = Literal["discard", "hold", "log", "remember", "recompute", "while-down", "copy"]

NOTHING = -1  # `ReceivingEnd.fresh`: the message says nothing that is not known

ALL = 1 << 62  # `Delivered.items`: nothing at or below the key will be taken any more


class Delivered(NamedTuple):
    """How far a consumer has come on a channel, in words that every replica of its producer understands.

    Numbers are one replica's; keys are everybody's. Keys never fall, and few items share one: a punctuation has the key
    of the tuple before it.
    """

    key: OrderKey = START_KEY
    items: int = 0  # with this key, that it had

    def after(self, keys: Keys, watermark: OrderKey | None) -> "Delivered":
        """When items with these keys have come too, and then this progress."""
        delivered, count = self, len(keys.ts)
        if count:
            last = keys.at(count - 1)
            same = count - bisect_left(range(count), last, key=keys.at)
            if last > self.key:
                delivered = Delivered(last, same)
            elif last == self.key:
                delivered = Delivered(last, min(self.items + same, ALL))
        return Delivered(watermark, ALL) if watermark is not None and watermark >= delivered.key else delivered


class Skip:
    """Tells, of items that a replica gives out in their order, which ones the consumer has had from another."""

    def __init__(self, delivered: Delivered) -> None:
        self._key, self._left = delivered
        self.skipped = 0
        self.over = False  # the first that it had not was there

    def of(self, keys: Keys) -> int:
        """How many of the first items it had."""
        if self.over:
            return 0
        count = len(keys.ts)
        below = bisect_left(range(count), self._key, key=keys.at)
        same = min(bisect_right(range(count), self._key, lo=below, key=keys.at) - below, self._left)
        self._left -= same
        self.over = below + same < count
        self.skipped += below + same
        return below + same


@dataclass(slots=True)
class ReceivingEnd:
    """The consumer's end, in one life."""

    retention: Retention
    next: int  # number of the item that is expected: all below were taken into the element, or will not come
    epoch: int = -1  # of the producer, the newest heard of
    gone: bool = False  # its connection broke, and nothing has come since
    doubtful: bool = False  # what comes first may be late

    def back(self, epoch: int, number: int) -> bool:
        """Whether a message is the first of a producer that is back, or of one that has left items out."""
        return self.gone or -1 < self.epoch < epoch or (number > self.next and epoch >= self.epoch)

    def follows(self, epoch: int, number: int) -> bool:
        """Whether a message is just what is expected, of the producer that is known: all of it is new."""
        return number == self.next and epoch == self.epoch and not self.gone

    def fresh(self, epoch: int, number: int, items: int) -> int:
        """How many of the first items of a message are not new; `NOTHING`: it is to be dropped whole."""
        if epoch < self.epoch:
            return NOTHING  # a life that has been replaced
        self.epoch, self.gone = epoch, False
        skip = self.next - number
        if skip <= 0:
            return 0
        return skip if skip <= items else NOTHING

    def ahead(self, number: int) -> bool:
        """Whether an item of this number has to wait for those before it, which are recomputed."""
        return number > self.next and self.retention == "recompute"

    def lost_producer(self, epoch: int) -> bool:
        """The producer's connection broke; whether that is news."""
        if epoch < self.epoch or self.gone:
            return False
        self.gone = True
        return True

    def late(self, keys: Keys, reached: OrderKey) -> int:
        """How many of the first items come too late. From the first that does not, the producer's order is enough,
        unless it is gone: others do not wait for what it had sent before, and that may still be on its way in.
        """
        count = len(keys.ts)
        late = bisect_right(range(count), reached, key=keys.at)
        self.doubtful = late == count or self.gone
        return late


@dataclass(slots=True)
class SendingEnd:
    """The producer's end, in one life."""

    retention: Retention
    number: int  # of the next item
    promised: OrderKey = START_KEY  # nothing at or below it will be given out, in this life or another
    guarded: bool = False  # what this life gives out first may be what another one promised not to
    skip: Skip | None = None  # instead: what the consumer had from another replica
    up: bool | None = None  # somebody takes it; None: not known yet, so what is sent waits
    header: bytes = b""  # of items that are numbered now
    lossy: bool = False  # what was sent and is held may be forgotten where it does not fit into memory

    def numbered(self, items: int) -> int:
        """Give items their numbers; returns the first."""
        number = self.number
        self.number += items
        return number

    def broken(self, keys: Keys) -> int:
        """How many of the first items would break a promise of another life. Keys never fall on a channel."""
        if self.skip is not None:
            broken = self.skip.of(keys)
            self.guarded = not self.skip.over
            return broken
        count = len(keys.ts)
        broken = bisect_right(range(count), self.promised, key=keys.at)
        self.guarded = broken == count
        return broken

    def promise(self, key: OrderKey) -> bool:
        """Nothing at or below this key will be given out any more; whether that is news."""
        if key <= self.promised:
            return False
        self.promised = key
        return True


def sampled(keys: Keys, share: float) -> np.ndarray:
    """Which rows belong to a share of all: a hash of the order key decides, so everybody who asks finds the same ones.

    A larger share has all rows of a smaller one.
    """
    hashes = np.full(len(keys.ts), SEED, np.uint64)
    for part in keys:
        hash_words(np.ascontiguousarray(np.broadcast_to(part, hashes.shape)), ALL_VALID, hashes)
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
