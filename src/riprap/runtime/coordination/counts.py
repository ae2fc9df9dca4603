"""What became of the tuples of every stream, from the ledgers of the elements at its two ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import InletRecord, Ledgers
from riprap.runtime.layout import Layout, Link, Recovery


@dataclass(frozen=True)
class StreamCounts:
    """Of one stream, in items: tuples and punctuations."""

    sent: int  # given out by the producer, each counted once
    received: int  # given to the consumer's operators, each counted once
    lost: int  # sent and never received
    repeated: int  # given to the consumer's operators a second time
    recovery: Recovery
    forgotten: int = 0  # received, and a crash of the consumer took what they had left in its state
    late: int = 0  # of those received: behind others that belong after them


def stream_counts(layout: Layout, ledgers: Ledgers) -> dict[str, StreamCounts]:
    """By stream; `ledgers` by element.

    What one replica of a group misses another one has: a stream to a group, or within it, counts for the replica that
    received most. So what is lost of it is at most what that one lacked. A stream between operators in copies counts as
    if each ran once: what any copy of the consumer had was received, and what any copy of the producer emitted, sent.
    """
    return {link.stream.id: _counts(layout, link, ledgers) for link in layout.links}


def _counts(layout: Layout, link: Link, ledgers: Ledgers) -> StreamCounts:
    grouped = bool(link.target.group) and not link.target.copied
    by_replica: dict[int, list[ChannelId]] = {}
    for channel in link.views():
        by_replica.setdefault(link.ends_at(channel).replica if grouped else 0, []).append(channel)
    each = [_counts_of(layout, link, channels, ledgers) for channels in by_replica.values()]
    return max(each, key=lambda counts: (counts.received, -counts.lost))


def _counts_of(layout: Layout, link: Link, channels: Sequence[ChannelId], ledgers: Ledgers) -> StreamCounts:
    sent = received = repeated = forgotten = late = 0
    copied = link.retention == "copy"
    readers: dict[ChannelId, list[InletRecord]] = {}  # several, where the number of the consumer's shards changed
    written: dict[ChannelId, list[ChannelId]] = {}
    for channel in channels:
        one = link.written(channel)
        if copied:  # to each copy of the consumer the same
            one = one._replace(target=one.target % link.target.shards)
        readers.setdefault(one, []).append(ledgers[layout.consumer(channel)].inlets[channel])
        written.setdefault(one, []).append(link.written(channel))
    for one, inlets in readers.items():
        inlet = (max if copied else min)(inlets, key=lambda record: record.received)
        strands = [(p, s) for channel in written[one] for s in link.strands(channel) for p in layout.producers(s)]
        outlets = [ledgers[producer].outlets[strand] for producer, strand in strands]
        given = max(
            (outlet.number + (outlet.discarded if link.retention == "log" else 0) for outlet in outlets),
            default=inlet.next,  # of a shard that is no more: its log is there, and read to the end
        )
        # Copies that began empty differ from those before them in what they emit, not only in when.
        sent += max(given, inlet.received) if copied else given
        received += inlet.received
        repeated += inlet.repeated
        forgotten += inlet.forgotten
        late += inlet.late
    return StreamCounts(sent, received, sent - received, repeated, link.recovery, forgotten, late)
