"""How far an element's operators have come on a channel: what they have had, and what still waits in a merge.

Only what the operators have had counts as received. What waits is in the memory of this life alone: another life
expects it anew, and where the producer or a log can bring it again nothing is lost.

A merge lets items pass in the order of their keys, so an item has passed when its key is at or below the one that its
operator's input has reached.
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

import numpy as np

from riprap.graph.keys import START_KEY, OrderKey
from riprap.operators.columns import Keys


class _Waiting(NamedTuple):
    """Consecutive items that came in one message."""

    number: int  # of the first of them
    keys: Keys
    last: OrderKey
    position: int  # where a reader of the log finds them


class Intake:
    """One channel into an element."""

    def __init__(self, next_: int, position: int) -> None:
        self.next = next_  # the first item that the operators have not had
        self.position = position  # where a reader of the log would go on to bring it; -1: there is no log
        self._came = (next_, position)  # the same of what has come
        self._waiting: deque[_Waiting] = deque()
        self._last = START_KEY

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def came(self, number: int, keys: Keys | None, next_: int, position: int) -> None:
        """Items from `number` on, of these keys, ascending; None: nothing but news that `next_` will be next."""
        if keys is not None:
            self._last = max(self._last, keys.at(len(keys.ts) - 1))  # a punctuation passes behind the row before it
            self._waiting.append(_Waiting(number, keys, self._last, self._came[1]))
        self._came = (next_, position)

    def passed(self, reached: OrderKey) -> list[range]:
        """The operators have had all that came up to this key: gives the numbers that are new among them."""
        passed = []
        while self._waiting and self._waiting[0].last <= reached:
            number, keys, _, _ = self._waiting.popleft()
            passed.append(range(number, number + len(keys.ts)))
        if not self._waiting:
            self.next, self.position = self._came
            return passed
        number, keys, last, position = self._waiting[0]
        count = bisect_right(range(len(keys.ts)), reached, key=keys.at) if len(keys.ts) > 1 else 0
        if count:
            passed.append(range(number, number + count))
            self._waiting[0] = _Waiting(number + count, keys.rows(np.arange(count, len(keys.ts))), last, position)
        self.next, self.position = number + count, position
        return passed
