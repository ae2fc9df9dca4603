"""How far an element has come on a channel: what it has taken in, what its operators have had, and what still waits.

Only what the operators have had counts as received. A merge lets items pass in the order of their keys, so an item has
passed when its key is at or below the one that its operator's input has reached. Where nothing is merged, what is taken
has passed, and the cursor is two integers.
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
    """A channel whose items wait for nobody."""

    waits = False

    def __init__(self, next_: int, position: int) -> None:
        self.next = next_  # the first item that the operators have not had
        self.position = position  # where a reader of the log would go on to bring it; -1: there is no log

    def came(
        self, number: int, keys: Keys | None, next_: int, position: int, *, rows: bool = True, late: bool = False
    ) -> None:
        """Items from `number` on, of these keys, ascending; None: nothing but news that `next_` will be next."""
        self.next, self.position = next_, position

    def cut(self) -> InletCut:
        return InletCut(self.next, self.next, self.position, self.position)


class _Waiting(NamedTuple):
    """Consecutive items that came in one message."""

    number: int  # of the first of them
    keys: Keys
    last: OrderKey
    position: int  # where a reader of the log finds them
    rows: bool  # not a punctuation
    late: bool  # their keys are their place in the order


class Numbers(NamedTuple):
    """Items that have passed: from `first` up to `stop`."""

    first: int
    stop: int
    late: bool

    def beyond(self, number: int) -> int:
        """How many of them are at or beyond a number."""
        return max(0, self.stop - max(self.first, number))


class MergedCursor(InputCursor):
    """A channel whose items wait until those of others have come. `retained` hears of the rows that pass."""

    def __init__(
        self, next_: int, position: int, channel: ChannelId | None = None, retained: Retained | None = None
    ) -> None:
        super().__init__(next_, position)
        self._channel, self._retained = channel, retained
        self._came = (next_, position)  # `next` and `position` of what has come
        self._waiting: deque[_Waiting] = deque()
        self._last = START_KEY
        self.rows = 0  # that wait

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return bool(self._waiting)

    def came(
        self, number: int, keys: Keys | None, next_: int, position: int, *, rows: bool = True, late: bool = False
    ) -> None:
        if keys is not None:
            count = len(keys.ts)
            self._last = max(self._last, keys.at(count - 1))  # a punctuation passes behind the row before it
            self._waiting.append(_Waiting(number, keys, self._last, self._came[1], rows, late))
            self.rows += count
        self._came = (next_, position)

    @property
    def last(self) -> OrderKey:
        """The greatest key of what has come, or its place."""
        return self._last

    def passed(self, reached: OrderKey) -> list[Numbers]:
        """The operators have had all that came up to this key: gives the numbers that are new among them."""
        passed = []
        while self._waiting and self._waiting[0].last <= reached:
            passed.append(self._pass(self._waiting.popleft()))
        if not self._waiting:
            self.next, self.position, self.rows = *self._came, 0
            return passed
        first = self._waiting[0]
        count = bisect_right(range(len(first.keys.ts)), reached, key=first.keys.at) if len(first.keys.ts) > 1 else 0
        if count:
            rest = np.arange(count, len(first.keys.ts))
            passed.append(self._pass(first._replace(keys=first.keys.rows(np.arange(count)))))
            self._waiting[0] = first._replace(number=first.number + count, keys=first.keys.rows(rest))
        self.next, self.position = first.number + count, first.position
        self.rows -= sum(numbers.stop - numbers.first for numbers in passed)
        return passed

    def _pass(self, items: _Waiting) -> Numbers:
        if self._retained is not None and items.rows:
            assert self._channel is not None
            self._retained.passed(self._channel, items.number, items.keys)
        return Numbers(items.number, items.number + len(items.keys.ts), items.late)

    def cut(self) -> InletCut:
        return InletCut(self._came[0], self.next, self._came[1], self.position, self.waits)
