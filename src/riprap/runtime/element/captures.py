"""The checkpoints of an element: captured, recording, being written, durable, deleted."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from riprap.checkpoints.capture import CapturedState
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.events import Dropped, Durable, TakeCheckpoint
from riprap.runtime.element.message_bytes import encode_message
from riprap.runtime.messages import Message


class Note(NamedTuple):
    """What the checkpointer returns with a durable checkpoint."""

    cut: Cut
    tag: int
    forced: bool


class OpenCapture:
    """A capture that still records the messages of some channels."""

    def __init__(self, copy: CapturedState, cut: Cut, command: TakeCheckpoint) -> None:
        self.copy, self.cut, self.command = copy, cut, command
        self.recording = set(command.record)
        self._messages = {channel: list(messages) for channel, messages in cut.parked.items()}

    def add(self, channel: ChannelId, message: Message) -> None:
        self._messages.setdefault(channel, []).append(encode_message(message))

    def finished(self) -> tuple[CapturedState, Note]:
        cut = replace(self.cut, parked={channel: tuple(m) for channel, m in self._messages.items()})
        copy = replace(self.copy, positions=cut.as_json(), messages=cut.messages())
        return copy, Note(replace(cut, parked={}), self.command.tag, self.command.forced)


class Taken(NamedTuple):
    """A durable checkpoint, as reported to the director."""

    durable: Durable
    bytes: int
    taken: int  # microseconds from the capture until it was durable


class Captures:
    """`checkpointer` is None if the element takes no checkpoints."""

    def __init__(self, pe: str, checkpointer: Checkpointer | None) -> None:
        self._pe, self._checkpointer = pe, checkpointer
        self._open: dict[int, OpenCapture] = {}  # by tag
        self.checkpoints: dict[CheckpointId, Cut] = {}  # on disk
        if checkpointer is not None:
            for (unit, epoch, number), positions in checkpointer.found().items():
                self.checkpoints[CheckpointId(pe, unit, epoch, number)] = Cut.from_json(positions)

    def take(
        self, command: TakeCheckpoint, engine: Engine, cut: Cut, now: int, mergers: Mapping[str, MergerState]
    ) -> OpenCapture | None:
        """Capture a unit. Returns a capture that records channels; any other is written at once."""
        assert self._checkpointer is not None, f"{self._pe}: a protocol captures {command.unit} without a plan for it"
        for tag, older in list(self._open.items()):
            if older.command.unit == command.unit:
                self.abandon(tag)  # a capture builds on the one before it, which has to be on disk
        copy = self._checkpointer.copy(command.unit, engine, {}, now, mergers)
        capture = OpenCapture(copy, cut, command)
        if not command.record:
            self._checkpointer.write(*capture.finished())
            return None
        self._open[command.tag] = capture
        return capture

    def close(self, channel: ChannelId, tag: int) -> OpenCapture | None:
        """Stop recording a channel; returns the capture that recorded it."""
        capture = self._open.get(tag)
        if capture is None or channel not in capture.recording:
            return None
        capture.recording.discard(channel)
        if not capture.recording:
            del self._open[tag]
            assert self._checkpointer is not None
            self._checkpointer.write(*capture.finished())
        return capture

    def abandon(self, tag: int) -> OpenCapture | None:
        capture = self._open.pop(tag, None)
        if capture is not None and self._checkpointer is not None:
            self._checkpointer.forget(capture.command.unit)
        return capture

    def finished(self) -> list[Taken]:
        """Checkpoints that have become durable."""
        if self._checkpointer is None:
            return []
        durables = []
        for saved in self._checkpointer.finished():
            id_, note = CheckpointId(self._pe, saved.unit, saved.epoch, saved.number), saved.note
            self.checkpoints[id_] = note.cut
            durable = Durable(id_, note.cut, note.tag, note.forced, int(saved.cost * 1e6))
            durables.append(Taken(durable, saved.bytes, int(saved.seconds * 1e6)))
        return durables

    def dropped(self) -> list[Dropped]:
        """Checkpoints that will not be durable."""
        if self._checkpointer is None:
            return []
        return [Dropped(unit, note.tag) for unit, note in self._checkpointer.dropped()]

    def delete(self, ids: Iterable[CheckpointId], *, void: bool) -> dict[str, Cut]:
        """Delete checkpoints; returns, by unit, the oldest remaining cut, unless they were void."""
        deleted = [id_ for id_ in ids if self.checkpoints.pop(id_, None) is not None]
        if self._checkpointer is not None:
            self._checkpointer.delete((id_.unit, id_.epoch, id_.number) for id_ in deleted)
        oldest: dict[str, Cut] = {}
        for unit in dict.fromkeys(id_.unit for id_ in deleted if not void):
            remaining = sorted(id_ for id_ in self.checkpoints if id_.unit == unit)
            if remaining:
                oldest[unit] = self.checkpoints[remaining[0]]
        return oldest
