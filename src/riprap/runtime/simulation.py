"""The simulated host: the elements of a run in one process, on a virtual clock, in an order that a seed decides.

The elements are those of the real run; only what surrounds them is simulated. Everything that happens is an event on
one queue, so a run is a pure function of its arguments, and a failure is repeated by its seed.

Fault model, each with delays drawn from the seed:
  - an element dies between two calls, or in the middle of one, at any of its effects on the outside;
  - with it goes what it had queued to send and what it had not yet flushed to a persistent stream;
  - of what it had sent, a part is still delivered, in order, and the rest is lost;
  - its neighbours learn of the death some time later, and of its return some time after that;
  - a checkpoint is on disk whole, or not at all; the ledger survives, as memory that the kernel owns does.
Channels keep their order and have little room. Clocks do not jump. Disks do not lie (`checkpoints/` has its own tests).
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial as bound
from typing import NamedTuple

import pyarrow as pa

from riprap.base.randomness import generator
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import MemoryStorage
from riprap.protocols import events
from riprap.protocols.channels import ChannelId
from riprap.runtime.element import Element
from riprap.runtime.hosting import Arrival, Pace
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.ledger import Ledger, ledger_names, memory_ledger, sink_channel
from riprap.runtime.messages import Message

_START = 1_700_000_000_000_000  # the virtual clock's first moment, microseconds
_ROOM = 8  # messages under way on one channel


class Crash(NamedTuple):
    """An element dies: at a time, or then at the `effect`-th effect that it has on the outside after that time."""

    at: int  # microseconds after the start
    pe: str
    down: int  # microseconds until the next life begins
    effect: int = 0


class _Died(Exception):
    """A simulated crash in the middle of a call."""


class VirtualClock:
    """Time that moves when the simulation says so."""

    def __init__(self) -> None:
        self.time = _START

    def monotonic(self) -> float:
        return (self.time - _START) / 1e6

    def now(self) -> int:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps on a virtual clock")


class ListFeed:
    """A source's input that is there in memory, with order keys."""

    def __init__(self, table: pa.RecordBatch, position: int) -> None:
        self._table = table
        self.position = position
        self.ended = False

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        batch = self._table.slice(self.position, max_rows)
        self.position += batch.num_rows
        self.ended = not batch.num_rows
        return batch if batch.num_rows else None


class MemoryLog:
    """A persistent stream: messages cut at item numbers, the tail of which is not safe yet."""

    def __init__(self) -> None:
        self.stable: list[Message] = []
        self._tail: list[Message] = []
        self.next = 0  # number of the first item that is not there

    def keep(self, message: Message) -> None:
        skip = self.next - message.number
        if message.items and skip >= message.items:
            return
        assert skip >= 0, f"a hole in a persistent stream: item {message.number} after {self.next - 1}"
        if skip > 0 and message.batch is not None:
            message = Message(
                message.kind, message.epoch, self.next, message.batch.slice(skip), None, message.progress, message.born
            )
        self.next = max(self.next, message.number + message.items)
        self._tail.append(message)

    def flush(self) -> None:
        self.stable += self._tail
        self._tail = []

    def crash(self) -> None:
        """The process that writes it dies."""
        self._tail = []
        self.next = max((m.number + m.items for m in self.stable), default=0)

    def rows(self) -> list[pa.RecordBatch]:
        return [message.batch for message in self.stable if message.batch is not None]


class _ListSpill:
    def __init__(self) -> None:
        self._messages: list[Message] = []

    def keep(self, message: Message) -> None:
        self._messages.append(message)

    def since(self, number: int) -> Iterator[Message]:
        return iter([m for m in self._messages if m.number + m.items > number])

    def close(self) -> None:
        self._messages = []


@dataclass
class _Wire:
    """One connection of a channel, between two lives."""

    channel: ChannelId
    producer: "_Life"
    consumer: "_Life"
    queue: deque[Message] = field(default_factory=deque)  # under way
    broken: bool = False


class _Life:
    """One life of an element, and its host."""

    def __init__(self, simulation: "Simulation", pe: Pe, epoch: int, ledger: Ledger) -> None:
        self.pe, self.epoch, self.ledger = pe, epoch, ledger
        self.alive = True
        self.element: Element
        self.inbox: deque[Arrival] = deque()
        self.wires: dict[ChannelId, _Wire] = {}  # out
        self.doomed_at: int | None = None  # effects left before it dies
        self.down = 0  # microseconds from its death until the next life begins
        self._simulation = simulation

    def _effect(self) -> None:
        if self.doomed_at is not None:
            self.doomed_at -= 1
            if self.doomed_at < 0:
                raise _Died

    def send(self, channel: ChannelId, message: Message) -> bool:
        self._effect()
        wire = self.wires.get(channel)
        if wire is None:
            return False
        if len(wire.queue) >= _ROOM:
            return False
        wire.queue.append(message)
        self._simulation.under_way(wire)
        return True

    def keep(self, channel: ChannelId, message: Message) -> None:
        self._effect()
        self._simulation.log(channel).keep(message)

    def kept(self, channel: ChannelId) -> int:
        return self._simulation.log(channel).next

    def flush(self) -> None:
        self._effect()
        self._simulation.flush_logs(self)

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        self._simulation.acknowledged(self, channel, next_)

    def release(self, channel: ChannelId, position: int) -> None:
        self._simulation.released[channel] = position

    def spill(self, channel: ChannelId) -> _ListSpill:
        return _ListSpill()


class Simulation:
    """A run of a layout over inputs, with crashes. `run()` goes on until every element has ended."""

    def __init__(
        self,
        layout: Layout,
        inputs: Mapping[str, pa.RecordBatch],
        *,
        seed: int,
        crashes: Sequence[Crash] = (),
        rate: float | None = None,
        batch_rows: int = 64,
        held_bytes: int = 1 << 20,
    ) -> None:
        self.layout, self.inputs, self.clock = layout, inputs, VirtualClock()
        self._random = generator(seed, "simulation")
        self.released: dict[ChannelId, int] = {}
        self.lives: dict[str, _Life] = {}
        self.restarts: dict[str, int] = {pe.id: 0 for pe in layout.pes}
        self._pace = Pace(rate)
        self._batch_rows, self._held_bytes = batch_rows, held_bytes
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._logs: dict[ChannelId, MemoryLog] = {}
        self._read: dict[ChannelId, int] = {}  # messages of a log that its reader has had
        self._storage = {pe.id: MemoryStorage() for pe in layout.pes}
        for pe in layout.pes:
            self._begin(pe)
        for crash in crashes:
            self._later(crash.at, bound(self._crash, crash))

    # The queue of events ----------------------------------------------------------------------------------------------

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (self.clock.time + delay, self._scheduled, action))

    def _soon(self, least: int, most: int) -> int:
        return int(self._random.integers(least, most, endpoint=True))

    def run(self, seconds: float = 3600.0) -> None:
        """Until everything has ended, or this much virtual time has passed, which is an error."""
        while not all(life.alive and life.element.ended for life in self.lives.values()):
            assert self._events, "nothing will happen any more, and not every element has ended"
            time, _, action = heapq.heappop(self._events)
            assert time - _START < seconds * 1e6, "the run does not come to an end"
            self.clock.time = max(self.clock.time, time)
            action()
        for log in self._logs.values():
            log.flush()

    def _call(self, life: _Life, action: Callable[[], object]) -> None:
        """A call into an element, in which it may die."""
        if not life.alive:
            return
        try:
            action()
        except _Died:
            self._die(life)

    # Lives ------------------------------------------------------------------------------------------------------------

    def _begin(self, pe: Pe) -> None:
        before = self.lives.get(pe.id)
        epoch = before.epoch + 1 if before is not None else 1
        ledger = memory_ledger(ledger_names(self.layout, pe), before.ledger if before is not None else None)
        life = _Life(self, pe, epoch, ledger)
        recovering, storage = self.layout.recovers(pe), self._storage[pe.id]
        now = self.clock.now()
        units = {name: (unit.operators, unit.every) for name, unit in recovering.units.items()}
        life.element = Element(
            self.layout,
            pe,
            epoch,
            host=life,
            ledger=ledger,
            clock=self.clock,
            checkpointer=Checkpointer(storage, pe.id, epoch, units, background=False) if units else None,
            loaded={name: load(storage, pe.id, name, now, gap=not recovering.whole) for name in units},
            feeds=lambda source, position: ListFeed(self.inputs[source], position),
            pace=self._pace,
            batch_rows=self._batch_rows,
            held_bytes=self._held_bytes,
        )
        self.lives[pe.id] = life
        for channel in self.layout.inputs(pe):
            if self.layout.link(channel.stream).recovery == "replay":
                position, _ = life.element.replay_from(channel)
                self._read[channel] = position
                self._later(self._soon(10, 2000), bound(self._follow, life, channel))
            else:
                self._later(self._soon(100, 20_000), bound(self._connect, channel))
        for channel in self.layout.outputs(pe):
            if self.layout.link(channel.stream).recovery != "replay":
                self._later(self._soon(100, 20_000), bound(self._connect, channel))
        self._later(self._soon(10, 1000), lambda: self._pull(life))
        self._later(self._soon(1000, 50_000), lambda: self._tick(life))

    def _crash(self, crash: Crash) -> None:
        life = self.lives[crash.pe]
        if not life.alive or life.doomed_at is not None:
            return
        life.down = crash.down
        if crash.effect:
            life.doomed_at = crash.effect
            self._later(crash.down, lambda: self._die(life))  # at the latest
        else:
            self._die(life)

    def _die(self, life: _Life) -> None:
        if not life.alive:
            return
        life.alive = False
        self.restarts[life.pe.id] += 1
        self._later(life.down, lambda: self._begin(life.pe))
        for channel in life.element.machine.outlets:
            if channel in self._logs:
                self._logs[channel].crash()
        for wire in self._wires():
            if wire.producer is life:  # some of what it sent still arrives
                for _ in range(self._soon(0, len(wire.queue))):
                    wire.queue.pop()
                self._later(self._soon(100, 30_000), bound(self._gone, wire))
            elif wire.consumer is life:
                wire.queue.clear()
                wire.broken = True
                self._later(self._soon(100, 30_000), bound(self._down, wire))

    def _wires(self) -> list[_Wire]:
        return [wire for life in self.lives.values() for wire in life.wires.values() if not wire.broken]

    # Connections ------------------------------------------------------------------------------------------------------

    def _connect(self, channel: ChannelId) -> None:
        producer = self.lives.get(self.layout.producer(channel))
        consumer = self.lives.get(self.layout.consumer(channel))
        if producer is None or consumer is None or not producer.alive:
            return
        if not consumer.alive:
            if producer.element.machine.outlets[channel].up is None:
                self._call(producer, lambda: producer.element.link(events.ConsumerDown(channel)))
            return
        old = producer.wires.get(channel)
        if old is not None and old.consumer is consumer:
            return
        wire = _Wire(channel, producer, consumer)
        if old is not None:
            old.broken = True
            self._call(producer, lambda: producer.element.link(events.ConsumerDown(channel)))
        producer.wires[channel] = wire
        expected = consumer.element.expected(channel)
        up = events.ConsumerUp(channel, consumer.epoch, expected)
        self._call(producer, lambda: producer.element.link(up))

    def _gone(self, wire: _Wire) -> None:
        """The consumer notices that the producer's connection broke, after what still arrived."""
        if wire.queue and wire.consumer.alive:
            self._deliver(wire)
            self._later(self._soon(10, 500), lambda: self._gone(wire))
            return
        wire.broken = True
        event = events.ProducerGone(wire.channel, wire.producer.epoch)
        consumer = wire.consumer
        self._call(consumer, lambda: self._take(consumer))
        self._call(consumer, lambda: consumer.element.link(event))

    def _down(self, wire: _Wire) -> None:
        producer = wire.producer
        if producer.wires.get(wire.channel) is wire:
            del producer.wires[wire.channel]
            self._call(producer, lambda: producer.element.link(events.ConsumerDown(wire.channel)))

    def under_way(self, wire: _Wire) -> None:
        self._later(self._soon(50, 5_000), lambda: self._deliver(wire))

    def _deliver(self, wire: _Wire) -> None:
        if wire.broken or not wire.queue or not wire.consumer.alive:
            return
        consumer = wire.consumer
        if consumer.element.blocked:
            self.under_way(wire)
            return
        consumer.inbox.append(Arrival(wire.channel, wire.queue.popleft()))
        if self._random.integers(2):  # what comes close together is taken together
            self._later(self._soon(0, 300), lambda: self._call(consumer, lambda: self._take(consumer)))
        else:
            self._call(consumer, lambda: self._take(consumer))
        producer = wire.producer
        self._call(producer, producer.element.flush)

    def _take(self, life: _Life) -> None:
        if life.element.blocked:
            self._later(self._soon(100, 1000), lambda: self._call(life, lambda: self._take(life)))
            return
        arrivals = list(life.inbox)
        life.inbox.clear()
        life.element.receive(arrivals)

    def acknowledged(self, life: _Life, channel: ChannelId, next_: int) -> None:
        producer = self.lives[self.layout.producer(channel)]
        event = events.Acknowledged(channel, next_)
        self._later(self._soon(50, 5_000), lambda: self._call(producer, lambda: producer.element.link(event)))

    # Persistent streams -----------------------------------------------------------------------------------------------

    def log(self, channel: ChannelId) -> MemoryLog:
        return self._logs.setdefault(channel, MemoryLog())

    def flush_logs(self, life: _Life) -> None:
        for channel in life.element.machine.outlets:
            if channel in self._logs:
                self._logs[channel].flush()

    def _follow(self, life: _Life, channel: ChannelId) -> None:
        """The reader of a log brings what is stable, and looks again."""
        if not life.alive:
            return
        producer = self.lives[self.layout.producer(channel)]
        if producer.alive and self._random.integers(2):
            self._call(producer, lambda: self.flush_logs(producer))
        log, at = self.log(channel), self._read[channel]
        upto = min(len(log.stable), at + self._soon(1, 12))
        if upto > at and not life.element.blocked:
            life.inbox += [Arrival(channel, log.stable[index], index + 1) for index in range(at, upto)]
            self._read[channel] = upto
            self._call(life, lambda: self._take(life))
        self._later(self._soon(200, 8_000), lambda: self._follow(life, channel))

    # Time -------------------------------------------------------------------------------------------------------------

    def _pull(self, life: _Life) -> None:
        if not life.alive or life.element.next_due() is None:
            return
        if not life.element.blocked:
            self._call(life, life.element.pull)
        else:
            self._call(life, life.element.flush)
        self._later(self._soon(200, 3_000), lambda: self._pull(life))

    def _tick(self, life: _Life) -> None:
        if life.alive:
            self._call(life, life.element.tick)
            self._call(life, life.element.flush)
            self._later(self._soon(5_000, 50_000), lambda: self._tick(life))

    # What came out ----------------------------------------------------------------------------------------------------

    def sink(self, name: str) -> list[pa.RecordBatch]:
        return self.log(sink_channel(name)).rows()

    def ledgers(self) -> dict[str, dict[str, int]]:
        return {id_: life.ledger.values() for id_, life in self.lives.items()}
