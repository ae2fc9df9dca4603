"""The recovery line: the latest consistent set of checkpoints, one per element.

It is the greatest fixed point of two rules that only move back. For a channel from i to j, with c the checkpoint that
is selected for an element:

    orphan  delivered(c_j) > sent(c_i): j has received what i will not have sent; j moves to its previous checkpoint
    lost    some item from delivered(c_j) to sent(c_i) is neither in a surviving log nor saved with c_j as channel
            state: i moves to its previous checkpoint, and will send it again

A rule that applies at a line applies at every lower line too (channel state saved with a checkpoint was delivered
before the next one), so the order of application does not matter. The initial states, where nothing is sent or
delivered, are always consistent, so a line exists. Where the user accepts loss (volatile logs, at most once) the second
rule is omitted, and the lost items are counted (`lost_items`).

The history of a live element may end with its *virtual checkpoint*, its current state. Elements halt before their
numbers are read. A `CheckpointPoint` has numbers only, so this file needs no cut, no disk and no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from riprap.protocols.channels import ChannelId

Span = tuple[int, int]  # numbers of items, [first, last)
NOTHING: Span = (0, 0)


class Ends(NamedTuple):
    """The elements at the ends of a channel."""

    source: str
    target: str


@dataclass(frozen=True)
class CheckpointPoint:
    """The positions of a checkpoint, of the initial state or of the live state. Missing channels are at 0."""

    sent: Mapping[ChannelId, int] = field(default_factory=dict)
    delivered: Mapping[ChannelId, int] = field(default_factory=dict)
    saved: Mapping[ChannelId, Span] = field(default_factory=dict)  # channel state that is in the checkpoint


INITIAL = CheckpointPoint()


def recovery_line(
    histories: Mapping[str, Sequence[CheckpointPoint]],
    channels: Mapping[ChannelId, Ends],
    logs: Mapping[ChannelId, Span] | None = None,
) -> dict[str, int]:
    """By element, the index of its point in its history (oldest first; the first is its initial state).

    `logs`: by channel, the items that survive the failures; None: loss is accepted.
    """
    at = {pe: len(points) - 1 for pe, points in histories.items()}
    touching: dict[str, list[ChannelId]] = {pe: [] for pe in histories}
    for channel, ends in channels.items():
        for pe in {ends.source, ends.target}:
            touching[pe].append(channel)
    pending = list(channels)
    while pending:
        channel = pending.pop()
        source, target = channels[channel]
        producer, consumer = histories[source][at[source]], histories[target][at[target]]
        if consumer.delivered.get(channel, 0) > producer.sent.get(channel, 0):
            moved = target
        elif logs is not None and missing(producer, consumer, channel, logs):
            moved = source
        else:
            continue
        at[moved] -= 1
        pending += touching[moved]
    return at


def missing(
    producer: CheckpointPoint, consumer: CheckpointPoint, channel: ChannelId, logs: Mapping[ChannelId, Span]
) -> int:
    """How many items of a channel were sent and not delivered, and are not stored anywhere."""
    first, last = consumer.delivered.get(channel, 0), producer.sent.get(channel, 0)
    if first >= last:
        return 0
    retained = [
        span for span in (consumer.saved.get(channel, NOTHING), logs.get(channel, NOTHING)) if span[0] < span[1]
    ]
    count, at = 0, first
    for low, high in sorted(retained):
        count += max(0, min(low, last) - at)
        at = max(at, min(high, last))
    return count + max(0, last - at)


def lost_items(
    histories: Mapping[str, Sequence[CheckpointPoint]],
    line: Mapping[str, int],
    channels: Mapping[ChannelId, Ends],
    logs: Mapping[ChannelId, Span],
) -> dict[ChannelId, int]:
    """By channel, how many items are lost in a rollback to `line`; channels without loss are left out."""
    found = {}
    for channel, (source, target) in channels.items():
        producer, consumer = histories[source][line[source]], histories[target][line[target]]
        if count := missing(producer, consumer, channel, logs):
            found[channel] = count
    return found
