"""How many tuples of every stream were sent, received and lost, from the ledgers at its two ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import InputChannelRecord, Ledgers
from riprap.runtime.layout import Layout, Link
from riprap.runtime.retention.kind import Recovery


@dataclass(frozen=True)
class StreamCounts:
    """Of one stream, in items: tuples and punctuations."""

    sent: int  # emitted by the producer, each counted once
    received: int  # delivered to the consumer's operators, each counted once
    lost: int  # sent and never received
    repeated: int  # delivered to the consumer's operators a second time
    recovery: Recovery
    forgotten: int = 0  # received, but a crash of the consumer undid their effect on its state
    late: int = 0  # received behind items with later order keys


def stream_counts(layout: Layout, ledgers: Ledgers) -> dict[str, StreamCounts]:
    """By stream; `ledgers` by element.

    A stream to or within a group counts for the replica that received most, since replicas make up for each other. So
    at most what that replica lacked is lost. A stream between operators in copies counts as if each operator ran once:
    it was sent if any copy of the producer emitted it, and received if it was delivered to any copy of the consumer.
    """
    return {link.stream.id: _counts(layout, link, ledgers) for link in layout.links}


def _counts(layout: Layout, link: Link, ledgers: Ledgers) -> StreamCounts:
    grouped = bool(link.target.group) and not link.target.copied
    by_replica: dict[int, list[ChannelId]] = {}
    for channel in link.views():
        by_replica.setdefault(link.ends_at(channel).replica if grouped else 0, []).append(channel)
    candidates = [_counts_of(layout, link, channels, ledgers) for channels in by_replica.values()]
    return max(candidates, key=lambda counts: (counts.received, -counts.lost))


def _counts_of(layout: Layout, link: Link, channels: Sequence[ChannelId], ledgers: Ledgers) -> StreamCounts:
    sent = received = repeated = forgotten = late = 0
    copied = link.kind.per_copy
    readers: dict[ChannelId, list[InputChannelRecord]] = {}  # several if the number of the consumer's shards changed
    written: dict[ChannelId, list[ChannelId]] = {}
    for channel in channels:
        shared = link.written(channel)
        if copied:  # all copies of the consumer receive the same
            shared = shared._replace(target=shared.target % link.target.shards)
        readers.setdefault(shared, []).append(ledgers[layout.consumer(channel)].inputs[channel])
        written.setdefault(shared, []).append(link.written(channel))
    for shared, inlets in readers.items():
        inlet = (max if copied else min)(inlets, key=lambda record: record.received)
        strands = [(p, s) for channel in written[shared] for s in link.strands(channel) for p in layout.producers(s)]
        outlets = [ledgers[producer].outputs[strand] for producer, strand in strands]
        emitted = max(
            (link.kind.emitted(outlet) for outlet in outlets),
            default=inlet.next,  # the shard no longer exists: its log does, and was read to the end
        )
        # Copies that started empty emit other tuples than earlier copies, not only at other times.
        sent += max(emitted, inlet.received) if copied else emitted
        received += inlet.received
        repeated += inlet.repeated
        forgotten += inlet.forgotten
        late += inlet.late
    return StreamCounts(sent, received, sent - received, repeated, link.recovery, forgotten, late)
