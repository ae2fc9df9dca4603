"""What became of the tuples of every stream, from the ledgers of the elements at its two ends."""

from dataclasses import dataclass

from riprap.runtime.element.ledger import Ledgers
from riprap.runtime.layout import Layout, Recovery


@dataclass(frozen=True)
class Counts:
    """Of one stream, in items: tuples and punctuations."""

    sent: int  # given out by the producer, each counted once
    received: int  # given to the consumer's operators, each counted once
    lost: int  # sent and never received
    repeated: int  # given to the consumer's operators a second time
    recovery: Recovery
    forgotten: int = 0  # received, and a crash of the consumer took what they had left in its state
    late: int = 0  # of those received: behind others that belong after them


def stream_counts(layout: Layout, ledgers: Ledgers) -> dict[str, Counts]:
    """By stream; `ledgers` by element."""
    counts = {}
    for link in layout.links:
        sent = received = repeated = forgotten = late = 0
        for channel in link.channels():
            inlet = ledgers[layout.consumer(channel)].inlets[channel]
            strands = [(p, strand) for strand in link.strands(channel) for p in layout.producers(strand)]
            outlets = [ledgers[producer].outlets[strand] for producer, strand in strands]
            sent += max(outlet.number + (outlet.discarded if link.retention == "log" else 0) for outlet in outlets)
            received += inlet.received
            repeated += inlet.repeated
            forgotten += inlet.forgotten
            late += inlet.late
        counts[link.stream.id] = Counts(sent, received, sent - received, repeated, link.recovery, forgotten, late)
    return counts
