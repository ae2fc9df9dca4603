"""One life of a processing element as a process: the element, its connections, its logs, and the loop around them.

The loop is the only thread that touches the element. Around it: the endpoint and the senders (Flight), log followers,
the checkpoint writer, and the signs of life. They meet the loop at the inbox.

An element that has ended stays until the whole run has: a consumer that dies in the meantime asks its producers for
the end again.
"""

import sys
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import RiprapError
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.pruning import wanted_columns
from riprap.graph.specs import Source
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ConsumerDown, ProducerGone
from riprap.protocols.partial import Recovery
from riprap.runtime.beats import Beats
from riprap.runtime.client import Client, CoordinatorLost, Registration
from riprap.runtime.element import Element
from riprap.runtime.endpoint import Endpoint
from riprap.runtime.feed import Feed
from riprap.runtime.hosting import Arrival, Pace
from riprap.runtime.inbox import Inbox
from riprap.runtime.layout import Pe
from riprap.runtime.ledger import ledger_names, open_ledger, outlets_of
from riprap.runtime.logs import LogFollower, LogSender
from riprap.runtime.messages import Message
from riprap.runtime.metrics import CheckpointMetrics, Metrics
from riprap.runtime.roster import Fenced
from riprap.runtime.run import Run
from riprap.runtime.sender import Sender
from riprap.runtime.spill import LogSpill
from riprap.runtime.states import WorkerState

_TICK = 0.02  # seconds between looks at what is due
_IDLE = 0.005  # seconds: the longest that the loop sleeps while something may become due
_SWITCH = 0.0005  # seconds that one thread of a process may keep others waiting: a message passes three of them
_PATIENCE = 0.005  # seconds to wait for room at a consumer while there is nothing better to do


def run_element(run: Run, pe_id: str, attempt: int, executor_pid: int) -> None:
    """The body of a task: from registration until the run is over. An exception ends the run and is shown."""
    sys.setswitchinterval(_SWITCH)
    inbox = Inbox(run.buffer_bytes)
    client = Client(run, pe_id, attempt, executor_pid, inbox.wake)
    try:
        registration = client.register()
        _Process(run, run.layout.pe(pe_id), client, inbox, registration, first=attempt == 0).run()
    except (CoordinatorLost, Fenced):
        return  # the run is over, or another life has taken this one's place
    except Exception as error:
        with suppress(CoordinatorLost, Fenced):
            if isinstance(error, RiprapError):
                client.failed(str(error), error.exit_code)
            else:
                client.failed(f"{_named(error)}\n{traceback.format_exc()}")
    finally:
        client.close()


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def log_path(run: Run, channel: ChannelId) -> Path:
    """Where the persistent stream of a channel lies; a sink's has its name."""
    if channel.stream.endswith("→"):
        return run.directory / "sinks" / channel.stream.removesuffix("→")
    shards = f"{channel.source}-{channel.target}"
    return run.directory / "streams" / quote(channel.stream.replace("→", "--"), safe="") / shards


class _Process:
    """The host of one element: where its effects go."""

    def __init__(
        self, run: Run, pe: Pe, client: Client, inbox: Inbox, registration: Registration, *, first: bool
    ) -> None:
        self._run, self._pe, self._client, self._inbox, self._registration = run, pe, client, inbox, registration
        self._first = first  # nobody can have died before
        self._clock: Clock = SYSTEM_CLOCK
        self._warnings: list[str] = []
        self._senders: dict[ChannelId, Sender] = {}
        self._logs: dict[ChannelId, LogSender] = {}
        self._followers: dict[ChannelId, LogFollower] = {}
        self._endpoint: Endpoint
        self._patience = 0.0

    # Effects of the element -------------------------------------------------------------------------------------------

    def send(self, channel: ChannelId, message: Message) -> bool:
        patience, self._patience = self._patience, 0.0
        return self._senders[channel].offer(message, patience)

    def keep(self, channel: ChannelId, message: Message) -> None:
        self._logs[channel].keep(message)

    def kept(self, channel: ChannelId) -> int:
        return self._logs[channel].next

    def flush(self) -> None:
        for log in self._logs.values():
            log.flush()

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        self._endpoint.acknowledge(channel, next_)

    def release(self, channel: ChannelId, position: int) -> None:
        self._followers[channel].released(position)

    def spill(self, channel: ChannelId) -> LogSpill:
        path = self._run.directory / "spills" / f"{quote(str(channel), safe='')}-{self._registration.epoch}"
        return LogSpill(path, channel, self._schema(channel))

    # A life -----------------------------------------------------------------------------------------------------------

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def run(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._inbox.close)
            self._client.status(WorkerState.RESTORING)
            beats = Beats(self._client, Metrics, self._run.heartbeat, self._clock)
            stack.callback(beats.close)
            self._open_logs(stack)
            self._element = self._restored(stack)
            beats.metrics = self._metrics
            self._connect(stack)
            self._client.status(WorkerState.CATCHING_UP)
            self._loop(beats)

    def _restored(self, stack: ExitStack) -> Element:
        run, pe, epoch = self._run, self._pe, self._registration.epoch
        recovering = run.layout.recovers(pe)
        units = {name: (unit.operators, int(unit.every)) for name, unit in recovering.units.items()}
        storage = LocalStorage(run.directory / "checkpoints")
        now = self._clock.now()
        loaded = {
            name: load(storage, pe.id, name, now, gap=not recovering.whole, warn=self._warnings.append)
            for name in units
        }
        checkpointer = Checkpointer(storage, pe.id, epoch, units, warn=self._warn) if units else None
        if checkpointer is not None:
            stack.callback(checkpointer.close)
        self._checkpointer = checkpointer
        self._ledger = open_ledger(
            run.directory / "ledgers" / quote(pe.id, safe=""), epoch, ledger_names(run.layout, pe)
        )
        for source in run.layout.graph.sources if self._first else ():
            if source.name in pe.fragment.members:
                self._ledger[f"source:{source.name}:started_at"] = 0  # the schedule begins with the run
        return Element(
            run.layout,
            pe,
            epoch,
            host=self,
            ledger=self._ledger,
            clock=self._clock,
            checkpointer=checkpointer,
            loaded=loaded,
            feeds=self._feed,
            pace=Pace(run.rate),
            batch_rows=run.batch_rows,
        )

    def _feed(self, source: str, position: int) -> Feed:
        graph = self._run.layout.graph
        columns = wanted_columns(graph, frozenset(self._pe.fragment.members))[source][0]
        return Feed(self._run.inputs[source], cast(Source, graph[source]), columns, position)

    def _open_logs(self, stack: ExitStack) -> None:
        for channel in outlets_of(self._run.layout, self._pe):
            if self._recovery(channel) == "replay":
                log = LogSender(log_path(self._run, channel), channel, self._schema(channel), self._registration.epoch)
                stack.callback(log.close)
                self._logs[channel] = log

    def _connect(self, stack: ExitStack) -> None:
        run, epoch = self._run, self._registration.epoch
        inputs = run.layout.inputs(self._pe)
        live = {channel: self._schema(channel) for channel in inputs if self._recovery(channel) != "replay"}
        self._endpoint = Endpoint(self._pe.id, epoch, live, self._element.expected, self._inbox, run)
        stack.callback(self._endpoint.close)
        self._client.announce(self._endpoint.location)
        for channel in inputs:
            if channel not in live:
                position, number = self._element.replay_from(channel)
                follower = LogFollower(
                    log_path(run, channel), channel, self._schema(channel), self._pe.id, self._arrived,
                    position=position, number=number,
                )  # fmt: skip
                stack.callback(follower.close)
                self._followers[channel] = follower
        for channel in run.layout.outputs(self._pe):
            if self._recovery(channel) != "replay":
                consumer = run.layout.consumer(channel)
                sender = Sender(channel, self._schema(channel), epoch, self._client.find, consumer, self._inbox, run)
                stack.callback(sender.close, drain=False)
                self._senders[channel] = sender
                if not self._first and self._client.find(consumer, 0, 0.0) is None:
                    self._inbox.post(ConsumerDown(channel))

    def _arrived(self, channel: ChannelId, message: Message, position: int) -> bool:
        return self._inbox.put(Arrival(channel, message, position))

    # The loop ---------------------------------------------------------------------------------------------------------

    def _loop(self, beats: Beats) -> None:
        element, client, clock = self._element, self._client, self._clock
        ticked, state = clock.monotonic(), WorkerState.CATCHING_UP
        while True:
            client.check()
            beats.alive()
            moved = self._step()
            if state is WorkerState.CATCHING_UP and moved and not self._behind():
                state = WorkerState.RUNNING
                client.status(state)
            now = clock.monotonic()
            if now - ticked >= _TICK:
                ticked = now
                element.tick()
                for follower in self._followers.values():
                    if follower.failure is not None:
                        raise follower.failure
                if client.stopping:
                    element.end_sources()
                if element.ended and state is not WorkerState.ENDED:
                    self.flush()
                    beats.beat()
                    state = WorkerState.ENDED
                    client.status(state)

    def _step(self) -> bool:
        """Take what is there, or wait a little for it; whether anything came or was due."""
        element = self._element
        if element.blocked:
            self._patience = _PATIENCE
            element.flush()
            events = self._inbox.take_events()
        else:
            events = self._inbox.take(self._wait())
        arrivals: list[Arrival] = []
        came = False
        for event in events:
            if isinstance(event, Arrival):
                arrivals.append(event)
                came = True
                continue
            if isinstance(event, ProducerGone):  # after what it had sent
                element.receive(arrivals)
                arrivals = []
            element.link(event)
        element.receive(arrivals)
        pulled = not element.blocked and element.pull()
        return came or pulled or element.ended

    def _wait(self) -> float:
        """Seconds that the loop may wait for something to come."""
        due = self._element.next_due()
        if due is None:
            return _TICK
        return min(max((due - self._clock.now()) / 1e6, 0.0), _IDLE)

    def _behind(self) -> bool:
        """Whether replayed channels have more to bring than what came in the meantime."""
        return any(follower.behind for follower in self._followers.values())

    # What it tells ----------------------------------------------------------------------------------------------------

    def _metrics(self) -> Metrics:
        values = self._ledger.values()
        of = lambda kind, name: sum(v for k, v in values.items() if k.startswith(kind) and k.endswith(name))  # noqa: E731
        checkpoints = {}
        if self._checkpointer is not None:
            for unit, counts in self._checkpointer.counts.items():
                last = self._checkpointer.newest.get(unit)
                checkpoints[unit] = CheckpointMetrics(
                    counts.taken, counts.missed, counts.bytes, *((last.bytes, last.taken_at) if last else (0, 0))
                )
        return Metrics(
            of("in:", ":next") - of("in:", ":missed") + of("source:", ":position"),
            of("out:", ":number"),
            of("in:", ":missed"),
            dict(self._element.latencies.counts),
            checkpoints,
            tuple(self._warnings),
        )

    # The surroundings -------------------------------------------------------------------------------------------------

    def _recovery(self, channel: ChannelId) -> Recovery:
        return "replay" if channel.stream.endswith("→") else self._run.layout.link(channel.stream).recovery

    def _schema(self, channel: ChannelId) -> pa.Schema:
        graph = self._run.layout.graph
        if channel.stream.endswith("→"):
            stream = graph.inputs(channel.stream.removesuffix("→"))[0]
        else:
            stream = self._run.layout.link(channel.stream).stream
        return graph.physical(stream.source, stream.source_port)
