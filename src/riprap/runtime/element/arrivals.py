"""Messages at the ends of a channel: without what was taken before, in others' numbers, many as few."""

from collections.abc import Iterator
from dataclasses import replace

from riprap.graph.order_keys import END_KEY
from riprap.runtime.host import Arrival
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.joining import follows, joined


def without(message: Message, skip: int) -> Message:
    """The message without its first items, of which it may have no more: what it says of progress holds."""
    number = message.number + skip
    if message.batch is not None and skip < message.items:
        return replace(message, number=number, batch=message.batch.slice(skip))
    kind = MessageKind.END if message.watermark == END_KEY else MessageKind.WATERMARK
    return replace(message, kind=kind, number=number, batch=None, punctuation=None)


def renumbered(message: Message, offset: int) -> Message:
    """With the numbers of a consumer that counts otherwise. What that had before it began to count, the beginning of
    the first message that it is sent, has none.
    """
    number = message.number + offset
    return replace(message if number >= 0 else without(message, -number), number=max(number, 0))


def together(arrivals: list[Arrival], most: int) -> Iterator[Arrival]:
    """The same items in fewer, larger messages."""
    run: list[Arrival] = []
    rows = 0
    for arrival in arrivals:
        items = arrival.message.items
        if run and (rows + items > most or not follows(run[-1].message, arrival.message)):
            yield run[-1]._replace(message=joined([each.message for each in run]))
            run, rows = [], 0
        run.append(arrival)
        rows += items
    if run:
        yield run[-1]._replace(message=joined([each.message for each in run]))
