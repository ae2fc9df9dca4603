"""Output on committed channels that is not visible yet (`protocols/commitment.py`).

Each checkpoint contains it among its parked messages, so a restart from the checkpoint has it again. The numbers at
each checkpoint tell how much to publish when that checkpoint is committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import Durable, Publish
from riprap.runtime.element.message_bytes import encode_message
from riprap.runtime.messages import Message
from riprap.runtime.retention.logged import CommittedOutput
from riprap.runtime.retention.output_channel import OutputChannel

Marks = Mapping[ChannelId, tuple[int, OrderKey]]  # number of the next item, watermark


class Withheld:
    def __init__(self, channels: Mapping[ChannelId, OutputChannel], epoch: int) -> None:
        self._channels = {
            channel: output for channel, output in channels.items() if isinstance(output, CommittedOutput)
        }
        self._epoch = epoch
        self._captured: dict[int, Marks] = {}  # by tag
        self._marks: dict[CheckpointId, Marks] = {}

    def start(self, id_: CheckpointId | None, messages: Mapping[ChannelId, Iterable[Message]]) -> None:
        """The incarnation starts from this checkpoint, which contains these messages."""
        if id_ is None or not self._channels:
            return
        for channel, withheld in messages.items():
            self._channels[channel].emit([replace(message, epoch=self._epoch) for message in withheld])
        self._marks[id_] = self._now()

    def _now(self) -> Marks:
        return {channel: (output.sender.number, output.announced) for channel, output in self._channels.items()}

    def parked(self) -> dict[ChannelId, tuple[bytes, ...]]:
        """The messages for a checkpoint taken now."""
        return {channel: tuple(map(encode_message, output.unpublished)) for channel, output in self._channels.items()}

    def captured(self, tag: int) -> None:
        if self._channels:
            self._captured[tag] = self._now()

    def durable(self, durable: Durable) -> None:
        if self._channels:
            self._marks[durable.id] = self._captured[durable.tag]

    def publish(self, command: Publish) -> None:
        """No effect for a checkpoint older than the one that this incarnation started from: it was published."""
        published = self._marks.get(command.id)
        if published is None:
            return
        for channel, (number, announced) in published.items():
            self._channels[channel].publish(number, announced)
        self._marks = {id_: marks for id_, marks in self._marks.items() if id_ > command.id}
        tags = list(self._captured)
        before = next((at for at, tag in enumerate(tags) if self._captured[tag] is published), -1)
        for tag in tags[: before + 1]:
            del self._captured[tag]
