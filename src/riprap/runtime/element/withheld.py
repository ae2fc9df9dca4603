"""What an element has given out on committed channels and nobody can see yet (`protocols/commitment.py`).

Each checkpoint has it, among its parked messages, so that it is there again in the life that begins from one. The
numbers at which checkpoints were taken say how much to show when one of them is committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import Show
from riprap.runtime.element.message_bytes import encode_message
from riprap.runtime.element.output_channels import CommittedOutput, OutputChannel
from riprap.runtime.messages import Message

Marks = Mapping[ChannelId, tuple[int, OrderKey]]  # number of the next item, progress


class Withheld:
    def __init__(self, ways: Mapping[ChannelId, OutputChannel], epoch: int) -> None:
        self._ways = {channel: way for channel, way in ways.items() if isinstance(way, CommittedOutput)}
        self._epoch = epoch
        self._taken: dict[int, Marks] = {}  # by tag
        self._marks: dict[CheckpointId, Marks] = {}

    def begin(self, id_: CheckpointId | None, unseen: Mapping[ChannelId, Iterable[Message]]) -> None:
        """A life begins from this checkpoint, which has these messages."""
        if id_ is None or not self._ways:
            return
        for channel, messages in unseen.items():
            self._ways[channel].give([replace(message, epoch=self._epoch) for message in messages])
        self._marks[id_] = self._now()

    def _now(self) -> Marks:
        return {channel: (way.outlet.number, way.told) for channel, way in self._ways.items()}

    def parked(self) -> dict[ChannelId, tuple[bytes, ...]]:
        """For a checkpoint that is taken now."""
        return {channel: tuple(map(encode_message, way.unseen)) for channel, way in self._ways.items()}

    def captured(self, tag: int) -> None:
        if self._ways:
            self._taken[tag] = self._now()

    def durable(self, id_: CheckpointId, tag: int) -> None:
        if self._ways:
            self._marks[id_] = self._taken[tag]

    def show(self, command: Show) -> None:
        """Without effect for a checkpoint from before the one that this life began from: that was shown."""
        shown = self._marks.get(command.id)
        if shown is None:
            return
        for channel, (number, told) in shown.items():
            self._ways[channel].show(number, told)
        self._marks = {id_: marks for id_, marks in self._marks.items() if id_ > command.id}
        tags = list(self._taken)
        before = next((at for at, tag in enumerate(tags) if self._taken[tag] is shown), -1)
        for tag in tags[: before + 1]:
            del self._taken[tag]
