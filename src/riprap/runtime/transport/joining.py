"""Joins small messages into larger ones, for a sender or a receiver that has fallen behind.

A message costs 30 to 50 µs whatever its size, and above some ten thousand rows joining gains nothing. So queued
messages are joined; a single one is sent, or processed, at once.

Neighbours with consecutive items are joined: rows with rows, and a watermark with the rows or the watermark before it.
Never across a change of header or epoch; never late items, punctuations, markers or the end. Nor across a *fence*: the
number in a marker that was sent ahead of the items before it.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace

from riprap.operators.views import concatenated
from riprap.runtime.messages import Message, MessageKind


def take_joined(queue: deque[Message], most_rows: int, fences: Container[int] = frozenset()) -> tuple[Message, int]:
    """Join messages from the front of a non-empty queue into one of at most `most_rows` rows.

    Returns it with the number of joined messages. A single message may be longer.
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
    """One message with the content of these consecutive ones."""
    if len(group) == 1:
        return group[0]
    batches = [message.batch for message in group if message.batch is not None]
    return replace(
        group[0],
        kind=MessageKind.ROWS if batches else MessageKind.WATERMARK,
        batch=concatenated(batches) if batches else None,
        # Watermarks never decrease on a channel, so the last one holds after all the rows.
        watermark=next((message.watermark for message in reversed(group) if message.watermark is not None), None),
        born=min((message.born for message in group if message.born), default=0),
    )
