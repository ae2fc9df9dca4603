"""Joining small messages into larger ones, for whoever has fallen behind: a sender, or an element that takes them.

A message costs 30 to 50 µs on its way whatever its size, and above some ten thousand rows nothing is gained. So what
has queued up is joined, and what has not is sent, or taken, at once.

Joined are neighbours whose items are consecutive: rows with rows, and progress with the rows or the progress before
it. Never across a change of header or epoch, never what is late, a punctuation, a marker or the end: those stay where
they are. Nor across a *fence*: the number that a marker named which was sent ahead of the items before it.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace

from riprap.operators.views import concatenated
from riprap.runtime.messages import Message, MessageKind


def take_joined(queue: deque[Message], most_rows: int, fences: Container[int] = frozenset()) -> tuple[Message, int]:
    """Take messages from the front of a queue that is not empty, as many as make one of at most `most_rows` rows.

    Gives that one, and how many it was made of. A single message may be longer.
    """
    group = [queue.popleft()]
    rows = group[0].items
    while (
        queue and follows(group[-1], queue[0]) and rows + queue[0].items <= most_rows and queue[0].number not in fences
    ):
        rows += queue[0].items
        group.append(queue.popleft())
    return joined(group), len(group)


def follows(one: Message, other: Message) -> bool:
    """Whether the two can be one message."""
    return (
        (one.kind, other.kind) in _JOINABLE
        and one.header == other.header
        and one.at is None
        and other.at is None
        and one.epoch == other.epoch
        and one.number + one.items == other.number
    )


_JOINABLE = {
    (MessageKind.ROWS, MessageKind.ROWS),
    (MessageKind.ROWS, MessageKind.WATERMARK),
    (MessageKind.WATERMARK, MessageKind.WATERMARK),
    (MessageKind.WATERMARK, MessageKind.ROWS),
}


def joined(group: list[Message]) -> Message:
    """One message that says what these say, each of which follows the one before."""
    if len(group) == 1:
        return group[0]
    batches = [message.batch for message in group if message.batch is not None]
    return replace(
        group[0],
        kind=MessageKind.ROWS if batches else MessageKind.WATERMARK,
        batch=concatenated(batches) if batches else None,
        # Progress never falls on a channel, so that of the last message that has one is known after all of them.
        watermark=next((message.watermark for message in reversed(group) if message.watermark is not None), None),
        born=min((message.born for message in group if message.born), default=0),
    )
