"""The input channels of an element: where their items go, what was delivered, and what waits."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine, Output
from riprap.engine.pruning import carried_schema
from riprap.graph.graph import StreamSpec
from riprap.graph.mark_keys import watermark_of_row
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.operators.columns import Keys, keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.ownership import Owner
from riprap.operators.views import Views
from riprap.protocols.channel import ALL, Delivered, ReceivingEnd
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut
from riprap.replication.seen import HOLE, Seen
from riprap.runtime.element.arrivals import keys_of_message, without
from riprap.runtime.element.backlog import Backlog
from riprap.runtime.element.captures import OpenCapture
from riprap.runtime.element.cursor import InputCursor, ItemRange, MergedCursor
from riprap.runtime.element.ledger import InputChannelRecord, Ledger, MissedRecord
from riprap.runtime.element.retained import Retained
from riprap.runtime.element.shard_merge import EngineEvent, ShardMerge
from riprap.runtime.host import Arrival, Host, Spill
from riprap.runtime.late_streams import accepts_late
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message
from riprap.runtime.retention.all_kinds import KINDS

_TEXT_BYTES = 16  # of a value whose width is not known


class InputChannel:
    """One input channel, in one incarnation of its element."""

    def __init__(
        self, id_: ChannelId, receiver: ReceivingEnd, cursor: InputCursor, record: InputChannelRecord, backlog: Backlog
    ) -> None:
        self.id, self.receiver, self.cursor, self.record, self.backlog = (id_, receiver, cursor, record, backlog)
        self.kind = KINDS[receiver.retention]
        self.merge_cursor: MergedCursor | None = cursor if isinstance(cursor, MergedCursor) else None
        self.position = cursor.position  # in its log, behind the accepted messages
        self.stream = id_.stream
        self.target = ""  # the operator that it feeds
        self.port = 0
        self.max_rows = 0  # that may wait in the merge in memory
        self.accepts_late = True  # late items are delivered, not dropped
        self.parked: deque[Arrival] | None = None  # None: not parked
        self.admitted = False  # read even while a consumer has no room
        self.open_captures: list[OpenCapture] = []
        self.waited = True  # the merge waits for it
        self.is_feedback = False
        self.delivered = Delivered()  # delivered position, if replicas send on it
        self.seen: Seen | None = None  # delivered position, if copies send on it
        self.delivered_before = Delivered()  # position of the previous incarnation, if this one starts empty
        self.repeated_below = 0  # items below this number were delivered to the previous incarnation
        self.watermark = START_KEY  # that the merge knows of
        self.acknowledged = 0  # items below this number were acknowledged
        self.merge: ShardMerge | None = None
        self.retained: Retained | None = None
        self.missed: MissedRecord | None = None  # under the retention hold
        self.counts_damage = False  # items it misses are lost, and their event times are recorded
        self.damage_before: int | None = None  # items before the next one are lost: the least end of their time span
        self.owner: Owner | None = None  # which rows are this shard's, in a log that several shards read

    @property
    def full(self) -> bool:
        """Its merge has no more room in memory."""
        return self.merge_cursor is not None and self.merge_cursor.rows > self.max_rows

    def validate(self) -> None:
        """Raise for a broken invariant: items are accepted, then arrive at the merge, then pass."""
        next_ = self.receiver.next
        self.cursor.validate()
        self.backlog.validate()
        assert self.cursor.next <= next_, f"{self.id}: {self.cursor.next} was processed, and {next_} is expected"
        assert self.cursor.end <= next_, f"{self.id}: {self.cursor.end} has arrived, and {next_} is expected"

    def cut(self) -> InletCut:
        taken, position = self.receiver.next, self.position
        return self.cursor.cut()._replace(taken=taken, taken_position=position, missed=self.record.missed)


class Inputs:
    """All input channels. `starts`: by channel, the number of the item expected next, and its position in the log."""

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        engine: Engine,
        host: Host,
        ledger: Ledger,
        merges: Mapping[str, ShardMerge],
        starts: Mapping[ChannelId, tuple[int, int]],
        reached_before: Mapping[str, OrderKey],
        limit: int,
        *,
        exact: bool,
        on_arrival: bool,
        restored: Mapping[ChannelId, Delivered],
    ) -> None:
        """`on_arrival`: *delivered* means accepted. `restored`: delivered positions of the copy whose state it has."""
        self._engine, self._layout, self.merges, self._ledger = engine, layout, merges, ledger
        self._exact = exact  # a crash undoes everything since the checkpoint: no item is delivered twice
        self._delivered_on_arrival = on_arrival  # the ledger rolled back with the state; gaps were counted on arrival
        self.reached_before = dict(reached_before)  # by operator: the watermark of a previous incarnation
        retained: dict[tuple[str, int], Retained] = {}
        self.channels: dict[ChannelId, InputChannel] = {}
        for channel in layout.inputs(pe):
            stream, (next_, position) = layout.stream(channel), starts[channel]
            is_merged = channel.stream in merges or len(layout.graph.inputs(stream.target)) > 1
            rows: Retained | None = None
            if not layout.graph[stream.target].tolerates_loss and is_merged:
                siblings = [c for c in layout.inputs(pe) if c.stream == channel.stream]
                rows = retained.setdefault((stream.target, stream.target_port), Retained(siblings))
            cursor = MergedCursor(next_, position, channel, rows) if is_merged else InputCursor(next_, position)
            receiver = ReceivingEnd(layout.retention(channel), next_, doubtful=is_merged and layout.kind(channel).gaps)
            input_ = InputChannel(
                channel, receiver, cursor, ledger.inputs[channel], Backlog(limit, _spill_factory(host, channel))
            )
            input_.target, input_.port, input_.merge, input_.retained = (
                stream.target, stream.target_port, merges.get(channel.stream), rows,
            )  # fmt: skip
            input_.missed = ledger.missed.get(channel)
            input_.counts_damage = not exact and input_.kind.gaps
            if pe.fragment.former and layout.link(channel.stream).mixed:
                input_.owner = owner_of(layout, pe, stream)
            # A channel whose end is in the restored state may send nothing more: its merge knows its watermark.
            input_.watermark = (
                engine.known(input_.target, input_.port) if input_.merge is None else input_.merge.known(channel.source)
            )
            input_.kind.start_input(input_, restored.get(channel), copied=pe.fragment.copied)
            input_.accepts_late = accepts_late(layout, channel)
            input_.max_rows = max(1, limit // _row_bytes(layout.schema(channel)))
            self.channels[channel] = input_
        self.strands = {
            strand: input_ for channel, input_ in self.channels.items() for strand in layout.strands(channel)
        }
        self._retaining = [input_ for input_ in self.channels.values() if input_.retained is not None]
        self._merged = [input_ for input_ in self.channels.values() if input_.merge_cursor is not None]
        self.bounded: Callable[[InputChannel, OrderKey], OrderKey] = lambda input_, watermark: watermark  # of feedback
        self._passed: dict[ChannelId, Delivered] = {}  # at the last call of `newly_passed`
        self.recomputed = [input_ for input_ in self.channels.values() if input_.kind.recomputed]

    @property
    def missing(self) -> dict[ChannelId, tuple[int, int]]:
        """By channel, the items to recompute, [first, last). Later items wait."""
        return {
            input_.id: (input_.receiver.next, input_.parked[0].message.number)
            for input_ in self.recomputed
            if input_.parked and input_.receiver.ahead(input_.parked[0].message.number)
        }

    @property
    def silent(self) -> dict[ChannelId, int]:
        """Recomputed channels whose producers have sent nothing yet, with the expected item."""
        return {
            input_.id: input_.receiver.next
            for input_ in self.recomputed
            if input_.receiver.epoch < 0 and not input_.parked
        }

    @property
    def catching_up(self) -> bool:
        """Items are missing, or the producer of a recomputed channel has not yet reported where it resumes."""
        return bool(self.missing) or bool(self.silent)

    def unread(self, *, blocked: bool) -> frozenset[ChannelId]:
        """Channels not to read now: parked ones, and while a consumer has no room all but the admitted ones."""
        strands = self.strands.items()
        return frozenset(c for c, input_ in strands if input_.parked is not None or (blocked and not input_.admitted))

    def positions(self) -> list[tuple[ChannelId, int, int]]:
        """Channels with the items expected next, and those that operators process next."""
        return [(input_.id, input_.receiver.next, input_.cursor.next) for input_ in self.channels.values()]

    def has_room(self, input_: InputChannel) -> bool:
        """Whether the merge may accept more of a channel: if it has room, and always if it waits for this channel."""
        if not input_.full:
            return True
        others = (o.watermark for o in self.channels.values() if o.target == input_.target and o.waited)
        return not input_.waited or input_.watermark <= min(others)

    def delivered_position(self, strand: ChannelId, unread: Iterable[Message]) -> Delivered:
        """The delivered position of a channel from replicas or copies, once `unread` is delivered too."""
        input_, shape = self.strands[strand], self._layout.shape(strand)
        if input_.seen is not None:
            return input_.seen.connected(strand, [(m.number, keys_of_message(m, shape), m.watermark) for m in unread])
        delivered = input_.delivered
        for message in unread:
            delivered = delivered.after(keys_of_message(message, shape), message.watermark)
        return delivered

    def without_duplicates(self, input_: InputChannel, seen: Seen, arrival: Arrival) -> Message | None:
        """The items of one copy's message that no other copy has sent, under the numbers of the channel."""
        message = arrival.message
        keys = keys_of_message(message, self._layout.shape(input_.id))
        skip = seen.fresh(arrival.channel, message.number, keys, message.watermark)
        advances = message.watermark is not None and message.watermark > input_.watermark
        if skip == HOLE or (skip == message.items and not advances):
            return None
        if input_.delivered_before.items and skip < message.items:
            known = bisect_right(range(message.items), input_.delivered_before.key, lo=skip, key=keys.at) - skip
            input_.repeated_below = input_.receiver.next + known
            if known < message.items - skip:
                input_.delivered_before = Delivered()
        return replace(without(message, skip) if skip else message, number=input_.receiver.next)

    def start_gap(self, input_: InputChannel, message: Message) -> None:
        """The items before this message are lost: record their event times."""
        if not input_.counts_damage or input_.record.position == END_KEY.ts:
            return
        if message.items:
            input_.record.add_damage(input_.record.position, self._bound(input_, message).ts)
        else:  # no bound: the watermark of a restarted producer may be below that of its previous incarnation
            input_.damage_before = max(
                input_.record.add_damage(input_.record.position, END_KEY.ts), input_.record.position
            )

    def end_gap(self, input_: InputChannel, message: Message) -> None:
        """These are the first items after lost ones: they end the time span of the loss."""
        assert input_.damage_before is not None
        input_.record.end_damage(max(input_.damage_before, self._bound(input_, message).ts))
        input_.damage_before = None

    def _bound(self, input_: InputChannel, message: Message) -> OrderKey:
        """A key that no earlier item of the channel exceeds."""
        return max(self._first_key(input_, message), message.at or START_KEY)

    def _note_late(self, input_: InputChannel, first: OrderKey, at: OrderKey) -> None:
        if input_.counts_damage:
            input_.record.add_damage(first.ts, max(first.ts, at.ts))

    def _note_times(self, input_: InputChannel, known: OrderKey, reached: OrderKey) -> None:
        """The channel has delivered everything up to `known`; its operator has processed everything up to `reached`."""
        record, position = input_.record, min(known, reached).ts
        if position > record.position:
            record.position = position
        if reached.ts > record.reached:
            record.reached = reached.ts

    def lags(self, channel: ChannelId) -> bool:
        """No other channel of the same merge has a lower watermark."""
        input_ = self.channels[channel]
        return all(
            input_.watermark <= other.watermark for other in self.channels.values() if other.target == input_.target
        )

    def note_delivered(self, input_: InputChannel, message: Message) -> None:
        """Advance the delivered position of a channel from replicas."""
        input_.delivered = input_.delivered.after(
            keys_of_message(message, self._layout.shape(input_.id)), message.watermark
        )

    def newly_passed(self) -> list[tuple[ChannelId, Delivered]]:
        """What operators have processed of channels from replicas or copies, if it is more than at the last call: a
        crash would lose what is beyond.
        """
        fed = [input_ for input_ in self.channels.values() if input_.kind.replicated]
        passed = {input_.id: Delivered(self._engine.reached(input_.target), ALL) for input_ in fed}
        changed = [(channel, at) for channel, at in passed.items() if at != self._passed.get(channel)]
        self._passed = passed
        return changed

    def delivered_by_copies(self) -> dict[ChannelId, Delivered]:
        """Delivered positions of channels from copies, for a copy that starts from this state."""
        positions = {}
        for input_ in self.channels.values():
            if input_.seen is not None:
                merged = input_.merge_cursor is not None
                positions[input_.id] = (
                    Delivered(self._engine.reached(input_.target), ALL) if merged else input_.seen.delivered
                )
        return positions

    def new_acknowledgements(self) -> list[tuple[ChannelId, int]]:
        """Held channels that have accepted items since the last call, with the number after the last one."""
        acknowledgements = []
        for input_ in self.channels.values():
            if input_.kind.acknowledged and input_.receiver.next > input_.acknowledged:
                input_.acknowledged = input_.receiver.next
                acknowledgements.append((input_.id, input_.receiver.next))
        return acknowledgements

    def validate(self) -> None:
        """Raise for a broken invariant, between two calls of the engine."""
        for input_ in self.channels.values():
            input_.validate()

    # To the engine ----------------------------------------------------------------------------------------------------

    def deliver(self, input_: InputChannel, message: Message, position: int) -> list[Output]:
        """Pass a message to the merge of its shards or to the engine; `position` is behind it."""
        watermark, ended = message.watermark, input_.is_feedback and input_.watermark == END_KEY
        if watermark is not None and input_.is_feedback:
            watermark = max(self.bounded(input_, watermark), input_.watermark)
        if watermark is not None:
            input_.watermark = watermark
        event: EngineEvent | None = None if ended and input_.merge_cursor is None else message.batch
        if (
            event is not None
            and input_.owner is None
            and input_.merge_cursor is None
            and input_.merge is None
            and message.at is None
        ):
            return self._engine.push(input_.stream, event, until=watermark)
        if message.punctuation is not None:
            event = Punctuation(message.punctuation)
        if input_.merge_cursor is not None:
            events = self._to_merge(input_, input_.merge_cursor, event, message, position)
            if ended:  # what operators emit at the end is not fed back
                events = []
        elif event is None or (message.at is not None and not input_.accepts_late):
            events = []
        else:
            events = [event] if message.at is None else self._late_items(input_, event, message.number, message.at)
        if input_.owner is not None and message.batch is not None:  # rows of other shards advance the watermark too
            events = [own for rows in events if isinstance(rows, Views) and (own := input_.owner.own(rows)) is not None]
            watermark = max(
                watermark or START_KEY, watermark_of_row(message.batch.last_key(self._layout.shape(input_.id)))
            )
            input_.watermark = max(input_.watermark, watermark)
        merge = input_.merge
        if merge is None:
            return self._push(input_.stream, events, watermark)
        passing = [passed for event in events for passed in merge.put(input_.id.source, event, None)]
        passing += merge.put(input_.id.source, None, watermark)
        outputs = self._push(input_.stream, passing, merge.reached)
        return outputs + self._engine.wait_for(input_.stream, merge.waited)

    def advance(self, input_: InputChannel, watermark: OrderKey) -> list[Output]:
        """Raise the watermark of a channel without a message from its producer."""
        if watermark <= input_.watermark:
            return []
        input_.watermark = watermark
        if input_.merge is None:
            return self._engine.advance(input_.stream, watermark)
        passing = input_.merge.put(input_.id.source, None, watermark)
        outputs = self._push(input_.stream, passing, input_.merge.reached)
        return outputs + self._engine.wait_for(input_.stream, input_.merge.waited)

    def _push(self, stream: str, events: list[EngineEvent], until: OrderKey | None) -> list[Output]:
        outputs: list[Output] = []
        for event in events[:-1]:
            outputs += self._engine.push(stream, event)
        if events:
            outputs += self._engine.push(stream, events[-1], until=until)
        elif until is not None:
            outputs += self._engine.advance(stream, until)
        return outputs

    def wait_for(self, input_: InputChannel, waited: bool) -> list[Output]:
        """Set whether the merge waits for a channel."""
        input_.waited = waited
        input_.receiver.doubtful = input_.merge_cursor is not None and input_.kind.gaps
        if input_.merge is None:
            return self._engine.wait_for(input_.stream, waited)
        outputs = self._push(input_.stream, input_.merge.wait_for(input_.id.source, waited), input_.merge.reached)
        return outputs + self._engine.wait_for(input_.stream, input_.merge.waited)

    def _to_merge(
        self, input_: InputChannel, cursor: MergedCursor, event: EngineEvent | None, message: Message, position: int
    ) -> list[EngineEvent]:
        """The part of a message that goes to the merge. After a crash the first items of a channel may be late."""
        first, end = message.number, message.number + message.items
        if event is None:
            cursor.arrived(end, None, end, position)
            return []
        rows = not isinstance(event, Punctuation)
        keys = self._keys(input_, event)
        late, reached = 0, START_KEY
        if input_.receiver.doubtful or message.at is not None:
            reached = max(self._engine.reached(input_.target), self.reached_before.get(input_.target, START_KEY))
            if input_.merge is not None:
                reached = max(reached, input_.merge.reached)
            late = input_.receiver.late(keys, reached) if message.at is None else end - first
        events: list[EngineEvent] = []
        if late:
            self._note_late(input_, keys.at(0), max(reached, cursor.last, message.at or START_KEY))
        if late and input_.accepts_late and (rows or input_.merge is None):
            # Every shard sends each punctuation, so it may have passed already: a late one is lost.
            at = max(reached, cursor.last, message.at or START_KEY)
            place = Keys(*(np.full(late, part, np.int64) for part in at))
            cursor.arrived(first, place, first + late, position, rows=rows, late=True)
            events = self._late_items(input_, event.slice(0, late) if isinstance(event, Views) else event, first, at)
        if late < end - first:
            timely = keys.rows(np.arange(late, end - first)) if late else keys
            cursor.arrived(first + late, timely, end, position, rows=rows)
            events.append(event.slice(late) if isinstance(event, Views) and late else event)
        elif not events:
            cursor.arrived(end, None, end, position)
        return events

    def _keys(self, input_: InputChannel, event: EngineEvent) -> Keys:
        if isinstance(event, Views):
            return keys_of(event, self._layout.shape(input_.id))
        assert isinstance(event, Punctuation)
        key = input_.merge.place(event.key) if input_.merge is not None else event.key
        return Keys(*(np.array([part], np.int64) for part in key))

    def _late_items(self, input_: InputChannel, event: EngineEvent, first: int, at: OrderKey) -> list[EngineEvent]:
        """Late items from number `first` on, split from those that a previous incarnation processed.

        Output that new ones trigger is emitted although its keys are at or below the announced watermark. Output that
        repeated ones trigger was emitted before.
        """
        repeated = 0 if self._exact else input_.record.next - first
        if not isinstance(event, Views) or not 0 < repeated < event.rows:
            return [Late(event, at, again=repeated > 0)]
        return [Late(event.slice(0, repeated), at, again=True), Late(event.slice(repeated), at)]

    def _first_key(self, input_: InputChannel, message: Message) -> OrderKey:
        if message.batch is not None:
            return message.batch.first_key(self._layout.shape(input_.id))
        assert message.punctuation is not None
        return message.punctuation

    # Counting ---------------------------------------------------------------------------------------------------------

    def count_delivered(self, input_: InputChannel, message: Message, position: int) -> None:
        """Count a message of a channel without a merge, which the operators have processed."""
        number, end = message.number, message.number + message.items
        record = input_.record
        before = record.next
        if input_.seen is not None:
            record.delivered = input_.seen.delivered
        elif input_.kind.by_term:
            self.note_delivered(input_, message)
            record.delivered = input_.delivered
        if message.at is not None:
            if not input_.accepts_late:
                number = end
            record.late += max(0, end - max(number, before))
            if message.items:
                self._note_late(input_, self._first_key(input_, message), message.at)
        input_.cursor.arrived(number, None, end, position)
        if not self._exact:
            rows = message.batch if message.at is None else None
            last = rows.last_key(self._layout.shape(input_.id)) if rows is not None else START_KEY
            self._note_times(input_, max(input_.watermark, last), max(self._engine.reached(input_.target), last))
        if number == before or self._delivered_on_arrival:
            self._count_repeated(input_, end)
            record.next = record.retained_from = end
            return
        self._count(input_, [ItemRange(number, end, late=False)], end)
        record.retained_from = end

    def settle(self) -> list[InputChannel]:
        """Count what has passed the merges; returns the channels on which something has."""
        changed = []
        for input_ in self._merged:
            cursor = input_.merge_cursor
            assert cursor is not None
            before, reached = cursor.next, self._engine.reached(input_.target)
            passed = cursor.pass_up_to(reached)
            if not self._exact:
                self._note_times(input_, input_.watermark, reached)  # late items do not advance it
            if cursor.next == before:
                continue
            changed.append(input_)
            record = input_.record
            if input_.kind.replicated:
                record.delivered = Delivered(reached, ALL)
            if self._delivered_on_arrival:
                record.next = cursor.next
                continue
            self._count_repeated(input_, cursor.next)
            self._count(input_, passed, cursor.next)
        for name, key in self.reached_before.items():
            reached = self._engine.reached(name)
            if reached > key:
                self.reached_before[name] = reached
                self._ledger.operators[name].key = reached
        for input_ in changed:
            if input_.retained is None:
                input_.record.retained_from = input_.cursor.next
        return changed + self._release_retained(changed) if self._retaining else changed

    def _count_repeated(self, input_: InputChannel, next_: int) -> None:
        """Items from copies below `next_` that the previous incarnation processed count as repeated, not received."""
        repeated = min(next_, input_.repeated_below) - input_.record.next
        if repeated > 0:
            input_.record.missed += repeated
            input_.record.repeated += repeated

    def _count(self, input_: InputChannel, passed: list[ItemRange], next_: int) -> None:
        """Count these items as processed, ascending; nothing else below `next_` will arrive in this incarnation."""
        record, missed = input_.record, input_.missed
        expected = record.next
        fresh = sum(range_.count_from(expected) for range_ in passed)
        repeated = sum(range_.count_from(0) for range_ in passed) - fresh
        if late := sum(range_.count_from(expected) for range_ in passed if range_.late):
            record.late += late
        following = max(expected, next_)
        if following - expected > fresh:
            record.missed += following - expected - fresh
            if missed is not None:
                for first, stop in _between(expected, passed, following):
                    missed.add(first, stop)
        record.next = following
        if repeated and not self._exact:
            made_up = sum(missed.remove(n.first, min(n.stop, expected)) for n in passed) if missed is not None else 0
            if made_up:  # a previous incarnation missed them
                record.missed -= made_up
            record.repeated += repeated - made_up

    def _release_retained(self, changed: list[InputChannel]) -> list[InputChannel]:
        """Release rows that left the state of operators that cannot tolerate loss.

        Returns the channels, other than `changed`, of which rows were released.
        """
        targets = {input_.target for input_ in changed}
        others = []
        for input_ in self._retaining:
            if input_.target not in targets:
                continue
            assert input_.retained is not None
            input_.retained.retain_newest(self._engine.operators[input_.target].retained(input_.port))
        for input_ in self._retaining:
            if input_.target not in targets:
                continue
            assert input_.retained is not None
            first = input_.retained.first_retained(input_.id, input_.cursor.next)
            if first != input_.record.retained_from and input_ not in changed:
                others.append(input_)
            input_.record.retained_from = first
        return others


def _between(first: int, passed: list[ItemRange], stop: int) -> list[tuple[int, int]]:
    """The ranges of [first, stop) of which nothing has passed."""
    ends = [first, *(max(first, range_.stop) for range_ in passed)]
    starts = [*(max(first, range_.first) for range_ in passed), stop]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]


def owner_of(layout: Layout, pe: Pe, stream: StreamSpec) -> Owner:
    """Tells which rows of a stream that is partitioned by key belong to an element."""
    keys = layout.graph[stream.target].partition_keys[stream.target_port]
    assert keys is not None
    return Owner(keys, carried_schema(layout.graph, stream, layout.wanted), pe.shard, pe.fragment.shards)


def _row_bytes(schema: pa.Schema) -> int:
    return sum(t.bit_width // 8 or 1 if pa.types.is_primitive(t) else _TEXT_BYTES for t in schema.types)


def _spill_factory(host: Host, channel: ChannelId) -> Callable[[], Spill]:
    return lambda: host.spill(channel)
