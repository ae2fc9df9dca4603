"""The processing element: a fragment's engine, the protocol machine, and what passes between them.

Synchronous, without threads, clock or I/O of its own: a host brings events and time, and takes messages. The same
element runs in a Spark task (`process.py`) and under the simulated host (`simulation.py`).

A host calls, in a loop: `link` for what happened to connections, `receive` for what arrived, `pull` for elements with
sources, `tick` now and then. While `blocked`, some consumer has no room: the host then calls `flush` and takes in
nothing but link events, and so back pressure reaches the sources.

Where several channels meet they are merged by order key, so without faults the outputs are those of the bounded run.
A producer that is down is not waited for, unless its stream is replayed; what it brings later at or below a key that
has already passed is too late, and counts as lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from riprap.base.clock import Clock
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import Loaded
from riprap.engine.engine import Engine, Output
from riprap.graph.keys import END_KEY, OrderKey
from riprap.operators.columns import batch_of, concatenated, keys_of
from riprap.operators.contract import Event, Punctuation
from riprap.protocols import partial
from riprap.protocols.channels import ChannelId
from riprap.protocols.partial import Inlet, Partial
from riprap.runtime.gathering import Gathering
from riprap.runtime.hosting import Arrival, Feed, Host, LinkEvent, Pace
from riprap.runtime.layout import WHOLE, Layout, Pe
from riprap.runtime.ledger import Ledger
from riprap.runtime.messages import Kind, Message
from riprap.runtime.outgoing import Outgoing

_BATCH_ROWS = 65_536
_HELD_BYTES = 64 << 20
_GATHERED = "gathered:"  # marks, among the mergers of a checkpoint, those in front of the engine


class Element:
    """One life of one processing element. `loaded` has the newest good checkpoint of each unit."""

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        epoch: int,
        *,
        host: Host,
        ledger: Ledger,
        clock: Clock,
        checkpointer: Checkpointer | None,
        loaded: Mapping[str, Loaded | None],
        feeds: Callable[[str, int], Feed],
        pace: Pace,
        batch_rows: int = _BATCH_ROWS,
        held_bytes: int = _HELD_BYTES,
    ) -> None:
        self.pe, self.epoch = pe, epoch
        self._layout, self._graph, self._host, self._ledger, self._clock = layout, layout.graph, host, ledger, clock
        self._checkpointer, self._pace, self._batch_rows = checkpointer, pace, batch_rows
        self._recovering = layout.recovers(pe)
        self._engine = Engine(layout.graph, pe.fragment.members, clock=clock)
        self._inputs = layout.inputs(pe)
        self._outgoing = Outgoing(layout, pe, epoch, host, ledger, clock, held_bytes)
        self.latencies = self._outgoing.latencies
        self._gatherings = {
            link.stream.id: Gathering(
                link.stream.id,
                layout.graph.stream_shape(link.stream),
                layout.graph.physical(link.stream.source, link.stream.source_port),
                link.source.shards,
            )
            for link in layout.links
            if link.target == pe.fragment and sum(channel.stream == link.stream.id for channel in self._inputs) > 1
        }
        self._late: set[ChannelId] = set()  # channels whose first rows may be too late
        self._positions: dict[ChannelId, int] = {}  # where a replayed channel's reader would go on
        self._saved: deque[Mapping[str, int]] = deque(maxlen=checkpointer.keep if checkpointer is not None else 1)
        self._sources = [source.name for source in layout.graph.sources if source.name in pe.fragment.members]
        numbers = self._restore(loaded)
        self.machine = Partial(self._inlets(numbers), self._outgoing.outlets(numbers), exact=self._recovering.exact)
        self._outgoing.attach(self.machine)
        self._feeds = {name: feeds(name, ledger[f"source:{name}:position"]) for name in self._sources}

    # Coming back ------------------------------------------------------------------------------------------------------

    def _restore(self, loaded: Mapping[str, Loaded | None]) -> dict[str, int]:
        """Put back what was saved; returns the numbers that a checkpoint had, where they count."""
        numbers: dict[str, int] = {}
        if self._recovering.whole:
            numbers = self._restore_whole(loaded.get(WHOLE))
        else:
            for found in loaded.values():
                for name, state in found.states.items() if found is not None else ():
                    self._engine.operators[name].restore([state])
            for channel in self._inputs:  # what waited in a merge when the life before ended
                waiting = self._ledger[f"in:{channel}:waiting"]
                self._ledger.add(f"in:{channel}:lost", waiting)
                self._ledger.add(f"in:{channel}:received", -waiting)
        for channel in self._inputs:
            self._ledger[f"in:{channel}:waiting"] = 0
        return numbers

    def _restore_whole(self, found: Loaded | None) -> dict[str, int]:
        """Go back to one checkpoint, with its positions and numbers; without one, to the beginning."""
        positions: Mapping[str, int] = {}
        if found is not None:
            positions = found.positions
            found.into(self._engine)
            for stream, gathering in self._gatherings.items():
                gathering.restore(found.mergers[_GATHERED + stream])
            self._saved.append(positions)
        replayed = [channel for channel in self._inputs if self._recovery(channel) == "replay"]
        self._positions = {channel: positions.get(f"in:{channel}:position", 0) for channel in replayed}
        for name in self._sources:
            self._ledger[f"source:{name}:position"] = positions.get(f"source:{name}:position", 0)
        names = [f"in:{channel}:next" for channel in replayed]
        if self._recovering.exact:
            names += [f"out:{channel}:number" for channel in self._outgoing.channels]
        return {name: positions.get(name, 0) for name in names}

    def _inlets(self, numbers: Mapping[str, int]) -> dict[ChannelId, Inlet]:
        inlets = {}
        for channel in self._inputs:
            name = f"in:{channel}:next"
            seen = self._ledger[name]
            inlets[channel] = Inlet(self._recovery(channel), numbers.get(name, seen), seen)
        return inlets

    def replay_from(self, channel: ChannelId) -> tuple[int, int]:
        """Where to read a replayed channel from: the position in its log, and the number of the first item wanted."""
        return self._positions[channel], self.expected(channel)

    def expected(self, channel: ChannelId) -> int:
        """The number of the item that a channel is to bring next."""
        return self.machine.inlets[channel].next

    # What comes in ----------------------------------------------------------------------------------------------------

    def link(self, event: LinkEvent) -> None:
        """Something happened to a connection."""
        if isinstance(event, partial.ConsumerDown):
            self._outgoing.consumer_down(event.channel)
        for command in self.machine.handle(event):
            match command:
                case partial.Await(channel, waited):
                    self._await(channel, waited)
                case partial.Release(channel, below):
                    self._outgoing.release(channel, below)
                case partial.Resend(channel, first):
                    self._outgoing.resend(channel, first)
                case partial.Announce(channel):
                    self._outgoing.announce_again(channel)
        self.flush()

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        """Take what arrived: of one channel in order; between channels keys decide, so they are grouped."""
        by_channel: dict[ChannelId, list[Arrival]] = {}
        for arrival in arrivals:
            by_channel.setdefault(arrival.channel, []).append(arrival)
        for channel, waiting in by_channel.items():
            for arrival in _joined(waiting, self._batch_rows):
                self._arrived(channel, arrival)

    def _arrived(self, channel: ChannelId, arrival: Arrival) -> None:
        message = arrival.message
        before = self.machine.inlets[channel].epoch
        for command in self.machine.handle(partial.Arrived(channel, message.epoch, message.number, message.items)):
            match command:
                case partial.Await(_, waited):
                    self._await(channel, waited)
                case partial.Lose(_, items):
                    self._ledger.add(f"in:{channel}:lost", items)
                case partial.Deliver():
                    if before not in (-1, message.epoch) and self._recovery(channel) != "replay":
                        self._late.add(channel)
                    self._deliver(channel, message, command)
        if arrival.position >= 0:
            self._positions[channel] = arrival.position

    def _deliver(self, channel: ChannelId, message: Message, command: partial.Deliver) -> None:
        ledger, prefix = self._ledger, f"in:{channel}:"
        ledger[prefix + "next"] = max(self.expected(channel), ledger[prefix + "next"])
        ledger.add(prefix + "received", command.fresh)
        ledger.add(prefix + "repeated", command.repeated)
        if message.progress is not None and message.born:
            self._outgoing.births.note(message.progress, message.born)
        event: Event | None = None
        if message.batch is not None:
            event = self._timely(channel, message.batch.slice(command.skip))
        elif message.punctuation is not None:
            event = Punctuation(message.punctuation)
        self._push(channel, event, message.progress, message.born)
        self._count_waiting()
        if self._recovery(channel) == "buffer":
            self._host.acknowledge(channel, self.expected(channel))

    def _timely(self, channel: ChannelId, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that are not too late; after a producer's crash the first ones may be."""
        if channel not in self._late or not batch.num_rows:
            return batch if batch.num_rows else None
        stream = self._layout.link(channel.stream).stream
        gathering = self._gatherings.get(channel.stream)
        reached = gathering.reached if gathering is not None else self._engine.reached(stream.target)
        keys = keys_of(batch, self._graph.stream_shape(stream))
        late = 0
        while late < batch.num_rows and keys.at(late) <= reached:
            late += 1
        self._ledger.add(f"in:{channel}:lost", late)
        self._ledger.add(f"in:{channel}:received", -late)
        if late == batch.num_rows:
            return None
        self._late.discard(channel)
        return batch.slice(late)

    def _push(self, channel: ChannelId, event: Event | None, progress: OrderKey | None, born: int) -> None:
        gathering = self._gatherings.get(channel.stream)
        if gathering is None:
            self._give(channel.stream, event, progress, born)
            return
        *events, last = gathering.put(channel.source, event, progress) or [None]
        for released in events:
            self._give(channel.stream, released, None, born)
        self._give(channel.stream, last, gathering.reached, born)

    def _give(self, entry: str, event: Event | None, progress: OrderKey | None, born: int) -> None:
        """To the engine; and what that causes to the consumers."""
        if event is not None:
            self._give_out(self._engine.push(entry, event, until=progress), born)
        elif progress is not None:
            self._give_out(self._engine.advance(entry, progress), born)

    def _give_out(self, outputs: list[Output], born: int) -> None:
        self._outgoing.give(outputs, born, self._reached)

    def _reached(self, stream_or_sink: str) -> OrderKey:
        if stream_or_sink in self._engine.operators:
            return self._engine.reached(stream_or_sink)
        return self._engine.progress(stream_or_sink)

    def _await(self, channel: ChannelId, waited: bool) -> None:
        gathering = self._gatherings.get(channel.stream)
        if waited:
            self._late.add(channel)
        if gathering is not None:
            for event in gathering.wait_for(channel.source, waited):
                self._give(channel.stream, event, gathering.reached, 0)
            waited = gathering.waited
        self._give_out(self._engine.wait_for(channel.stream, waited), 0)

    def _count_waiting(self) -> None:
        """What would be lost from merges if this life ended now."""
        if len(self._inputs) == 1:
            return
        for channel in self._inputs:
            gathering = self._gatherings.get(channel.stream)
            if gathering is not None:
                self._ledger[f"in:{channel}:waiting"] = gathering.waiting(channel.source)
            else:
                self._ledger[f"in:{channel}:waiting"] = self._engine.waiting_on(channel.stream)

    # Sources ----------------------------------------------------------------------------------------------------------

    def pull(self) -> bool:
        """Take what is due from the sources; False: nothing was."""
        took = False
        for name, feed in list(self._feeds.items()) if self._outgoing.ready else ():
            now = self._clock.now()
            started = self._started(name, now)
            rows = self._pace.rows(started, now, feed.position, self._batch_rows)
            born = self._pace.due(started, now, feed.position)
            batch = feed.next(rows) if rows else None
            if batch is not None:
                took = True
                self._ledger[f"source:{name}:position"] = feed.position
                last = keys_of(batch.slice(batch.num_rows - 1), self._graph.shape(name)).at(0)
                self._outgoing.births.note(last, born)
                self._give_out(self._engine.push(name, batch), born)
            elif feed.ended:
                self._end(name)
        return took

    def _started(self, source: str, now: int) -> int:
        """When the source's row 0 was due; the first look at it decides."""
        slot = f"source:{source}:started_at"
        if not self._ledger[slot]:
            self._ledger[slot] = self._pace.begin(now, self._feeds[source].position)
        return self._ledger[slot]

    def end_sources(self) -> None:
        """Nothing more is taken from the sources."""
        for name in list(self._feeds):
            self._end(name)

    def _end(self, name: str) -> None:
        del self._feeds[name]
        self._give_out(self._engine.end(name), 0)

    def next_due(self) -> int | None:
        """When the next row of a source is due, microseconds of the wall clock; None: no source here goes on."""
        now = self._clock.now()
        due = (self._pace.due(self._started(n, now), now, feed.position + 1) for n, feed in self._feeds.items())
        return min(due, default=None)

    # What goes out ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what there is room for."""
        self._outgoing.flush()

    @property
    def blocked(self) -> bool:
        """Some consumer that is up has no room for what it is to get."""
        return self._outgoing.blocked

    @property
    def ended(self) -> bool:
        """Everything has come, and everything that it caused has left."""
        reached = (self._engine.reached(name) for name in self.pe.fragment.members)
        return all(key == END_KEY for key in reached) and self._outgoing.ended

    # Time -------------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take the checkpoints that are due, and let go of what finished ones make superfluous."""
        checkpointer = self._checkpointer
        if checkpointer is None:
            return
        now = self._clock.now()
        for unit in checkpointer.due(now):
            if unit != WHOLE:
                checkpointer.capture(unit, self._engine, {}, now)
                continue
            self._host.flush()  # its numbers promise that what was kept is there
            gathered = {_GATHERED + stream: gathering.snapshot() for stream, gathering in self._gatherings.items()}
            checkpointer.capture(unit, self._engine, self._all_positions(), now, gathered)
        for saved in checkpointer.finished():
            if saved.unit == WHOLE:
                self._saved.append(saved.positions)
                self._release()

    def _all_positions(self) -> dict[str, int]:
        positions = {f"in:{channel}:position": position for channel, position in self._positions.items()}
        positions |= {f"in:{channel}:next": inlet.next for channel, inlet in self.machine.inlets.items()}
        positions |= {f"out:{channel}:number": outlet.number for channel, outlet in self.machine.outlets.items()}
        return positions | {
            f"source:{name}:position": self._ledger[f"source:{name}:position"] for name in self._sources
        }

    def _release(self) -> None:
        """Logs may forget what the oldest checkpoint that is kept does not need."""
        if len(self._saved) == self._saved.maxlen:
            for channel in self._positions:
                self._host.release(channel, self._saved[0][f"in:{channel}:position"])

    def _recovery(self, channel: ChannelId) -> partial.Recovery:
        return self._layout.link(channel.stream).recovery


def _joined(arrivals: list[Arrival], most: int) -> Iterator[Arrival]:
    """The same items in fewer, larger messages."""
    run: list[Arrival] = []
    rows = 0
    for arrival in arrivals:
        items = arrival.message.items
        if run and (rows + items > most or not _follows(run[-1].message, arrival.message)):
            yield _one(run)
            run, rows = [], 0
        run.append(arrival)
        rows += items
    if run:
        yield _one(run)


def _follows(before: Message, after: Message) -> bool:
    return (
        before.kind is Kind.ROWS
        and after.kind is Kind.ROWS
        and before.epoch == after.epoch
        and before.header == after.header
        and before.number + before.items == after.number
    )


def _one(run: list[Arrival]) -> Arrival:
    if len(run) == 1:
        return run[0]
    batches = [arrival.message.batch for arrival in run if arrival.message.batch is not None]
    joined = batch_of({name: concatenated([b.column(name) for b in batches]) for name in batches[0].schema.names})
    return run[-1]._replace(message=replace(run[0].message, batch=joined, progress=run[-1].message.progress))
