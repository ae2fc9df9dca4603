"""The recovery line: the latest checkpoints, one of each element, to which all can go back together.

It is the greatest fixed point of two rules that only move back. For a channel from i to j, with c the checkpoint that
an element stands at:

    orphan  delivered(c_j) > sent(c_i): j has taken what i will not have sent; j moves to the checkpoint before
    lost    some item from delivered(c_j) to sent(c_i) is neither in a log that survives nor saved with c_j as channel
            state: i moves to the checkpoint before, and will send it again

Both rules hold at every lower line where they hold at all (channel state that is saved with a checkpoint was taken
before the next one), so the order in which they are applied does not matter. The initial states, where nothing is sent
or delivered, are always consistent, so there is a line. Where loss was chosen (volatile logs, at most once) the second
rule is left out, and what it would have saved is counted (`lost_items`).

A live element may stand at its *virtual checkpoint*, the state that it has: then its history ends with it. Elements
halt before their numbers are read. `CheckpointPoint`s are numbers only, so this file knows no cut, no disk and no
clock.
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
    """A checkpoint (or an initial state, or the live state) as the line sees it. A channel it does not name is at 0."""

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

    `logs`: items that survive outside the elements that fail, by channel; None: loss was chosen, and is not avoided.
    """
    at = {pe: len(points) - 1 for pe, points in histories.items()}
    touching: dict[str, list[ChannelId]] = {pe: [] for pe in histories}
    for channel, ends in channels.items():
        for pe in {ends.source, ends.target}:
            touching[pe].append(channel)
    doubtful = list(channels)
    while doubtful:
        channel = doubtful.pop()
        source, target = channels[channel]
        given, taken = histories[source][at[source]], histories[target][at[target]]
        if taken.delivered.get(channel, 0) > given.sent.get(channel, 0):
            moved = target
        elif logs is not None and missing(given, taken, channel, logs):
            moved = source
        else:
            continue
        at[moved] -= 1
        doubtful += touching[moved]
    return at


def missing(given: CheckpointPoint, taken: CheckpointPoint, channel: ChannelId, logs: Mapping[ChannelId, Span]) -> int:
    """How many items of a channel are between its ends and nowhere else."""
    first, last = taken.delivered.get(channel, 0), given.sent.get(channel, 0)
    if first >= last:
        return 0
    kept = [span for span in (taken.saved.get(channel, NOTHING), logs.get(channel, NOTHING)) if span[0] < span[1]]
    count, at = 0, first
    for low, high in sorted(kept):
        count += max(0, min(low, last) - at)
        at = max(at, min(high, last))
    return count + max(0, last - at)


def lost_items(
    histories: Mapping[str, Sequence[CheckpointPoint]],
    line: Mapping[str, int],
    channels: Mapping[ChannelId, Ends],
    logs: Mapping[ChannelId, Span],
) -> dict[ChannelId, int]:
    """What nobody will bring again when all go back to `line`; channels that lose nothing are not named."""
    found = {}
    for channel, (source, target) in channels.items():
        given, taken = histories[source][line[source]], histories[target][line[target]]
        if count := missing(given, taken, channel, logs):
            found[channel] = count
    return found
