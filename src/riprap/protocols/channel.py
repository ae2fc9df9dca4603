"""The two ends of a channel as state machines over item numbers and order keys. All protocols share them.

Items of a channel are numbered from 0 over the whole run. A consumer knows the next number that it expects, so it can
tell which items of a message are new, repeated or missing, whatever the batching and whichever process restarted.

*Retention* is a property of a link: what its producer does with items that the consumer may request again.

    discard     nothing: items numbered while the consumer is down are lost (in `partial`: a gap)
    hold        holds them in memory, and beyond a limit on disk, until the consumer acknowledges them (a buffer)
    log         appends them to a persistent stream, which the consumer reads (a replay)
    remember    for a replicated producer: the active replica discards, its standbys retain undelivered items
    recompute   nothing once they are sent: the consumer recomputes missing items from its producers' inputs
    while-down  nothing while the consumer is up; while it is down all items, or a share of them, go to disk, until it
                has caught up
    copy        where the producer or the consumer runs in copies: retains them until every copy of the consumer has
                processed them

Two rules preserve key order across crashes where numbers cannot: the receiving end drops *late* items, at or below a
key that its operator has already passed; the sending end drops items at or below the watermark that another
incarnation has *promised*.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import ALL_VALID, Keys
from riprap.operators.kernels.hashing import SEED, hash_words

Retention = Literal["discard", "hold", "log", "remember", "recompute", "while-down", "copy"]

NOTHING = -1  # `ReceivingEnd.fresh`: the message contains nothing new

ALL = 1 << 62  # `Delivered.items`: no more items at or below the key will be accepted


class Delivered(NamedTuple):
    """The delivered position of a consumer on a channel, in a form that is valid for every replica of its producer.

    Item numbers belong to one replica; keys are common to all. Keys never decrease, and few items share one: a
    punctuation has the key of the tuple before it.
    """

    key: OrderKey = START_KEY
    items: int = 0  # delivered items with this key

    def after(self, keys: Keys, watermark: OrderKey | None) -> "Delivered":
        """The position after items with these keys and then this watermark."""
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
    """Finds, among the items that a replica emits in order, those that another replica already delivered."""

    def __init__(self, delivered: Delivered) -> None:
        self._key, self._left = delivered
        self.skipped = 0
        self.over = False  # the first undelivered item was found

    def of(self, keys: Keys) -> int:
        """How many of the first items were already delivered."""
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
    """The consumer's end, in one incarnation."""

    retention: Retention
    next: int  # number of the expected item: all below were accepted, or will not arrive
    epoch: int = -1  # the newest known epoch of the producer
    gone: bool = False  # its connection broke, and nothing has arrived since
    doubtful: bool = False  # the first items may be late

    def back(self, epoch: int, number: int) -> bool:
        """Whether a message is the first after a broken connection, of a new incarnation, or after a gap."""
        return self.gone or -1 < self.epoch < epoch or (number > self.next and epoch >= self.epoch)

    def follows(self, epoch: int, number: int) -> bool:
        """Whether a message starts with the expected item, from the known incarnation: all of it is new."""
        return number == self.next and epoch == self.epoch and not self.gone

    def fresh(self, epoch: int, number: int, items: int) -> int:
        """How many of the first items of a message are duplicates; `NOTHING`: drop the whole message."""
        if epoch < self.epoch:
            return NOTHING  # from a fenced incarnation
        self.epoch, self.gone = epoch, False
        skip = self.next - number
        if skip <= 0:
            return 0
        return skip if skip <= items else NOTHING

    def ahead(self, number: int) -> bool:
        """Whether this item has to wait for earlier ones that are being recomputed."""
        return number > self.next and self.retention == "recompute"

    def lost_producer(self, epoch: int) -> bool:
        """The producer's connection broke. Returns whether this was not known yet."""
        if epoch < self.epoch or self.gone:
            return False
        self.gone = True
        return True

    def late(self, keys: Keys, reached: OrderKey) -> int:
        """How many of the first items are late. After the first timely one no check is needed, since keys ascend,
        unless the producer is gone: the merge then does not wait for its earlier items, which may still arrive.
        """
        count = len(keys.ts)
        late = bisect_right(range(count), reached, key=keys.at)
        self.doubtful = late == count or self.gone
        return late


@dataclass(slots=True)
class SendingEnd:
    """The producer's end, in one incarnation."""

    retention: Retention
    number: int  # of the next item
    promised: OrderKey = START_KEY  # watermark: no incarnation emits anything at or below it from now on
    guarded: bool = False  # the first items of this incarnation may lie at or below another one's watermark
    skip: Skip | None = None  # instead: items that another replica already delivered
    up: bool | None = None  # the consumer is connected; None: not known yet, so items wait
    header: bytes = b""  # of items that are numbered now
    lossy: bool = False  # sent items that are held may be dropped where they do not fit into memory

    def numbered(self, items: int) -> int:
        """Number the items; returns the first number."""
        number = self.number
        self.number += items
        return number

    def broken(self, keys: Keys) -> int:
        """How many of the first items would violate another incarnation's watermark. Keys ascend on a channel."""
        if self.skip is not None:
            broken = self.skip.of(keys)
            self.guarded = not self.skip.over
            return broken
        count = len(keys.ts)
        broken = bisect_right(range(count), self.promised, key=keys.at)
        self.guarded = broken == count
        return broken

    def promise(self, key: OrderKey) -> bool:
        """Advance the watermark to this key. Returns whether it moved."""
        if key <= self.promised:
            return False
        self.promised = key
        return True


def sampled(keys: Keys, share: float) -> np.ndarray:
    """Which rows belong to a sample of this share: a hash of the order key decides, so the choice is repeatable.

    A larger share includes all rows of a smaller one.
    """
    hashes = np.full(len(keys.ts), SEED, np.uint64)
    for part in keys:
        hash_words(np.ascontiguousarray(np.broadcast_to(part, hashes.shape)), ALL_VALID, hashes)
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
