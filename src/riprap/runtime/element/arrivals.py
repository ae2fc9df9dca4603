"""Operations on messages: drop the first items, renumber, join."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from riprap.graph.order_keys import END_KEY, KeyShape
from riprap.operators.columns import Keys, keys_of
from riprap.runtime.host import Arrival
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.joining import follows, joined


def without(message: Message, skip: int) -> Message:
    """The message without its first `skip` items, possibly all; its watermark stays."""
    number = message.number + skip
    if message.batch is not None and skip < message.items:
        return replace(message, number=number, batch=message.batch.slice(skip))
    kind = MessageKind.END if message.watermark == END_KEY else MessageKind.WATERMARK
    return replace(message, kind=kind, number=number, batch=None, punctuation=None)


def renumbered(message: Message, offset: int) -> Message:
    """The message in the consumer's numbering. Items that it got before it started to count have no number there: they
    are the first of the first message sent to it, and are dropped.
    """
    number = message.number + offset
    return replace(message if number >= 0 else without(message, -number), number=max(number, 0))


def joined_arrivals(arrivals: list[Arrival], most: int) -> Iterator[Arrival]:
    """The same items in fewer, larger messages."""
    run: list[Arrival] = []
    rows = 0
    for arrival in arrivals:
        items = arrival.message.items
        if run and (rows + items > most or not follows(run[-1].message, arrival.message)):
            yield run[-1]._replace(message=joined([part.message for part in run]))
            run, rows = [], 0
        run.append(arrival)
        rows += items
    if run:
        yield run[-1]._replace(message=joined([part.message for part in run]))


def keys_of_message(message: Message, shape: KeyShape) -> Keys:
    """The keys of its items."""
    if message.kind is MessageKind.PUNCTUATION:
        assert message.punctuation is not None
        return Keys(*(np.array([part], np.int64) for part in message.punctuation))
    if message.batch is None:
        return Keys(*(np.zeros(0, np.int64) for _ in range(4)))
    return keys_of(message.batch, shape)
