"""Coordinated checkpointing with aligned markers (Chandy and Lamport's algorithm, as in Flink's aligned barriers).

An element parks a channel behind its marker until the markers of all channels have arrived; then it captures, forwards
the marker, and resumes with the parked items. So no item is in flight between two checkpoints of a round: there is no
channel state. A channel that has ended counts as marked. An element with sources, or with feedback inputs only, waits
for the director's start of the round as for one more channel.

Cycles: an element does not wait for feedback channels, or the round would wait for itself. Items that arrive on one
between the capture and its marker are recorded as channel state; the checkpoint is written when the marker arrives.

Markers are handled on arrival, before the merge, so alignment cannot deadlock with key order. A marker of a completed
or aborted round is ignored; a marker of a newer round aborts an older one.
"""

import struct
from dataclasses import replace

from riprap.protocols.channels import ChannelId
from riprap.protocols.commitment import publish_committed
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
    """What the round protocols share: the director's messages, and on which channels markers are sent."""

    subscriptions = frozenset((FromDirector, MarkerArrived, Ended, Deleted, Dropped))

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.round = 0  # the newest known round
        self.over = True  # it is complete or aborted here
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
                return publish_committed(self.surroundings.pe, message)
            case MarkerArrived(channel, number, marker):
                return self.marked(round_of(marker), channel, number)
            case Ended(channel):
                self.ended.add(channel)
                return self.closed(channel)
            case Deleted(_, oldest):
                return released(oldest)
            case Dropped(_, tag) if tag < 0:  # a last checkpoint, which the director does not request again
                return [TakeCheckpoint(WHOLE, tag)]
        return []

    def marked(self, round: int, channel: ChannelId | None, number: int = 0) -> list[Command]:
        """A marker has arrived on a channel; None: the director has started the round here."""
        raise NotImplementedError

    def closed(self, channel: ChannelId) -> list[Command]:
        """A channel has ended."""
        raise NotImplementedError

    def aborted(self, round: int) -> list[Command]:
        raise NotImplementedError

    def markers(self, round: int, *, ahead: bool = False) -> list[Command]:
        """A marker for every downstream element."""
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
        self.started = False  # by the director
        self.returning: set[ChannelId] = set()  # feedback channels, recorded until their marker arrives

    def marked(self, round: int, channel: ChannelId | None, number: int = 0) -> list[Command]:
        if round < self.round or (round == self.round and self.over and channel not in self.returning):
            return []
        # Park the channel of a new marker first: unparking the previous round may release the remaining markers of
        # this round, which would resume the channel.
        commands: list[Command] = [Park(channel)] if channel in self.forward else []
        if round > self.round:
            commands += self.aborted(self.round)
            self.round, self.over, self.started = round, False, False
            self.marks.clear()
        if channel is None:
            self.started = True
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
        if not self.forward <= self.marks | self.ended or (self.surroundings.starts_rounds and not self.started):
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
