"""Feeds a recorded story to an element of the simulated host: the same events in the same order, with rows.

A story has the numbers of items and not their rows. They come from a simulated run of the whole app without faults,
over the same inputs: an element that is repeatable emits the same items under the same numbers. The replay starts at
the oldest positions in the story. To get there, the element first processes everything before them. Then it gets every
recorded event, at its recorded time, reads from its sources what was read then, and validates itself after each.

Two things are not replayed: how fast checkpoints became durable, and when consumers had no room. So commands may be in
another order than in the story, and `Replayed` has both lists.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import Loaded
from riprap.checkpoints.storage import MemoryStorage
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.views import Views, concatenated
from riprap.protocols import events as seam
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.host import Arrival, HostEvent, NoEffects, Recomputed, Unneeded
from riprap.runtime.layout import Layout
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.story import RecordedMessage, RecordedStory, StoryEntry, decode_story
from riprap.runtime.stripes import own
from riprap.testing.simulated import ListSpill, MemoryShelf, VirtualClock, Wire
from riprap.testing.simulation import Simulation


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    steps: int  # recorded events that the element processed
    element: Element
    recorded: tuple[str, ...]  # commands of the story
    commands: tuple[str, ...]  # of the replay: as far as its own ring reaches back


def replay_story(
    story: RecordedStory,
    layout: Layout,
    inputs: Mapping[str, pa.RecordBatch],
    *,
    loaded: Mapping[str, Loaded | None] | None = None,
    batch_rows: int = 65_536,
) -> Replayed:
    """Replay a story over the inputs of its run, with order keys. What the element or an invariant raises passes on.

    `loaded`: the checkpoints that the incarnation started from; by default it processes its input from the start.
    """
    story = story.replayable()
    if not story.entries:
        raise DataError(f"the story of {story.name} has no positions to replay from: it ended before its first step")
    replay = _Replay(story, layout, inputs, loaded or {}, batch_rows)
    replay.prepare(json.loads(story.entries[0].text))
    entries, steps = deque(story.entries[1:]), 0
    while entries:
        steps += replay.step(entries.popleft(), entries[0] if entries else None)
    replayed = decode_story(replay.element.story.cells)
    return Replayed(steps, replay.element, _commands(story), _commands(replayed))


def _commands(story: RecordedStory) -> tuple[str, ...]:
    return tuple(entry.text for entry in story.entries if entry.what == "command")


class _Tapped(Simulation):
    """Keeps all messages that were sent into one element."""

    def tap(self, pe: str) -> dict[ChannelId, list[Message]]:
        self.tapped: dict[ChannelId, list[Message]] = {c: [] for c in self.layout.strands_into(self.layout.pe(pe))}
        self.run()
        for channel in self.tapped:
            if self.layout.retention(channel) == "log":
                self.tapped[channel] = self.log(self.layout.written(channel)).stable
        return self.tapped

    def under_way(self, wire: Wire) -> None:
        if wire.channel in self.tapped:
            self.tapped[wire.channel].append(wire.queue[-1])
        super().under_way(wire)


class _Feed:
    """A source that has the rows of the next recorded read, and no others."""

    def __init__(self, table: pa.RecordBatch, position: int) -> None:
        self._table, self.position = table, position
        self.stretch: tuple[int, int] | None = None  # rows to read now
        self.ended = False
        self.watermark: OrderKey | None = None

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        if self.stretch is None:
            return None
        (first, last), self.stretch = self.stretch, None
        self.position = last
        return self._table.slice(first, last - first)


class _Host(NoEffects):
    def spill(self, channel: ChannelId) -> ListSpill:
        return ListSpill()

    def shelf(self, channel: ChannelId) -> MemoryShelf:
        return MemoryShelf()


class _Replay:
    def __init__(
        self,
        story: RecordedStory,
        layout: Layout,
        inputs: Mapping[str, pa.RecordBatch],
        loaded: Mapping[str, Loaded | None],
        batch_rows: int,
    ) -> None:
        self._pe, self._layout, self._inputs, self._story = layout.pe(story.name), layout, inputs, story
        self._messages = _Tapped(layout, inputs, seed=1).tap(story.name)
        self._clock, self._feeds = VirtualClock(), dict[str, _Feed]()
        self._clock.time = story.entries[0].at
        units = {name: unit.operators for name, unit in layout.plan(self._pe).units.items()}
        storage = MemoryStorage()
        self.element = Element(
            layout,
            self._pe,
            story.epoch,
            host=_Host(),
            ledger=memory_ledger(ledger_shape(layout, self._pe)),
            clock=self._clock,
            checkpointer=Checkpointer(storage, self._pe.id, story.epoch, units, background=False, clock=self._clock)
            if units
            else None,
            loaded={unit: loaded.get(unit) for unit in units},
            feeds=self._feed,
            rates=None,
            batch_rows=batch_rows,
            cut_everywhere=True,
        )

    def _feed(self, source: str, position: int) -> _Feed:
        return self._feeds.setdefault(source, _Feed(self._inputs[source], position))

    # To the first recorded positions ----------------------------------------------------------------------------------

    def prepare(self, positions: Mapping[str, Any]) -> None:
        """Process what the element had processed at these positions."""
        epochs = {e.channel: e.message.epoch for e in reversed(self._story.entries) if e.message is not None}
        for channel, expected, _ in positions["inputs"]:
            for strand in self._layout.strands(ChannelId(*channel)):
                for message in self._messages[strand]:
                    if message.number >= expected or message.number + message.items > expected:
                        break
                    self._handle(Arrival(strand, replace(message, epoch=epochs.get(strand, 1)), 0))
        consumers = [c for c in self._layout.outputs(self._pe) if self._layout.retention(c) != "log"]
        for source, position in positions["sources"].items():
            first = self._feeds[source].position
            shard, shards = self._pe.shard, self._pe.fragment.shards
            stretches = own(first, position - first, shard, shards) if position > first else []
            self._handle(*(seam.ConsumerDown(channel) for channel in consumers if stretches))
            for low, high in stretches:
                self._feeds[source].stretch = (first + low, first + high)
                self._handle()
            self._handle(*(seam.ConsumerUp(channel, 0, 0) for channel in consumers if stretches))

    # The story --------------------------------------------------------------------------------------------------------

    def step(self, entry: StoryEntry, following: StoryEntry | None) -> int:
        """Process one entry; what belongs to it may be in the following one. Returns how many events it was."""
        self._clock.time = max(self._clock.time, entry.at)
        if entry.message is not None and entry.channel is not None:
            detail = json.loads(following.text) if following is not None and following.what == "event" else ["", ""]
            self._handle(Arrival(entry.channel, self._message(entry.channel, entry.message, detail), 0))
            return 1
        if entry.what != "event":
            return 0
        try:
            name, *values = json.loads(entry.text)
        except ValueError:
            raise DataError(f"the story of {self._story.name} has an event that was too long to record") from None
        match name, values:
            case "Read", [source, first, count]:
                self._feeds[source].stretch = (first, first + count)
                self._handle()
            case "Watermark", [source, key]:
                feed = self._feeds[source]
                feed.watermark, feed.ended = OrderKey(*key), OrderKey(*key) == END_KEY
                self._handle()
            case "Marker" | "LateAt", _:
                return 0  # of the message before it
            case _:
                self._handle(self._event(name, values))
        return 1

    def _event(self, name: str, values: list[Any]) -> HostEvent:
        match name, values:
            case "ConsumerUp", [channel, epoch, next_, (key, items)]:
                return seam.ConsumerUp(ChannelId(*channel), epoch, next_, Delivered(OrderKey(*key), items))
            case "ConsumerDown", [channel]:
                return seam.ConsumerDown(ChannelId(*channel))
            case "Acknowledged", [channel, next_]:
                return seam.Acknowledged(ChannelId(*channel), next_)
            case "ProducerGone", [channel, epoch]:
                return seam.ProducerGone(ChannelId(*channel), epoch)
            case "FromDirector", [message]:
                return seam.FromDirector(message)
            case "Recomputed", [channel, number, count]:
                rows = self._rows(ChannelId(*channel), number, count)
                return Recomputed(ChannelId(*channel), Message(MessageKind.ROWS, self._story.epoch, number, rows))
            case "Unneeded", [ids, void]:
                return Unneeded(tuple(CheckpointId(*id_) for id_ in ids), void)
        raise DataError(f"the story of {self._story.name} has an event that nobody knows: {name}")

    def _handle(self, *events: HostEvent) -> None:
        self.element.handle(events)
        self.element.validate()

    # Items ------------------------------------------------------------------------------------------------------------

    def _message(self, channel: ChannelId, recorded: RecordedMessage, detail: list[Any]) -> Message:
        batch, punctuation, header, at = None, None, b"", None
        if recorded.kind is MessageKind.ROWS:
            batch = self._rows(channel, recorded.number, recorded.items)
        elif recorded.kind is MessageKind.PUNCTUATION:
            marks = {m.number: m.punctuation for m in self._messages[channel] if m.punctuation is not None}
            punctuation = marks.get(recorded.number)
            if punctuation is None:
                raise self._unknown(channel, recorded.number)
        elif recorded.kind is MessageKind.MARKER:
            header = bytes.fromhex(detail[1])
        if recorded.late:
            at = OrderKey(*detail[1])
        return Message(
            recorded.kind, recorded.epoch, recorded.number, batch, punctuation, recorded.watermark, 0, header, at
        )

    def _rows(self, channel: ChannelId, first: int, count: int) -> Views:
        parts: list[Views] = []
        number = first
        for message in self._messages[channel]:
            if message.batch is not None and message.number <= number < message.number + message.items:
                part = message.batch.slice(number - message.number, first + count - number)
                parts.append(part)
                number += part.rows
        if number < first + count:
            raise self._unknown(channel, number)
        return parts[0] if len(parts) == 1 else concatenated(parts)

    def _unknown(self, channel: ChannelId, number: int) -> DataError:
        return DataError(
            f"item {number} of {channel} is in the story of {self._story.name}, and a run over these inputs has none: "
            "replay it with the app, plan and inputs of its run"
        )
