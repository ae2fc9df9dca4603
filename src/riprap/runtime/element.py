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

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from riprap.base.clock import Clock
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import Loaded
from riprap.engine.engine import Engine, Output
from riprap.engine.merger import MergerState, behind_trigger
from riprap.graph.keys import END_KEY, START_KEY, OrderKey
from riprap.operators.columns import Keys, batch_of, concatenated, keys_of
from riprap.operators.contract import Event, Punctuation
from riprap.protocols import events, partial
from riprap.protocols.channels import ChannelId
from riprap.protocols.partial import Inlet, Partial
from riprap.runtime.gathering import Gathering
from riprap.runtime.hosting import Arrival, Feed, Host, LinkEvent, Pace
from riprap.runtime.intake import Intake
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
        exact = self._recovering.exact
        self._outgoing = Outgoing(layout, pe, epoch, host, ledger, clock, held_bytes, exact=exact)
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
        self._merged = {  # channels whose items wait for others
            channel
            for channel in self._inputs
            if channel.stream in self._gatherings or len(layout.graph.inputs(self._target(channel))) > 1
        }
        self._late = set(self._merged)  # channels whose first items may be too late: another life did not wait for them
        self._before: dict[str, OrderKey] = {}  # how far the inputs of operators had come in another life
        self._saved: deque[Mapping[str, int]] = deque(maxlen=checkpointer.keep if checkpointer is not None else 1)
        self._sources = [source.name for source in layout.graph.sources if source.name in pe.fragment.members]
        self._over = False  # sources take nothing new
        numbers = self._restore_whole(loaded.get(WHOLE)) if self._recovering.whole else self._restore_parts(loaded)
        self._intakes = {
            channel: Intake(
                numbers.get(f"in:{channel}:next", ledger[f"in:{channel}:next"]),
                numbers.get(f"in:{channel}:position", -1),
            )
            for channel in self._inputs
        }
        inlets = {channel: Inlet(self._recovery(channel), intake.next) for channel, intake in self._intakes.items()}
        self.machine = Partial(inlets, self._outgoing.outlets(numbers))
        self._outgoing.attach(self.machine, self._reached)
        slots = {name: f"source:{name}:position" for name in self._sources}
        self._taken = {name: numbers.get(slot, ledger[slot]) for name, slot in slots.items()}  # rows, by source
        self._feeds = {name: feeds(name, position) for name, position in self._taken.items()}

    # Coming back ------------------------------------------------------------------------------------------------------

    def _restore_parts(self, loaded: Mapping[str, Loaded | None]) -> dict[str, int]:
        """Each operator goes back to a checkpoint of its own; its input goes on."""
        for found in loaded.values():
            for name, state in found.states.items() if found is not None else ():
                self._engine.operators[name].restore([state])
        self._before = {name: self._ledger.key(f"at:{name}") for name in map(self._target, self._merged)}
        return {}

    def _restore_whole(self, found: Loaded | None) -> dict[str, int]:
        """Go back to one checkpoint; without one, to the beginning. Gives its positions and numbers, where they count.

        What waited in front of the operators comes again, from logs, or is lost.
        """
        positions: Mapping[str, int] = {}
        if found is not None:
            positions = found.positions
            replace(found, mergers=self._emptied(found)).into(self._engine)
            self._saved.append(positions)
        numbers = [f"source:{name}:position" for name in self._sources]
        for channel in self._inputs:
            if self._recovery(channel) == "replay":
                numbers += [f"in:{channel}:next", f"in:{channel}:position"]
        if self._recovering.exact:
            numbers += [f"out:{channel}:number" for channel in self._outgoing.channels]
        return {name: positions.get(name, 0) for name in numbers}

    def _emptied(self, found: Loaded) -> dict[str, MergerState]:
        """The engine's mergers of a checkpoint, without what waited in those that streams from outside lead to."""
        mergers = dict(found.mergers)
        for link in self._layout.links:
            if link.target != self.pe.fragment:
                continue
            stream, target = link.stream, link.stream.target
            again = {  # what a log brings again is not in the past yet; producers that are connected tell theirs anew
                channel.source: link.recovery != "replay" or found.positions[f"in:{channel}:waits"] > 0
                for channel in self._inputs
                if channel.stream == stream.id
            }
            reached = found.progress[target]
            if target in mergers:
                mergers[target] = mergers[target].emptied(
                    stream.target_port, reached if any(again.values()) else END_KEY
                )
            if stream.id in self._gatherings:
                gathered = mergers.pop(_GATHERED + stream.id)
                for shard, comes_again in again.items():
                    gathered = gathered.emptied(shard, reached if comes_again else END_KEY)
                self._gatherings[stream.id].restore(gathered)
        return mergers

    def replay_from(self, channel: ChannelId) -> tuple[int, int]:
        """Where to read a replayed channel from: the position in its log, and the number of the first item wanted."""
        intake = self._intakes[channel]
        return intake.position, intake.next

    def expected(self, channel: ChannelId) -> int:
        """The number of the item that a producer is to bring next. What waits is had when the operators have had it."""
        return self._intakes[channel].next

    # What comes in ----------------------------------------------------------------------------------------------------

    def link(self, event: LinkEvent) -> None:
        """Something happened to a connection."""
        if isinstance(event, events.ConsumerDown):
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
        for command in self.machine.handle(partial.Arrived(channel, message.epoch, message.number, message.items)):
            match command:
                case partial.Await(_, waited):
                    self._await(channel, waited)
                case partial.Deliver(_, skip):
                    self._deliver(channel, message, skip, arrival.position)

    def _deliver(self, channel: ChannelId, message: Message, skip: int, position: int) -> None:
        if message.progress is not None and message.born:
            self._outgoing.births.note(message.progress, message.born)
        event: Event | None = None
        if message.batch is not None and skip < message.items:
            event = message.batch.slice(skip)
        elif message.punctuation is not None and skip == 0:
            event = Punctuation(message.punctuation)
        timely, keys = self._timely(channel, event) if event is not None else (None, None)
        end = message.number + message.items
        first = end - len(keys.ts) if keys is not None else end
        self._intakes[channel].came(first, keys, end, position)
        self._settle(self._push(channel, timely, message.progress), message.born)

    def _timely(self, channel: ChannelId, event: Event) -> tuple[Event | None, Keys | None]:
        """What of it is not too late, and its keys. After a crash the first items of a channel may be."""
        stream = self._layout.link(channel.stream).stream
        if isinstance(event, Punctuation):
            key = behind_trigger(event.key) if channel.stream in self._gatherings else event.key
            keys = Keys(*(np.array([part], np.int64) for part in key))
        else:
            keys = keys_of(event, self._graph.stream_shape(stream))
        if channel not in self._late or self._recovery(channel) == "replay":
            return event, keys
        reached = max(self._engine.reached(stream.target), self._before.get(stream.target, START_KEY))
        if channel.stream in self._gatherings:
            reached = max(reached, self._gatherings[channel.stream].reached)
        count = len(keys.ts)
        late = bisect_right(range(count), reached, key=keys.at)
        if late == count:
            return None, None
        self._late.discard(channel)
        timely = event if isinstance(event, Punctuation) else event.slice(late)
        return timely, keys.rows(np.arange(late, count))

    def _push(self, channel: ChannelId, event: Event | None, progress: OrderKey | None) -> list[Output]:
        gathering = self._gatherings.get(channel.stream)
        if gathering is None:
            return self._give(channel.stream, [] if event is None else [event], progress)
        outputs = self._give(channel.stream, gathering.put(channel.source, event, progress), gathering.reached)
        return outputs + self._engine.wait_for(channel.stream, gathering.waited)

    def _give(self, entry: str, events: list[Event], progress: OrderKey | None) -> list[Output]:
        """To the engine."""
        outputs: list[Output] = []
        for event in events[:-1]:
            outputs += self._engine.push(entry, event)
        if events:
            outputs += self._engine.push(entry, events[-1], until=progress)
        elif progress is not None:
            outputs += self._engine.advance(entry, progress)
        return outputs

    def _await(self, channel: ChannelId, waited: bool) -> None:
        gathering = self._gatherings.get(channel.stream)
        outputs: list[Output] = []
        if waited:
            self._late.add(channel)
        if gathering is not None:
            released = gathering.wait_for(channel.source, waited)
            outputs += self._give(channel.stream, released, gathering.reached)
            waited = gathering.waited
        self._settle(outputs + self._engine.wait_for(channel.stream, waited), 0)

    def _settle(self, outputs: list[Output], born: int) -> None:
        """After the engine has worked: note what its operators have had, then let out what they gave.

        In this order, and nothing in between: so a crash at any effect finds the ledger true.
        """
        taken = [channel for channel, intake in self._intakes.items() if self._note(channel, intake)]
        for name, key in self._before.items():
            reached = self._engine.reached(name)
            if reached > key:
                self._before[name] = reached
                self._ledger.set_key(f"at:{name}", reached)
        self._outgoing.give(outputs, born, self._reached)
        for channel in taken:
            if self._recovery(channel) == "buffer":
                self._host.acknowledge(channel, self._intakes[channel].next)

    def _note(self, channel: ChannelId, intake: Intake) -> bool:
        """Bring a channel's numbers in the ledger up to date; whether they changed."""
        before = intake.next
        reached = self._engine.reached(self._target(channel)) if channel in self._merged else END_KEY
        passed = intake.passed(reached)
        if intake.next == before:
            return False
        name = f"in:{channel}:"
        had = self._ledger[name + "next"]
        fresh = sum(max(0, numbers.stop - max(numbers.start, had)) for numbers in passed)
        again = sum(map(len, passed)) - fresh
        following = max(had, intake.next)
        self._ledger[name + "next"] = following
        if following - had > fresh:
            self._ledger.add(name + "missed", following - had - fresh)
        if again and not self._recovering.exact:
            self._ledger.add(name + "repeated", again)
        return True

    def _reached(self, stream_or_sink: str) -> OrderKey:
        if stream_or_sink in self._engine.operators:
            return self._engine.reached(stream_or_sink)
        return self._engine.progress(stream_or_sink)

    # Sources ----------------------------------------------------------------------------------------------------------

    def pull(self) -> bool:
        """Take what is due from the sources; False: nothing was."""
        took = False
        for name, feed in list(self._feeds.items()) if self._outgoing.ready else ():
            now = self._clock.now()
            started = self._started(name, now)
            slot = f"source:{name}:position"
            # At the end of the run: what another life took, and this one has gone back behind, has been sent on.
            most = min(self._batch_rows, self._ledger[slot] - feed.position) if self._over else self._batch_rows
            rows = self._pace.rows(started, now, feed.position, most)
            born = min(now, self._pace.due(started, now, feed.position + rows // 2))  # of its middle tuple
            batch = feed.next(rows) if rows else None
            if batch is not None:
                took = True
                self._taken[name] = feed.position
                self._ledger[slot] = max(feed.position, self._ledger[slot])
                last = keys_of(batch.slice(batch.num_rows - 1), self._graph.shape(name)).at(0)
                self._outgoing.births.note(last, born)
                self._settle(self._engine.push(name, batch), born)
            elif feed.ended or (self._over and most <= 0):
                del self._feeds[name]
                self._settle(self._engine.end(name), 0)
        return took

    def _started(self, source: str, now: int) -> int:
        """When the source's row 0 was due; the first look at it decides."""
        slot = f"source:{source}:started_at"
        if not self._ledger[slot]:
            self._ledger[slot] = self._pace.begin(now, self._feeds[source].position)
        return self._ledger[slot]

    def end_sources(self) -> None:
        """The sources take nothing new; `pull` tells their end when it comes there."""
        self._over = True

    def next_due(self) -> int | None:
        """When to look at the sources again, microseconds of the wall clock; None: no source here goes on."""
        now = self._clock.now()
        looks = (self._pace.next_look(self._started(n, now), now, feed.position) for n, feed in self._feeds.items())
        return min(looks, default=None)

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
        positions = {f"source:{name}:position": position for name, position in self._taken.items()}
        for channel, intake in self._intakes.items():
            positions[f"in:{channel}:next"] = intake.next
            positions[f"in:{channel}:position"] = intake.position
            positions[f"in:{channel}:waits"] = int(intake.waits)
        return positions | {f"out:{channel}:number": outlet.number for channel, outlet in self.machine.outlets.items()}

    def _release(self) -> None:
        """Logs may forget what the oldest checkpoint that is kept does not need."""
        if len(self._saved) == self._saved.maxlen:
            for channel in self._inputs:
                if self._recovery(channel) == "replay":
                    self._host.release(channel, self._saved[0][f"in:{channel}:position"])

    def _recovery(self, channel: ChannelId) -> partial.Recovery:
        return self._layout.link(channel.stream).recovery

    def _target(self, channel: ChannelId) -> str:
        return self._layout.link(channel.stream).stream.target


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
