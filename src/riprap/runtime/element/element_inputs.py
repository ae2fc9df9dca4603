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
from riprap.runtime.element.ledger import InletRecord, Ledger, MissedRecord
from riprap.runtime.element.remember_output import keys_of_message
from riprap.runtime.element.retained import Retained
from riprap.runtime.element.shard_merge import Given, ShardMerge
from riprap.runtime.host import Arrival, Host, Spill
from riprap.runtime.late_streams import takes_late
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message

_HOLED = frozenset(("discard", "hold", "while-down"))  # retentions with which something may be missing, so late
_TEXT_BYTES = 16  # of a value whose width is not known


class InputChannel:
    """One channel into an element, in one life."""

    def __init__(
        self, channel: ChannelId, inlet: ReceivingEnd, cursor: InputCursor, record: InletRecord, backlog: Backlog
    ) -> None:
        self.channel, self.inlet, self.cursor, self.record, self.backlog = channel, inlet, cursor, record, backlog
        self.merged: MergedCursor | None = cursor if isinstance(cursor, MergedCursor) else None
        self.position = cursor.position  # in its log, behind what was taken
        self.stream = channel.stream
        self.target = ""  # the operator that it leads to
        self.port = 0
        self.most_rows = 0  # that may wait in the merge
        self.takes_late = True  # what comes late is had all the same
        self.parked: deque[Arrival] | None = None  # None: the channel is not parked
        self.admitted = False  # read also while some consumer has no room
        self.recorded: list[OpenCapture] = []
        self.waited = True
        self.back = False  # it leads back in a cycle
        self.had = Delivered()  # what has come, where replicas bring it
        self.seen: Seen | None = None  # the same where copies do
        self.before = Delivered()  # what the life before had had of them, which begins empty and is given it again
        self.again = 0  # number below which items are such
        self.reached = START_KEY  # how far the merge knows the channel
        self.acknowledged = 0  # number below which its producer need not hold anything
        self.merge: ShardMerge | None = None
        self.retained: Retained | None = None
        self.missed: MissedRecord | None = None  # of a channel that its producer holds
        self.counts_damage = False  # what it misses is missing for good, and when that was is noted
        self.hurt_before: int | None = None  # what is missing lies before the next item: the least that is noted then
        self.owner: Owner | None = None  # of a log in which rows of other shards are too: which are this one's

    @property
    def full(self) -> bool:
        """Its merge has no room in memory."""
        return self.merged is not None and self.merged.rows > self.most_rows

    def cut(self) -> InletCut:
        taken, position = self.inlet.next, self.position
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
        self._by_taken = taken  # the ledger went back with the state, and what is missing was counted as it was taken
        self.behind = dict(behind)  # how far operators had come in another life
        retained: dict[tuple[str, int], Retained] = {}
        self.ways: dict[ChannelId, InputChannel] = {}
        for channel in layout.inputs(pe):
            stream, (next_, position) = layout.stream(channel), begins[channel]
            is_merged = channel.stream in merges or len(layout.graph.inputs(stream.target)) > 1
            kept: Retained | None = None
            if not layout.graph[stream.target].tolerates_loss and is_merged:
                together = [c for c in layout.inputs(pe) if c.stream == channel.stream]
                kept = retained.setdefault((stream.target, stream.target_port), Retained(together))
            cursor = MergedCursor(next_, position, channel, kept) if is_merged else InputCursor(next_, position)
            inlet = ReceivingEnd(
                layout.retention(channel), next_, doubtful=is_merged and layout.retention(channel) in _HOLED
            )
            way = InputChannel(channel, inlet, cursor, ledger.inlets[channel], Backlog(limit, _spilling(host, channel)))
            way.target, way.port, way.merge, way.retained = (
                stream.target, stream.target_port, merges.get(channel.stream), kept,
            )  # fmt: skip
            way.missed = ledger.missed.get(channel)
            way.counts_damage = not exact and inlet.retention in _HOLED
            if pe.fragment.former and layout.link(channel.stream).mixed:
                way.owner = owner_of(layout, pe, stream)
            # Nothing may come any more of a channel whose end is in the state: its merge knows how far it has come.
            way.reached = engine.known(way.target, way.port) if way.merge is None else way.merge.known(channel.source)
            if inlet.retention == "remember":
                way.had = way.record.had
            elif inlet.retention == "copy":  # of a copy, where the state came from counts, not the life before
                way.seen = Seen(copied.get(channel) or (None if pe.fragment.copied else way.record.had))
                way.before = Delivered() if channel in copied or not pe.fragment.copied else way.record.had
            way.takes_late = takes_late(layout, channel)
            way.most_rows = max(1, limit // _row_bytes(layout.schema(channel)))
            self.ways[channel] = way
        self.strands = {strand: way for channel, way in self.ways.items() for strand in layout.strands(channel)}
        self._retaining = [way for way in self.ways.values() if way.retained is not None]
        self._merged = [way for way in self.ways.values() if way.merged is not None]
        self.bounded: Callable[[InputChannel, OrderKey], OrderKey] = lambda way, watermark: watermark  # of feedback
        self.recomputed = [way for way in self.ways.values() if way.inlet.retention == "recompute"]

    @property
    def missing(self) -> dict[ChannelId, tuple[int, int]]:
        """By channel the items that have to be recomputed, [first, last): what comes after them waits."""
        return {
            way.channel: (way.inlet.next, way.parked[0].message.number)
            for way in self.recomputed
            if way.parked and way.inlet.ahead(way.parked[0].message.number)
        }

    @property
    def unheard(self) -> dict[ChannelId, int]:
        """Channels that can be recomputed, of whose producers nothing has come yet: the item that is expected."""
        return {way.channel: way.inlet.next for way in self.recomputed if way.inlet.epoch < 0 and not way.parked}

    @property
    def catching_up(self) -> bool:
        """Something is missing, or a producer of what can be recomputed has not said yet where it goes on."""
        return bool(self.missing) or bool(self.unheard)

    def room(self, way: InputChannel) -> bool:
        """Whether its merge may take more of a channel: while there is room, and always if it waits for just that."""
        if not way.full:
            return True
        others = (w.reached for w in self.ways.values() if w.target == way.target and w.waited)
        return not way.waited or way.reached <= min(others)

    def has_delivered(self, strand: ChannelId, unread: Iterable[Message]) -> Delivered:
        """How far a channel has come that replicas or copies bring, when `unread` is taken too."""
        way, shape = self.strands[strand], self._layout.shape(strand)
        if way.seen is not None:
            return way.seen.connected(strand, [(m.number, keys_of_message(m, shape), m.watermark) for m in unread])
        had = way.had
        for message in unread:
            had = had.after(keys_of_message(message, shape), message.watermark)
        return had

    def of_copy(self, way: InputChannel, seen: Seen, arrival: Arrival) -> Message | None:
        """Of what one copy of a producer brings, the part that no other has brought, with numbers of the channel."""
        message = arrival.message
        keys = keys_of_message(message, self._layout.shape(way.channel))
        skip = seen.fresh(arrival.channel, message.number, keys, message.watermark)
        news = message.watermark is not None and message.watermark > way.reached
        if skip == HOLE or (skip == message.items and not news):
            return None
        if way.before.items and skip < message.items:
            known = bisect_right(range(message.items), way.before.key, lo=skip, key=keys.at) - skip
            way.again = way.inlet.next + known
            if known < message.items - skip:
                way.before = Delivered()
        return replace(without(message, skip) if skip else message, number=way.inlet.next)

    def skipped(self, way: InputChannel, message: Message) -> None:
        """Items between what has come on a channel and this message will never come: note their event times."""
        if not way.counts_damage or way.record.position == END_KEY.ts:
            return
        if message.items:
            way.record.add_hurt(way.record.position, self._place(way, message).ts)
        else:  # progress does not bound them: a producer that was restarted may tell less than another life of it had
            way.hurt_before = max(way.record.add_hurt(way.record.position, END_KEY.ts), way.record.position)

    def found(self, way: InputChannel, message: Message) -> None:
        """The first items behind those that are known to be missing."""
        assert way.hurt_before is not None
        way.record.end_hurt(max(way.hurt_before, self._place(way, message).ts))
        way.hurt_before = None

    def _place(self, way: InputChannel, message: Message) -> OrderKey:
        """A key that what came before these items in their channel is not beyond."""
        return max(self._first_key(way, message), message.at or START_KEY)

    def _came_late(self, way: InputChannel, first: OrderKey, at: OrderKey) -> None:
        if way.counts_damage:
            way.record.add_hurt(first.ts, max(first.ts, at.ts))

    def _note_times(self, way: InputChannel, known: OrderKey, reached: OrderKey) -> None:
        """A channel has brought all up to a key that it knows, and its operator has had all up to another one."""
        record, position = way.record, min(known, reached).ts
        if position > record.position:
            record.position = position
        if reached.ts > record.reached:
            record.reached = reached.ts

    def lags(self, way: InputChannel) -> bool:
        """No other channel of the same merge is known less far."""
        return all(way.reached <= other.reached for other in self.ways.values() if other.target == way.target)

    def came(self, way: InputChannel, message: Message) -> None:
        """Note how far replicas have brought a channel."""
        way.had = way.had.after(keys_of_message(message, self._layout.shape(way.channel)), message.watermark)

    def passed(self) -> list[tuple[ChannelId, Delivered]]:
        """How far the operators have come on channels that replicas bring: a crash would lose what is beyond."""
        fed = [way for way in self.ways.values() if way.inlet.retention in ("remember", "copy")]
        return [(way.channel, Delivered(self._engine.reached(way.target), ALL)) for way in fed]

    def copied(self) -> dict[ChannelId, Delivered]:
        """What the operators have had of channels that copies bring, for a copy that is to begin where they are."""
        found = {}
        for way in self.ways.values():
            if way.seen is not None:
                merged = way.merged is not None
                found[way.channel] = Delivered(self._engine.reached(way.target), ALL) if merged else way.seen.had
        return found

    def acknowledged(self) -> list[tuple[ChannelId, int]]:
        """Held channels of which more was taken since the last call, with the number behind that."""
        found = []
        for way in self.ways.values():
            if way.inlet.retention == "hold" and way.inlet.next > way.acknowledged:
                way.acknowledged = way.inlet.next
                found.append((way.channel, way.inlet.next))
        return found

    # To the engine ----------------------------------------------------------------------------------------------------

    def give(self, way: InputChannel, message: Message, position: int) -> list[Output]:
        """A message to the merge of its shards or to the engine; `position` is behind it."""
        watermark, over = message.watermark, way.back and way.reached == END_KEY
        if watermark is not None and way.back:
            watermark = max(self.bounded(way, watermark), way.reached)
        if watermark is not None:
            way.reached = watermark
        event: Given | None = None if over and way.merged is None else message.batch
        if event is not None and way.owner is None and way.merged is None and way.merge is None and message.at is None:
            return self._engine.push(way.stream, event, until=watermark)
        if message.punctuation is not None:
            event = Punctuation(message.punctuation)
        if way.merged is not None:
            events = self._placed(way, way.merged, event, message, position)
            if over:  # what operators gave out at the end does not go back
                events = []
        elif event is None or (message.at is not None and not way.takes_late):
            events = []
        else:
            events = [event] if message.at is None else self._belated(way, event, message.number, message.at)
        if way.owner is not None and message.batch is not None:  # rows of others say how far their log has come, too
            events = [own for rows in events if isinstance(rows, Views) and (own := way.owner.own(rows)) is not None]
            watermark = max(
                watermark or START_KEY, told_by_row(message.batch.last_key(self._layout.shape(way.channel)))
            )
            way.reached = max(way.reached, watermark)
        merge = way.merge
        if merge is None:
            return self._push(way.stream, events, watermark)
        passing = [one for event in events for one in merge.put(way.channel.source, event, None)]
        passing += merge.put(way.channel.source, None, watermark)
        outputs = self._push(way.stream, passing, merge.reached)
        return outputs + self._engine.wait_for(way.stream, merge.waited)

    def advance(self, way: InputChannel, watermark: OrderKey) -> list[Output]:
        """Nothing will come on a channel at or below this key, though nobody has said so on it."""
        if watermark <= way.reached:
            return []
        way.reached = watermark
        if way.merge is None:
            return self._engine.advance(way.stream, watermark)
        passing = way.merge.put(way.channel.source, None, watermark)
        outputs = self._push(way.stream, passing, way.merge.reached)
        return outputs + self._engine.wait_for(way.stream, way.merge.waited)

    def _push(self, stream: str, events: list[Given], until: OrderKey | None) -> list[Output]:
        outputs: list[Output] = []
        for event in events[:-1]:
            outputs += self._engine.push(stream, event)
        if events:
            outputs += self._engine.push(stream, events[-1], until=until)
        elif until is not None:
            outputs += self._engine.advance(stream, until)
        return outputs

    def wait_for(self, way: InputChannel, waited: bool) -> list[Output]:
        """Whether the merge waits for a channel."""
        way.waited = waited
        way.inlet.doubtful = way.merged is not None and way.inlet.retention in _HOLED
        if way.merge is None:
            return self._engine.wait_for(way.stream, waited)
        outputs = self._push(way.stream, way.merge.wait_for(way.channel.source, waited), way.merge.reached)
        return outputs + self._engine.wait_for(way.stream, way.merge.waited)

    def _placed(
        self, way: InputChannel, cursor: MergedCursor, event: Given | None, message: Message, position: int
    ) -> list[Given]:
        """What of a message goes to the merge. After a crash the first items of a channel may be late."""
        first, end = message.number, message.number + message.items
        if event is None:
            cursor.came(end, None, end, position)
            return []
        rows = not isinstance(event, Punctuation)
        keys = self._keys(way, event)
        late, reached = 0, START_KEY
        if way.inlet.doubtful or message.at is not None:
            reached = max(self._engine.reached(way.target), self.behind.get(way.target, START_KEY))
            if way.merge is not None:
                reached = max(reached, way.merge.reached)
            late = way.inlet.late(keys, reached) if message.at is None else end - first
        events: list[Given] = []
        if late:
            self._came_late(way, keys.at(0), max(reached, cursor.last, message.at or START_KEY))
        if late and way.takes_late and (rows or way.merge is None):
            # A punctuation of shards comes from each of them, and may have passed: one that is late is lost.
            at = max(reached, cursor.last, message.at or START_KEY)
            place = Keys(*(np.full(late, part, np.int64) for part in at))
            cursor.came(first, place, first + late, position, rows=rows, late=True)
            events = self._belated(way, event.slice(0, late) if isinstance(event, Views) else event, first, at)
        if late < end - first:
            timely = keys.rows(np.arange(late, end - first)) if late else keys
            cursor.came(first + late, timely, end, position, rows=rows)
            events.append(event.slice(late) if isinstance(event, Views) and late else event)
        elif not events:
            cursor.came(end, None, end, position)
        return events

    def _keys(self, way: InputChannel, event: Given) -> Keys:
        if isinstance(event, Views):
            return keys_of(event, self._layout.shape(way.channel))
        assert isinstance(event, Punctuation)
        key = way.merge.place(event.key) if way.merge is not None else event.key
        return Keys(*(np.array([part], np.int64) for part in key))

    def _belated(self, way: InputChannel, event: Given, first: int, at: OrderKey) -> list[Given]:
        """Items that come late, from number `first` on: those apart that the operators had in another life.

        What the others cause is given out, though its keys are below what was promised; what those cause was.
        """
        had = 0 if self._exact else way.record.next - first
        if not isinstance(event, Views) or not 0 < had < event.rows:
            return [Late(event, at, again=had > 0)]
        return [Late(event.slice(0, had), at, again=True), Late(event.slice(had), at)]

    def _first_key(self, way: InputChannel, message: Message) -> OrderKey:
        if message.batch is not None:
            return message.batch.first_key(self._layout.shape(way.channel))
        assert message.punctuation is not None
        return message.punctuation

    # What the operators have had --------------------------------------------------------------------------------------

    def had(self, way: InputChannel, message: Message, position: int) -> None:
        """The operators have worked on a message of a channel that is not merged."""
        number, end = message.number, message.number + message.items
        record = way.record
        before = record.next
        if way.seen is not None:
            record.had = way.seen.had
        elif way.inlet.retention == "remember":
            self.came(way, message)
            record.had = way.had
        if message.at is not None:
            if not way.takes_late:
                number = end
            record.late += max(0, end - max(number, before))
            if message.items:
                self._came_late(way, self._first_key(way, message), message.at)
        way.cursor.came(number, None, end, position)
        if not self._exact:
            rows = message.batch if message.at is None else None
            last = rows.last_key(self._layout.shape(way.channel)) if rows is not None else START_KEY
            self._note_times(way, max(way.reached, last), max(self._engine.reached(way.target), last))
        if number == before or self._by_taken:  # in order
            self._count_again(way, end)
            record.next = record.left = end
            return
        self._count(way, [Numbers(number, end, late=False)], end)
        record.left = end

    def settle(self) -> list[InputChannel]:
        """Bring the ledger up to date with what has passed merges; gives the channels on which something has."""
        changed = []
        for way in self._merged:
            merged = way.merged
            assert merged is not None
            before, reached = merged.next, self._engine.reached(way.target)
            passed = merged.passed(reached)
            if not self._exact:
                self._note_times(way, way.reached, reached)  # what came late says nothing of what else is to come
            if merged.next == before:
                continue
            changed.append(way)
            record = way.record
            if way.inlet.retention in ("remember", "copy"):
                record.had = Delivered(reached, ALL)
            if self._by_taken:
                record.next = merged.next
                continue
            self._count_again(way, merged.next)
            self._count(way, passed, merged.next)
        for name, key in self.behind.items():
            reached = self._engine.reached(name)
            if reached > key:
                self.behind[name] = reached
                self._ledger.operators[name].key = reached
        for way in changed:
            if way.retained is None:
                way.record.left = way.cursor.next
        return changed + self._let_go(changed) if self._retaining else changed

    def _count_again(self, way: InputChannel, next_: int) -> None:
        """Of what copies brought up to `next_`, the life before had had some: that is not received, but repeated."""
        again = min(next_, way.again) - way.record.next
        if again > 0:
            way.record.missed += again
            way.record.repeated += again

    def _count(self, way: InputChannel, passed: list[Numbers], next_: int) -> None:
        """The operators have had these, ascending, and nothing else below `next_` will come in this life."""
        record, missed = way.record, way.missed
        had = record.next
        fresh = sum(numbers.beyond(had) for numbers in passed)
        again = sum(numbers.beyond(0) for numbers in passed) - fresh
        if late := sum(numbers.beyond(had) for numbers in passed if numbers.late):
            record.late += late
        following = max(had, next_)
        if following - had > fresh:
            record.missed += following - had - fresh
            if missed is not None:
                for first, stop in _between(had, passed, following):
                    missed.add(first, stop)
        record.next = following
        if again and not self._exact:
            found = sum(missed.found(n.first, min(n.stop, had)) for n in passed) if missed is not None else 0
            if found:  # they missed them in another life
                record.missed -= found
            record.repeated += again - found

    def _let_go(self, changed: list[InputChannel]) -> list[InputChannel]:
        """What operators that need all their input have in their state; gives other channels of which some has left."""
        targets = {way.target for way in changed}
        others = []
        for way in self._retaining:
            if way.target not in targets:
                continue
            assert way.retained is not None
            way.retained.keep(self._engine.operators[way.target].retained(way.port))
        for way in self._retaining:
            if way.target not in targets:
                continue
            assert way.retained is not None
            left = way.retained.left(way.channel, way.cursor.next)
            if left != way.record.left and way not in changed:
                others.append(way)
            way.record.left = left
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
