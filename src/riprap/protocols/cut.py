"""A cut: the point between two calls at which the state of a checkpoint unit was taken, in numbers.

Every checkpoint has one. It is frozen data without tuples, but for `parked`: so a director can compare the cuts of many
elements, and an element that begins with one knows where each of its inputs and outputs goes on.

What *delivered* means is a protocol's choice (`protocol.RestorePlan.delivered`). Where it means taken into the element,
what waits in merges is in the checkpoint, and a restored element goes on behind `taken`. Where it means passed to the
operators, merges are restored empty, and the element goes on behind `passed`.

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
    """A channel that comes in. Positions are of its log; -1: it has none."""

    taken: int  # number of the first item that was not taken into the element
    passed: int  # number of the first item that the operators had not had
    taken_position: int = -1  # where a reader of the log goes on behind what was taken
    passed_position: int = -1  # where a reader of the log goes on to bring what had not passed
    waits: bool = False  # something was taken and had not passed
    missed: int = 0  # items below `taken` that never came


class CheckpointId(NamedTuple):
    """Checkpoints of a unit compare as they were taken."""

    pe: str
    unit: str
    epoch: int
    number: int  # within the epoch, from 1


@dataclass(frozen=True)
class Cut:
    """`reached` has every operator of the unit; the sources and channels are those of the whole element."""

    reached: Mapping[str, OrderKey] = field(default_factory=dict)  # by operator: the key that its input had reached
    sources: Mapping[str, int] = field(default_factory=dict)  # by source: rows taken from its input
    inlets: Mapping[ChannelId, InletCut] = field(default_factory=dict)
    sent: Mapping[ChannelId, int] = field(default_factory=dict)  # by outlet: number of the next item
    protocol: bytes = b""  # what the protocol's `snapshot()` gave
    # Messages that belong to the checkpoint and are not in the engine, in the order in which they are to be taken: what
    # was recorded on channels (`events.Capture.record`), what waited in front of a full merge; and what was given out
    # on committed channels, and cannot be seen yet. In their stored form.
    parked: Mapping[ChannelId, tuple[bytes, ...]] = field(default_factory=dict)
    # Of an element in copies, in words that all of them understand: what its operators had had of each channel, and
    # what it had given out.
    delivered: Mapping[ChannelId, Delivered] = field(default_factory=dict)
    reach: int = START_KEY.ts  # of an element on a cycle: how far what comes in from outside of it had come

    def as_json(self) -> dict[str, Any]:
        """Without the parked messages: of those only how many bytes there are, by channel."""
        return {
            "reached": {name: list(key) for name, key in self.reached.items()},
            "sources": dict(self.sources),
            "inlets": [[list(channel), list(inlet)] for channel, inlet in self.inlets.items()],
            "sent": [[list(channel), number] for channel, number in self.sent.items()],
            "protocol": self.protocol.hex(),
            "parked": [[list(channel), [len(m) for m in messages]] for channel, messages in self.parked.items()],
            "had": [
                [list(channel), list(delivered.key), delivered.items] for channel, delivered in self.delivered.items()
            ],
            "reach": self.reach,
        }

    def messages(self) -> bytes:
        """The parked messages, one after the other, as `as_json` counts them."""
        return b"".join(message for messages in self.parked.values() for message in messages)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], messages: bytes = b"") -> "Cut":
        """From what `as_json` and `messages` gave; without messages `parked` is empty."""
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
