"""A cut: the point between two calls at which the state of a checkpoint unit was taken, in numbers.

Every checkpoint has one. It is frozen data without tuples, but for `parked`: so a director can compare the cuts of many
elements, and an element that begins with one knows where each of its inputs and outputs goes on.

What *delivered* means is a protocol's choice (`protocol.RestorePlan.delivered`). Where it means taken into the element,
what waits in merges is in the checkpoint, and a restored element goes on behind `taken`. Where it means passed to the
operators, merges are restored empty, and the element goes on behind `passed`.

On disk a cut is one attachment of the checkpoint's manifest: a JSON text (its length first, 8 bytes, little-endian) and
the parked messages, which the text names by length; channels are [stream, producer's shard, consumer's shard], keys
[ts, src, seq, n].
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.base.errors import DataError
from riprap.graph.keys import OrderKey
from riprap.protocols.channels import ChannelId

_LENGTH = struct.Struct("<Q")


class InletCut(NamedTuple):
    """A channel that comes in. Positions are of its log; -1: it has none."""

    taken: int  # number of the first item that was not taken into the element
    passed: int  # number of the first item that the operators had not had
    taken_position: int = -1  # where a reader of the log goes on behind what was taken
    passed_position: int = -1  # where a reader of the log goes on to bring what had not passed
    waits: bool = False  # something was taken and had not passed


class CheckpointId(NamedTuple):
    """Checkpoints of a unit compare as they were taken."""

    pe: str
    unit: str
    epoch: int
    number: int  # within the epoch, from 1


@dataclass(frozen=True)
class Cut:
    """`reached` has every operator of the unit; a single operator's cut has the channels that lead to it."""

    reached: Mapping[str, OrderKey] = field(default_factory=dict)  # by operator: the key that its input had reached
    sources: Mapping[str, int] = field(default_factory=dict)  # by source: rows taken from its input
    inlets: Mapping[ChannelId, InletCut] = field(default_factory=dict)
    sent: Mapping[ChannelId, int] = field(default_factory=dict)  # by outlet: number of the next item
    protocol: bytes = b""  # what the protocol's `snapshot()` gave
    # Messages that belong to the checkpoint and are not in the engine, in the order in which they are to be taken: what
    # was recorded on channels (`events.Capture.record`), what waited in front of a full merge. In their stored form.
    parked: Mapping[ChannelId, tuple[bytes, ...]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Without the parked messages: of those only how many bytes there are, by channel."""
        return {
            "reached": {name: list(key) for name, key in self.reached.items()},
            "sources": dict(self.sources),
            "inlets": [[list(channel), list(inlet)] for channel, inlet in self.inlets.items()],
            "sent": [[list(channel), number] for channel, number in self.sent.items()],
            "protocol": self.protocol.hex(),
            "parked": [[list(channel), [len(m) for m in messages]] for channel, messages in self.parked.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cut":
        """What `as_json` gave; `parked` is empty."""
        return cls(
            {name: OrderKey(*key) for name, key in data["reached"].items()},
            dict(data["sources"]),
            {ChannelId(*channel): InletCut(*inlet) for channel, inlet in data["inlets"]},
            {ChannelId(*channel): number for channel, number in data["sent"]},
            bytes.fromhex(data["protocol"]),
        )


def encode(cut: Cut) -> bytes:
    text = json.dumps(cut.as_json(), separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text + b"".join(m for messages in cut.parked.values() for m in messages)


def decode(data: bytes) -> Cut:
    """Raises `DataError` for anything that `encode` did not write."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        values = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        cut, at, parked = Cut.from_json(values), _LENGTH.size + length, {}
        for channel, lengths in values["parked"]:
            messages = []
            for size in lengths:
                messages.append(bytes(data[at : at + size]))
                at += size
            parked[ChannelId(*channel)] = tuple(messages)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise DataError(f"a cut that cannot be read: {error}") from error
    if at != len(data):
        raise DataError(f"a cut of {len(data)} bytes where {at} were expected")
    return Cut(cut.reached, cut.sources, cut.inlets, cut.sent, cut.protocol, parked)
