"""A processing element as a process: its incarnations, connections, logs, and main loop.

One thread takes a message from socket to socket: `Transport.poll`, `Element.handle`, repeat. Log followers, the
checkpoint writer and heartbeats have their own threads; they reach the loop through the transport's mailbox.

When the director orders a rollback, the process starts another incarnation, from a checkpoint and with a new epoch,
without exiting: it opens logs, ledger and checkpoints again, drops connections, and retains everything else.

An element that has ended stays until the whole run has ended: a consumer that dies meanwhile requests the end again.
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
from riprap.runtime.corruption import CorruptionRequest, report_done, take_request
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
from riprap.runtime.stored_history import StoredAncestors, StoredLogs, feed_of, log_path
from riprap.runtime.story import Story, story_path
from riprap.runtime.stripes import below
from riprap.runtime.takeover import Takeover, takes_over, write
from riprap.runtime.transport.outlets import Outlet
from riprap.runtime.transport.transport import Transport
from riprap.runtime.unsaved import MEASURED, unsaved, warning

_TICK = 0.02  # seconds between ticks, and the longest that the loop sleeps
_REQUEST_EVERY = 0.1  # seconds between polls for requests in files
_TURN = 0.2  # seconds of input that are recomputed in one turn
_HOLD_EVERY = 1.0  # seconds between updates of the input positions that it may need again
_RECOMPUTE = 0.05  # seconds of recomputation in one iteration of the loop


def run_element(run: Run, pe_id: str, attempt: int, executor_pid: int) -> None:
    """The body of a task: from registration until the run ends. An exception ends the run and is shown."""
    keep_memory()
    wakes: list[Callable[[], None]] = []

    def wake() -> None:
        for callback in list(wakes):
            callback()

    client = Client(run, pe_id, attempt, executor_pid, wake)
    process: _Process | None = None
    try:
        incarnation = client.register()
        process = _Process(run, run.layout.pe(pe_id), client, wakes, first=client.first)
        process.run(incarnation)
    except CoordinatorLost:  # the run has ended
        if process is not None and process.story is not None:
            process.story.remove()
    except ElementFenced:
        return  # a newer incarnation exists
    except Exception as error:
        if process is not None and process.story is not None:
            process.story.failed(SYSTEM_CLOCK.now(), f"{_named(error)}\n{traceback.format_exc()}")
        with suppress(CoordinatorLost, ElementFenced):
            if isinstance(error, RiprapError):
                client.failed(str(error), error.exit_code)
            else:
                client.failed(f"{_named(error)}\n{traceback.format_exc()}")
    finally:
        client.close()


def _rows_at_once(run: Run) -> int:
    """Rows that a source recomputes in one turn: few enough to stop soon after the missing ones, and for heartbeats."""
    rates = run.rate.values() if isinstance(run.rate, Mapping) else () if run.rate is None else (run.rate,)
    rows = max((int(rate * _TURN) for rate in rates), default=run.batch_rows)
    return max(1, min(rows, run.batch_rows))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Process:
    """The host of an element's incarnations: it carries out their effects."""

    def __init__(self, run: Run, pe: Pe, client: Client, wakes: list[Callable[[], None]], *, first: bool) -> None:
        self._run, self._pe, self._client, self._wakes = run, pe, client, wakes
        self._first = first  # no process of the run can have died before
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
        self._previous: Element | None = None  # the incarnation that rolls back
        self._recomputation: Recomputation
        self._input_hold = InputHold(run, pe, self.warn)
        self._warned_unsaved = False  # of a recovery time that grows with the history
        self._silent: list[ChannelId] = []  # channels whose producers have not been heard yet
        self._request: CorruptionRequest | None = None  # a corruption that waits for its tuple
        self.story: Story | None = None  # of the incarnation
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
        self._input_hold.release(positions)

    def release(self, channel: ChannelId, position: int) -> None:
        self._followers[channel].released(position)

    def spill(self, channel: ChannelId) -> LogSpill:
        owner = f"{quote(self._pe.id, safe='')}-{self._epoch}"  # both ends of a channel may spill
        path = self._run.directory / "spills" / owner / quote(str(channel), safe="")
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

    # Incarnations -----------------------------------------------------------------------------------------------------

    def run(self, incarnation: Incarnation) -> None:
        with ExitStack() as stack:
            self._client.status(WorkerState.RESTORING)
            beats = Heartbeats(self._client, ElementMetrics, self._run.heartbeat, self._clock)
            stack.callback(beats.close)
            self._open_transport(stack)
            while True:
                with ExitStack() as resources:
                    self._start(incarnation, resources, beats)
                    beats.metrics = self._metrics
                    self._client.status(WorkerState.CATCHING_UP)
                    incarnation = self._loop(beats)
                    self._previous = self._element
                    for follower in self._followers.values():
                        follower.stop()
                    line = incarnation.assignment.line
                    self._transport.renew(incarnation.epoch, line)  # releases followers that wait for room
                self._transport.renew(incarnation.epoch, line)  # drops what they delivered last
                self._first = False

    def _start(self, incarnation: Incarnation, resources: ExitStack, beats: Heartbeats) -> None:
        """Create the element of an incarnation, with all resources of that incarnation."""
        run, layout, pe = self._run, self._run.layout, self._pe
        self._epoch, self._line = incarnation.epoch, incarnation.assignment.line
        self._client.begin(incarnation)
        self._transport.live_under(self._line)
        self._logs, self._followers, self._shelves, self._spills = {}, {}, {}, []
        resources.callback(self._close_shelves)
        for channel in layout.all_outputs(pe):
            if layout.kind(channel).logged:
                self._logs[channel] = LogSender(
                    log_path(run, channel), channel, layout.schema(channel), self._epoch,
                    stability=run.stability_of(channel), beside=layout.plan(pe).exact,
                )  # fmt: skip
                resources.callback(self._logs[channel].close)
        if takes_over(layout, pe, self):
            self._take_over(beats)
        loaded = self._load(incarnation)
        units = {name: unit.operators for name, unit in layout.plan(pe).units.items()}
        self._checkpointer = None
        if units:
            storage = LocalStorage(run.directory / "checkpoints")
            self._checkpointer = Checkpointer(storage, pe.id, self._epoch, units, clock=self._clock, warn=self.warn)
            resources.callback(self._checkpointer.close)
        ledgers = run.directory / "ledgers" / quote(pe.id, safe="")
        self._ledger = open_ledger(ledgers, self._epoch, ledger_shape(layout, pe))
        for name, record in self._ledger.sources.items() if self._first else ():
            record.started_at = self._schedule(name)
        self.story = Story(pe.id, self._epoch, layout.strands_into(pe), story_path(run.directory, pe.id, self._epoch))
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
            previous=self._previous,
            since=run.begun_at,
            story=self.story,
        )
        self._element.prepare()
        gc.collect()  # garbage of the construction and of a previous incarnation would pause the loop for milliseconds
        history = StoredAncestors(run, self._epoch, self._clock)
        self._recomputation = Recomputation(
            layout, history, self._clock, batch_rows=_rows_at_once(run), at_once=_RECOMPUTE
        )
        self._previous = None
        self._meter = Meter(self._transport.sent, self._clock)
        self._client.joined(self._line, self._element.checkpoints)
        self._connect(resources)

    def _take_over(self, beats: Heartbeats) -> None:
        """Take over from former shards, once all input that they had is available."""
        run, pe = self._run, self._pe
        takeover = Takeover(run.layout, pe, StoredLogs(run.directory, run.layout))
        while not takeover.ready:
            self._client.check()
            beats.alive()
            self._clock.sleep(_TICK)
        write(takeover.first_append(), run.layout, pe, self._epoch, self)

    def _schedule(self, source: str) -> int:
        """When the schedule of a source started, the same for all its replicas; 0: in none of them yet."""
        pe, ledgers = self._pe, self._run.directory / "ledgers"
        others = [replace(pe, replica=at) for at in range(pe.fragment.replicas) if at != pe.replica]
        read = [read_ledger(ledgers / quote(o.id, safe=""), ledger_shape(self._run.layout, o)) for o in others]
        started = [int(ledger.sources[source].started_at) for ledger in read]
        return min((at for at in started if at >= self._run.begun_at), default=0)

    def _load(self, incarnation: Incarnation) -> dict[str, Loaded | None]:
        storage, plan = LocalStorage(self._run.directory / "checkpoints"), self._run.layout.plan(self._pe)
        now, assignment, warn = self._clock.now(), incarnation.assignment, self.warn
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
                    raise DataError(f"{self._pe.id} has to roll back to {assignment.target}, which no longer exists")
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
        connected = [channel for channel in layout.inputs(pe) if not layout.kind(channel).logged]
        inputs = {strand: layout.schema(strand) for channel in connected for strand in layout.strands(channel)}
        outputs = {
            channel: Outlet(
                layout.schema(channel),
                layout.consumer(channel),
                gapless=layout.gapless(channel),
                replicated=layout.kind(channel).by_term,
            )
            for channel in layout.outputs(pe)
            if not layout.kind(channel).logged
        }
        expected = lambda channel: self._element.expected(channel)  # noqa: E731
        delivered = lambda channel, unread: self._element.delivered(channel, unread)  # noqa: E731
        find, epoch = self._client.find, self._client.epoch
        self._transport = Transport(
            pe.id, epoch, inputs, outputs, expected, find, run, self._clock, delivered=delivered, issued=self._issued
        )
        self._outlets = outputs
        self._wakes.append(self._transport.wake)
        stack.callback(self._wakes.clear)
        stack.callback(self._transport.close)

    def _issued(self, channel: ChannelId) -> int:
        """The highest number under which a producer may open a channel: a term, or the epoch of an incarnation."""
        layout, client = self._run.layout, self._client
        numbers = client.terms if layout.kind(channel).by_term else client.issued
        return max((numbers.get(pe, 0) for pe in layout.producers(channel)), default=0)

    def _connect(self, resources: ExitStack) -> None:
        layout = self._run.layout
        for channel in layout.inputs(self._pe):
            if layout.kind(channel).logged:
                position, number = self._element.replay_from(channel)
                follower = LogFollower(
                    log_path(self._run, channel), channel, layout.schema(channel), self._pe.id, self._arrived,
                    position=position, number=number, stability=self._run.stability_of(channel),
                )  # fmt: skip
                resources.callback(follower.close)
                self._followers[channel] = follower
        self._client.announce(self._transport.location)
        for channel, outlet in self._outlets.items():
            if not outlet.replicated and not self._first and self._client.find(outlet.consumer, 0, 0.0) is None:
                self._transport.post(ConsumerDown(channel))
        self._silent = [c for c in layout.inputs(self._pe) if not layout.kind(c).never_silent]

    def _absent_producers(self) -> list[HostEvent]:
        """Producers that are down and never connected to this incarnation, so no connection to them can break.

        In the first process of an element, a producer that was never up is only starting.
        """
        layout, element, gone = self._run.layout, self._element, list[HostEvent]()
        self._silent = [channel for channel in self._silent if not element.has_heard(channel)]
        for channel in list(self._silent):
            producer = layout.producer(channel)
            if self._client.find(producer, 0, 0.0) is None and (not self._first or producer in self._client.left):
                self._silent.remove(channel)
                gone.append(ProducerGone(channel, -1))
        return gone

    def _arrived(self, channel: ChannelId, message: Message, position: int) -> bool:
        return self._transport.put(Arrival(channel, message, position))

    # The loop ---------------------------------------------------------------------------------------------------------

    def _loop(self, beats: Heartbeats) -> Incarnation:
        """Run until the run ends (an exception) or the element has to start again."""
        element, client, clock, transport = self._element, self._client, self._clock, self._transport
        ticked = requested = held = clock.monotonic()
        state, reported = WorkerState.CATCHING_UP, False
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
            if self._silent and client.booked:
                events += self._absent_producers()
            moved = element.handle(events)
            if state is WorkerState.CATCHING_UP and (moved or element.idle or element.ended) and not self._behind():
                state = WorkerState.RUNNING
                client.status(state)
            now = clock.monotonic()
            if now - ticked >= _TICK or (moved and element.finished):  # do not delay the end of the run
                ticked = now
                for follower in self._followers.values():
                    if follower.failure is not None:
                        raise follower.failure
                if now - requested >= _REQUEST_EVERY:
                    requested = now
                    self._corrupt()
                if now - held >= _HOLD_EVERY:
                    held = now
                    self._input_hold.passed({name: int(r.position) for name, r in self._ledger.sources.items()})
                if client.stopping:
                    element.end_sources()
                if element.finished and not reported:
                    reported = True
                    client.finished()  # unpublished output waits for a last checkpoint
                if element.ended and state is not WorkerState.ENDED:
                    self.flush()
                    beats.beat()
                    state = WorkerState.ENDED
                    client.status(state)

    def _corrupt(self) -> None:
        """Carry out a requested corruption; that of a tuple waits for the next tuple."""
        wrong_bits, directory = self._element.wrong_bits, self._run.directory
        if self._request is not None and not wrong_bits.pending:
            report_done(directory, self._pe.id, self._request, wrong_bits.struck, self._clock.now())
            self._request = None
        request = take_request(directory, self._pe.id) if self._request is None else None
        if request is None:
            return
        if request.what == "tuple":
            wrong_bits.tuple(request.chance)
            self._request = request
        else:
            struck = wrong_bits.state(request.operator, request.chance)
            report_done(directory, self._pe.id, request, struck, self._clock.now())

    def _wait(self) -> float:
        """Seconds that the loop may wait for an event."""
        due = self._element.next_due()
        if due is None or self._element.blocked or not self._element.ready:
            return _TICK
        return min(max((due - self._clock.now()) / 1e6, 0.0), _TICK)

    def _behind(self) -> bool:
        """Whether followers have not yet read what was logged before the start, or items are recomputed."""
        return self._element.catching_up or any(follower.behind for follower in self._followers.values())

    # Metrics ----------------------------------------------------------------------------------------------------------

    def _written(self) -> int:
        """Bytes that this incarnation has written to logs, shelves, spills and checkpoints."""
        stores: list[LogSender | StreamShelf | LogSpill] = [
            *self._logs.values(),
            *self._shelves.values(),
            *self._spills,
        ]
        saved = self._checkpointer.counts.values() if self._checkpointer is not None else ()
        return sum(store.written for store in stores) + sum(counts.bytes for counts in saved)

    def _metrics(self) -> ElementMetrics:
        ledger = self._ledger
        inputs, outputs, sources = ledger.inputs.values(), ledger.outputs.values(), ledger.sources.values()
        received = sum(channel.received for channel in inputs)
        received += sum(below(source.position, self._pe.shard, self._pe.fragment.shards) for source in sources)
        spent = self._meter.spent(self._written(), self._transport.sent)
        if self._first and unsaved(self._run.layout.plan(self._pe)) and not self._warned_unsaved:
            self._warned_unsaved = spent.seconds >= MEASURED or self._element.ended
            if self._warned_unsaved:
                self.warn(warning(self._pe.id, received, spent))
        return ElementMetrics(
            received,
            sum(channel.number for channel in outputs),
            sum(channel.missed for channel in inputs),
            dict(self._element.latencies.counts),
            checkpoint_metrics(self._checkpointer, self._element.protocol.missed),
            tuple(self._warnings),
            {name: feed.late for name, feed in self._feeds.items() if feed.late is not None},
            sum(channel.late for channel in inputs),
            spent,
        )
