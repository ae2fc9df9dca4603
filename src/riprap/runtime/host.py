"""What an element needs from its host: where effects go, where input comes from, when it is due."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import Durable, FromDirector, LinkEvent
from riprap.runtime.messages import Message


class Arrival(NamedTuple):
    """A message of a channel; on a logged one, `position` is where its reader would go on after it."""

    channel: ChannelId
    message: Message
    position: int = -1


class Missing(NamedTuple):
    """What an element waits for that its host is to recompute, by channel."""

    holes: Mapping[ChannelId, tuple[int, int]]  # numbers, [first, last)
    silent: Mapping[ChannelId, int]  # nothing has come there yet, so it is not known; the item that is expected


NOTHING_MISSING = Missing({}, {})


class Recomputed(NamedTuple):
    """Part of what an element misses on a channel, from number to number."""

    channel: ChannelId
    message: Message


class Unneeded(NamedTuple):
    """The director says that nobody will go back to these checkpoints."""

    ids: tuple[CheckpointId, ...]
    void: bool = False  # as in `Delete`


HostEvent = Arrival | LinkEvent | Recomputed | FromDirector | Unneeded  # what `Element.handle` takes


class Spill(Protocol):
    """A place for messages that do not fit into memory: on disk, or a list in a simulation."""

    def append(self, message: Message) -> None:
        """Add at the end."""

    def since(self, number: int) -> Iterator[Message]:
        """Messages with items from `number` on."""

    def close(self) -> None:
        """Forget everything."""


class Shelf(Protocol):
    """What is kept of a channel while its consumer is down. It survives this process, and may have holes."""

    @property
    def next(self) -> int:
        """Behind the last item that was ever put there, as far as that is known."""

    def append(self, message: Message) -> None:
        """Add at the end; it is there when this returns. Items below `next` are not kept twice."""

    def since(self, number: int) -> Iterator[Message]:
        """What is there now of the items from `number` on."""

    def release(self, below: int) -> None:
        """Nobody will ask for items below this number."""


class Host(Protocol):
    """Where an element's effects go."""

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        """To the consumer; False: there is no room now. `after`: the items from there up to the message do not come."""

    def open(self, channel: ChannelId, epoch: int) -> None:
        """Connect to the consumer of a channel out of a group, as this epoch, and take the place of those before it."""

    def shut(self, channel: ChannelId) -> None:
        """Connect to it no more."""

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        """Append to the persistent stream of the channel, or of a sink; what is there already is not kept twice.

        `record`: of the element's own state; it is there if what is new in the message is.
        """

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        """Append a record alone."""

    def records(self, channel: ChannelId) -> Iterable[bytes]:
        """What was recorded on a channel that leads out, newest first."""

    def stable_records(self, channel: ChannelId) -> int:
        """How many records of this life are there for good."""

    def row(self, channel: ChannelId) -> int:
        """How many rows the persistent stream of a channel that leads out has, queued ones too."""

    def warn(self, text: str) -> None:
        """Tell whoever watches the run."""

    def retain(self, channel: ChannelId, row: int) -> None:
        """Nothing recorded on a channel that leads out is needed before this row."""

    def log_end(self, channel: ChannelId) -> int:
        """The number of the first item that the persistent stream of the channel does not have."""

    def log_max_time(self, channel: ChannelId) -> int:
        """The greatest event time in the persistent stream of the channel."""

    def flush(self) -> None:
        """Return when all that was kept would survive this process."""

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        """Tell the producer of a held channel that no item below will be asked for again."""

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        """By source: no checkpoint is left that begins before this row of its input."""

    def release(self, channel: ChannelId, position: int) -> None:
        """Nothing below this position of a logged channel will be asked for again."""

    def spill(self, channel: ChannelId) -> Spill:
        """A place for what does not fit into memory."""

    def shelf(self, channel: ChannelId) -> Shelf:
        """Where a channel is kept while its consumer is down: one in the life of an element."""

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        """Tell the director of a durable checkpoint: its bytes, and the microseconds that it took."""

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        """Say something to the director."""


class SourceFeed(Protocol):
    """A source's input."""

    position: int  # rows taken

    @property
    def ended(self) -> bool:
        """There will be no more."""

    @property
    def watermark(self) -> OrderKey | None:
        """When there are none now: nothing at or below it will come."""

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        """The next rows, with their order key; None: there are none now."""


_ROUNDING = 1e-3  # microseconds by which a computed time may be wrong
_STEP = 5_000  # microseconds; at 2,000 eight elements on two cores take two thirds more of them


Rates = float | Mapping[str, float] | None  # rows per second of every source, or by source; None: as they are taken


def pace_of(rates: Rates, source: str) -> "SourcePace":
    return SourcePace(rates.get(source) if isinstance(rates, Mapping) else rates)


@dataclass(frozen=True)
class SourcePace:
    """When rows of a source are due. Times are microseconds of the wall clock.

    Rows come in steps, because many small batches cost every element behind them more than they gain. The schedule
    does not wait for a source that is down: when it is back it is behind, and makes up for it.
    """

    rate: float | None  # rows per second; None: as fast as they are taken

    def begin(self, now: int, position: int) -> int:
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

    def next_look(self, started_at: int, now: int, position: int) -> int:
        """When there will be rows from `position` on."""
        if self.rate is None:
            return now
        due = math.ceil((position + 1) / self.rate * 1e6 - _ROUNDING)  # never before it: who looks then looks for ever
        return started_at + -(-due // _STEP) * _STEP
