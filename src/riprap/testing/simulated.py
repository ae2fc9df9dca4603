"""Parts of the simulated host: faults, a virtual clock, and inputs, logs and spills in memory."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa

from riprap.checkpoints.load import Loaded, load
from riprap.checkpoints.storage import Storage
from riprap.graph.order_keys import TS, OrderKey
from riprap.graph.reach import BEGINNING
from riprap.protocols.channels import ChannelId
from riprap.protocols.protocol import WHOLE
from riprap.runtime.host import Arrival
from riprap.runtime.layout import Pe
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.stripes import own

START = 1_700_000_000_000_000  # the virtual clock's first moment, microseconds
PATIENCE, SILENCE = 100_000, 400_000  # microseconds without a heartbeat: suspected, declared dead
_STRIPE = 5  # rows of a source that belong to one shard


class Crash(NamedTuple):
    """An element dies: at a time; or, in the middle of a call, at its `effect`-th external effect after that time or at
    its `store`-th write to the ledger.
    """

    at: int  # microseconds after the start
    pe: str
    down: int  # microseconds until the next incarnation starts
    effect: int = 0
    store: int = 0


class Break(NamedTuple):
    """A connection between two live elements breaks."""

    at: int
    channel: ChannelId


class DirectorCrash(NamedTuple):
    """The director dies, and a new one starts."""

    at: int
    down: int


class PowerCut(NamedTuple):
    """Every element dies at once; unsynced writes and ledgers are lost."""

    at: int
    down: int


class Suspect(NamedTuple):
    """The director is informed that an element is silent, though it is alive and works."""

    at: int
    pe: str


class Stall(NamedTuple):
    """The process of an element stalls: it reads nothing, sends nothing and sends no heartbeat. Its connections stay
    open. After `SILENCE` it is declared dead, killed and replaced.
    """

    at: int
    pe: str
    duration: int
    down: int = 5_000  # microseconds from its death, if any, until the next incarnation starts


class Corrupt(NamedTuple):
    """A bit flips in the state of an operator."""

    at: int
    pe: str
    operator: str
    chance: int


Fault = Crash | Break | DirectorCrash | PowerCut | Suspect | Stall | Corrupt


class Wire:
    """One connection of a channel, between two incarnations (`SimulatedIncarnation`)."""

    def __init__(self, channel: ChannelId, producer: Any, consumer: Any, epoch: int, next_: int | None) -> None:
        self.channel, self.producer, self.consumer = channel, producer, consumer
        self.epoch = epoch  # that it was opened with
        self.next = next_  # the item that it accepts next, as in `transport/outlets.py`; None: any
        self.queue: deque[Message] = deque()  # in flight
        self.broken = False


class VirtualClock:
    """Time that only the simulation advances."""

    def __init__(self) -> None:
        self.time = START

    def monotonic(self) -> float:
        return (self.time - START) / 1e6

    def now(self) -> int:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps on a virtual clock")


class ListFeed:
    """A source's input in memory, with order keys."""

    def __init__(self, table: pa.RecordBatch, position: int, shard: int = 0, shards: int = 1) -> None:
        self._table, self._shard, self._shards = table, shard, shards
        self.position = position
        self.ended = False
        self.watermark: OrderKey | None = None

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        left = self._table.num_rows - self.position
        stretches = own(self.position, left, self._shard, self._shards, _STRIPE)
        self.ended = not stretches
        if not stretches:
            self.position = self._table.num_rows
            return None
        first, last = stretches[0]
        last = min(last, self.position + max_rows)
        if last <= first:  # not due yet
            self.position += max_rows
            return None
        self.position = last
        return self._table.slice(first, last - first)


class MemoryLog:
    """A persistent stream: messages, with a tail that is not flushed yet.

    Readers see `stable` messages. With `fsync` those are synced; without, they are synced later (`sync`), and a power
    cut removes unsynced ones.
    """

    def __init__(self, fsync: bool = True) -> None:
        self._fsync = fsync
        self._synced = self._synced_records = 0
        self.stable: list[Message] = []
        self.records: list[bytes] = []  # stable ones
        self._tail: list[Message] = []
        self._tail_records: list[bytes] = []
        self.next = 0  # number of the next item

    def record(self, record: bytes) -> None:
        self._tail_records.append(record)

    def append(self, message: Message, record: bytes = b"") -> None:
        if record:
            self._tail_records.append(record)
        skip = self.next - message.number
        if message.items and skip >= message.items:
            if message.watermark is None or skip > message.items:
                return
            message = Message(MessageKind.WATERMARK, message.epoch, self.next, watermark=message.watermark)
            skip = 0
        assert skip >= 0, f"a gap in a persistent stream: item {message.number} after {self.next - 1}"
        if skip > 0 and message.batch is not None:
            message = replace(message, number=self.next, batch=message.batch.slice(skip))
        self.next = max(self.next, message.number + message.items)
        self._tail.append(message)

    def flush(self) -> None:
        self.stable += self._tail
        self.records += self._tail_records
        self._tail, self._tail_records = [], []
        if self._fsync:
            self.sync()

    def sync(self) -> None:
        """Everything that readers see now survives a power cut."""
        self._synced, self._synced_records = len(self.stable), len(self.records)

    def power_cut(self) -> None:
        del self.stable[self._synced :], self.records[self._synced_records :]
        self.crash()

    def crash(self) -> None:
        """The process that writes it dies."""
        self._tail, self._tail_records = [], []
        self.next = max((m.number + m.items for m in self.stable), default=0)

    @property
    def until(self) -> int:
        """The greatest event time that its readers see."""
        return max(
            (int(m.batch.column(TS).values.max()) for m in self.stable if m.batch is not None), default=BEGINNING
        )

    def rows(self) -> list[pa.RecordBatch]:
        return [message.batch.batch() for message in self.stable if message.batch is not None]


class SimulatedLogs:
    """The logs that a shard reads when it takes over from others."""

    def __init__(self, log: Callable[[ChannelId], MemoryLog]) -> None:
        self._log = log

    def records(self, channel: ChannelId) -> Iterator[bytes]:
        return reversed(self._log(channel).records)

    def messages(self, channel: ChannelId, position: int) -> Iterator[tuple[Message, int]]:
        return iter([(message, at) for at, message in enumerate(self._log(channel).stable, 1) if at > position])

    def last(self, channel: ChannelId) -> list[Message]:
        stable = self._log(channel).stable
        begin = max((at for at, message in enumerate(stable) if message.batch is not None), default=0)
        return stable[begin:]


class Cells:
    """The cells of a ledger; each store is an event, so that a process can be killed between any two."""

    def __init__(self, cells: memoryview, stored: Callable[[], None]) -> None:
        self._cells, self._stored = cells, stored

    def __getitem__(self, at: Any) -> Any:
        return self._cells[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(at, slice):  # copied from front to back, and interrupted anywhere
            for offset, cell in enumerate(value, at.start):
                self._stored()
                self._cells[offset] = cell
        else:
            self._stored()
            self._cells[at] = value

    def __len__(self) -> int:
        return len(self._cells)


class ListSpill:
    def __init__(self) -> None:
        self._messages: list[Message] = []

    def append(self, message: Message) -> None:
        self._messages.append(message)

    def since(self, number: int) -> Iterator[Message]:
        return iter([m for m in self._messages if m.number + m.items > number])

    def close(self) -> None:
        self._messages = []


class MemoryShelf:
    """Items retained while a consumer is down; it survives a simulated crash. Each incarnation calls `of`."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.kept = 0  # items, ever
        self.next = 0
        self._effect: Callable[[], None] = lambda: None

    def of(self, effect: Callable[[], None]) -> "MemoryShelf":
        self._effect = effect
        self.next = max((_end(message) for message in self.messages), default=0)
        return self

    def append(self, message: Message) -> None:
        self._effect()
        skip = max(self.next - message.number, 0)
        if not message.items or skip >= message.items:
            return
        if skip and message.batch is not None:
            message = replace(message, number=message.number + skip, batch=message.batch.slice(skip))
        self.messages.append(message)
        self.kept += message.items
        self.next = _end(message)

    def since(self, number: int) -> Iterator[Message]:
        return iter([message for message in self.messages if _end(message) > number])

    def release(self, below: int) -> None:
        self.messages = [message for message in self.messages if _end(message) > below]


def _end(message: Message) -> int:
    return message.number + message.items


class SimulatedPast:
    """What survives simulated crashes, for recomputation."""

    def __init__(
        self,
        storage: Mapping[str, Storage],
        log: Callable[[ChannelId], MemoryLog],
        inputs: Mapping[str, pa.RecordBatch],
        clock: VirtualClock,
    ) -> None:
        self._storage, self._log, self._inputs, self._clock = storage, log, inputs, clock

    def checkpoint(self, pe: str, fits: Callable[[Mapping[str, Any]], bool]) -> Loaded | None:
        return load(self._storage[pe], pe, WHOLE, self._clock.now(), fits=fits)

    def logged(self, channel: ChannelId, position: int) -> Callable[[], Arrival | None]:
        places = count(position)

        def following() -> Arrival | None:
            nonlocal places
            stable, index = self._log(channel).stable, next(places)
            if index < len(stable):
                return Arrival(channel, stable[index], index + 1)
            places = count(index)
            return None

        return following

    def feed(self, pe: Pe, source: str, position: int) -> ListFeed:
        return ListFeed(self._inputs[source], position, pe.shard, pe.fragment.shards)

    def spill(self, channel: ChannelId) -> ListSpill:
        return ListSpill()
