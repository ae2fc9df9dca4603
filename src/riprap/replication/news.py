"""Messages between machines and directors with delivered positions and output digests.

They are JSON. A machine buffers its reports and sends all of them 20 times a second.
"""

from collections.abc import Sequence
from typing import Any

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import DeliveredUpTo, OutputDigested, SendToDirector

FIRST_EPOCH = 1  # an incarnation of this epoch has lost nothing
_REPORT_EVERY = 50_000  # µs


def as_json(channel: ChannelId, delivered: Delivered) -> list[Any]:
    return [list(channel), list(delivered.key), delivered.items]


def from_json(entry: Sequence[Any]) -> tuple[ChannelId, Delivered]:
    channel, key, items = entry
    return ChannelId(*channel), Delivered(OrderKey(*key), items)


class ReportBuffer:
    """What a machine has not reported to its director yet. `ours` is the key of messages between the two."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._positions: dict[ChannelId, Delivered] = {}
        self._digests: dict[str, dict[int, int]] = {}
        self._reported_at = 0

    def add(self, event: DeliveredUpTo | OutputDigested) -> None:
        if isinstance(event, DeliveredUpTo):
            self._positions[event.channel] = event.delivered
        else:
            self._digests.setdefault(event.stream, {}).update(event.digests)

    def due_messages(self, now: int) -> list[SendToDirector]:
        """The messages to send now."""
        if not (self._positions or self._digests) or now - self._reported_at < _REPORT_EVERY:
            return []
        reports: list[dict[str, Any]] = []
        if self._positions:
            reports.append({"had": [as_json(channel, delivered) for channel, delivered in self._positions.items()]})
        if self._digests:
            reports.append({"digests": {stream: list(digests.items()) for stream, digests in self._digests.items()}})
        self._positions, self._digests, self._reported_at = {}, {}, now
        return [SendToDirector({self._ours: report}) for report in reports]
