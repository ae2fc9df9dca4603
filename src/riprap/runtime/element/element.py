"""The processing element: it drives a fragment's engine and channels, and carries out the protocol's commands.

An element is synchronous and has no threads, clock or I/O: its host passes in events and the time, and performs the
effects. The same element runs in a Spark task (`process.py`) and under the simulated host (`simulation.py`). Both call
`handle` with events in the order in which they happened. `docs/internals/protocols.md` specifies what the element does
with each event, in which order, and when it asks the protocol.

An element merges channels by order key, so without faults its outputs equal those of the bounded run. It knows no
protocol: the protocol's decisions arrive as commands, and a link's output channel decides what happens to items that a
consumer misses (`retention/`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from riprap.base.clock import Clock
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import Loaded
from riprap.engine.engine import Engine, Output
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.operators.columns import keys_of
from riprap.protocols import events as seam
from riprap.protocols.channel import NOTHING, Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.detector import CYCLE
from riprap.protocols.protocol import WHOLE
from riprap.runtime.element.arrivals import joined_arrivals, without
from riprap.runtime.element.captures import Captures
from riprap.runtime.element.command_table import CarryOut, commands_to_parts
from riprap.runtime.element.cuts import Cuts
from riprap.runtime.element.cycle_member import CycleMember
from riprap.runtime.element.element_inputs import InputChannel, Inputs
from riprap.runtime.element.element_outputs import Outputs
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.element.records import Records
from riprap.runtime.element.restore import Restore
from riprap.runtime.element.resume_points import ResumePoints
from riprap.runtime.element.shard_merge import shard_merges
from riprap.runtime.element.sources import Sources
from riprap.runtime.element.state_digest import StateDigest
from riprap.runtime.element.withheld import Withheld
from riprap.runtime.element.wrong_bits import WrongBits
from riprap.runtime.host import (
    NOTHING_MISSING,
    Arrival,
    Host,
    HostEvent,
    Missing,
    Rates,
    Recomputed,
    SourceFeed,
    Unneeded,
)
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.story import Story

_BATCH_ROWS = 65_536
HELD_BYTES = 64 << 20
_TICK = 10_000  # microseconds between ticks


class Element:
    """One incarnation of a processing element. `loaded` has the checkpoint that each unit rolls back to."""

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
        feeds: Callable[[str, int], SourceFeed],
        rates: Rates,
        batch_rows: int = _BATCH_ROWS,
        held_bytes: int = HELD_BYTES,
        previous: "Element | None" = None,
        cut_everywhere: bool = False,
        since: int = 0,
        story: Story | None = None,
    ) -> None:
        """`previous`: the incarnation that rolled back in this process; what it held for consumers stays.

        `since`: only tuples that entered the app after this time count in latencies.
        `cut_everywhere`: every operator is a piece, and nothing is compiled for this fragment.
        `story`: where events and commands are recorded; by default in memory.
        """
        self.pe, self.epoch = pe, epoch
        self.story = story or Story(pe.id, epoch, layout.strands_into(pe))
        self._layout, self._host, self._ledger, self._clock = layout, host, ledger, clock
        self._batch_rows = batch_rows
        self.plan = layout.plan(pe)
        self.protocol = layout.protocol.machine(layout.surroundings[pe.id], self.plan)
        self._subscribed = self.protocol.subscriptions
        self._asks_on_arrival = seam.Arrived in self._subscribed
        self._backlogged = False  # some channel may have a backlog
        self._captures = Captures(pe.id, checkpointer)
        self._engine = Engine(
            layout.graph, pe.fragment.members, recorded=self.plan.continuous, clock=clock,
            cut_everywhere=cut_everywhere, views=True, taps=layout.taps(pe), wanted=layout.wanted,
        )  # fmt: skip
        self._merges = shard_merges(layout, pe)
        self._records = (
            Records(layout, pe, self.plan.continuous, self._engine, host, clock) if self.plan.continuous else None
        )
        restore = Restore(layout, pe, self.plan, self._engine, self._merges, ledger, loaded, host, self._records)
        start = restore.start()
        self._inputs = Inputs(
            layout, pe, self._engine, host, ledger, self._merges, start.inputs, start.reached_before, held_bytes,
            exact=self.plan.exact, on_arrival=self.plan.delivered == "taken", restored=start.delivered,
        )  # fmt: skip
        self._outputs = Outputs(
            layout, pe, epoch, self._engine, host=host, ledger=ledger, clock=clock, sent=start.sent,
            restored=start.delivered, limit=held_bytes, exact=self.plan.exact,
            emitted=self._emitted if seam.Emitted in self._subscribed else None,
            announced=self._records.announced if self._records is not None else None,
            recorded=self._records.channel if self._records is not None else None,
            since=since,
        )  # fmt: skip
        self.latencies = self._outputs.latencies
        if previous is not None:
            self._outputs.adopt(previous._outputs)
        self._withheld = Withheld(self._outputs.channels, epoch)
        self._withheld.start(start.id, start.unpublished)
        self._resume_points = ResumePoints(layout, pe, self._engine, ledger, start.sources, whole=self.plan.whole)
        self._cycle: CycleMember | None = None  # on a cycle of several elements
        if len(layout.surroundings[pe.id].cycle) > 1:
            reach = START_KEY.ts if start.cut is None else start.cut.reach
            self._cycle = CycleMember(layout, pe, self._engine, self._inputs, self._outputs, reach)
            self._inputs.bounded = self._cycle.bounded
        self._cuts = Cuts(
            self.protocol, self._engine, self._merges, self._inputs, self._outputs, self._resume_points, self._withheld,
            self._captures, host, clock, self._cycle,
        )  # fmt: skip
        opened = {name: feeds(name, position) for name, position in start.sources.items()}
        self._sources = Sources(opened, rates, ledger, clock, batch_rows)
        self._ticked = 0
        self._carry_out_by_type: CarryOut = commands_to_parts(host, self._outputs, self._cuts, self._withheld)
        self._carry_out_by_type |= {
            seam.Unpark: self._unpark,
            seam.Park: self._park,
            seam.Admit: self._admit,
            seam.Await: self._await,
            seam.RequestDigest: self._request_digest,
        }
        entries = (*(input_.target for input_ in self._inputs.channels.values()), *start.sources)
        self._state_digest = StateDigest(self._engine, pe.fragment.members, entries)
        self.wrong_bits = WrongBits(self._engine, pe.fragment.members)
        self._carry_out(self.protocol.begin(start.cut, clock.now()))
        for channel, messages in start.parked.items():
            input_ = self._inputs.channels[channel]
            for message in messages:  # they are in the checkpoint: the protocol is not asked, and cannot capture
                if (skip := input_.receiver.fresh(-1, message.number, message.items)) != NOTHING:
                    self._deliver(input_, replace(message, epoch=-1), skip, input_.position)

    # For the host -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Compile the fragment, before other elements connect."""
        self._engine.prepare()

    def handle(self, events: Iterable[HostEvent] = ()) -> bool:
        """Process events in order, then do what is due. Returns whether anything arrived or a source was read."""
        story, now = self.story, self._clock.now()
        if story.positions_due:
            story.positions(now, self.positions())
        arrivals, arrived = list[Arrival](), False
        started = 0.0 if self._records is None else self._clock.monotonic()
        for event in events:
            if isinstance(event, Arrival):
                story.arrived(now, event.channel, event.message)
                arrivals.append(event)
                arrived = True
                continue
            if arrivals and not isinstance(event, seam.ConsumerUp | seam.ConsumerDown | seam.Acknowledged):
                self._arrive_all(arrivals)  # sent before the producer disconnected
                arrivals = []
            self._on_event(event)
        if arrivals:
            self._arrive_all(arrivals)
        if self._backlogged:
            self._drain_backlogs()
        pulled = bool(self._sources) and not self.blocked and self._pull()
        now = self._clock.now()
        if now - self._ticked >= _TICK:
            self._ticked = now
            self._tick(now)
        self._outputs.flush()
        if self._records is not None and (arrived or pulled):
            self._records.worked(self._clock.monotonic() - started)
        return arrived or pulled

    def expected(self, channel: ChannelId) -> int:
        """The number of the next item that the producer has to send."""
        input_ = self._inputs.strands[channel]
        return input_.receiver.next if input_.seen is None else input_.seen.expected(channel)

    def has_heard(self, channel: ChannelId) -> bool:
        """Whether the producer has sent something to this incarnation, or was reported gone."""
        input_ = self._inputs.strands[channel]
        return input_.seen is not None or input_.receiver.epoch >= 0 or input_.receiver.gone

    def delivered(self, channel: ChannelId, unread: Iterable[Message] = ()) -> Delivered:
        """The delivered position of a channel from replicas or copies, once `unread` is delivered too."""
        return self._inputs.delivered_position(channel, unread)

    def replay_from(self, channel: ChannelId) -> tuple[int, int]:
        """Where to replay a logged channel from: the position in its log, and the number of the first item."""
        input_ = self._inputs.channels[channel]
        return input_.position, input_.receiver.next

    def lags(self, channel: ChannelId) -> bool:
        """Whether more items of this channel let its operator proceed: no other channel is behind it."""
        return self._inputs.lags(channel)

    @property
    def unread(self) -> frozenset[ChannelId]:
        """Channels not to read now: parked ones, and while a consumer has no room all but the admitted ones."""
        unread = self._inputs.unread(blocked=self._outputs.blocked)
        return unread if self._cycle is None or self._outputs.blocked else unread | {*self._cycle.unread}

    @property
    def missing(self) -> Missing:
        """What the host has to recompute."""
        return Missing(self._inputs.missing, self._inputs.silent) if self._inputs.recomputed else NOTHING_MISSING

    @property
    def catching_up(self) -> bool:
        """It still processes what became due while it was down: rows of its sources, or items being recomputed."""
        return self._inputs.catching_up or self._sources.catching_up

    @property
    def blocked(self) -> bool:
        """A consumer that may be up has no room for pending items, or the element is halted."""
        return self._outputs.blocked

    @property
    def ready(self) -> bool:
        """Every consumer is known to be up or down. Until then no source is read."""
        return self._outputs.ready

    @property
    def ended(self) -> bool:
        """All input has been processed, and all output has left."""
        return self.finished and self._outputs.ended

    @property
    def finished(self) -> bool:
        """As `ended`, but some output may not be committed yet."""
        reached = (self._engine.reached(name) for name in self.pe.fragment.members)
        return all(key == END_KEY for key in reached) and self._outputs.finished

    @property
    def checkpoints(self) -> Mapping[CheckpointId, Cut]:
        """Those on disk."""
        return self._captures.checkpoints

    @property
    def records(self) -> Records | None:
        """Continuous checkpoints; None: it has none."""
        return self._records

    def positions(self) -> Mapping[str, Any]:
        """Where it stands, as JSON: items expected and processed, rows read, items sent."""
        sent = [[output.id, output.sender.number] for output in self._outputs.channels.values()]
        return {"inputs": self._inputs.positions(), "sources": self._resume_points.taken, "sent": sent}

    def validate(self) -> None:
        """Raise `AssertionError` for a broken invariant. Call it between two calls of `handle`."""
        self._ledger.validate()
        self._inputs.validate()
        self._outputs.validate()

    def taken(self, source: str) -> int:
        """Rows read from a source."""
        return self._resume_points.taken[source]

    def end_sources(self) -> None:
        """Read no new rows; the sources end at the rows that are due."""
        self._sources.stopping = True

    @property
    def idle(self) -> bool:
        """The sources had no rows at the last poll."""
        return self._sources.idle

    def next_due(self) -> int | None:
        """When to poll the sources again, microseconds of the wall clock; None: all have ended."""
        return self._sources.next_due()

    # Input ------------------------------------------------------------------------------------------------------------

    def _on_event(self, event: HostEvent) -> None:
        """Handle an event of a connection or of the director."""
        if isinstance(event, Recomputed):
            self.story.event(self._clock.now(), "Recomputed", event.channel, event.message.number, event.message.items)
        else:
            self.story.event(self._clock.now(), type(event).__name__, *event)
        match event:
            case seam.ConsumerUp(channel, _, next_, delivered):
                self._outputs.channels[channel].consumer_up(next_, delivered)
            case seam.ConsumerDown(channel):
                self._outputs.channels[channel].consumer_down()
            case seam.Acknowledged(channel, next_):
                self._outputs.channels[channel].acknowledged(next_)
            case seam.ProducerGone(channel, epoch):
                input_ = self._inputs.strands[channel]
                if input_.seen is not None or not input_.receiver.lost_producer(epoch):
                    return
            case seam.FromDirector(message) if CYCLE in message:
                self._on_cycle_message(message[CYCLE])
                return
            case Recomputed(channel, part):
                self._recomputed(self._inputs.channels[channel], part)
                return
            case Unneeded(ids, void):
                for unit, oldest in self._captures.delete(ids, void=void).items():
                    if unit == WHOLE:
                        self._host.release_inputs(oldest.sources)
                    self._notify(seam.Deleted(unit, oldest))
                return
        assert not isinstance(event, Arrival | Recomputed | Unneeded)
        self._notify(event)

    def _on_cycle_message(self, message: Mapping[str, Any]) -> None:
        """Handle a question or a finding of the detector of the element's cycle."""
        assert self._cycle is not None
        if "asked" in message:
            self._host.send_to_director({CYCLE: self._cycle.answer(message["asked"])})
            return
        outputs = self._cycle.apply(message)
        self._ledger.begin()
        self._settle(outputs, 0)

    def _notify(self, event: seam.Event) -> None:
        if type(event) in self._subscribed:
            self._carry_out(self.protocol.handle(event))

    def _arrive_all(self, arrivals: list[Arrival]) -> None:
        """Handle messages per channel in order. The merge orders channels by key, so they may be grouped."""
        if len(arrivals) == 1:
            self._arrived(self._inputs.strands[arrivals[0].channel], arrivals[0])
            return
        by_channel: dict[ChannelId, list[Arrival]] = {}
        for arrival in arrivals:
            by_channel.setdefault(arrival.channel, []).append(arrival)
        for channel, waiting in by_channel.items():
            input_ = self._inputs.strands[channel]
            joins = len(waiting) > 1 and (input_.seen is None or input_.seen.joins(channel))
            for arrival in joined_arrivals(waiting, self._batch_rows) if joins else waiting:
                self._arrived(input_, arrival)

    def _arrived(self, input_: InputChannel, arrival: Arrival) -> None:
        if input_.parked is not None:
            input_.parked.append(arrival)
            return
        message, receiver = arrival.message, input_.receiver
        if input_.seen is not None:
            copied = self._inputs.without_duplicates(input_, input_.seen, arrival)
            if copied is not None:
                self._deliver(input_, copied, 0, -1)
            return
        skip = 0
        if not receiver.follows(message.epoch, message.number) or message.kind is MessageKind.MARKER:
            if message.epoch >= 0 and receiver.back(message.epoch, message.number):
                self._notify(seam.ProducerBack(input_.id, message.epoch, message.epoch == receiver.epoch))
                if input_.parked is not None:
                    input_.parked.append(arrival)
                    return
            epoch = max(message.epoch, receiver.epoch) if message.epoch < 0 else message.epoch
            if message.kind is MessageKind.MARKER:
                if receiver.fresh(epoch, receiver.next, 0) != NOTHING:
                    self._notify(seam.MarkerArrived(input_.id, message.number, message.header))
                return
            skip = receiver.fresh(epoch, message.number, message.items)
            if skip == NOTHING:
                return
            if receiver.ahead(message.number):
                input_.parked = deque((arrival,))
                return
        if self._asks_on_arrival and message.items > skip:
            self._ask_protocol(input_, arrival, skip)
        else:
            self._deliver(input_, message, skip, arrival.position)

    def _recomputed(self, input_: InputChannel, message: Message) -> None:
        """Deliver recomputed items; once none is missing, unpark the channel."""
        skip = input_.receiver.fresh(input_.receiver.epoch, message.number, message.items)
        if skip != NOTHING and input_.id in self._inputs.missing:
            self._deliver(input_, message, skip, input_.position)
            if input_.id not in self._inputs.missing:
                self._unpark(seam.Unpark(input_.id))

    def _ask_protocol(self, input_: InputChannel, arrival: Arrival, skip: int) -> None:
        """Let the protocol decide whether to deliver, park or drop a message."""
        message, decided = arrival.message, False
        event = seam.Arrived(input_.id, message.number + skip, message.items - skip, message.header)
        for command in self.protocol.handle(event):
            if type(command) is seam.Deliver:
                decided = True
                self._deliver(input_, message, skip, arrival.position)
            elif type(command) is seam.Park and command.channel == input_.id and not decided:
                decided = True
                input_.parked = deque((arrival,))
            else:
                self._carry_out((command,))
        if not decided:
            input_.receiver.next = message.number + message.items
            input_.position = arrival.position

    def _deliver(self, input_: InputChannel, message: Message, skip: int, position: int) -> None:
        """Accept a message into the element."""
        if skip and message.items:
            message = without(message, skip)
        if input_.damage_before is not None and message.items:
            self._inputs.end_gap(input_, message)
        if message.number > input_.receiver.next:
            self._inputs.start_gap(input_, message)
            if self.plan.delivered == "taken":
                input_.record.missed += message.number - input_.receiver.next
        input_.receiver.next = message.number + message.items
        input_.position = position
        # Without a merge the position is noted when the operators have processed the message.
        if input_.merge_cursor is not None and input_.kind.by_term:
            self._inputs.note_delivered(input_, message)
        if self._cycle is not None:
            self._cycle.arrived(input_, message)
        for capture in input_.open_captures:
            capture.add(input_.id, message)
        if (self._backlogged and input_.backlog) or input_.full or (input_.admitted and self._outputs.blocked):
            self._backlogged = True
            input_.backlog.add(message, position)
        else:
            self._process(input_, message, position)

    def _process(self, input_: InputChannel, message: Message, position: int) -> None:
        """Pass a message to the merge and the operators; in parts where a digest of the state in between is due."""
        if self._state_digest.key is None:
            self._process_part(input_, message, position)
            return
        for part in self._state_digest.parts(message, input_.watermark, self._layout.shape(input_.id)):
            self._process_part(input_, part, position)
            self._report_digest()

    def _request_digest(self, command: seam.RequestDigest) -> None:
        if not self._state_digest.ask(command.key):
            self._notify(seam.StateDigested(command.key, None))

    def _report_digest(self) -> None:
        if (digest := self._state_digest.take()) is not None:
            self._notify(seam.StateDigested(*digest))

    def _process_part(self, input_: InputChannel, message: Message, position: int) -> None:
        if self._records is not None and message.kind is MessageKind.END:
            position = input_.cursor.cut().taken_position  # a recovery from records reads the end again
        if message.watermark is not None and message.born:
            self._outputs.entered.note(message.watermark, message.born)
        if self.wrong_bits.pending and message.batch is not None:
            message = replace(message, batch=self.wrong_bits.views(message.batch))
        outputs = self._inputs.deliver(input_, message, position)
        self._ledger.begin()
        if input_.merge_cursor is None:
            self._inputs.count_delivered(input_, message, position)
        self._settle(outputs, message.born, input_)
        if message.watermark == END_KEY:
            self._notify(seam.Ended(input_.id))

    def _drain_backlogs(self) -> None:
        """Process the backlog; items of one channel may make room for another."""
        waiting = [input_ for input_ in self._inputs.channels.values() if input_.backlog]
        self._backlogged = bool(waiting)
        while waiting and not self._outputs.blocked:
            moved = [input_ for input_ in waiting if self._inputs.has_room(input_)]
            for input_ in moved:
                self._process(input_, *input_.backlog.pop())
            waiting = [input_ for input_ in waiting if input_.backlog] if moved else []

    def _settle(self, outputs: list[Output], born: int, input_: InputChannel | None = None) -> None:
        """After a call of the engine: count what its operators processed, number what they emitted, and send it.

        Both counts are committed together and before anything leaves, so the ledger is correct after a crash at any
        instruction. The caller has called `Ledger.begin`.
        """
        changed = self._inputs.settle()
        self._resume_points.settle()
        records = self._records
        self._outputs.emit(outputs, born, self._record if records is not None and records.ripe else None)
        if seam.Passed in self._subscribed:
            if input_ is not None and input_.merge_cursor is None:
                changed.append(input_)
            for passed in changed:
                event = seam.Passed(passed.id, passed.cursor.next, passed.record.retained_from)
                self._carry_out(self.protocol.handle(event))

    def _record(self, emitted: bool, announced: OrderKey) -> bytes:
        """The record to write now; often empty."""
        assert self._records is not None
        if not self._records.wanted(emitted):
            return b""
        inputs = {channel: input_.cursor.cut() for channel, input_ in self._inputs.channels.items()}
        sent = {channel: output.sender.number for channel, output in self._outputs.channels.items()}
        return self._records.record(inputs, self._resume_points.taken, sent, announced)

    def _emitted(self, channel: ChannelId, number: int, items: int) -> None:
        self._carry_out(self.protocol.handle(seam.Emitted(channel, number, items)))

    # Commands ---------------------------------------------------------------------------------------------------------

    def _carry_out(self, commands: Sequence[seam.Command]) -> None:
        for command in commands:
            self.story.ordered(self._clock.now(), command)
            self._carry_out_by_type[type(command)](command)

    def _park(self, command: seam.Park) -> None:
        input_ = self._inputs.channels[command.channel]
        if input_.parked is None:
            input_.parked = deque()

    def _unpark(self, command: seam.Unpark) -> None:
        input_ = self._inputs.channels[command.channel]
        parked, input_.parked = input_.parked or (), None
        for arrival in parked:
            self._arrived(input_, arrival)

    def _admit(self, command: seam.Admit) -> None:
        self._inputs.channels[command.channel].admitted = command.admitted

    def _await(self, command: seam.Await) -> None:
        outputs = self._inputs.wait_for(self._inputs.channels[command.channel], command.waited)
        self._ledger.begin()
        self._settle(outputs, 0)

    # Time -------------------------------------------------------------------------------------------------------------

    def _tick(self, now: int) -> None:
        for channel, next_ in self._inputs.new_acknowledgements() if self.plan.rounds else ():
            self._host.acknowledge(channel, next_)
        for taken in self._captures.finished():
            self._host.checkpoint_durable(taken.durable, taken.bytes, taken.taken)
            self._withheld.durable(taken.durable)
            self._notify(taken.durable)
        if self._records is not None:
            self._records.tick(now)
        if self._cycle is not None and (rest := self._cycle.tick()) is not None:
            self._host.send_to_director({CYCLE: rest})
        for dropped in self._captures.dropped():
            self._notify(dropped)
        if seam.DeliveredUpTo in self._subscribed:
            for channel, delivered in self._inputs.newly_passed():
                self._notify(seam.DeliveredUpTo(channel, delivered))
        for stream, digests in self._outputs.tick():
            self._notify(seam.OutputDigested(stream, digests))
        self._notify(seam.Tick(now))

    # Sources ----------------------------------------------------------------------------------------------------------

    def _pull(self) -> bool:
        """Read what is due from the sources, once every consumer is known to be up or down."""
        repeating = self._records is not None and self._records.repeating  # it emits nothing, so nothing waits for it
        return self._outputs.ready and self._sources.pull(self._push, self._advance, at_once=_BATCH_ROWS * repeating)

    def _push(self, source: str, batch: pa.RecordBatch, position: int, born: int) -> None:
        """Process rows of a source up to `position`; in parts where a digest of the state in between is due."""
        shape = self._layout.graph.shape(source)
        self._outputs.entered.note(keys_of(batch.slice(batch.num_rows - 1), shape).at(0), born)
        if (key := self._state_digest.key) is not None:
            below = self._state_digest.below(source, keys_of(batch, shape))
            if below is not None:
                if below:
                    self._push_part(source, batch.slice(0, below), position - batch.num_rows + below, born)
                self._advance(source, key)
                self._report_digest()
                batch = batch.slice(below)
        self._push_part(source, batch, position, born)

    def _push_part(self, source: str, batch: pa.RecordBatch, position: int, born: int) -> None:
        self.story.event(self._clock.now(), "Read", source, position - batch.num_rows, batch.num_rows)
        outputs = self._engine.push(source, self.wrong_bits.rows(batch))
        self._ledger.begin()
        self._resume_points.read(source, batch, position)
        self._settle(outputs, born)

    def _advance(self, source: str, key: OrderKey) -> None:
        """The watermark of a source advances without rows."""
        if key > self._engine.reached(source):
            self.story.event(self._clock.now(), "Watermark", source, key)
            outputs = self._engine.advance(source, key)
            self._ledger.begin()
            self._settle(outputs, 0)
