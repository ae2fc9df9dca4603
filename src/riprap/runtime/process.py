"""A processing element as a process: its lives, its connections, its logs, and the loop around them.

One thread takes a message from socket to socket: `Transport.poll`, `Element.handle`, and again. Beside it are log
followers, the checkpoint writer, and the signs of life; they meet the loop at the transport's mailbox.

When the director says so the process begins another life, from a checkpoint and with a new epoch, without dying: logs,
ledger and checkpoints are opened anew, connections are dropped, everything else stays.

An element that has ended stays until the whole run has: a consumer that dies in the meantime asks its producers for
the end again.
"""

import gc
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError, RiprapError
from riprap.base.memory import keep_memory
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import Loaded, load
from riprap.checkpoints.storage import LocalStorage
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ConsumerDown, Durable, ProducerGone
from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.beats import Heartbeats
from riprap.runtime.coordination.client import Client, CoordinatorLost, Incarnation
from riprap.runtime.coordination.element_metrics import ElementMetrics, checkpoint_metrics
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.roster import ElementFenced
from riprap.runtime.corruption import CorruptionRequest, asked, done
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import Ledger, ledger_shape, open_ledger, read_ledger
from riprap.runtime.feed import Feed
from riprap.runtime.host import NOTHING_MISSING, Arrival, HostEvent
from riprap.runtime.idle import IdleFeed
from riprap.runtime.input_hold import InputHold
from riprap.runtime.layout import Pe
from riprap.runtime.logs import LogFollower, LogSender
from riprap.runtime.messages import Message
from riprap.runtime.recomputation import Recomputation
from riprap.runtime.run_context import Run
from riprap.runtime.shelf import StreamShelf
from riprap.runtime.spending import Meter
from riprap.runtime.spill import LogSpill
from riprap.runtime.stored_history import StoredLogs, StoredPast, feed_of, log_path
from riprap.runtime.stripes import below
from riprap.runtime.takeover import Takeover, takes_over, write
from riprap.runtime.transport.outlets import Outlet
from riprap.runtime.transport.transport import Transport
from riprap.runtime.unsaved import MEASURED, unsaved, warning

_TICK = 0.02  # seconds between looks at what is due, and the longest that the loop sleeps
_ASKED = 0.1  # seconds between looks at what somebody asks for in a file
_TURN = 0.2  # seconds of input that are recomputed in one turn of what is above
_HELD = 1.0  # seconds between looks at how much of its inputs it may need again
_AT_ONCE = 0.05  # seconds of such turns in one turn of the loop


def run_element(run: Run, pe_id: str, attempt: int, executor_pid: int) -> None:
    """The body of a task: from registration until the run is over. An exception ends the run and is shown."""
    keep_memory()
    wakes: list[Callable[[], None]] = []

    def wake() -> None:
        for one in list(wakes):
            one()

    client = Client(run, pe_id, attempt, executor_pid, wake)
    try:
        beginning = client.register()
        _Process(run, run.layout.pe(pe_id), client, wakes, first=client.first).run(beginning)
    except (CoordinatorLost, ElementFenced):
        return  # the run is over, or another life has taken this one's place
    except Exception as error:
        with suppress(CoordinatorLost, ElementFenced):
            if isinstance(error, RiprapError):
                client.failed(str(error), error.exit_code)
            else:
                client.failed(f"{_named(error)}\n{traceback.format_exc()}")
    finally:
        client.close()


def _rows_at_once(run: Run) -> int:
    """Rows that a source recomputes in one turn: few enough to stop soon behind what is missing, and to give signs."""
    rates = run.rate.values() if isinstance(run.rate, Mapping) else () if run.rate is None else (run.rate,)
    rows = max((int(rate * _TURN) for rate in rates), default=run.batch_rows)
    return max(1, min(rows, run.batch_rows))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Process:
    """The host of the lives of one element: where their effects go."""

    def __init__(self, run: Run, pe: Pe, client: Client, wakes: list[Callable[[], None]], *, first: bool) -> None:
        self._run, self._pe, self._client, self._wakes = run, pe, client, wakes
        self._first = first  # nobody can have died before
        self._clock: Clock = SYSTEM_CLOCK
        self._warnings: list[str] = []
        self._feeds: dict[str, Feed | IdleFeed] = {}
        self._epoch = self._line = 0
        self._logs: dict[ChannelId, LogSender] = {}
        self._followers: dict[ChannelId, LogFollower] = {}
        self._shelves: dict[ChannelId, StreamShelf] = {}
        self._spills: list[LogSpill] = []
        self._checkpointer: Checkpointer | None = None
        self._element: Element
        self._before: Element | None = None  # the life that goes back
        self._recomputation: Recomputation
        self._inputs_held = InputHold(run, pe, self.warn)
        self._foretold = False  # how long a recovery would take, where it grows with the history
        self._unheard: list[ChannelId] = []  # of whose producers nothing is known yet
        self._request: CorruptionRequest | None = None  # a corruption that waits for its tuple
        self._ledger: Ledger
        self._meter: Meter
        self._transport: Transport

    # Effects of the element -------------------------------------------------------------------------------------------

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        return self._transport.send(channel, message, after)

    def open(self, channel: ChannelId, epoch: int) -> None:
        self._transport.open(channel, epoch)
        if self._client.find(self._run.layout.consumer(channel), 0, 0.0) is None:
            self._transport.post(ConsumerDown(channel))

    def shut(self, channel: ChannelId) -> None:
        self._transport.shut(channel)

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        self._logs[channel].append(message, record)

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        self._logs[channel].record(record)

    def records(self, channel: ChannelId) -> Iterator[bytes]:
        return self._logs[channel].records()

    def stable_records(self, channel: ChannelId) -> int:
        return self._logs[channel].stable_records

    def row(self, channel: ChannelId) -> int:
        return self._logs[channel].row

    def retain(self, channel: ChannelId, row: int) -> None:
        self._logs[channel].retain(row)

    def warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def log_end(self, channel: ChannelId) -> int:
        return self._logs[channel].next

    def log_max_time(self, channel: ChannelId) -> int:
        return self._logs[channel].until

    def flush(self) -> None:
        for log in self._logs.values():
            log.flush()

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        self._transport.acknowledge(channel, next_)

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        self._inputs_held.release(positions)

    def release(self, channel: ChannelId, position: int) -> None:
        self._followers[channel].released(position)

    def spill(self, channel: ChannelId) -> LogSpill:
        life = f"{quote(self._pe.id, safe='')}-{self._epoch}"  # both ends of a channel may have one
        path = self._run.directory / "spills" / life / quote(str(channel), safe="")
        self._spills.append(LogSpill(path, channel, self._run.layout.schema(channel)))
        return self._spills[-1]

    def shelf(self, channel: ChannelId) -> StreamShelf:
        if channel not in self._shelves:
            path = self._run.directory / "shelves" / quote(str(channel), safe="")
            self._shelves[channel] = StreamShelf(
                path, channel, self._run.layout.schema(channel), self._epoch,
                stability=self._run.stability_of(channel), clock=self._clock,
            )  # fmt: skip
        return self._shelves[channel]

    def _close_shelves(self) -> None:
        for shelf in self._shelves.values():
            shelf.close()

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        self._client.took(self._line, durable, size, taken)

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        self._client.to_director(message)

    # Lives ------------------------------------------------------------------------------------------------------------

    def run(self, beginning: Incarnation) -> None:
        with ExitStack() as stack:
            self._client.status(WorkerState.RESTORING)
            beats = Heartbeats(self._client, ElementMetrics, self._run.heartbeat, self._clock)
            stack.callback(beats.close)
            self._open_transport(stack)
            while True:
                with ExitStack() as life:
                    self._begin(beginning, life, beats)
                    beats.metrics = self._metrics
                    self._client.status(WorkerState.CATCHING_UP)
                    beginning = self._loop(beats)
                    self._before = self._element
                    for follower in self._followers.values():
                        follower.stop()
                    line = beginning.assignment.line
                    self._transport.renew(beginning.epoch, line)  # lets followers go that wait for room
                self._transport.renew(beginning.epoch, line)  # without what they brought last
                self._first = False

    def _begin(self, beginning: Incarnation, life: ExitStack, beats: Heartbeats) -> None:
        """A new element, with everything that belongs to its life alone."""
        run, layout, pe = self._run, self._run.layout, self._pe
        self._epoch, self._line = beginning.epoch, beginning.assignment.line
        self._client.begin(beginning)
        self._transport.live_under(self._line)
        self._logs, self._followers, self._shelves, self._spills = {}, {}, {}, []
        life.callback(self._close_shelves)
        for channel in layout.all_outputs(pe):
            if layout.retention(channel) == "log":
                self._logs[channel] = LogSender(
                    log_path(run, channel), channel, layout.schema(channel), self._epoch,
                    stability=run.stability_of(channel), beside=layout.plan(pe).exact,
                )  # fmt: skip
                life.callback(self._logs[channel].close)
        if takes_over(layout, pe, self):
            self._take_over(beats)
        loaded = self._loaded(beginning)
        units = {name: unit.operators for name, unit in layout.plan(pe).units.items()}
        self._checkpointer = None
        if units:
            storage = LocalStorage(run.directory / "checkpoints")
            self._checkpointer = Checkpointer(storage, pe.id, self._epoch, units, clock=self._clock, warn=self.warn)
            life.callback(self._checkpointer.close)
        ledgers = run.directory / "ledgers" / quote(pe.id, safe="")
        self._ledger = open_ledger(ledgers, self._epoch, ledger_shape(layout, pe))
        for name, record in self._ledger.sources.items() if self._first else ():
            record.started_at = self._schedule(name)
        self._element = Element(
            layout,
            pe,
            self._epoch,
            host=self,
            ledger=self._ledger,
            clock=self._clock,
            checkpointer=self._checkpointer,
            loaded=loaded,
            feeds=self._feed,
            rates=run.rate,
            batch_rows=run.batch_rows,
            previous=self._before,
            since=run.begun_at,
        )
        self._element.prepare()
        gc.collect()  # what building it, and a life before it, left over: later that would stop a turn for milliseconds
        past = StoredPast(run, self._epoch, self._clock)
        self._recomputation = Recomputation(layout, past, self._clock, batch_rows=_rows_at_once(run), at_once=_AT_ONCE)
        self._before = None
        self._meter = Meter(self._transport.sent, self._clock)
        self._client.joined(self._line, self._element.checkpoints)
        self._connect(life)

    def _take_over(self, beats: Heartbeats) -> None:
        """From shards that are no more, when all that they had been given is there again."""
        run, pe = self._run, self._pe
        taking = Takeover(run.layout, pe, StoredLogs(run.directory, run.layout))
        while not taking.ready:
            self._client.check()
            beats.alive()
            self._clock.sleep(_TICK)
        write(taking.founding(), run.layout, pe, self._epoch, self)

    def _schedule(self, source: str) -> int:
        """The schedule of a source begins with the run, and is one for all of its replicas: 0, if none has begun."""
        pe, ledgers = self._pe, self._run.directory / "ledgers"
        others = [replace(pe, replica=at) for at in range(pe.fragment.replicas) if at != pe.replica]
        read = [read_ledger(ledgers / quote(o.id, safe=""), ledger_shape(self._run.layout, o)) for o in others]
        begun = [int(ledger.sources[source].started_at) for ledger in read]
        return min((at for at in begun if at >= self._run.begun_at), default=0)

    def _loaded(self, beginning: Incarnation) -> dict[str, Loaded | None]:
        storage, plan = LocalStorage(self._run.directory / "checkpoints"), self._run.layout.plan(self._pe)
        now, assignment, warn = self._clock.now(), beginning.assignment, self.warn
        loaded: dict[str, Loaded | None] = {}
        for unit in plan.units:
            if assignment.newest or unit != WHOLE:
                loaded[unit] = load(
                    storage, self._pe.id, unit, now, gap=plan.gap, spare=plan.spare, holes=plan.holes, warn=warn
                )
            elif assignment.target is None:
                loaded[unit] = None
            else:
                target = assignment.target
                loaded[unit] = load(storage, target.pe, unit, now, only=target[2:], holes=False, warn=warn)
                if loaded[unit] is None:
                    raise DataError(f"{self._pe.id} is to go back to {assignment.target}, which is not there any more")
        return loaded

    def _feed(self, source: str, position: int) -> Feed | IdleFeed:
        before = self._feeds.get(source)
        if isinstance(before, IdleFeed):
            before.close()
        feed = feed_of(self._run, self._pe, source, position, self._clock, own=True)
        self._feeds[source] = feed
        return feed

    def _open_transport(self, stack: ExitStack) -> None:
        run, layout, pe = self._run, self._run.layout, self._pe
        connected = [channel for channel in layout.inputs(pe) if layout.retention(channel) != "log"]
        inlets = {strand: layout.schema(strand) for channel in connected for strand in layout.strands(channel)}
        replicated = lambda channel: layout.retention(channel) == "remember"  # noqa: E731
        outlets = {
            channel: Outlet(
                layout.schema(channel),
                layout.consumer(channel),
                gapless=layout.gapless(channel),
                replicated=replicated(channel),
            )
            for channel in layout.outputs(pe)
            if layout.retention(channel) != "log"
        }
        expected = lambda channel: self._element.expected(channel)  # noqa: E731
        had = lambda channel, unread: self._element.delivered(channel, unread)  # noqa: E731
        find, epoch = self._client.find, self._client.epoch
        self._transport = Transport(
            pe.id, epoch, inlets, outlets, expected, find, run, self._clock, delivered=had, issued=self._issued
        )
        self._outlets = outlets
        self._wakes.append(self._transport.wake)
        stack.callback(self._wakes.clear)
        stack.callback(self._transport.close)

    def _issued(self, channel: ChannelId) -> int:
        """The highest number under which somebody may open a channel: a term, or the epoch of a life."""
        layout, client = self._run.layout, self._client
        numbers = client.terms if layout.retention(channel) == "remember" else client.issued
        return max((numbers.get(pe, 0) for pe in layout.producers(channel)), default=0)

    def _connect(self, life: ExitStack) -> None:
        layout = self._run.layout
        for channel in layout.inputs(self._pe):
            if layout.retention(channel) == "log":
                position, number = self._element.replay_from(channel)
                follower = LogFollower(
                    log_path(self._run, channel), channel, layout.schema(channel), self._pe.id, self._arrived,
                    position=position, number=number, stability=self._run.stability_of(channel),
                )  # fmt: skip
                life.callback(follower.close)
                self._followers[channel] = follower
        self._client.announce(self._transport.location)
        for channel, outlet in self._outlets.items():
            if not outlet.replicated and not self._first and self._client.find(outlet.consumer, 0, 0.0) is None:
                self._transport.post(ConsumerDown(channel))
        heard = ("log", "copy")  # of these somebody is always heard, sooner or later
        self._unheard = [c for c in layout.inputs(self._pe) if layout.retention(c) not in heard]

    def _absent(self) -> list[HostEvent]:
        """Producers that are down, and have not been heard of in this life: their connections cannot break.

        In the first process of an element one that was never there is only starting.
        """
        layout, element, gone = self._run.layout, self._element, list[HostEvent]()
        self._unheard = [channel for channel in self._unheard if not element.has_heard(channel)]
        for channel in list(self._unheard):
            producer = layout.producer(channel)
            if self._client.find(producer, 0, 0.0) is None and (not self._first or producer in self._client.left):
                self._unheard.remove(channel)
                gone.append(ProducerGone(channel, -1))
        return gone

    def _arrived(self, channel: ChannelId, message: Message, position: int) -> bool:
        return self._transport.put(Arrival(channel, message, position))

    # The loop ---------------------------------------------------------------------------------------------------------

    def _loop(self, beats: Heartbeats) -> Incarnation:
        """Until the run is over (an exception), or the element is to begin again."""
        element, client, clock, transport = self._element, self._client, self._clock, self._transport
        ticked = looked = held = clock.monotonic()
        state, told = WorkerState.CATCHING_UP, False
        while True:
            client.check()
            beats.alive()
            missing = element.missing
            at_once = missing.holes and self._recomputation.moves
            events = transport.poll(0.0 if at_once else self._wait(), element.unread)
            if missing is not NOTHING_MISSING and not element.blocked:
                events += self._recomputation.bring(missing)
            for directed in client.directed():
                if isinstance(directed, Incarnation):
                    return directed
                if isinstance(directed, int):
                    self._line = directed
                    transport.live_under(directed)
                else:
                    events.append(directed)
            if self._unheard and client.booked:
                events += self._absent()
            moved = element.handle(events)
            if state is WorkerState.CATCHING_UP and (moved or element.idle or element.ended) and not self._behind():
                state = WorkerState.RUNNING
                client.status(state)
            now = clock.monotonic()
            if now - ticked >= _TICK or (moved and element.finished):  # the end of a run waits for no tick
                ticked = now
                for follower in self._followers.values():
                    if follower.failure is not None:
                        raise follower.failure
                if now - looked >= _ASKED:
                    looked = now
                    self._corrupt()
                if now - held >= _HELD:
                    held = now
                    self._inputs_held.passed({name: int(r.position) for name, r in self._ledger.sources.items()})
                if client.stopping:
                    element.end_sources()
                if element.finished and not told:
                    told = True
                    client.finished()  # what it has not shown yet waits for a last checkpoint
                if element.ended and state is not WorkerState.ENDED:
                    self.flush()
                    beats.beat()
                    state = WorkerState.ENDED
                    client.status(state)

    def _corrupt(self) -> None:
        """What somebody asked for; one tuple is wrong only when one comes."""
        wrong_bits, directory = self._element.wrong_bits, self._run.directory
        if self._request is not None and not wrong_bits.pending:
            done(directory, self._pe.id, self._request, wrong_bits.struck, self._clock.now())
            self._request = None
        request = asked(directory, self._pe.id) if self._request is None else None
        if request is None:
            return
        if request.what == "tuple":
            wrong_bits.tuple(request.chance)
            self._request = request
        else:
            struck = wrong_bits.state(request.operator, request.chance)
            done(directory, self._pe.id, request, struck, self._clock.now())

    def _wait(self) -> float:
        """Seconds that the loop may wait for something to come."""
        due = self._element.next_due()
        if due is None or self._element.blocked or not self._element.ready:
            return _TICK
        return min(max((due - self._clock.now()) / 1e6, 0.0), _TICK)

    def _behind(self) -> bool:
        """Whether logged channels have more to bring than what came in the meantime, or something is recomputed."""
        return self._element.catching_up or any(follower.behind for follower in self._followers.values())

    # What it tells ----------------------------------------------------------------------------------------------------

    def _written(self) -> int:
        """Bytes that this life has written: what outlives it, and what memory had no room for."""
        kept: list[LogSender | StreamShelf | LogSpill] = [*self._logs.values(), *self._shelves.values(), *self._spills]
        saved = self._checkpointer.counts.values() if self._checkpointer is not None else ()
        return sum(one.written for one in kept) + sum(counts.bytes for counts in saved)

    def _metrics(self) -> ElementMetrics:
        ledger = self._ledger
        inlets, outlets, sources = ledger.inputs.values(), ledger.outputs.values(), ledger.sources.values()
        received = sum(inlet.received for inlet in inlets)
        received += sum(below(source.position, self._pe.shard, self._pe.fragment.shards) for source in sources)
        spent = self._meter.spent(self._written(), self._transport.sent)
        if self._first and unsaved(self._run.layout.plan(self._pe)) and not self._foretold:
            self._foretold = spent.seconds >= MEASURED or self._element.ended
            if self._foretold:
                self.warn(warning(self._pe.id, received, spent))
        return ElementMetrics(
            received,
            sum(outlet.number for outlet in outlets),
            sum(inlet.missed for inlet in inlets),
            dict(self._element.latencies.counts),
            checkpoint_metrics(self._checkpointer, self._element.protocol.missed),
            tuple(self._warnings),
            {name: feed.late for name, feed in self._feeds.items() if feed.late is not None},
            sum(inlet.late for inlet in inlets),
            spent,
        )
