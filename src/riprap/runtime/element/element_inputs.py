"""The channels into an element: where their items go, how far they have come, and what of them is kept aside."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine, Output
from riprap.engine.pruning import carried_columns
from riprap.graph.graph import StreamSpec
from riprap.graph.mark_keys import told_by_row
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.operators.columns import Keys, keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.ownership import Owner
from riprap.operators.views import Views
from riprap.protocols.channel import ALL, Delivered, ReceivingEnd
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut
from riprap.replication.seen import HOLE, Seen
from riprap.runtime.element.arrivals import without
from riprap.runtime.element.backlog import Backlog
from riprap.runtime.element.captures import OpenCapture
from riprap.runtime.element.cursor import InputCursor, MergedCursor, Numbers
from riprap.runtime.element.ledger import InputChannelRecord, Ledger, MissedRecord
from riprap.runtime.element.remember_output import keys_of_message
from riprap.runtime.element.retained import Retained
from riprap.runtime.element.shard_merge import Given, ShardMerge
from riprap.runtime.host import Arrival, Host, Spill
from riprap.runtime.late_streams import accepts_late
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message

_HOLED = frozenset(("discard", "hold", "while-down"))  # retentions with which something may be missing, so late
_TEXT_BYTES = 16  # of a value whose width is not known


class InputChannel:
    """One channel into an element, in one life."""

    def __init__(
        self, id_: ChannelId, receiver: ReceivingEnd, cursor: InputCursor, record: InputChannelRecord, backlog: Backlog
    ) -> None:
        self.id, self.receiver, self.cursor, self.record, self.backlog = (id_, receiver, cursor, record, backlog)
        self.merge_cursor: MergedCursor | None = cursor if isinstance(cursor, MergedCursor) else None
        self.position = cursor.position  # in its log, behind what was taken
        self.stream = id_.stream
        self.target = ""  # the operator that it leads to
        self.port = 0
        self.max_rows = 0  # that may wait in the merge
        self.accepts_late = True  # what comes late is had all the same
        self.parked: deque[Arrival] | None = None  # None: the channel is not parked
        self.admitted = False  # read also while some consumer has no room
        self.open_captures: list[OpenCapture] = []
        self.waited = True
        self.is_feedback = False  # it leads back in a cycle
        self.delivered = Delivered()  # what has come, where replicas bring it
        self.seen: Seen | None = None  # the same where copies do
        self.delivered_before = (
            Delivered()
        )  # what the life before had had of them, which begins empty and is given it again
        self.repeated_below = 0  # number below which items are such
        self.watermark = START_KEY  # how far the merge knows the channel
        self.acknowledged = 0  # number below which its producer need not hold anything
        self.merge: ShardMerge | None = None
        self.retained: Retained | None = None
        self.missed: MissedRecord | None = None  # of a channel that its producer holds
        self.counts_damage = False  # what it misses is missing for good, and when that was is noted
        self.damage_before: int | None = None  # what is missing lies before the next item: the least that is noted then
        self.owner: Owner | None = None  # of a log in which rows of other shards are too: which are this one's

    @property
    def full(self) -> bool:
        """Its merge has no room in memory."""
        return self.merge_cursor is not None and self.merge_cursor.rows > self.max_rows

    def cut(self) -> InletCut:
        taken, position = self.receiver.next, self.position
        return self.cursor.cut()._replace(taken=taken, taken_position=position, missed=self.record.missed)


class Inputs:
    """All of them. `begins`: the number that each expects, and the position in its log."""

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        engine: Engine,
        host: Host,
        ledger: Ledger,
        merges: Mapping[str, ShardMerge],
        begins: Mapping[ChannelId, tuple[int, int]],
        behind: Mapping[str, OrderKey],
        limit: int,
        *,
        exact: bool,
        taken: bool,
        copied: Mapping[ChannelId, Delivered],
    ) -> None:
        """`copied`: of a copy that begins with the state of another, what that had had."""
        self._engine, self._layout, self.merges, self._ledger = engine, layout, merges, ledger
        self._exact = exact  # what was done before a crash is undone: nothing is given twice
        self._delivered_on_arrival = (
            taken  # the ledger went back with the state, and what is missing was counted as it was taken
        )
        self.behind = dict(behind)  # how far operators had come in another life
        retained: dict[tuple[str, int], Retained] = {}
        self.channels: dict[ChannelId, InputChannel] = {}
        for channel in layout.inputs(pe):
            stream, (next_, position) = layout.stream(channel), begins[channel]
            is_merged = channel.stream in merges or len(layout.graph.inputs(stream.target)) > 1
            kept: Retained | None = None
            if not layout.graph[stream.target].tolerates_loss and is_merged:
                together = [c for c in layout.inputs(pe) if c.stream == channel.stream]
                kept = retained.setdefault((stream.target, stream.target_port), Retained(together))
            cursor = MergedCursor(next_, position, channel, kept) if is_merged else InputCursor(next_, position)
            receiver = ReceivingEnd(
                layout.retention(channel), next_, doubtful=is_merged and layout.retention(channel) in _HOLED
            )
            input_ = InputChannel(
                channel, receiver, cursor, ledger.inputs[channel], Backlog(limit, _spilling(host, channel))
            )
            input_.target, input_.port, input_.merge, input_.retained = (
                stream.target, stream.target_port, merges.get(channel.stream), kept,
            )  # fmt: skip
            input_.missed = ledger.missed.get(channel)
            input_.counts_damage = not exact and receiver.retention in _HOLED
            if pe.fragment.former and layout.link(channel.stream).mixed:
                input_.owner = owner_of(layout, pe, stream)
            # Nothing may come any more of a channel whose end is in the state: its merge knows how far it has come.
            input_.watermark = (
                engine.known(input_.target, input_.port) if input_.merge is None else input_.merge.known(channel.source)
            )
            if receiver.retention == "remember":
                input_.delivered = input_.record.delivered
            elif receiver.retention == "copy":  # of a copy, where the state came from counts, not the life before
                input_.seen = Seen(copied.get(channel) or (None if pe.fragment.copied else input_.record.delivered))
                input_.delivered_before = (
                    Delivered() if channel in copied or not pe.fragment.copied else input_.record.delivered
                )
            input_.accepts_late = accepts_late(layout, channel)
            input_.max_rows = max(1, limit // _row_bytes(layout.schema(channel)))
            self.channels[channel] = input_
        self.strands = {
            strand: input_ for channel, input_ in self.channels.items() for strand in layout.strands(channel)
        }
        self._retaining = [input_ for input_ in self.channels.values() if input_.retained is not None]
        self._merged = [input_ for input_ in self.channels.values() if input_.merge_cursor is not None]
        self.bounded: Callable[[InputChannel, OrderKey], OrderKey] = lambda input_, watermark: watermark  # of feedback
        self.recomputed = [input_ for input_ in self.channels.values() if input_.receiver.retention == "recompute"]

    @property
    def missing(self) -> dict[ChannelId, tuple[int, int]]:
        """By channel the items that have to be recomputed, [first, last): what comes after them waits."""
        return {
            input_.id: (input_.receiver.next, input_.parked[0].message.number)
            for input_ in self.recomputed
            if input_.parked and input_.receiver.ahead(input_.parked[0].message.number)
        }

    @property
    def silent(self) -> dict[ChannelId, int]:
        """Channels that can be recomputed, of whose producers nothing has come yet: the item that is expected."""
        return {
            input_.id: input_.receiver.next
            for input_ in self.recomputed
            if input_.receiver.epoch < 0 and not input_.parked
        }

    @property
    def catching_up(self) -> bool:
        """Something is missing, or a producer of what can be recomputed has not said yet where it goes on."""
        return bool(self.missing) or bool(self.silent)

    def has_room(self, input_: InputChannel) -> bool:
        """Whether its merge may take more of a channel: while there is room, and always if it waits for just that."""
        if not input_.full:
            return True
        others = (w.watermark for w in self.channels.values() if w.target == input_.target and w.waited)
        return not input_.waited or input_.watermark <= min(others)

    def has_delivered(self, strand: ChannelId, unread: Iterable[Message]) -> Delivered:
        """How far a channel has come that replicas or copies bring, when `unread` is taken too."""
        input_, shape = self.strands[strand], self._layout.shape(strand)
        if input_.seen is not None:
            return input_.seen.connected(strand, [(m.number, keys_of_message(m, shape), m.watermark) for m in unread])
        delivered = input_.delivered
        for message in unread:
            delivered = delivered.after(keys_of_message(message, shape), message.watermark)
        return delivered

    def without_duplicates(self, input_: InputChannel, seen: Seen, arrival: Arrival) -> Message | None:
        """Of what one copy of a producer brings, the part that no other has brought, with numbers of the channel."""
        message = arrival.message
        keys = keys_of_message(message, self._layout.shape(input_.id))
        skip = seen.fresh(arrival.channel, message.number, keys, message.watermark)
        news = message.watermark is not None and message.watermark > input_.watermark
        if skip == HOLE or (skip == message.items and not news):
            return None
        if input_.delivered_before.items and skip < message.items:
            known = bisect_right(range(message.items), input_.delivered_before.key, lo=skip, key=keys.at) - skip
            input_.repeated_below = input_.receiver.next + known
            if known < message.items - skip:
                input_.delivered_before = Delivered()
        return replace(without(message, skip) if skip else message, number=input_.receiver.next)

    def start_gap(self, input_: InputChannel, message: Message) -> None:
        """Items between what has come on a channel and this message will never come: note their event times."""
        if not input_.counts_damage or input_.record.position == END_KEY.ts:
            return
        if message.items:
            input_.record.add_damage(input_.record.position, self._bound(input_, message).ts)
        else:  # progress does not bound them: a producer that was restarted may tell less than another life of it had
            input_.damage_before = max(
                input_.record.add_damage(input_.record.position, END_KEY.ts), input_.record.position
            )

    def end_gap(self, input_: InputChannel, message: Message) -> None:
        """The first items behind those that are known to be missing."""
        assert input_.damage_before is not None
        input_.record.end_damage(max(input_.damage_before, self._bound(input_, message).ts))
        input_.damage_before = None

    def _bound(self, input_: InputChannel, message: Message) -> OrderKey:
        """A key that what came before these items in their channel is not beyond."""
        return max(self._first_key(input_, message), message.at or START_KEY)

    def _note_late(self, input_: InputChannel, first: OrderKey, at: OrderKey) -> None:
        if input_.counts_damage:
            input_.record.add_damage(first.ts, max(first.ts, at.ts))

    def _note_times(self, input_: InputChannel, known: OrderKey, reached: OrderKey) -> None:
        """A channel has brought all up to a key that it knows, and its operator has had all up to another one."""
        record, position = input_.record, min(known, reached).ts
        if position > record.position:
            record.position = position
        if reached.ts > record.reached:
            record.reached = reached.ts

    def lags(self, input_: InputChannel) -> bool:
        """No other channel of the same merge is known less far."""
        return all(
            input_.watermark <= other.watermark for other in self.channels.values() if other.target == input_.target
        )

    def note_delivered(self, input_: InputChannel, message: Message) -> None:
        """Note how far replicas have brought a channel."""
        input_.delivered = input_.delivered.after(
            keys_of_message(message, self._layout.shape(input_.id)), message.watermark
        )

    def passed_positions(self) -> list[tuple[ChannelId, Delivered]]:
        """How far the operators have come on channels that replicas bring: a crash would lose what is beyond."""
        fed = [input_ for input_ in self.channels.values() if input_.receiver.retention in ("remember", "copy")]
        return [(input_.id, Delivered(self._engine.reached(input_.target), ALL)) for input_ in fed]

    def delivered_by_copies(self) -> dict[ChannelId, Delivered]:
        """What the operators have had of channels that copies bring, for a copy that is to begin where they are."""
        found = {}
        for input_ in self.channels.values():
            if input_.seen is not None:
                merged = input_.merge_cursor is not None
                found[input_.id] = (
                    Delivered(self._engine.reached(input_.target), ALL) if merged else input_.seen.delivered
                )
        return found

    def new_acknowledgements(self) -> list[tuple[ChannelId, int]]:
        """Held channels of which more was taken since the last call, with the number behind that."""
        found = []
        for input_ in self.channels.values():
            if input_.receiver.retention == "hold" and input_.receiver.next > input_.acknowledged:
                input_.acknowledged = input_.receiver.next
                found.append((input_.id, input_.receiver.next))
        return found

    # To the engine ----------------------------------------------------------------------------------------------------

    def deliver(self, input_: InputChannel, message: Message, position: int) -> list[Output]:
        """A message to the merge of its shards or to the engine; `position` is behind it."""
        watermark, over = message.watermark, input_.is_feedback and input_.watermark == END_KEY
        if watermark is not None and input_.is_feedback:
            watermark = max(self.bounded(input_, watermark), input_.watermark)
        if watermark is not None:
            input_.watermark = watermark
        event: Given | None = None if over and input_.merge_cursor is None else message.batch
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
            if over:  # what operators gave out at the end does not go back
                events = []
        elif event is None or (message.at is not None and not input_.accepts_late):
            events = []
        else:
            events = [event] if message.at is None else self._late_items(input_, event, message.number, message.at)
        if input_.owner is not None and message.batch is not None:  # rows of others say how far their log has come, too
            events = [own for rows in events if isinstance(rows, Views) and (own := input_.owner.own(rows)) is not None]
            watermark = max(watermark or START_KEY, told_by_row(message.batch.last_key(self._layout.shape(input_.id))))
            input_.watermark = max(input_.watermark, watermark)
        merge = input_.merge
        if merge is None:
            return self._push(input_.stream, events, watermark)
        passing = [one for event in events for one in merge.put(input_.id.source, event, None)]
        passing += merge.put(input_.id.source, None, watermark)
        outputs = self._push(input_.stream, passing, merge.reached)
        return outputs + self._engine.wait_for(input_.stream, merge.waited)

    def advance(self, input_: InputChannel, watermark: OrderKey) -> list[Output]:
        """Nothing will come on a channel at or below this key, though nobody has said so on it."""
        if watermark <= input_.watermark:
            return []
        input_.watermark = watermark
        if input_.merge is None:
            return self._engine.advance(input_.stream, watermark)
        passing = input_.merge.put(input_.id.source, None, watermark)
        outputs = self._push(input_.stream, passing, input_.merge.reached)
        return outputs + self._engine.wait_for(input_.stream, input_.merge.waited)

    def _push(self, stream: str, events: list[Given], until: OrderKey | None) -> list[Output]:
        outputs: list[Output] = []
        for event in events[:-1]:
            outputs += self._engine.push(stream, event)
        if events:
            outputs += self._engine.push(stream, events[-1], until=until)
        elif until is not None:
            outputs += self._engine.advance(stream, until)
        return outputs

    def wait_for(self, input_: InputChannel, waited: bool) -> list[Output]:
        """Whether the merge waits for a channel."""
        input_.waited = waited
        input_.receiver.doubtful = input_.merge_cursor is not None and input_.receiver.retention in _HOLED
        if input_.merge is None:
            return self._engine.wait_for(input_.stream, waited)
        outputs = self._push(input_.stream, input_.merge.wait_for(input_.id.source, waited), input_.merge.reached)
        return outputs + self._engine.wait_for(input_.stream, input_.merge.waited)

    def _to_merge(
        self, input_: InputChannel, cursor: MergedCursor, event: Given | None, message: Message, position: int
    ) -> list[Given]:
        """What of a message goes to the merge. After a crash the first items of a channel may be late."""
        first, end = message.number, message.number + message.items
        if event is None:
            cursor.came(end, None, end, position)
            return []
        rows = not isinstance(event, Punctuation)
        keys = self._keys(input_, event)
        late, reached = 0, START_KEY
        if input_.receiver.doubtful or message.at is not None:
            reached = max(self._engine.reached(input_.target), self.behind.get(input_.target, START_KEY))
            if input_.merge is not None:
                reached = max(reached, input_.merge.reached)
            late = input_.receiver.late(keys, reached) if message.at is None else end - first
        events: list[Given] = []
        if late:
            self._note_late(input_, keys.at(0), max(reached, cursor.last, message.at or START_KEY))
        if late and input_.accepts_late and (rows or input_.merge is None):
            # A punctuation of shards comes from each of them, and may have passed: one that is late is lost.
            at = max(reached, cursor.last, message.at or START_KEY)
            place = Keys(*(np.full(late, part, np.int64) for part in at))
            cursor.came(first, place, first + late, position, rows=rows, late=True)
            events = self._late_items(input_, event.slice(0, late) if isinstance(event, Views) else event, first, at)
        if late < end - first:
            timely = keys.rows(np.arange(late, end - first)) if late else keys
            cursor.came(first + late, timely, end, position, rows=rows)
            events.append(event.slice(late) if isinstance(event, Views) and late else event)
        elif not events:
            cursor.came(end, None, end, position)
        return events

    def _keys(self, input_: InputChannel, event: Given) -> Keys:
        if isinstance(event, Views):
            return keys_of(event, self._layout.shape(input_.id))
        assert isinstance(event, Punctuation)
        key = input_.merge.place(event.key) if input_.merge is not None else event.key
        return Keys(*(np.array([part], np.int64) for part in key))

    def _late_items(self, input_: InputChannel, event: Given, first: int, at: OrderKey) -> list[Given]:
        """Items that come late, from number `first` on: those apart that the operators had in another life.

        What the others cause is given out, though its keys are below what was promised; what those cause was.
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

    # What the operators have had --------------------------------------------------------------------------------------

    def count_delivered(self, input_: InputChannel, message: Message, position: int) -> None:
        """The operators have worked on a message of a channel that is not merged."""
        number, end = message.number, message.number + message.items
        record = input_.record
        before = record.next
        if input_.seen is not None:
            record.delivered = input_.seen.delivered
        elif input_.receiver.retention == "remember":
            self.note_delivered(input_, message)
            record.delivered = input_.delivered
        if message.at is not None:
            if not input_.accepts_late:
                number = end
            record.late += max(0, end - max(number, before))
            if message.items:
                self._note_late(input_, self._first_key(input_, message), message.at)
        input_.cursor.came(number, None, end, position)
        if not self._exact:
            rows = message.batch if message.at is None else None
            last = rows.last_key(self._layout.shape(input_.id)) if rows is not None else START_KEY
            self._note_times(input_, max(input_.watermark, last), max(self._engine.reached(input_.target), last))
        if number == before or self._delivered_on_arrival:  # in order
            self._count_repeated(input_, end)
            record.next = record.retained_from = end
            return
        self._count(input_, [Numbers(number, end, late=False)], end)
        record.retained_from = end

    def settle(self) -> list[InputChannel]:
        """Bring the ledger up to date with what has passed merges; gives the channels on which something has."""
        changed = []
        for input_ in self._merged:
            merged = input_.merge_cursor
            assert merged is not None
            before, reached = merged.next, self._engine.reached(input_.target)
            passed = merged.passed(reached)
            if not self._exact:
                self._note_times(
                    input_, input_.watermark, reached
                )  # what came late says nothing of what else is to come
            if merged.next == before:
                continue
            changed.append(input_)
            record = input_.record
            if input_.receiver.retention in ("remember", "copy"):
                record.delivered = Delivered(reached, ALL)
            if self._delivered_on_arrival:
                record.next = merged.next
                continue
            self._count_repeated(input_, merged.next)
            self._count(input_, passed, merged.next)
        for name, key in self.behind.items():
            reached = self._engine.reached(name)
            if reached > key:
                self.behind[name] = reached
                self._ledger.operators[name].key = reached
        for input_ in changed:
            if input_.retained is None:
                input_.record.retained_from = input_.cursor.next
        return changed + self._release_retained(changed) if self._retaining else changed

    def _count_repeated(self, input_: InputChannel, next_: int) -> None:
        """Of what copies brought up to `next_`, the life before had had some: that is not received, but repeated."""
        again = min(next_, input_.repeated_below) - input_.record.next
        if again > 0:
            input_.record.missed += again
            input_.record.repeated += again

    def _count(self, input_: InputChannel, passed: list[Numbers], next_: int) -> None:
        """The operators have had these, ascending, and nothing else below `next_` will come in this life."""
        record, missed = input_.record, input_.missed
        expected = record.next
        fresh = sum(numbers.beyond(expected) for numbers in passed)
        again = sum(numbers.beyond(0) for numbers in passed) - fresh
        if late := sum(numbers.beyond(expected) for numbers in passed if numbers.late):
            record.late += late
        following = max(expected, next_)
        if following - expected > fresh:
            record.missed += following - expected - fresh
            if missed is not None:
                for first, stop in _between(expected, passed, following):
                    missed.add(first, stop)
        record.next = following
        if again and not self._exact:
            found = sum(missed.found(n.first, min(n.stop, expected)) for n in passed) if missed is not None else 0
            if found:  # they missed them in another life
                record.missed -= found
            record.repeated += again - found

    def _release_retained(self, changed: list[InputChannel]) -> list[InputChannel]:
        """What operators that need all their input have in their state; gives other channels of which some has left."""
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
            left = input_.retained.first_retained(input_.id, input_.cursor.next)
            if left != input_.record.retained_from and input_ not in changed:
                others.append(input_)
            input_.record.retained_from = left
        return others


def _between(first: int, passed: list[Numbers], stop: int) -> list[tuple[int, int]]:
    """The stretches of [first, stop) of which nothing has passed."""
    ends = [first, *(max(first, numbers.stop) for numbers in passed)]
    begins = [*(max(first, numbers.first) for numbers in passed), stop]
    return [(end, begin) for end, begin in zip(ends, begins, strict=True) if end < begin]


def owner_of(layout: Layout, pe: Pe, stream: StreamSpec) -> Owner:
    """Which rows of a stream that is divided by a key are an element's own."""
    keys = layout.graph[stream.target].partition_keys[stream.target_port]
    assert keys is not None
    return Owner(keys, carried_columns(layout.graph, stream, layout.wanted), pe.shard, pe.fragment.shards)


def _row_bytes(schema: pa.Schema) -> int:
    return sum(t.bit_width // 8 or 1 if pa.types.is_primitive(t) else _TEXT_BYTES for t in schema.types)


def _spilling(host: Host, channel: ChannelId) -> Callable[[], Spill]:
    return lambda: host.spill(channel)
