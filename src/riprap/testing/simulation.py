"""The simulated host: the elements of a run in one process, on a virtual clock, in an order that a seed decides.

The elements and the director are those of the real run; only what surrounds them is simulated. Everything that happens
is an event on one queue, so a run is a pure function of its arguments, and a failure is repeated by its seed.

Fault model, each with delays drawn from the seed:
  - an element dies between two calls, or in the middle of one, at any of its effects on the outside;
  - with it goes what it had queued to send and what it had not yet flushed to a persistent stream;
  - of what it had sent, a part is still delivered, in order, and the rest is lost;
  - its neighbours learn of the death some time later, and of its return some time after that;
  - a connection between two elements that live breaks; what was under way is lost, and it is opened again;
  - the power fails: every element dies, and of persistent streams only what was synced is left (`fsync`: all that was
    seen); the ledgers are lost;
  - the director dies, with what it was told and what it said and had not arrived, and a new one begins with its log;
  - an element that lives goes back to a checkpoint when the director says so;
  - the process of an element is stopped for some time, while the others go on: nothing that comes is read, and when it
    goes on all of it is there at once; if it takes too long, it is declared dead, killed and replaced;
  - the director suspects an element that lives, and a replica that was replaced goes on sending until it hears of it;
  - a checkpoint is on disk whole, or not at all; the ledger survives, as memory that the kernel owns does;
  - all elements and the director are killed, and another simulation goes on from what they left, with another number of
    shards; who takes over from old shards dies in the middle of it.
Channels keep their order, have little room, and take no message that would tear a hole where there must be none.
Clocks do not jump. Disks do not lie (`checkpoints/` has its own tests).
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
from riprap.testing.simulated_life import Died, Life

__all__ = [
    "Break", "Corrupt", "Crash", "DirectorCrash", "ListFeed", "MemoryLog", "PowerCut", "Simulation", "Stall", "Suspect",
]  # fmt: skip


class Simulation(DirectedSimulation):
    """A run of a layout over inputs, with faults. `run()` goes on until every element has ended."""

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
        """`compiled`: fragments run as generated loops, as they do in a run; to compile one takes a second.
        `restoring`: microseconds that a life needs, at most, from hearing where it begins until its state is there.
        `after`: it goes on from what a run that was killed has left, whose layout is `layout.before` or the same."""
        super().__init__(layout, seed)
        self._compiled, self._fsync, self._restoring = compiled, fsync, restoring
        self._unpowered: set[str] = set()  # elements whose ledger is lost
        self.inputs = inputs
        self.released: dict[ChannelId, int] = {}
        self.released_inputs: dict[str, dict[str, int]] = {}  # by element and source
        self.restarts: dict[str, int] = {pe.id: 0 for pe in layout.pes}
        self.past: dict[str, list[tuple[int, Ledger]]] = {}  # the ledgers of lives that are over, by element
        self.corrupted: dict[str, str | None] = {}  # by element: the column that was struck
        self._rates = rate
        self._stores = {fault.pe for fault in crashes if isinstance(fault, Crash) and fault.store}
        self._batch_rows, self._held_bytes = batch_rows, held_bytes
        self._logs: dict[ChannelId, MemoryLog] = {}
        self.shelves: dict[ChannelId, simulated.MemoryShelf] = {}
        self._read: dict[ChannelId, int] = {}  # messages of a log that its reader has had
        self._past = simulated.SimulatedPast(self.storage, self.log, inputs, self.clock)
        self._after = after
        if after is not None:
            self._go_on(after)
        self._direct()
        for pe in layout.pes:
            self._begin(pe)
        for fault in crashes:
            self._later(fault.at, bound(self._strike, fault))

    def _go_on(self, after: "Simulation") -> None:
        self.clock.time, self._logs, self.shelves = after.clock.time, after._logs, after.shelves
        self.storage |= {pe: storage for pe, storage in after.storage.items() if pe in self.storage}
        self.released, self._fsync = after.released, after._fsync
        self.released_inputs = after.released_inputs
        for log in self._logs.values():
            log.crash()
        for shard in after.layout.pes:
            for channel in after.layout.outputs(shard) if shard.id not in self.storage else ():  # it is no more
                log = self.log(channel)
                log.keep(Message(MessageKind.END, ENDING, log.next, watermark=END_KEY))
                log.flush()

    # Turns ------------------------------------------------------------------------------------------------------------

    def run(self, seconds: float = 3600.0, *, until: int | None = None) -> None:
        """Until everything has ended, or this much virtual time has passed, which is an error; or until a time after
        the start, when all of it is killed."""
        while not self._ended():
            if until is not None and self.clock.time - simulated.START >= until:
                return
            assert self._events, "nothing will happen any more, and not every element has ended"
            time, _, action = heapq.heappop(self._events)
            assert time - simulated.START < seconds * 1e6, "the run does not come to an end"
            self.clock.time = max(self.clock.time, time)
            action()
        for log in self._logs.values():
            log.flush()

    def _ended(self) -> bool:
        lives = self.lives.values()
        return len(lives) == len(self.layout.pes) and all(life.alive and life.element.ended for life in lives)

    def _handle(self, life: Life, *events: HostEvent) -> None:
        """The loop of an element comes round, with what is in its inbox and these; it may die in it."""
        if not life.alive:
            return
        if self._stalled(life):
            life.inbox += events
            return
        taken, life.inbox = [*life.inbox, *events], []
        try:
            if not life.element.blocked:
                taken += life.recomputation.bring(life.element.missing)
            life.element.handle(taken)
            if life.element.finished and not life.finished:
                life.finished = True
                self.to_director(life.pe.id, lambda directing: directing.finished(life.pe.id, life.epoch))
        except Died:
            self._die(life)

    # Faults -----------------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        match fault:
            case Crash():
                self._crash(fault)
            case Break():
                self._break(fault.channel)
            case PowerCut():
                for life in list(self.lives.values()):
                    life.down = fault.down
                    self._die(life)
                    self._unpowered.add(life.pe.id)
                for log in self._logs.values():
                    log.power_cut()
            case DirectorCrash():
                self._director_host = None
                self._later(fault.down, self._direct)
            case Corrupt(_, pe, operator, chance):
                if self.lives[pe].alive:
                    self.corrupted[pe] = self.lives[pe].element.wrong_bits.state(operator, chance)
            case Suspect(_, pe):
                self._suspect(self.lives[pe])
            case Stall(_, pe, duration, down):
                if pe in self.lives and self.lives[pe].alive:
                    self._stall(self.lives[pe], duration, down)

    def _suspect(self, life: Life) -> None:
        self.to_director(life.pe.id, lambda directing: directing.silent(life.pe.id, life.epoch))

    def _stall(self, life: Life, duration: int, down: int) -> None:
        life.stalled_until = max(life.stalled_until, self.clock.time + duration)
        self._later(duration, lambda: self._handle(life))
        for at in range(simulated.PATIENCE, min(duration, simulated.SILENCE), simulated.PATIENCE):
            self._later(at, lambda: self._suspect(life) if life.alive else None)
        if duration >= simulated.SILENCE:
            life.down = down
            self._later(simulated.SILENCE, lambda: self._declare_dead(life))

    def _declare_dead(self, life: Life) -> None:
        """It has given no heartbeat for too long: the director hears that it is lost, and then it is killed."""
        if life.alive:
            self.to_director(life.pe.id, lambda directing: directing.lost(life.pe.id, life.epoch))
            self._later(self._soon(100, 20_000), lambda: self._die(life))

    def _stalled(self, *lives: Life) -> int:
        """Microseconds until none of these is stopped any more."""
        return max(0, *(life.stalled_until - self.clock.time for life in lives if life.alive), 0)

    def _crash(self, crash: Crash) -> None:
        life = self.lives.get(crash.pe)
        if life is None or not life.alive or life.doomed_at is not None or life.stores is not None:
            return
        life.down = crash.down
        if crash.effect or crash.store:
            life.doomed_at, life.stores = crash.effect or None, crash.store or None
            self._later(crash.down, lambda: self._die(life))  # at the latest
        else:
            self._die(life)

    def _die(self, life: Life) -> None:
        if not life.alive:
            return
        self.restarts[life.pe.id] += 1
        self._over(life)
        for channel in self.layout.outlets(life.pe):
            if channel in self._logs:
                self._logs[channel].crash()
        self.to_director(life.pe.id, lambda directing: directing.lost(life.pe.id, life.epoch))
        self._later(life.down, lambda: self._begin(life.pe))

    def _over(self, life: Life) -> None:
        """A life is over, dead or gone back: what it had sent arrives in part, and its neighbours hear of it."""
        life.alive = False
        for wire in self._wires():
            if wire.producer is life:  # some of what it sent still arrives
                for _ in range(self._soon(0, len(wire.queue))):
                    wire.queue.pop()
                self._later(self._soon(100, 30_000), bound(self._gone, wire))
            elif wire.consumer is life:
                wire.queue.clear()
                wire.broken = True
                self._later(self._soon(100, 30_000), bound(self._down, wire))

    def _wires(self) -> list[simulated.Wire]:
        return [wire for life in self.lives.values() for wire in life.wires.values() if not wire.broken]

    def _break(self, channel: ChannelId) -> None:
        """A connection between two elements that live."""
        for wire in self._wires():
            if wire.channel == channel and wire.producer.alive and wire.consumer.alive:
                wire.queue.clear()
                wire.broken = True
                self._later(self._soon(100, 10_000), bound(self._gone, wire))
                self._later(self._soon(100, 10_000), bound(self._down, wire))

    # Lives ------------------------------------------------------------------------------------------------------------

    def _begin(self, pe: Pe) -> None:
        if self._director_host is None:  # nobody can register
            self._later(self._soon(1_000, 10_000), lambda: self._begin(pe))
            return
        before = self.lives.get(pe.id)
        if self._waits(pe):
            self._later(self._soon(1_000, 10_000), lambda: self._begin(pe))
            return
        if before is not None and not before.alive and self.layout.plan(pe).rounds:
            self._director_host.replaced(pe.id, before.epoch)
        assignment = self._director_host.begins(pe.id, before.epoch + 1 if before is not None else 1)
        if assignment is None:
            self._later(self._soon(1_000, 10_000), lambda: self._begin(pe))
        elif self._restoring and before is not None:
            self._later(self._soon(0, self._restoring), bound(self._restored, pe, assignment, self._director_host))
        else:
            self._live(pe, assignment)

    def _restored(self, pe: Pe, assignment: Assignment, told_by: DirectorHost) -> None:
        """Its state is there; a director that has begun since is asked again where that is."""
        if told_by is self._director_host:
            self._live(pe, assignment)
        else:
            self._begin(pe)

    def _waits(self, pe: Pe) -> bool:
        """Whether it has yet to take over from shards that are no more, and cannot now; or dies as it does."""
        layout, log = self.layout, simulated.SimulatedLogs(self.log)
        if layout.change(pe.fragment) is None or self.log(log_of(layout, pe)).records:
            return False
        taking = Takeover(layout, pe, log)
        if not taking.ready:
            return True
        life = Life(self, pe, 0, memory_ledger(ledger_shape(layout, pe)), 0, 0)
        life.doomed_at = self._soon(0, 4) if self._random.integers(2) else None
        try:
            write(taking.founding(), layout, pe, 0, life)
        except Died:
            for channel in layout.outlets(pe):
                self.log(channel).crash()
            return True
        return False

    def _live(self, pe: Pe, assignment: Assignment, gone_back: Element | None = None) -> None:
        """A life begins, in a new process or in that of the one before."""
        before = self.lives.get(pe.id) or (self._after.lives.get(pe.id) if self._after is not None else None)
        epoch = before.epoch + 1 if before is not None else 1
        counted = before.ledger if before is not None and pe.id not in self._unpowered else None
        self._unpowered.discard(pe.id)
        shape = ledger_shape(self.layout, pe)
        if counted is not None and before is not None and pe.id not in self.lives and self._after is not None:
            counted = reshaped(memory_ledger(ledger_shape(self._after.layout, before.pe), counted), shape)
        if counted is not None and counted.shape == shape:
            self.past.setdefault(pe.id, []).append((epoch - 1, counted))
        ledger = memory_ledger(shape, counted).new_life()
        process = before.process if before is not None and gone_back is not None else epoch
        life = Life(self, pe, epoch, ledger, assignment.line, process)
        if pe.id in self._stores:
            life.ledger = ledger = Ledger(shape, cast(memoryview, simulated.Cells(ledger.cells, life.stored)))
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
                assert target is None or loaded[unit] is not None, f"{target} is not there to go back to"
        life.element = Element(
            self.layout,
            pe,
            epoch,
            host=life,
            ledger=ledger,
            clock=self.clock,
            checkpointer=self._checkpointer(pe, epoch),
            loaded=loaded,
            feeds=bound(self._feed, pe),
            rates=self._rates,
            batch_rows=self._batch_rows,
            held_bytes=self._held_bytes,
            before=gone_back,
            cut_everywhere=not self._compiled,
        )
        life.recomputation = Recomputation(
            self.layout, self._past, self.clock, batch_rows=self._batch_rows, held_bytes=self._held_bytes,
            compiled=self._compiled,
        )  # fmt: skip
        self.lives[pe.id] = life
        self._join(life)
        for channel in self.layout.inputs(pe):
            if self.layout.retention(channel) == "log":
                position, _ = life.element.replay_from(channel)
                assert position >= self.released.get(channel, 0), f"{channel} is read again where it may be trimmed"
                self._read[channel] = position
                self._later(self._soon(10, 2000), bound(self._follow, life, channel))
            else:
                for strand in self.layout.strands(channel):
                    self._later(self._soon(100, 20_000), bound(self._connect, strand))
        for channel in self.layout.outputs(pe):
            if self.layout.retention(channel) != "log":
                self._later(self._soon(100, 20_000), bound(self._connect, channel))
        self._later(self._soon(10, 1000), lambda: self._turn(life))

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

    def took(self, life: Life, durable: Durable, size: int) -> None:
        """A checkpoint of this life is on disk."""
        line = life.line
        self.to_director(life.pe.id, lambda directing: directing.took(line, durable, size, 0))

    # Connections ------------------------------------------------------------------------------------------------------

    def opened(self, channel: ChannelId) -> None:
        self._later(self._soon(100, 20_000), bound(self._connect, channel))

    def hung_up(self, wire: simulated.Wire) -> None:
        """A producer that lives has closed its end: what it had sent arrives in part."""
        for _ in range(self._soon(0, len(wire.queue))):
            wire.queue.pop()
        self._later(self._soon(100, 5_000), bound(self._gone, wire))

    def _connect(self, channel: ChannelId) -> None:
        replicated = self.layout.retention(channel) == "remember"
        for pe in self.layout.producers(channel):
            producer = self.lives.get(pe)
            if producer is not None and (not replicated or channel in producer.terms):
                self._connect_with(channel, producer)

    def _connect_with(self, channel: ChannelId, producer: Life) -> None:
        consumer = self.lives.get(self.layout.consumer(channel))
        if consumer is None:
            return
        if not producer.alive:
            if consumer.alive and not consumer.element.heard(channel) and not producer.terms:
                self._handle(consumer, ProducerGone(channel, -1))
            return
        epoch = producer.terms.get(channel, producer.epoch)
        if not consumer.alive:
            if channel not in producer.wires:
                self._handle(producer, ConsumerDown(channel))
            return
        if producer.line != consumer.line:  # one of them has yet to go back
            self._later(self._soon(1_000, 10_000), bound(self._connect, channel))
            return
        old = producer.wires.get(channel)
        if old is not None and old.consumer is consumer and not old.broken:
            return
        if wait := self._stalled(producer, consumer):
            self._later(wait + self._soon(100, 5_000), bound(self._connect, channel))
            return
        if epoch < consumer.newest.get(channel, -1):  # it was replaced, and has yet to hear of it
            self._later(self._soon(5_000, 20_000), bound(self._connect, channel))
            return
        if old is not None:
            old.broken = True
            self._handle(producer, ConsumerDown(channel))
        consumer.newest[channel] = epoch
        for other in self._wires():  # of another replica: what it has sent is read, and then no more
            if other.channel == channel and other.consumer is consumer and other.producer is not producer:
                while other.queue and consumer.alive:
                    consumer.inbox.append(Arrival(channel, other.queue.popleft()))
                other.broken = True
                self._later(self._soon(100, 10_000), bound(self._down, other))
        self._handle(consumer)  # what has arrived counts
        if not (producer.alive and consumer.alive):
            return
        had, expected = consumer.element.had(channel), consumer.element.expected(channel)
        next_ = expected if self.layout.gapless(channel) else None
        producer.wires[channel] = simulated.Wire(channel, producer, consumer, epoch, next_)
        self._handle(producer, ConsumerUp(channel, consumer.epoch, expected, had))

    def _gone(self, wire: simulated.Wire) -> None:
        """The consumer notices that the producer's connection broke, after what still arrived."""
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
        if wire.epoch < consumer.newest[wire.channel]:  # another producer was let in: this connection was closed
            wire.broken = True
            return
        consumer.inbox.append(Arrival(wire.channel, wire.queue.popleft()))
        if self._random.integers(2):  # what comes close together is taken together
            self._later(self._soon(0, 300), lambda: self._handle(consumer))
        else:
            self._handle(consumer)
        self._room(wire)

    def _room(self, wire: simulated.Wire) -> None:
        """A message was taken off a connection."""
        self._handle(wire.producer)

    def acknowledged(self, life: Life, channel: ChannelId, next_: int) -> None:
        producer = self.lives[self.layout.producer(channel)]
        if producer.line != life.line:  # it has gone back since, and the connection with it
            return
        self._later(self._soon(50, 5_000), lambda: self._handle(producer, Acknowledged(channel, next_)))

    # Persistent streams -----------------------------------------------------------------------------------------------

    def log(self, channel: ChannelId) -> MemoryLog:
        if channel not in self._logs:
            self._logs[channel] = MemoryLog(self._fsync)
        return self._logs[channel]

    def flush_logs(self, life: Life) -> None:
        for channel in self.layout.outlets(life.pe):
            if channel in self._logs:
                self._logs[channel].flush()

    def _follow(self, life: Life, channel: ChannelId) -> None:
        """The reader of a log brings what is stable, and looks again."""
        if not life.alive:
            return
        producer = self.lives.get(self.layout.producer(channel))
        if producer is not None and producer.alive and self._random.integers(2):
            self.flush_logs(producer)
        log, at = self.log(self.layout.written(channel)), self._read[channel]
        upto = min(len(log.stable), at + self._soon(1, 12))
        if upto > at and channel not in life.element.unread:
            self._read[channel] = upto
            self._handle(life, *(Arrival(channel, log.stable[index], index + 1) for index in range(at, upto)))
        self._later(self._soon(200, 8_000), lambda: self._follow(life, channel))

    # Time -------------------------------------------------------------------------------------------------------------

    def _turn(self, life: Life) -> None:
        """The loop comes round without anything having come."""
        if life.alive:
            self._handle(life)
            idle = life.alive and life.element.next_due() is None
            self._later(self._soon(2_000, 20_000) if idle else self._soon(200, 3_000), lambda: self._turn(life))

    # What came out ----------------------------------------------------------------------------------------------------

    def sink(self, name: str) -> list[pa.RecordBatch]:
        """Of one in several shards, shard by shard."""
        shards = range(self.layout.graph[name].parallelism)
        return [batch for shard in shards for batch in self.log(sink_channel(name, shard)).rows()]

    def ledgers(self) -> Ledgers:
        return {id_: life.ledger for id_, life in self.lives.items()}

    def all_ledgers(self) -> dict[str, list[tuple[int, Ledger]]]:
        """Of all lives of each element, by epoch."""
        shape = bound(ledger_shape, self.layout)
        lives = {id_: [*self.past.get(id_, ()), (life.epoch, life.ledger)] for id_, life in self.lives.items()}
        return {
            id_: [(epoch, memory_ledger(shape(self.layout.pe(id_)), ledger)) for epoch, ledger in found]
            for id_, found in lives.items()
        }
