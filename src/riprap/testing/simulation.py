"""The simulated host: the elements of a run in one process, on a virtual clock, in an order that a seed decides.

Elements and director are those of the real run; only their surroundings are simulated. Everything is an event on one
queue, so a run is a pure function of its arguments, and its seed repeats a failure.

Fault model, each with delays drawn from the seed:
  - an element dies between two calls, or in the middle of one, at any of its external effects;
  - its send queue and its unflushed appends to persistent streams are lost with it;
  - a prefix of the messages that it had sent is still delivered, and the rest is lost;
  - its neighbours learn of its death some time later, and of its restart some time after that;
  - a connection between two live elements breaks: messages in flight are lost, and it is opened again;
  - the power fails: every element dies, and only synced parts of persistent streams are left (`fsync`: all that readers
    saw); the ledgers are lost;
  - the director dies, with the messages in flight to and from it, and a new one starts from its log;
  - a live element rolls back to a checkpoint when the director orders it;
  - the process of an element stalls while the others continue: it reads nothing, and when it resumes, everything
    arrives at once; after too long it is declared dead, killed and replaced;
  - the director suspects a live element, and a replaced replica keeps sending until it learns of it;
  - a checkpoint is on disk completely or not at all; the ledger survives, as memory of the kernel does;
  - all elements and the director are killed, and another simulation continues from their files with another number of
    shards; an element that takes over from old shards dies in the middle of it.
Channels keep their order, have little room, and refuse a message that would leave a forbidden gap. Clocks do not jump.
Disks do not corrupt data (`checkpoints/` has its own tests).
"""

import heapq
from collections.abc import Mapping, Sequence
from functools import partial as bound
from typing import cast

import pyarrow as pa

from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.graph.order_keys import END_KEY
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, Durable, ProducerGone
from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.director_host import Assignment, DirectorHost
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import Ledger, Ledgers, ledger_shape, memory_ledger, reshaped
from riprap.runtime.element.records import log_of
from riprap.runtime.former_shards import ENDING
from riprap.runtime.host import Arrival, HostEvent, Rates
from riprap.runtime.layout import Layout, Pe, sink_channel
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.recomputation import Recomputation
from riprap.runtime.takeover import Takeover, write
from riprap.testing import simulated
from riprap.testing.simulated import (
    Break,
    Corrupt,
    Crash,
    DirectorCrash,
    Fault,
    ListFeed,
    MemoryLog,
    PowerCut,
    Stall,
    Suspect,
)
from riprap.testing.simulated_director import DirectedSimulation
from riprap.testing.simulated_incarnation import Died, SimulatedIncarnation

__all__ = [
    "Break", "Corrupt", "Crash", "DirectorCrash", "ListFeed", "MemoryLog", "PowerCut", "Simulation", "Stall", "Suspect",
]  # fmt: skip


class Simulation(DirectedSimulation):
    """A run of a layout over inputs, with faults. `run()` ends when every element has ended."""

    def __init__(
        self,
        layout: Layout,
        inputs: Mapping[str, pa.RecordBatch],
        *,
        seed: int,
        crashes: Sequence[Fault] = (),
        rate: Rates = None,
        batch_rows: int = 64,
        held_bytes: int = 1 << 20,
        compiled: bool = False,
        fsync: bool = True,
        restoring: int = 0,
        after: "Simulation | None" = None,
    ) -> None:
        """`compiled`: fragments run as compiled loops, as in a real run; compiling one takes a second.
        `restoring`: the longest time, in microseconds, from an incarnation's assignment until its state is restored.
        `after`: a killed run to continue from, whose layout is `layout.before` or the same."""
        super().__init__(layout, seed)
        self._compiled, self._fsync, self._restoring = compiled, fsync, restoring
        self._unpowered: set[str] = set()  # elements whose ledger is lost
        self.inputs = inputs
        self.released: dict[ChannelId, int] = {}
        self.released_inputs: dict[str, dict[str, int]] = {}  # by element and source
        self.restarts: dict[str, int] = {pe.id: 0 for pe in layout.pes}
        self.past: dict[str, list[tuple[int, Ledger]]] = {}  # the ledgers of earlier incarnations, by element
        self.corrupted: dict[str, str | None] = {}  # by element: the corrupted column
        self._rates = rate
        self._stores = {fault.pe for fault in crashes if isinstance(fault, Crash) and fault.store}
        self._batch_rows, self._held_bytes = batch_rows, held_bytes
        self._logs: dict[ChannelId, MemoryLog] = {}
        self.shelves: dict[ChannelId, simulated.MemoryShelf] = {}
        self._read: dict[ChannelId, int] = {}  # messages of a log that its reader has read
        self._past = simulated.SimulatedPast(self.storage, self.log, inputs, self.clock)
        self._after = after
        if after is not None:
            self._continue_from(after)
        self._start_director()
        for pe in layout.pes:
            self._register(pe)
        for fault in crashes:
            self._later(fault.at, bound(self._inject, fault))

    def _continue_from(self, after: "Simulation") -> None:
        self.clock.time, self._logs, self.shelves = after.clock.time, after._logs, after.shelves
        self.storage |= {pe: storage for pe, storage in after.storage.items() if pe in self.storage}
        self.released, self._fsync = after.released, after._fsync
        self.released_inputs = after.released_inputs
        for log in self._logs.values():
            log.crash()
        for shard in after.layout.pes:
            for channel in (
                after.layout.outputs(shard) if shard.id not in self.storage else ()
            ):  # the shard no longer exists
                log = self.log(channel)
                log.append(Message(MessageKind.END, ENDING, log.next, watermark=END_KEY))
                log.flush()

    # The loop ---------------------------------------------------------------------------------------------------------

    def run(self, seconds: float = 3600.0, *, until: int | None = None) -> None:
        """Run until every element has ended; fail after this much virtual time. `until`: microseconds after the start
        at which everything is killed."""
        while not self._ended():
            if until is not None and self.clock.time - simulated.START >= until:
                return
            assert self._events, "no events are left, but not every element has ended"
            time, _, action = heapq.heappop(self._events)
            assert time - simulated.START < seconds * 1e6, "the run does not end"
            self.clock.time = max(self.clock.time, time)
            action()
        for log in self._logs.values():
            log.flush()

    def _ended(self) -> bool:
        incarnations = self.incarnations.values()
        return len(incarnations) == len(self.layout.pes) and all(
            incarnation.alive and incarnation.element.ended for incarnation in incarnations
        )

    def _handle(self, incarnation: SimulatedIncarnation, *events: HostEvent) -> None:
        """One iteration of an element's loop, with its inbox and these events; it may die in it."""
        if not incarnation.alive:
            return
        if self._stalled(incarnation):
            incarnation.inbox += events
            return
        taken, incarnation.inbox = [*incarnation.inbox, *events], []
        try:
            if not incarnation.element.blocked:
                taken += incarnation.recomputation.bring(incarnation.element.missing)
            incarnation.element.handle(taken)
            incarnation.element.validate()
            if incarnation.element.finished and not incarnation.finished:
                incarnation.finished = True
                self.to_director(
                    incarnation.pe.id,
                    lambda host: host.finished(incarnation.pe.id, incarnation.epoch),
                )
        except Died:
            self._die(incarnation)

    # Faults -----------------------------------------------------------------------------------------------------------

    def _inject(self, fault: Fault) -> None:
        match fault:
            case Crash():
                self._crash(fault)
            case Break():
                self._break(fault.channel)
            case PowerCut():
                for incarnation in list(self.incarnations.values()):
                    incarnation.down = fault.down
                    self._die(incarnation)
                    self._unpowered.add(incarnation.pe.id)
                for log in self._logs.values():
                    log.power_cut()
            case DirectorCrash():
                self._director_host = None
                self._later(fault.down, self._start_director)
            case Corrupt(_, pe, operator, chance):
                if self.incarnations[pe].alive:
                    self.corrupted[pe] = self.incarnations[pe].element.wrong_bits.state(operator, chance)
            case Suspect(_, pe):
                self._suspect(self.incarnations[pe])
            case Stall(_, pe, duration, down):
                if pe in self.incarnations and self.incarnations[pe].alive:
                    self._stall(self.incarnations[pe], duration, down)

    def _suspect(self, incarnation: SimulatedIncarnation) -> None:
        self.to_director(incarnation.pe.id, lambda host: host.silent(incarnation.pe.id, incarnation.epoch))

    def _stall(self, incarnation: SimulatedIncarnation, duration: int, down: int) -> None:
        incarnation.stalled_until = max(incarnation.stalled_until, self.clock.time + duration)
        self._later(duration, lambda: self._handle(incarnation))
        for at in range(simulated.PATIENCE, min(duration, simulated.SILENCE), simulated.PATIENCE):
            self._later(at, lambda: self._suspect(incarnation) if incarnation.alive else None)
        if duration >= simulated.SILENCE:
            incarnation.down = down
            self._later(simulated.SILENCE, lambda: self._declare_dead(incarnation))

    def _declare_dead(self, incarnation: SimulatedIncarnation) -> None:
        """Its heartbeats have timed out: the director is informed of the loss, and then it is killed."""
        if incarnation.alive:
            self.to_director(incarnation.pe.id, lambda host: host.lost(incarnation.pe.id, incarnation.epoch))
            self._later(self._soon(100, 20_000), lambda: self._die(incarnation))

    def _stalled(self, *incarnations: SimulatedIncarnation) -> int:
        """Microseconds until none of these is stalled."""
        return max(
            0, *(incarnation.stalled_until - self.clock.time for incarnation in incarnations if incarnation.alive), 0
        )

    def _crash(self, crash: Crash) -> None:
        incarnation = self.incarnations.get(crash.pe)
        if (
            incarnation is None
            or not incarnation.alive
            or incarnation.doomed_at is not None
            or incarnation.stores is not None
        ):
            return
        incarnation.down = crash.down
        if crash.effect or crash.store:
            incarnation.doomed_at, incarnation.stores = crash.effect or None, crash.store or None
            self._later(crash.down, lambda: self._die(incarnation))  # at the latest
        else:
            self._die(incarnation)

    def _die(self, incarnation: SimulatedIncarnation) -> None:
        if not incarnation.alive:
            return
        self.restarts[incarnation.pe.id] += 1
        self._end_incarnation(incarnation)
        for channel in self.layout.all_outputs(incarnation.pe):
            if channel in self._logs:
                self._logs[channel].crash()
        self.to_director(incarnation.pe.id, lambda host: host.lost(incarnation.pe.id, incarnation.epoch))
        self._later(incarnation.down, lambda: self._register(incarnation.pe))

    def _end_incarnation(self, incarnation: SimulatedIncarnation) -> None:
        """An incarnation died or rolled back: part of its messages arrives, and its neighbours are informed."""
        incarnation.alive = False
        for wire in self._wires():
            if wire.producer is incarnation:  # a prefix of its messages still arrives
                for _ in range(self._soon(0, len(wire.queue))):
                    wire.queue.pop()
                self._later(self._soon(100, 30_000), bound(self._gone, wire))
            elif wire.consumer is incarnation:
                wire.queue.clear()
                wire.broken = True
                self._later(self._soon(100, 30_000), bound(self._down, wire))

    def _wires(self) -> list[simulated.Wire]:
        return [
            wire for incarnation in self.incarnations.values() for wire in incarnation.wires.values() if not wire.broken
        ]

    def _break(self, channel: ChannelId) -> None:
        """Break a connection between two live elements."""
        for wire in self._wires():
            if wire.channel == channel and wire.producer.alive and wire.consumer.alive:
                wire.queue.clear()
                wire.broken = True
                self._later(self._soon(100, 10_000), bound(self._gone, wire))
                self._later(self._soon(100, 10_000), bound(self._down, wire))

    # Incarnations -----------------------------------------------------------------------------------------------------

    def _register(self, pe: Pe) -> None:
        if self._director_host is None:  # nothing to register with
            self._later(self._soon(1_000, 10_000), lambda: self._register(pe))
            return
        before = self.incarnations.get(pe.id)
        if self._takeover_pending(pe):
            self._later(self._soon(1_000, 10_000), lambda: self._register(pe))
            return
        if before is not None and not before.alive and self.layout.plan(pe).rounds:
            self._director_host.replaced(pe.id, before.epoch)
        assignment = self._director_host.begins(pe.id, before.epoch + 1 if before is not None else 1)
        if assignment is None:
            self._later(self._soon(1_000, 10_000), lambda: self._register(pe))
        elif self._restoring and before is not None:
            self._later(self._soon(0, self._restoring), bound(self._restored, pe, assignment, self._director_host))
        else:
            self._start_incarnation(pe, assignment)

    def _restored(self, pe: Pe, assignment: Assignment, assigned_by: DirectorHost) -> None:
        """The state is restored; if the director was replaced meanwhile, ask the new one for an assignment."""
        if assigned_by is self._director_host:
            self._start_incarnation(pe, assignment)
        else:
            self._register(pe)

    def _takeover_pending(self, pe: Pe) -> bool:
        """Whether the element still has to take over from former shards, and cannot now or dies while it does."""
        layout, log = self.layout, simulated.SimulatedLogs(self.log)
        if layout.change(pe.fragment) is None or self.log(log_of(layout, pe)).records:
            return False
        taking = Takeover(layout, pe, log)
        if not taking.ready:
            return True
        incarnation = SimulatedIncarnation(self, pe, 0, memory_ledger(ledger_shape(layout, pe)), 0, 0)
        incarnation.doomed_at = self._soon(0, 4) if self._random.integers(2) else None
        try:
            write(taking.first_append(), layout, pe, 0, incarnation)
        except Died:
            for channel in layout.all_outputs(pe):
                self.log(channel).crash()
            return True
        return False

    def _start_incarnation(self, pe: Pe, assignment: Assignment, previous: Element | None = None) -> None:
        """Start an incarnation, in a new process or, with `previous`, in the process of the previous one."""
        before = self.incarnations.get(pe.id) or (
            self._after.incarnations.get(pe.id) if self._after is not None else None
        )
        epoch = before.epoch + 1 if before is not None else 1
        counted = before.ledger if before is not None and pe.id not in self._unpowered else None
        self._unpowered.discard(pe.id)
        shape = ledger_shape(self.layout, pe)
        if counted is not None and before is not None and pe.id not in self.incarnations and self._after is not None:
            counted = reshaped(memory_ledger(ledger_shape(self._after.layout, before.pe), counted), shape)
        if counted is not None and counted.shape == shape:
            self.past.setdefault(pe.id, []).append((epoch - 1, counted))
        ledger = memory_ledger(shape, counted).reset_incarnation()
        process = before.process if before is not None and previous is not None else epoch
        incarnation = SimulatedIncarnation(self, pe, epoch, ledger, assignment.line, process)
        if pe.id in self._stores:
            incarnation.ledger = ledger = Ledger(
                shape, cast(memoryview, simulated.Cells(ledger.cells, incarnation.stored))
            )
        plan, storage, now = self.layout.plan(pe), self.storage[pe.id], self.clock.now()
        target = assignment.target
        loaded = {}
        for unit in plan.units:
            if assignment.newest or unit != WHOLE:
                loaded[unit] = load(storage, pe.id, unit, now, gap=plan.gap, spare=plan.spare, holes=plan.holes)
            else:
                loaded[unit] = None
                if target is not None:
                    loaded[unit] = load(self.storage[target.pe], target.pe, unit, now, only=target[2:], holes=False)
                assert target is None or loaded[unit] is not None, f"{target} does not exist: cannot roll back"
        incarnation.element = Element(
            self.layout,
            pe,
            epoch,
            host=incarnation,
            ledger=ledger,
            clock=self.clock,
            checkpointer=self._checkpointer(pe, epoch),
            loaded=loaded,
            feeds=bound(self._feed, pe),
            rates=self._rates,
            batch_rows=self._batch_rows,
            held_bytes=self._held_bytes,
            previous=previous,
            cut_everywhere=not self._compiled,
        )
        incarnation.recomputation = Recomputation(
            self.layout, self._past, self.clock, batch_rows=self._batch_rows, held_bytes=self._held_bytes,
            compiled=self._compiled,
        )  # fmt: skip
        self.incarnations[pe.id] = incarnation
        self._join(incarnation)
        for channel in self.layout.inputs(pe):
            if self.layout.retention(channel) == "log":
                position, _ = incarnation.element.replay_from(channel)
                assert position >= self.released.get(channel, 0), f"{channel} is read again where it may be trimmed"
                self._read[channel] = position
                self._later(self._soon(10, 2000), bound(self._follow, incarnation, channel))
            else:
                for strand in self.layout.strands(channel):
                    self._later(self._soon(100, 20_000), bound(self._connect, strand))
        for channel in self.layout.outputs(pe):
            if self.layout.retention(channel) != "log":
                self._later(self._soon(100, 20_000), bound(self._connect, channel))
        self._later(self._soon(10, 1000), lambda: self._iterate(incarnation))

    def _feed(self, pe: Pe, source: str, position: int) -> ListFeed:
        needed = self.released_inputs.get(pe.id, {}).get(source, 0)
        assert position >= needed, f"{source} is read again where it may be trimmed"
        return ListFeed(self.inputs[source], position, pe.shard, pe.fragment.shards)

    def _checkpointer(self, pe: Pe, epoch: int) -> Checkpointer | None:
        units = {name: unit.operators for name, unit in self.layout.plan(pe).units.items()}
        if not units:
            return None
        return Checkpointer(
            self.storage[pe.id], pe.id, epoch, units, background=False, clock=self.clock, worked=lambda: 0.0
        )

    def took(self, incarnation: SimulatedIncarnation, durable: Durable, size: int) -> None:
        """A checkpoint of this incarnation is on disk."""
        line = incarnation.line
        self.to_director(incarnation.pe.id, lambda host: host.took(line, durable, size, 0))

    # Connections ------------------------------------------------------------------------------------------------------

    def opened(self, channel: ChannelId) -> None:
        self._later(self._soon(100, 20_000), bound(self._connect, channel))

    def hung_up(self, wire: simulated.Wire) -> None:
        """A live producer has closed its end: part of its messages arrives."""
        for _ in range(self._soon(0, len(wire.queue))):
            wire.queue.pop()
        self._later(self._soon(100, 5_000), bound(self._gone, wire))

    def _connect(self, channel: ChannelId) -> None:
        replicated = self.layout.retention(channel) == "remember"
        for pe in self.layout.producers(channel):
            producer = self.incarnations.get(pe)
            if producer is not None and (not replicated or channel in producer.terms):
                self._connect_with(channel, producer)

    def _connect_with(self, channel: ChannelId, producer: SimulatedIncarnation) -> None:
        consumer = self.incarnations.get(self.layout.consumer(channel))
        if consumer is None:
            return
        if not producer.alive:
            if consumer.alive and not consumer.element.has_heard(channel) and not producer.terms:
                self._handle(consumer, ProducerGone(channel, -1))
            return
        epoch = producer.terms.get(channel, producer.epoch)
        if not consumer.alive:
            if channel not in producer.wires:
                self._handle(producer, ConsumerDown(channel))
            return
        if producer.line != consumer.line:  # one of them has not rolled back yet
            self._later(self._soon(1_000, 10_000), bound(self._connect, channel))
            return
        old = producer.wires.get(channel)
        if old is not None and old.consumer is consumer and not old.broken:
            return
        if wait := self._stalled(producer, consumer):
            self._later(wait + self._soon(100, 5_000), bound(self._connect, channel))
            return
        if epoch < consumer.newest.get(channel, -1):  # it was replaced, and does not know it yet
            self._later(self._soon(5_000, 20_000), bound(self._connect, channel))
            return
        if old is not None:
            old.broken = True
            self._handle(producer, ConsumerDown(channel))
        consumer.newest[channel] = epoch
        for other in self._wires():  # of another replica: its messages are read, and then it is disconnected
            if other.channel == channel and other.consumer is consumer and other.producer is not producer:
                while other.queue and consumer.alive:
                    consumer.inbox.append(Arrival(channel, other.queue.popleft()))
                other.broken = True
                self._later(self._soon(100, 10_000), bound(self._down, other))
        self._handle(consumer)  # received messages count as delivered
        if not (producer.alive and consumer.alive):
            return
        delivered, expected = consumer.element.delivered(channel), consumer.element.expected(channel)
        next_ = expected if self.layout.gapless(channel) else None
        producer.wires[channel] = simulated.Wire(channel, producer, consumer, epoch, next_)
        self._handle(producer, ConsumerUp(channel, consumer.epoch, expected, delivered))

    def _gone(self, wire: simulated.Wire) -> None:
        """The consumer notices that the producer's connection broke, after the last arrivals."""
        if wait := self._stalled(wire.consumer):
            self._later(wait + self._soon(10, 500), lambda: self._gone(wire))
            return
        if wire.queue and wire.consumer.alive and not wire.broken:
            self._deliver(wire)
            self._later(self._soon(10, 500), lambda: self._gone(wire))
            return
        wire.broken = True
        self._handle(wire.consumer, ProducerGone(wire.channel, wire.epoch))

    def _down(self, wire: simulated.Wire) -> None:
        producer = wire.producer
        if producer.wires.get(wire.channel) is wire:
            del producer.wires[wire.channel]
            self._handle(producer, ConsumerDown(wire.channel))
            if wire.consumer.alive:
                self._later(self._soon(100, 10_000), bound(self._connect, wire.channel))

    def under_way(self, wire: simulated.Wire) -> None:
        self._later(self._soon(50, 5_000), lambda: self._deliver(wire))

    def _deliver(self, wire: simulated.Wire) -> None:
        if wire.broken or not wire.queue or not wire.consumer.alive:
            return
        consumer = wire.consumer
        if wait := self._stalled(consumer):
            self._later(wait, lambda: self._deliver(wire))
            return
        if wire.channel in consumer.element.unread:
            self.under_way(wire)
            return
        if wire.epoch < consumer.newest[wire.channel]:  # another producer was accepted: this connection was closed
            wire.broken = True
            return
        consumer.inbox.append(Arrival(wire.channel, wire.queue.popleft()))
        if self._random.integers(2):  # messages that arrive close together are processed together
            self._later(self._soon(0, 300), lambda: self._handle(consumer))
        else:
            self._handle(consumer)
        self._room(wire)

    def _room(self, wire: simulated.Wire) -> None:
        """A message was removed from a connection."""
        self._handle(wire.producer)

    def acknowledged(self, incarnation: SimulatedIncarnation, channel: ChannelId, next_: int) -> None:
        producer = self.incarnations[self.layout.producer(channel)]
        if producer.line != incarnation.line:  # it has rolled back since, and the connection is closed
            return
        self._later(self._soon(50, 5_000), lambda: self._handle(producer, Acknowledged(channel, next_)))

    # Persistent streams -----------------------------------------------------------------------------------------------

    def log(self, channel: ChannelId) -> MemoryLog:
        if channel not in self._logs:
            self._logs[channel] = MemoryLog(self._fsync)
        return self._logs[channel]

    def flush_logs(self, incarnation: SimulatedIncarnation) -> None:
        for channel in self.layout.all_outputs(incarnation.pe):
            if channel in self._logs:
                self._logs[channel].flush()

    def _follow(self, incarnation: SimulatedIncarnation, channel: ChannelId) -> None:
        """The reader of a log delivers stable messages, and polls again."""
        if not incarnation.alive:
            return
        producer = self.incarnations.get(self.layout.producer(channel))
        if producer is not None and producer.alive and self._random.integers(2):
            self.flush_logs(producer)
        log, at = self.log(self.layout.written(channel)), self._read[channel]
        end = min(len(log.stable), at + self._soon(1, 12))
        if end > at and channel not in incarnation.element.unread:
            self._read[channel] = end
            self._handle(incarnation, *(Arrival(channel, log.stable[index], index + 1) for index in range(at, end)))
        self._later(self._soon(200, 8_000), lambda: self._follow(incarnation, channel))

    # Time -------------------------------------------------------------------------------------------------------------

    def _iterate(self, incarnation: SimulatedIncarnation) -> None:
        """An iteration of the loop without new events."""
        if incarnation.alive:
            self._handle(incarnation)
            idle = incarnation.alive and incarnation.element.next_due() is None
            self._later(
                self._soon(2_000, 20_000) if idle else self._soon(200, 3_000), lambda: self._iterate(incarnation)
            )

    # Results ----------------------------------------------------------------------------------------------------------

    def sink(self, name: str) -> list[pa.RecordBatch]:
        """The rows of a sink, shard by shard."""
        shards = range(self.layout.graph[name].parallelism)
        return [batch for shard in shards for batch in self.log(sink_channel(name, shard)).rows()]

    def ledgers(self) -> Ledgers:
        return {id_: incarnation.ledger for id_, incarnation in self.incarnations.items()}

    def all_ledgers(self) -> dict[str, list[tuple[int, Ledger]]]:
        """The ledgers of all incarnations of each element, by epoch."""
        shape = bound(ledger_shape, self.layout)
        incarnations = {
            id_: [*self.past.get(id_, ()), (incarnation.epoch, incarnation.ledger)]
            for id_, incarnation in self.incarnations.items()
        }
        return {
            id_: [(epoch, memory_ledger(shape(self.layout.pe(id_)), ledger)) for epoch, ledger in found]
            for id_, found in incarnations.items()
        }
