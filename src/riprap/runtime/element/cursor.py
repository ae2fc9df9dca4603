"""The position of an element on a channel: what it has accepted, what its operators have processed, and what waits.

Only processed items count as received. A merge passes items in the order of their keys, so an item has passed when its
key is at or below the watermark of its operator's input. Without a merge an accepted item has passed, and the cursor is
two integers.
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

import numpy as np

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut
from riprap.runtime.element.retained import Retained


class InputCursor:
    """A channel whose items do not wait in a merge."""

    waits = False

    def __init__(self, next_: int, position: int) -> None:
        self.next = next_  # the first item that the operators have not processed
        self.position = position  # from which a reader of the log finds it; -1: there is no log

    def arrived(
        self, number: int, keys: Keys | None, next_: int, position: int, *, rows: bool = True, late: bool = False
    ) -> None:
        """Items from `number` on have arrived, with ascending keys. None: no items, but `next_` will be next."""
        self.next, self.position = next_, position

    @property
    def end(self) -> int:
        """The number after the last item that has arrived."""
        return self.next

    def validate(self) -> None:
        """Raise for a broken invariant."""

    def cut(self) -> InletCut:
        return InletCut(self.next, self.next, self.position, self.position)


class _Waiting(NamedTuple):
    """Consecutive items of one message."""

    number: int  # of the first of them
    keys: Keys
    last: OrderKey
    position: int  # from which a reader of the log finds them
    rows: bool  # not a punctuation
    late: bool  # `keys` are where the merge places them


class ItemRange(NamedTuple):
    """Items that have passed: from `first` up to `stop`."""

    first: int
    stop: int
    late: bool

    def count_from(self, number: int) -> int:
        """How many of them have this number or a higher one."""
        return max(0, self.stop - max(self.first, number))


class MergedCursor(InputCursor):
    """A channel whose items wait in a merge for other channels. `retained` records the rows that pass."""

    def __init__(
        self, next_: int, position: int, channel: ChannelId | None = None, retained: Retained | None = None
    ) -> None:
        super().__init__(next_, position)
        self._channel, self._retained = channel, retained
        self._arrived = (next_, position)  # `next` and `position` behind what has arrived
        self._waiting: deque[_Waiting] = deque()
        self._last = START_KEY
        self.rows = 0  # that wait

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return bool(self._waiting)

    def arrived(
        self, number: int, keys: Keys | None, next_: int, position: int, *, rows: bool = True, late: bool = False
    ) -> None:
        if keys is not None:
            count = len(keys.ts)
            self._last = max(self._last, keys.at(count - 1))  # a punctuation passes after the row before it
            self._waiting.append(_Waiting(number, keys, self._last, self._arrived[1], rows, late))
            self.rows += count
        self._arrived = (next_, position)

    @property
    def last(self) -> OrderKey:
        """The greatest key that has arrived, or the place of late items."""
        return self._last

    def pass_up_to(self, reached: OrderKey) -> list[ItemRange]:
        """The operators have processed everything up to this key; returns the items that are new among it."""
        passed = []
        while self._waiting and self._waiting[0].last <= reached:
            passed.append(self._pass(self._waiting.popleft()))
        if not self._waiting:
            self.next, self.position, self.rows = *self._arrived, 0
            return passed
        first = self._waiting[0]
        count = bisect_right(range(len(first.keys.ts)), reached, key=first.keys.at) if len(first.keys.ts) > 1 else 0
        if count:
            rest = np.arange(count, len(first.keys.ts))
            passed.append(self._pass(first._replace(keys=first.keys.rows(np.arange(count)))))
            self._waiting[0] = first._replace(number=first.number + count, keys=first.keys.rows(rest))
        self.next, self.position = first.number + count, first.position
        self.rows -= sum(range_.stop - range_.first for range_ in passed)
        return passed

    def _pass(self, items: _Waiting) -> ItemRange:
        if self._retained is not None and items.rows:
            assert self._channel is not None
            self._retained.passed(self._channel, items.number, items.keys)
        return ItemRange(items.number, items.number + len(items.keys.ts), items.late)

    @property
    def end(self) -> int:
        return self._arrived[0]

    def validate(self) -> None:
        assert self.rows == sum(len(waiting.keys.ts) for waiting in self._waiting), "rows that wait are miscounted"
        numbers = [waiting.number for waiting in self._waiting]
        assert numbers == sorted(numbers), f"items wait out of order: {numbers}"
        assert self.next <= self._arrived[0], f"{self.next} has passed, and only {self._arrived[0]} has arrived"

    def cut(self) -> InletCut:
        return InletCut(self._arrived[0], self.next, self._arrived[1], self.position, self.waits)
