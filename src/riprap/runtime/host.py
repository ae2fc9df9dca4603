"""What an element needs from its host: effects, inputs of sources, and their pace."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from riprap.graph.order_keys import OrderKey
from riprap.graph.reach import BEGINNING
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import Durable, FromDirector, LinkEvent
from riprap.runtime.messages import Message


class Arrival(NamedTuple):
    """A message of a channel; of a logged one, `position` is behind it in the log."""

    channel: ChannelId
    message: Message
    position: int = -1


class Missing(NamedTuple):
    """What the host of an element has to recompute, by channel."""

    holes: Mapping[ChannelId, tuple[int, int]]  # numbers, [first, last)
    silent: Mapping[ChannelId, int]  # nothing was sent yet, so gaps are unknown; the item expected next


NOTHING_MISSING = Missing({}, {})


class Recomputed(NamedTuple):
    """Recomputed items that an element misses on a channel."""

    channel: ChannelId
    message: Message


class Unneeded(NamedTuple):
    """The director reports that no element will roll back to these checkpoints."""

    ids: tuple[CheckpointId, ...]
    void: bool = False  # as in `Delete`


HostEvent = Arrival | LinkEvent | Recomputed | FromDirector | Unneeded  # for `Element.handle`


class Spill(Protocol):
    """Storage for messages that do not fit into memory: a file, or a list in a simulation."""

    def append(self, message: Message) -> None:
        """Add at the end."""

    def since(self, number: int) -> Iterator[Message]:
        """Messages with items from `number` on."""

    def close(self) -> None:
        """Drop everything."""


class Shelf(Protocol):
    """Retained items of a channel whose consumer is down. It survives this process, and may have gaps."""

    @property
    def next(self) -> int:
        """The number after the last item ever appended, as far as known."""

    def append(self, message: Message) -> None:
        """Append; it survives this process once this returns. Items below `next` are not appended again."""

    def since(self, number: int) -> Iterator[Message]:
        """The stored items from `number` on."""

    def release(self, below: int) -> None:
        """No item below this number will be requested."""


class Host(Protocol):
    """Carries out an element's effects."""

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        """Send to the consumer; False: no room now. `after`: the items from there up to the message are lost."""

    def open(self, channel: ChannelId, epoch: int) -> None:
        """Connect to the consumer of a channel that leaves a group, under this epoch; older epochs are fenced."""

    def shut(self, channel: ChannelId) -> None:
        """Disconnect from it."""

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        """Append to the persistent stream of the channel, or of a sink, what it does not have yet.

        `record`: of the element's state; it is stored atomically with the new items of the message.
        """

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        """Append a record alone."""

    def records(self, channel: ChannelId) -> Iterable[bytes]:
        """The records in the log of an output channel, newest first."""

    def stable_records(self, channel: ChannelId) -> int:
        """How many records of this incarnation are stable."""

    def row(self, channel: ChannelId) -> int:
        """How many rows the log of an output channel has, including queued ones."""

    def warn(self, text: str) -> None:
        """Show a warning to the user."""

    def retain(self, channel: ChannelId, row: int) -> None:
        """No record before this row of an output channel's log is needed."""

    def log_end(self, channel: ChannelId) -> int:
        """The number after the last item in the persistent stream of the channel."""

    def log_max_time(self, channel: ChannelId) -> int:
        """The greatest event time in the persistent stream of the channel."""

    def flush(self) -> None:
        """Return when everything appended would survive this process."""

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        """Acknowledge to the producer of a held channel all items below this number."""

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        """By source: no remaining checkpoint needs rows of its input before this one."""

    def release(self, channel: ChannelId, position: int) -> None:
        """Nothing before this position of a logged channel will be read again."""

    def spill(self, channel: ChannelId) -> Spill:
        """Storage for what does not fit into memory."""

    def shelf(self, channel: ChannelId) -> Shelf:
        """Where a channel is retained while its consumer is down: one per incarnation."""

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        """Report a durable checkpoint to the director: its bytes, and the microseconds that it took."""

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        """Send a message to the director."""


class NoEffects:
    """Has room for everything and does nothing: a host derives from it whose element only computes."""

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        return True

    def open(self, channel: ChannelId, epoch: int) -> None:
        pass

    def shut(self, channel: ChannelId) -> None:
        pass

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        pass

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        pass

    def records(self, channel: ChannelId) -> Iterable[bytes]:
        return ()

    def stable_records(self, channel: ChannelId) -> int:
        return 0

    def row(self, channel: ChannelId) -> int:
        return 0

    def warn(self, text: str) -> None:
        pass

    def retain(self, channel: ChannelId, row: int) -> None:
        pass

    def log_end(self, channel: ChannelId) -> int:
        return 0

    def log_max_time(self, channel: ChannelId) -> int:
        return BEGINNING

    def flush(self) -> None:
        pass

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        pass

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        pass

    def release(self, channel: ChannelId, position: int) -> None:
        pass

    def spill(self, channel: ChannelId) -> Spill:
        raise AssertionError("nothing is spilled here")

    def shelf(self, channel: ChannelId) -> Shelf:
        raise AssertionError("nothing is retained here")

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        pass

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        pass


class SourceFeed(Protocol):
    """A source's input."""

    position: int  # rows read

    @property
    def ended(self) -> bool:
        """No more rows will follow."""

    @property
    def watermark(self) -> OrderKey | None:
        """The watermark while there are no rows."""

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        """The next rows, with their order key; None: none now."""


_ROUNDING = 1e-3  # microseconds by which a computed time may be wrong
_STEP = 5_000  # microseconds; at 2,000 eight elements on two cores take two thirds more of them


Rates = float | Mapping[str, float] | None  # rows per second of every source, or by source; None: unlimited


def pace_of(rates: Rates, source: str) -> "SourcePace":
    return SourcePace(rates.get(source) if isinstance(rates, Mapping) else rates)


@dataclass(frozen=True)
class SourcePace:
    """When rows of a source are due. Times are microseconds of the wall clock.

    Rows are released in steps, because many small batches cost every element downstream more than they gain. The
    schedule does not wait for a source that is down: after a restart the source catches up.
    """

    rate: float | None  # rows per second; None: unlimited

    def start(self, now: int, position: int) -> int:
        """When row 0 was due if the row at `position` is due now."""
        return now if self.rate is None else now - int(position / self.rate * 1e6)

    def rows(self, started_at: int, now: int, position: int, most: int) -> int:
        """How many rows from `position` on are due, up to `most`."""
        if self.rate is None:
            return most
        return min(max(int(((now - started_at) // _STEP) * _STEP * self.rate / 1e6) - position, 0), most)

    def due(self, started_at: int, now: int, position: int) -> int:
        """When the row at `position` is or was due."""
        return now if self.rate is None else started_at + int(position / self.rate * 1e6)

    def next_poll(self, started_at: int, now: int, position: int) -> int:
        """When rows from `position` on will be due."""
        if self.rate is None:
            return now
        due = math.ceil(
            (position + 1) / self.rate * 1e6 - _ROUNDING
        )  # never before it: a poll then would repeat for ever
        return started_at + -(-due // _STEP) * _STEP
