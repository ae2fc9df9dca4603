"""A cut: the positions of sources and channels at which a checkpoint was captured.

Every checkpoint has one. It is frozen data without tuples, except for `parked`: so a director can compare the cuts of
many elements, and a restored element knows where each of its inputs and outputs resumes.

What *delivered* means is the protocol's choice (`protocol.RestorePlan.delivered`). If it means taken into the element,
the checkpoint includes what waits in merges, and a restored element resumes at `taken`. If it means passed to the
operators, merges are restored empty, and the element resumes at `passed`.

In a checkpoint's manifest a cut is a JSON object (`as_json`), and the parked messages are an attachment. Channels are
[stream, producer's shard, consumer's shard], keys [ts, src, seq, n].
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId


class InletCut(NamedTuple):
    """An input channel. Positions are those of its log; -1: it has none."""

    taken: int  # number of the first item that was not taken into the element
    passed: int  # number of the first item that was not passed to the operators
    taken_position: int = -1  # log position at which to resume after `taken`
    passed_position: int = -1  # log position at which to resume after `passed`
    waits: bool = False  # some items were taken and not passed
    missed: int = 0  # items below `taken` that never arrived


class CheckpointId(NamedTuple):
    """The ids of a unit sort in the order of the captures."""

    pe: str
    unit: str
    epoch: int
    number: int  # within the epoch, from 1


@dataclass(frozen=True)
class Cut:
    """`reached` has every operator of the unit; the sources and channels are those of the whole element."""

    reached: Mapping[str, OrderKey] = field(default_factory=dict)  # by operator: the key that its input has reached
    sources: Mapping[str, int] = field(default_factory=dict)  # by source: rows read from its input
    inlets: Mapping[ChannelId, InletCut] = field(default_factory=dict)
    sent: Mapping[ChannelId, int] = field(default_factory=dict)  # by output channel: number of the next item
    protocol: bytes = b""  # the result of the protocol's `snapshot()`
    # Messages that belong to the checkpoint and are not in the engine, in delivery order: the recorded channel state
    # (`events.TakeCheckpoint.record`), messages that waited for a full merge, and output on committed channels that is
    # not visible yet. In their stored form.
    parked: Mapping[ChannelId, tuple[bytes, ...]] = field(default_factory=dict)
    # For an element in copies: by input the delivered position, by output the emitted one, as keys, which all copies
    # share.
    delivered: Mapping[ChannelId, Delivered] = field(default_factory=dict)
    reach: int = START_KEY.ts  # for an element on a cycle: the event time that input from outside the cycle has reached

    def as_json(self) -> dict[str, Any]:
        """Without the parked messages; only their sizes in bytes, by channel."""
        return {
            "reached": {name: list(key) for name, key in self.reached.items()},
            "sources": dict(self.sources),
            "inlets": [[list(channel), list(inlet)] for channel, inlet in self.inlets.items()],
            "sent": [[list(channel), number] for channel, number in self.sent.items()],
            "protocol": self.protocol.hex(),
            "parked": [[list(channel), [len(m) for m in messages]] for channel, messages in self.parked.items()],
            "had": [[list(channel), list(at.key), at.items] for channel, at in self.delivered.items()],
            "reach": self.reach,
        }

    def messages(self) -> bytes:
        """The parked messages, concatenated in the order of `as_json`."""
        return b"".join(message for messages in self.parked.values() for message in messages)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], messages: bytes = b"") -> "Cut":
        """The inverse of `as_json` and `messages`; without messages `parked` is empty."""
        at, parked = 0, {}
        for channel, lengths in data["parked"] if messages else ():
            ends = [at := at + length for length in lengths]
            parked[ChannelId(*channel)] = tuple(
                messages[end - length : end] for end, length in zip(ends, lengths, strict=True)
            )
        return cls(
            {name: OrderKey(*key) for name, key in data["reached"].items()},
            dict(data["sources"]),
            {ChannelId(*channel): InletCut(*inlet) for channel, inlet in data["inlets"]},
            {ChannelId(*channel): number for channel, number in data["sent"]},
            bytes.fromhex(data["protocol"]),
            parked,
            {ChannelId(*channel): Delivered(OrderKey(*key), items) for channel, key, items in data.get("had", ())},
            data.get("reach", START_KEY.ts),
        )
