"""Unaligned coordinated checkpointing: markers overtake rows, and channel state is saved (as Flink's unaligned ones).

On the first marker of a round an element captures at once and sends the marker ahead of the rows that still wait to be
sent. A marker carries the number of items that its producer had *sent*. On every channel, the rows from the delivered
position at the capture up to that number are channel state: they are recorded with the checkpoint as they arrive, and
the checkpoint is written when all channels are closed. Nothing is parked, so backpressure does not delay a round, and
cycles need no special rule.

Channels are read even under backpressure: a marker must not wait behind the rows that it is to overtake.
"""

from riprap.protocols.channels import ChannelId
from riprap.protocols.coordinated import Rounds, round_plan
from riprap.protocols.cut import Cut
from riprap.protocols.events import (
    Abandon,
    Admit,
    Arrived,
    Close,
    Command,
    Deliver,
    Event,
    TakeCheckpoint,
)
from riprap.protocols.protocol import WHOLE, ProtocolSpec, RestorePlan, Surroundings
from riprap.protocols.rounds import RoundDirector


class Unaligned(Rounds):
    subscriptions = Rounds.subscriptions | {Arrived}

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.taken: dict[ChannelId, int] = dict.fromkeys(surroundings.inputs, 0)
        self.recording: dict[ChannelId, int | None] = {}  # channel → number at which its channel state ends, once known

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        if cut is not None:
            self.taken |= {channel: inlet.taken for channel, inlet in cut.inlets.items() if channel in self.taken}
        return [Admit(channel, True) for channel in self.surroundings.inputs]

    def handle(self, event: Event) -> list[Command]:
        if not isinstance(event, Arrived):
            return super().handle(event)
        channel = event.channel
        self.taken[channel] = event.number + event.items
        return [Deliver(channel), *self._close_if_whole(channel)]

    def marked(self, round: int, channel: ChannelId | None, number: int = 0) -> list[Command]:
        if round < self.round or (round == self.round and self.over):
            return []
        commands: list[Command] = []
        if round > self.round:
            commands += self.aborted(self.round)
            self.round, self.over = round, False
            self.recording = dict.fromkeys(c for c in self.surroundings.inputs if c not in self.ended)
            closed = [] if channel is None or number > self.taken[channel] else [channel]
            for whole in closed:
                self.recording.pop(whole, None)
            commands += [
                TakeCheckpoint(WHOLE, round, record=tuple(sorted(self.recording))),
                *self.markers(round, ahead=True),
            ]
            self.over = not self.recording
        if channel is None or channel not in self.recording:
            return commands
        self.recording[channel] = number
        return commands + self._close_if_whole(channel)

    def closed(self, channel: ChannelId) -> list[Command]:
        return self._close(channel) if channel in self.recording else []

    def _close_if_whole(self, channel: ChannelId) -> list[Command]:
        until = self.recording.get(channel)
        return self._close(channel) if until is not None and self.taken[channel] >= until else []

    def _close(self, channel: ChannelId) -> list[Command]:
        del self.recording[channel]
        self.over = not self.recording
        return [Close(channel, self.round)]

    def aborted(self, round: int) -> list[Command]:
        if round < self.round:
            return []
        abandoned: list[Command] = [Abandon(self.round)] if self.recording else []
        self.round = round
        self.over, self.recording = True, {}
        return abandoned


SPEC = ProtocolSpec("unaligned", round_plan, Unaligned, RoundDirector, retention=("hold", "hold"), together=True)
