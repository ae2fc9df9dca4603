"""The simulated host with costs: processing, checkpoints and restores take virtual time, and outputs are timed.

In `simulation.py` work costs nothing, which suits correctness but not timing. Here an element that processes a message
is *busy* for the cost of its rows, and later messages wait in the channel, as in a run, so that a slow element exerts
back pressure. A checkpoint keeps its element busy while it is copied and is durable when it is written; a new
incarnation is busy while its state is read.

Rates can be divided by a factor, so that hours of a cluster fit into seconds of one process: there are that many times
fewer rows, and each costs that many times more. Latencies, rounds, recovery and CPU shares stay the same; messages are
smaller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial as bound
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from riprap.graph.graph import Graph
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Durable
from riprap.runtime.host import Arrival, HostEvent
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message
from riprap.testing.simulated import ListFeed, MemoryLog, Wire
from riprap.testing.simulated_incarnation import ROOM, SimulatedIncarnation
from riprap.testing.simulation import Simulation

_EVENTS = 32  # between checks whether everything has ended
_FOLLOWED = (200, 8_000)  # microseconds until a log follower sees an append
_APART = 10_000  # microseconds between batches of a source
_READ_AT_ONCE = 12  # messages
_LOOK = (10_000, 30_000)  # microseconds between iterations of an idle element


@dataclass(frozen=True)
class Costs:
    """Microseconds, unless noted. Round figures, of the order of runs on two cores."""

    row: Mapping[str, float]  # by kind of operator
    operators: Mapping[str, float] = field(default_factory=dict)  # by name, if measured
    message: float = 150.0  # of an element, from socket to socket, without its operators
    copy: float = 0.001  # per byte of a checkpoint
    write: float = 0.005  # per byte of a checkpoint: 200 MB/s
    sync: float = 3_000.0  # of a checkpoint, whatever its size
    restart: float = 650_000.0  # from the death of a process until its successor has registered
    restore: float = 40_000.0  # of a state, whatever its size
    read: float = 0.005  # per byte of it

    def of(self, graph: Graph, pe: Pe) -> float:
        """The cost of an input row of an element, if it passed all its operators."""
        return sum(self.operators.get(name, self.row.get(graph[name].kind, 0.3)) for name in pe.fragment.members)


ROWS = {"source": 0.05, "sink": 0.05, "functor": 0.05, "union": 0.05, "split": 0.1, "aggregate": 0.3, "join": 0.6}


class TimedOutput(NamedTuple):
    """Rows that reached a sink."""

    at: int  # microseconds of the virtual clock
    rows: int
    born: int  # when their trigger was due at its source


class TimedLog(MemoryLog):
    """A persistent stream that records when its rows arrived; rows that a crash removes do not count.

    `appended` is called after each append, for the log's follower.
    """

    def __init__(self, now: Callable[[], int], appended: Callable[[], None]) -> None:
        super().__init__()
        self._now, self._appended = now, appended
        self._arrived: list[tuple[int, TimedOutput]] = []  # with the number after the last row

    def append(self, message: Message, record: bytes = b"") -> None:
        before = self.next
        super().append(message, record)
        if self.next > before and message.batch is not None:
            self._arrived.append((self.next, TimedOutput(self._now(), self.next - before, message.born)))
        self._appended()

    def crash(self) -> None:
        super().crash()
        while self._arrived and self._arrived[-1][0] > self.next:
            self._arrived.pop()

    @property
    def outputs(self) -> list[TimedOutput]:
        return [output for _, output in self._arrived]


class TimedFeed(ListFeed):
    """Emits due rows in batches at intervals, not row by row."""

    def __init__(self, now: Callable[[], int], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._now, self._emitted_at = now, 0

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        if self._now() - self._emitted_at < _APART:
            return None
        self._emitted_at = self._now()
        return super().next(max_rows)


class TimedSimulation(Simulation):
    """`slower`: the factor by which each row costs more, because there are that many times fewer."""

    def __init__(
        self, layout: Layout, inputs: Mapping[str, Any], costs: Costs, *, slower: float = 1.0, **more: Any
    ) -> None:
        self._costs, self._slower = costs, slower
        self._busy: dict[SimulatedIncarnation, int] = {}  # until when
        self._woken: set[SimulatedIncarnation] = set()  # busy ones with a scheduled wake-up
        self._followed: dict[ChannelId, SimulatedIncarnation] = {}  # followers that wait for an append
        self._draws = Random(more["seed"])
        self._handled = 0
        self._work = {pe.id: costs.of(layout.graph, pe) * slower for pe in layout.pes}
        super().__init__(layout, inputs, **more)

    def outputs(self, sink: str) -> list[TimedOutput]:
        """Of all its shards."""
        logs = [log for channel, log in self._logs.items() if channel.stream == sink and isinstance(log, TimedLog)]
        return [output for log in logs for output in log.outputs]

    def log(self, channel: ChannelId) -> MemoryLog:
        if channel not in self._logs:
            self._logs[channel] = TimedLog(self.clock.now, bound(self._appended, channel))
        return self._logs[channel]

    # Cheaper than in `simulation.py`: no polling for rare changes -----------------------------------------------------

    def _feed(self, pe: Pe, source: str, position: int) -> ListFeed:
        return TimedFeed(self.clock.now, self.inputs[source], position, pe.shard, pe.fragment.shards)

    def _soon(self, least: int, most: int) -> int:
        return least + int(self._draws.random() * (most - least + 1))

    def _ended(self) -> bool:
        self._handled += 1
        return self._handled % _EVENTS == 0 and super()._ended()

    def _room(self, wire: Wire) -> None:
        if len(wire.queue) == ROOM - 1:  # the channel was full
            self._handle(wire.producer)

    def _follow(self, incarnation: SimulatedIncarnation, channel: ChannelId) -> None:
        """A follower that has read a log to its end continues at the next append."""
        if not incarnation.alive:
            return
        left, log, at = self._left(incarnation), self.log(channel), self._read[channel]
        if left > 0:
            self._later(left, bound(self._follow, incarnation, channel))
            return
        if self.incarnations[self.layout.producer(channel)].alive:
            log.flush()
        end = min(len(log.stable), at + _READ_AT_ONCE)
        if end > at and channel not in incarnation.element.unread:
            self._read[channel] = end
            self._handle(incarnation, *(Arrival(channel, log.stable[index], index + 1) for index in range(at, end)))
        if len(log.stable) > self._read[channel]:
            self._later(self._soon(*_FOLLOWED), bound(self._follow, incarnation, channel))
        else:
            self._followed[channel] = incarnation

    def _appended(self, channel: ChannelId) -> None:
        if channel in self._followed:
            self._later(self._soon(*_FOLLOWED), bound(self._follow, self._followed.pop(channel), channel))

    # Work takes time --------------------------------------------------------------------------------------------------

    def _left(self, incarnation: SimulatedIncarnation) -> int:
        return self._busy.get(incarnation, 0) - self.clock.time

    def _handle(self, incarnation: SimulatedIncarnation, *events: HostEvent) -> None:
        left = self._left(incarnation)
        if left > 0:
            incarnation.inbox += events
            if incarnation.alive and incarnation not in self._woken:
                self._woken.add(incarnation)
                self._later(left, bound(self._wake, incarnation))
            return
        taken = [event.message for event in (*incarnation.inbox, *events) if isinstance(event, Arrival)]
        before = sum(source.position for source in incarnation.ledger.sources.values())
        super()._handle(incarnation, *events)
        pulled = max(sum(source.position for source in incarnation.ledger.sources.values()) - before, 0)
        rows = sum(message.items for message in taken) + pulled
        if taken or pulled:
            self._work_for(
                incarnation, rows * self._work[incarnation.pe.id] + self._costs.message * (len(taken) + (pulled > 0))
            )

    def _work_for(self, incarnation: SimulatedIncarnation, cost: float) -> None:
        self._busy[incarnation] = max(self._busy.get(incarnation, 0), self.clock.time) + int(cost)

    def _wake(self, incarnation: SimulatedIncarnation) -> None:
        self._woken.discard(incarnation)
        self._handle(incarnation)

    def _deliver(self, wire: Wire) -> None:
        left = self._left(wire.consumer)
        if left > 0 and not wire.broken and wire.queue and wire.consumer.alive:
            self._later(left, bound(self._deliver, wire))
        else:
            super()._deliver(wire)

    def _iterate(self, incarnation: SimulatedIncarnation) -> None:
        if incarnation.alive:
            self._handle(incarnation)
            self._later(self._soon(*_LOOK), bound(self._iterate, incarnation))

    # Checkpoints and incarnations -------------------------------------------------------------------------------------

    def took(self, incarnation: SimulatedIncarnation, durable: Durable, size: int) -> None:
        """A checkpoint was copied; it is durable when it is written."""
        size = int(size * self._slower)
        self._work_for(incarnation, size * self._costs.copy)
        line, taken = incarnation.line, int(self._costs.sync + size * self._costs.write)

        def written() -> None:
            if incarnation.alive:
                self.to_director(incarnation.pe.id, lambda host: host.took(line, durable, size, taken))

        self._later(taken, written)

    def _start_incarnation(self, pe: Pe, *arguments: Any) -> None:
        super()._start_incarnation(pe, *arguments)
        sizes = [checkpoint.bytes for checkpoint in self.history.checkpoints.values() if checkpoint.id.pe == pe.id]
        self._work_for(self.incarnations[pe.id], self._costs.restore + (sizes[-1] if sizes else 0) * self._costs.read)
