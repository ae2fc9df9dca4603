"""Messages as they arrive: without what was taken before, and many small ones as few large ones."""

from collections.abc import Iterator
from dataclasses import replace

from riprap.graph.keys import END_KEY
from riprap.runtime.hosting import Arrival
from riprap.runtime.messages import Kind, Message
from riprap.runtime.transport.joining import follows, joined


def without(message: Message, skip: int) -> Message:
    """The message without its first items, of which it may have no more: what it says of progress holds."""
    number = message.number + skip
    if message.batch is not None and skip < message.items:
        return replace(message, number=number, batch=message.batch.slice(skip))
    kind = Kind.END if message.progress == END_KEY else Kind.PROGRESS
    return replace(message, kind=kind, number=number, batch=None, punctuation=None)


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
