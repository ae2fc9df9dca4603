"""How far consumers have come, and what copies gave out, in the words that machines and directors say to each other.

They are JSON. A machine does not say every bit of news by itself: it gathers, and says all of it 20 times a second.
"""

from collections.abc import Sequence
from typing import Any

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import DeliveredUpTo, OutputDigested, SendToDirector

FIRST_EPOCH = 1  # a life of this epoch has lost nothing
_TELL_EVERY = 50_000  # µs


def as_json(channel: ChannelId, delivered: Delivered) -> list[Any]:
    return [list(channel), list(delivered.key), delivered.items]


def from_json(entry: Sequence[Any]) -> tuple[ChannelId, Delivered]:
    channel, key, items = entry
    return ChannelId(*channel), Delivered(OrderKey(*key), items)


class News:
    """What a machine has heard and its director has not been told. `ours` marks what is said between the two."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._came: dict[ChannelId, Delivered] = {}
        self._gave: dict[str, dict[int, int]] = {}
        self._told_at = 0

    def hear(self, event: DeliveredUpTo | OutputDigested) -> None:
        if isinstance(event, DeliveredUpTo):
            self._came[event.channel] = event.delivered
        else:
            self._gave.setdefault(event.stream, {}).update(event.digests)

    def tell(self, now: int) -> list[SendToDirector]:
        """What is to be said now."""
        if not (self._came or self._gave) or now - self._told_at < _TELL_EVERY:
            return []
        said: list[dict[str, Any]] = []
        if self._came:
            said.append({"had": [as_json(channel, delivered) for channel, delivered in self._came.items()]})
        if self._gave:
            said.append({"digests": {stream: list(digests.items()) for stream, digests in self._gave.items()}})
        self._came, self._gave, self._told_at = {}, {}, now
        return [SendToDirector({self._ours: one}) for one in said]
