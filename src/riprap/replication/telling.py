"""How far consumers have come, in the words that machines and directors say to each other: JSON."""

from collections.abc import Sequence
from typing import Any

from riprap.graph.keys import OrderKey
from riprap.protocols.channel import Had
from riprap.protocols.channels import ChannelId


def as_json(channel: ChannelId, had: Had) -> list[Any]:
    return [list(channel), list(had.key), had.items]


def from_json(entry: Sequence[Any]) -> tuple[ChannelId, Had]:
    channel, key, items = entry
    return ChannelId(*channel), Had(OrderKey(*key), items)
