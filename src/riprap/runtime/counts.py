"""What became of the tuples of every stream, from the ledgers of the elements at its two ends."""

from collections.abc import Mapping
from dataclasses import dataclass

from riprap.protocols.partial import Recovery
from riprap.runtime.layout import Layout


@dataclass(frozen=True)
class Counts:
    """Of one stream, in items: tuples and punctuations."""

    sent: int  # given out by the producer, each counted once
    received: int  # given to the consumer's operators, each counted once
    lost: int  # sent and never received
    repeated: int  # given to the consumer's operators a second time
    recovery: Recovery


def stream_counts(layout: Layout, ledgers: Mapping[str, Mapping[str, int]]) -> dict[str, Counts]:
    """By stream; `ledgers` by element."""
    counts = {}
    for link in layout.links:
        sent = received = repeated = 0
        for channel in link.channels():
            producer, consumer = ledgers[layout.producer(channel)], ledgers[layout.consumer(channel)]
            sent += producer[f"out:{channel}:number"]
            received += consumer[f"in:{channel}:next"] - consumer[f"in:{channel}:missed"]
            repeated += consumer[f"in:{channel}:repeated"]
        counts[link.stream.id] = Counts(sent, received, sent - received, repeated, link.recovery)
    return counts
