"""Which items of a channel are still in the state of an operator that cannot tolerate their loss.

A barrier holds tuples until their partners arrive. If its process died, they would be missing, and all later tuples
would be paired wrongly. So its producers hold them too, until they have left its state.

An operator reports how many of the newest rows of a port it retains. Rows of a port arrive from several shards in the
order of their keys, so the oldest ones leave in that order.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

import numpy as np

from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channels import ChannelId


class Retained:
    """The rows of one port that are in the operator's state."""

    def __init__(self, channels: Iterable[ChannelId]) -> None:
        self._rows: dict[ChannelId, deque[tuple[int, Keys]]] = {channel: deque() for channel in channels}
        self._count = 0

    def passed(self, channel: ChannelId, number: int, keys: Keys) -> None:
        """Rows from `number` on entered the operator."""
        self._rows[channel].append((number, keys))
        self._count += len(keys.ts)

    def retain_newest(self, newest: int) -> None:
        """The operator retains this many of the newest rows of the port."""
        leaving = self._count - newest
        while leaving > 0:
            heads = {channel: rows[0][1].at(0) for channel, rows in self._rows.items() if rows}
            channel = min(heads, key=heads.__getitem__)
            others = [key for other, key in heads.items() if other != channel]
            dropped = self._drop(channel, leaving, min(others, default=None))
            leaving -= dropped
            self._count -= dropped

    def _drop(self, channel: ChannelId, most: int, before: OrderKey | None) -> int:
        """Drop the first rows of a channel, up to a key of another channel."""
        number, keys = self._rows[channel].popleft()
        count = len(keys.ts)
        dropped = count if before is None else max(1, bisect_right(range(count), before, key=keys.at))
        dropped = min(dropped, most)
        if dropped < count:
            rest = keys.rows(np.arange(dropped, count))
            self._rows[channel].appendleft((number + dropped, rest))
        return dropped

    def first_retained(self, channel: ChannelId, next_: int) -> int:
        """Number of the channel's first retained row; `next_` if it has none."""
        rows = self._rows[channel]
        return rows[0][0] if rows else next_
