"""When tuples entered the app: so that the sink knows how long they took.

Every message says when the oldest tuple behind it entered. Progress orders these times: a tuple with key k entered no
earlier than the first message whose progress reached k.
"""

from bisect import bisect_left
from collections import deque

from riprap.graph.keys import OrderKey


class Births:
    """Times of birth by key, of one element. Microseconds of the wall clock."""

    def __init__(self) -> None:
        self._keys: deque[OrderKey] = deque()
        self._born: deque[int] = deque()

    def note(self, progress: OrderKey, born: int) -> None:
        """What came up to this key was born at that time or later."""
        if not self._keys or progress > self._keys[-1]:
            self._keys.append(progress)
            self._born.append(born)

    def of(self, key: OrderKey) -> int:
        """When the tuple with this key was born; 0: unknown."""
        at = bisect_left(self._keys, key)
        return self._born[at] if at < len(self._born) else 0

    def forget(self, below: OrderKey) -> None:
        """Nothing below this key will be asked for."""
        while len(self._keys) > 1 and self._keys[0] < below:
            self._keys.popleft()
            self._born.popleft()
