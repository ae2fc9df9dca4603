"""What an element has given out on committed channels and nobody can see yet (`protocols/commitment.py`).

Each checkpoint has it, among its parked messages, so that it is there again in the life that begins from one. The
numbers at which checkpoints were taken say how much to show when one of them is committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import Publish
from riprap.runtime.element.message_bytes import encode_message
from riprap.runtime.element.output_channels import CommittedOutput, OutputChannel
from riprap.runtime.messages import Message

Marks = Mapping[ChannelId, tuple[int, OrderKey]]  # number of the next item, progress


class Withheld:
    def __init__(self, channels: Mapping[ChannelId, OutputChannel], epoch: int) -> None:
        self._channels = {
            channel: output for channel, output in channels.items() if isinstance(output, CommittedOutput)
        }
        self._epoch = epoch
        self._taken: dict[int, Marks] = {}  # by tag
        self._marks: dict[CheckpointId, Marks] = {}

    def begin(self, id_: CheckpointId | None, unseen: Mapping[ChannelId, Iterable[Message]]) -> None:
        """A life begins from this checkpoint, which has these messages."""
        if id_ is None or not self._channels:
            return
        for channel, messages in unseen.items():
            self._channels[channel].emit([replace(message, epoch=self._epoch) for message in messages])
        self._marks[id_] = self._now()

    def _now(self) -> Marks:
        return {channel: (output.sender.number, output.announced) for channel, output in self._channels.items()}

    def parked(self) -> dict[ChannelId, tuple[bytes, ...]]:
        """For a checkpoint that is taken now."""
        return {channel: tuple(map(encode_message, output.unseen)) for channel, output in self._channels.items()}

    def captured(self, tag: int) -> None:
        if self._channels:
            self._taken[tag] = self._now()

    def durable(self, id_: CheckpointId, tag: int) -> None:
        if self._channels:
            self._marks[id_] = self._taken[tag]

    def show(self, command: Publish) -> None:
        """Without effect for a checkpoint from before the one that this life began from: that was shown."""
        shown = self._marks.get(command.id)
        if shown is None:
            return
        for channel, (number, told) in shown.items():
            self._channels[channel].show(number, told)
        self._marks = {id_: marks for id_, marks in self._marks.items() if id_ > command.id}
        tags = list(self._taken)
        before = next((at for at, tag in enumerate(tags) if self._taken[tag] is shown), -1)
        for tag in tags[: before + 1]:
            del self._taken[tag]
