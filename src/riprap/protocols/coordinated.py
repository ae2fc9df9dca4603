"""Coordinated checkpointing with aligned markers (after Chandy and Lamport, as dataflow systems do it).

An element parks a channel behind its marker until the markers of all channels have come; then it captures, sends the
marker on, and goes on with what it parked. So no item is between two checkpoints of a round: no channel state. A
channel that has ended counts as marked. An element with sources, or with nothing but feedback, waits for the director's
word as for one more channel.

Cycles: a channel that leads back is not waited for, or the round would wait for itself. What comes on it between the
capture and the marker's return is recorded with the checkpoint, which is written when the marker is back.

Markers are handled on arrival, in front of the merge, so aligning cannot deadlock with the order of keys. A marker of a
round that is over (done, or aborted) means nothing; a marker of a newer one ends an older one.
"""

import struct
from dataclasses import replace

from riprap.protocols.channels import ChannelId
from riprap.protocols.commitment import shown
from riprap.protocols.events import (
    Abandon,
    Close,
    Command,
    Deleted,
    Dropped,
    Ended,
    Event,
    FromDirector,
    MarkerArrived,
    Park,
    SendMarker,
    TakeCheckpoint,
    Unpark,
)
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings
from riprap.protocols.rounds import RoundDirector
from riprap.protocols.uncoordinated import released, whole_plan

_ROUND = struct.Struct("<Q")


def marker_of(round: int) -> bytes:
    return _ROUND.pack(round)


def round_of(marker: bytes) -> int:
    (round,) = _ROUND.unpack(marker)
    return int(round)


class Rounds(Protocol):
    """What machines of rounds share: the director's words, and which channels a marker goes out on."""

    subscriptions = frozenset((FromDirector, MarkerArrived, Ended, Deleted, Dropped))

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.round = 0  # the newest heard of
        self.over = True  # it is done or aborted here
        self.ended: set[ChannelId] = set()

    def handle(self, event: Event) -> list[Command]:
        match event:
            case FromDirector(message) if "round" in message:
                return self.marked(int(message["round"]), None)
            case FromDirector(message) if "abort" in message:
                return self.aborted(int(message["abort"]))
            case FromDirector(message) if "last" in message:
                return [TakeCheckpoint(WHOLE, int(message["last"]))]
            case FromDirector(message) if "committed" in message:
                return shown(self.surroundings.pe, message)
            case MarkerArrived(channel, number, marker):
                return self.marked(round_of(marker), channel, number)
            case Ended(channel):
                self.ended.add(channel)
                return self.closed(channel)
            case Deleted(_, oldest):
                return released(oldest)
            case Dropped(_, tag) if tag < 0:  # a last one, for which nobody asks again
                return [TakeCheckpoint(WHOLE, tag)]
        return []

    def marked(self, round: int, channel: ChannelId | None, number: int = 0) -> list[Command]:
        """A marker has come on a channel; None: the director has started the round here."""
        raise NotImplementedError

    def closed(self, channel: ChannelId) -> list[Command]:
        """A channel has ended."""
        raise NotImplementedError

    def aborted(self, round: int) -> list[Command]:
        raise NotImplementedError

    def markers(self, round: int, *, ahead: bool = False) -> list[Command]:
        """To every element that this one sends to."""
        outputs = self.surroundings.outputs.items()
        return [SendMarker(channel, marker_of(round), ahead) for channel, neighbour in outputs if neighbour.pe]


def round_plan(surroundings: Surroundings) -> RestorePlan:
    return replace(whole_plan(surroundings), rounds=True)


class Coordinated(Rounds):
    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        inputs = surroundings.inputs
        self.forward = {channel for channel, neighbour in inputs.items() if not neighbour.feedback}  # waited for
        self.back = set(inputs) - self.forward
        self.marks: set[ChannelId] = set()
        self.parked: list[ChannelId] = []
        self.asked = False  # by the director
        self.returning: set[ChannelId] = set()  # channels that lead back, recorded until their marker comes

    def marked(self, round: int, channel: ChannelId | None, number: int = 0) -> list[Command]:
        if round < self.round or (round == self.round and self.over and channel not in self.returning):
            return []
        # A new marker parks its channel first: what the round before it had parked, taken now, may bring the rest of
        # the markers of this one, and so let the channel go on.
        commands: list[Command] = [Park(channel)] if channel in self.forward else []
        if round > self.round:
            commands += self.aborted(self.round)
            self.round, self.over, self.asked = round, False, False
            self.marks.clear()
        if channel is None:
            self.asked = True
        elif channel in self.returning:
            self.returning.discard(channel)
            return [*commands, Close(channel, round)]
        elif channel in self.forward:
            self.marks.add(channel)
            self.parked.append(channel)
        return commands + self._capture_if_aligned()

    def closed(self, channel: ChannelId) -> list[Command]:
        if channel in self.returning:
            self.returning.discard(channel)
            return [Close(channel, self.round)]
        return self._capture_if_aligned() if not self.over else []

    def _capture_if_aligned(self) -> list[Command]:
        if not self.forward <= self.marks | self.ended or (self.surroundings.starts_rounds and not self.asked):
            return []
        self.over = True
        self.returning = self.back - self.ended
        parked, self.parked = self.parked, []
        return [
            TakeCheckpoint(WHOLE, self.round, record=tuple(sorted(self.returning))),
            *self.markers(self.round),
            *(Unpark(channel) for channel in parked),
        ]

    def aborted(self, round: int) -> list[Command]:
        if round < self.round:
            return []
        abandoned: list[Command] = [Abandon(self.round)] if self.returning else []
        self.round = round
        parked, self.parked = self.parked, []
        self.over, self.returning = True, set()
        return [*abandoned, *(Unpark(channel) for channel in parked)]


SPEC = ProtocolSpec("coordinated", round_plan, Coordinated, RoundDirector, retention=("hold", "hold"), together=True)
