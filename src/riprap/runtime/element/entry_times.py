"""When tuples entered the app: so that the sink knows how long they took.

Every message says when the oldest tuple behind it entered. Progress orders these times: a tuple with key k entered no
earlier than the first message whose progress reached k. What nothing that is still to come can ask for is forgotten;
where much waits, beyond a bound the oldest times are too: what is asked for then gets a later one.
"""

from bisect import bisect_left

from riprap.graph.order_keys import OrderKey

_MOST = 8_192  # entries
_TIDY = 256  # entries that are forgotten before they are deleted


class EntryTimes:
    """Times of entry by key, of one element. Microseconds of the wall clock."""

    def __init__(self) -> None:
        self._keys: list[OrderKey] = []
        self._entered: list[int] = []
        self._first = 0  # entries before this are forgotten

    def note(self, watermark: OrderKey, entered: int) -> None:
        """What came up to this key entered at that time or later."""
        if not self._keys or watermark > self._keys[-1]:
            self._keys.append(watermark)
            self._entered.append(entered)
            if len(self._keys) - self._first > _MOST:
                self._first += _MOST // 2
                self._tidy()

    def of(self, key: OrderKey) -> int:
        """When the tuple with this key entered; 0: unknown."""
        at = bisect_left(self._keys, key, self._first)
        return self._entered[at] if at < len(self._entered) else 0

    def forget(self, below: OrderKey) -> None:
        """Nothing at or below this key will be asked for."""
        keys, first, last = self._keys, self._first, len(self._keys) - 1
        while first < last and keys[first] <= below:
            first += 1
        self._first = first
        if first > _TIDY:
            self._tidy()

    def _tidy(self) -> None:
        del self._keys[: self._first]
        del self._entered[: self._first]
        self._first = 0

    def __len__(self) -> int:
        return len(self._keys)
