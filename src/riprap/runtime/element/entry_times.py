"""When tuples entered the app, so that a sink can measure their latency.

Every message carries the entry time of the oldest tuple that caused it. Watermarks order these times: a tuple with key
k entered no earlier than the first message whose watermark reached k. Times that no later tuple can need are dropped;
beyond a bound the oldest ones are dropped too, and a lookup then returns a later time.
"""

from bisect import bisect_left

from riprap.graph.order_keys import OrderKey

_MOST = 8_192  # entries
_TIDY = 256  # dropped entries before the lists are compacted


class EntryTimes:
    """Times of entry by key, of one element. Microseconds of the wall clock."""

    def __init__(self) -> None:
        self._keys: list[OrderKey] = []
        self._entered: list[int] = []
        self._first = 0  # entries before this are dropped

    def note(self, watermark: OrderKey, entered: int) -> None:
        """Tuples up to this key entered at this time or later."""
        if not self._keys or watermark > self._keys[-1]:
            self._keys.append(watermark)
            self._entered.append(entered)
            if len(self._keys) - self._first > _MOST:
                self._first += _MOST // 2
                self._compact()

    def of(self, key: OrderKey) -> int:
        """When the tuple with this key entered; 0: unknown."""
        at = bisect_left(self._keys, key, self._first)
        return self._entered[at] if at < len(self._entered) else 0

    def forget(self, below: OrderKey) -> None:
        """No key at or below this one will be looked up."""
        keys, first, last = self._keys, self._first, len(self._keys) - 1
        while first < last and keys[first] <= below:
            first += 1
        self._first = first
        if first > _TIDY:
            self._compact()

    def _compact(self) -> None:
        del self._keys[: self._first]
        del self._entered[: self._first]
        self._first = 0

    def __len__(self) -> int:
        return len(self._keys)
