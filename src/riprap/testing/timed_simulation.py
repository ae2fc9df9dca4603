"""The simulated host with costs: processing, checkpoints and restores take virtual time, and outputs are timed.

In `simulation.py` work costs nothing, which is right for what may happen and wrong for how long it takes. Here an
element that works on a message is *busy* for as long as its rows cost, and what comes meanwhile waits where it would in
a run: on its way, so that a slow element exerts back pressure. A checkpoint keeps its element busy while it is copied
and is durable when it is written; a life that begins is busy while its state is read.

Rates can be divided by a factor, so that hours of a cluster fit into seconds of one process: there are so many times
fewer rows, and each costs so many times more. Latencies, rounds, recovery and the share of a core that everything takes
stay as they are; messages are smaller.
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
from riprap.testing.simulated_life import ROOM, Life
from riprap.testing.simulation import Simulation

_EVENTS = 32  # between looks at whether everything has ended
_FOLLOWED = (200, 8_000)  # microseconds until who follows a log has what was kept in it
_APART = 10_000  # microseconds between batches of a source
_READ_AT_ONCE = 12  # messages
_LOOK = (10_000, 30_000)  # microseconds between looks of an element at what is due


@dataclass(frozen=True)
class Costs:
    """Microseconds, unless they say otherwise. Round figures, of the order that runs on two cores show."""

    row: Mapping[str, float]  # by kind of operator
    operators: Mapping[str, float] = field(default_factory=dict)  # the same by name, where it was measured
    message: float = 150.0  # of an element, from socket to socket, beside its operators
    copy: float = 0.001  # per byte of a checkpoint
    write: float = 0.005  # per byte of a checkpoint: 200 MB/s
    sync: float = 3_000.0  # of a checkpoint, whatever its size
    restart: float = 650_000.0  # from the death of a process until its successor has registered
    restore: float = 40_000.0  # of a state, whatever its size
    read: float = 0.005  # per byte of it

    def of(self, graph: Graph, pe: Pe) -> float:
        """Of a row that an element takes in, were it to pass all its operators."""
        return sum(self.operators.get(name, self.row.get(graph[name].kind, 0.3)) for name in pe.fragment.members)


ROWS = {"source": 0.05, "sink": 0.05, "functor": 0.05, "union": 0.05, "split": 0.1, "aggregate": 0.3, "join": 0.6}


class TimedOutput(NamedTuple):
    """Rows that reached a sink."""

    at: int  # microseconds of the virtual clock
    rows: int
    born: int  # when what caused them was due at its source


class TimedLog(MemoryLog):
    """A persistent stream that remembers when its rows came; what a crash takes from it did not come.

    `kept` is called when there is something for whoever follows it.
    """

    def __init__(self, now: Callable[[], int], kept: Callable[[], None]) -> None:
        super().__init__()
        self._now, self._kept = now, kept
        self._came: list[tuple[int, TimedOutput]] = []  # with the number behind the last row

    def keep(self, message: Message, record: bytes = b"") -> None:
        before = self.next
        super().keep(message, record)
        if self.next > before and message.batch is not None:
            self._came.append((self.next, TimedOutput(self._now(), self.next - before, message.born)))
        self._kept()

    def crash(self) -> None:
        super().crash()
        while self._came and self._came[-1][0] > self.next:
            self._came.pop()

    @property
    def outputs(self) -> list[TimedOutput]:
        return [output for _, output in self._came]


class TimedFeed(ListFeed):
    """Gives out what is due now and then, not row by row."""

    def __init__(self, now: Callable[[], int], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._now, self._gave = now, 0

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        if self._now() - self._gave < _APART:
            return None
        self._gave = self._now()
        return super().next(max_rows)


class TimedSimulation(Simulation):
    """`slower`: how many times more a row costs, because there are so many times fewer."""

    def __init__(
        self, layout: Layout, inputs: Mapping[str, Any], costs: Costs, *, slower: float = 1.0, **more: Any
    ) -> None:
        self._costs, self._slower = costs, slower
        self._busy: dict[Life, int] = {}  # until when
        self._woken: set[Life] = set()  # those that look again as soon as they are not
        self._followed: dict[ChannelId, Life] = {}  # who waits for something in a log
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
            self._logs[channel] = TimedLog(self.clock.now, bound(self._kept, channel))
        return self._logs[channel]

    # Cheaper than in `simulation.py`: nobody asks often for what seldom changes ---------------------------------------

    def _feed(self, pe: Pe, source: str, position: int) -> ListFeed:
        return TimedFeed(self.clock.now, self.inputs[source], position, pe.shard, pe.fragment.shards)

    def _soon(self, least: int, most: int) -> int:
        return least + int(self._draws.random() * (most - least + 1))

    def _ended(self) -> bool:
        self._handled += 1
        return self._handled % _EVENTS == 0 and super()._ended()

    def _room(self, wire: Wire) -> None:
        if len(wire.queue) == ROOM - 1:  # there was none
            self._handle(wire.producer)

    def _follow(self, life: Life, channel: ChannelId) -> None:
        """Who has read a log to its end looks again when something comes."""
        if not life.alive:
            return
        left, log, at = self._left(life), self.log(channel), self._read[channel]
        if left > 0:
            self._later(left, bound(self._follow, life, channel))
            return
        if self.lives[self.layout.producer(channel)].alive:
            log.flush()
        upto = min(len(log.stable), at + _READ_AT_ONCE)
        if upto > at and channel not in life.element.unread:
            self._read[channel] = upto
            self._handle(life, *(Arrival(channel, log.stable[index], index + 1) for index in range(at, upto)))
        if len(log.stable) > self._read[channel]:
            self._later(self._soon(*_FOLLOWED), bound(self._follow, life, channel))
        else:
            self._followed[channel] = life

    def _kept(self, channel: ChannelId) -> None:
        if channel in self._followed:
            self._later(self._soon(*_FOLLOWED), bound(self._follow, self._followed.pop(channel), channel))

    # Work takes time --------------------------------------------------------------------------------------------------

    def _left(self, life: Life) -> int:
        return self._busy.get(life, 0) - self.clock.time

    def _handle(self, life: Life, *events: HostEvent) -> None:
        left = self._left(life)
        if left > 0:
            life.inbox += events
            if life.alive and life not in self._woken:
                self._woken.add(life)
                self._later(left, bound(self._wake, life))
            return
        taken = [event.message for event in (*life.inbox, *events) if isinstance(event, Arrival)]
        before = sum(source.position for source in life.ledger.sources.values())
        super()._handle(life, *events)
        pulled = max(sum(source.position for source in life.ledger.sources.values()) - before, 0)
        rows = sum(message.items for message in taken) + pulled
        if taken or pulled:
            self._work_for(life, rows * self._work[life.pe.id] + self._costs.message * (len(taken) + (pulled > 0)))

    def _work_for(self, life: Life, cost: float) -> None:
        self._busy[life] = max(self._busy.get(life, 0), self.clock.time) + int(cost)

    def _wake(self, life: Life) -> None:
        self._woken.discard(life)
        self._handle(life)

    def _deliver(self, wire: Wire) -> None:
        left = self._left(wire.consumer)
        if left > 0 and not wire.broken and wire.queue and wire.consumer.alive:
            self._later(left, bound(self._deliver, wire))
        else:
            super()._deliver(wire)

    def _turn(self, life: Life) -> None:
        if life.alive:
            self._handle(life)
            self._later(self._soon(*_LOOK), bound(self._turn, life))

    # Checkpoints and lives --------------------------------------------------------------------------------------------

    def took(self, life: Life, durable: Durable, size: int) -> None:
        """A checkpoint was copied; it is durable when it is written."""
        size = int(size * self._slower)
        self._work_for(life, size * self._costs.copy)
        line, taken = life.line, int(self._costs.sync + size * self._costs.write)

        def written() -> None:
            if life.alive:
                self.to_director(life.pe.id, lambda directing: directing.took(line, durable, size, taken))

        self._later(taken, written)

    def _live(self, pe: Pe, *arguments: Any) -> None:
        super()._live(pe, *arguments)
        sizes = [one.bytes for one in self.history.checkpoints.values() if one.id.pe == pe.id]
        self._work_for(self.lives[pe.id], self._costs.restore + (sizes[-1] if sizes else 0) * self._costs.read)
