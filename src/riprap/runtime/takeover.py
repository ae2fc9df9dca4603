"""How a new shard gets its state after the number of shards has changed: from the logs of all old shards.

Each old shard stopped at its own cut, and its log has outputs after the record of that cut. A new shard advances the
windows that it owns now (`records/division.py`) from all those cuts to one key, the same for all new shards: beyond
every cut and everything in the old logs. What its windows emit up to that key and the old logs lack becomes the first
append to its own log, together with a record of all its windows. From then on it is an ordinary element that recovers
from its own log. Until then everything is a function of logs that are no longer written and of input up to that key: a
shard that dies on the way starts again and computes the same.

The takeover starts when that much input is available; its producer may have to restart first.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from riprap.engine.engine import Output
from riprap.graph.mark_keys import behind_trigger, watermark_of_row
from riprap.graph.order_keys import END_KEY, START_KEY, KeyShape, OrderKey
from riprap.operators.columns import Keys, keys_of
from riprap.operators.views import Views, concatenated
from riprap.protocols.channels import ChannelId
from riprap.records.division import TakeoverEngine, founding_record, gather, share
from riprap.records.recovery import RecordedState, recover
from riprap.runtime.element.arrivals import without
from riprap.runtime.element.divider import Divider
from riprap.runtime.element.element_inputs import InputChannel, Inputs, owner_of
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.element.records import log_of, numbers_of, resumed_at
from riprap.runtime.element.shard_merge import shard_merges
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message, MessageKind

_ROOM = 1 << 40  # bytes: nothing waits for room here


class Logs(Protocol):
    """Persistent streams, by the channels that producers write."""

    def records(self, channel: ChannelId) -> Iterable[bytes]:
        """Its records, newest first."""

    def messages(self, channel: ChannelId, position: int) -> Iterator[tuple[Message, int]]:
        """The stored messages from a position on, each with the position behind it."""

    def last(self, channel: ChannelId) -> list[Message]:
        """The last message with rows, and all after it."""


@dataclass(frozen=True)
class FirstAppend:
    """The first append to the log of a new shard."""

    rows: Mapping[ChannelId, Views]  # by output channel that has any
    record: bytes


def takes_over(layout: Layout, pe: Pe, host: Host) -> bool:
    """Whether an element is a new shard without state."""
    if layout.change(pe.fragment) is None:
        return False
    return next(iter(host.records(log_of(layout, pe))), None) is None


def write(first_append: FirstAppend, layout: Layout, pe: Pe, epoch: int, host: Host) -> None:
    """Write the first append of a new shard. Its record promises that the rows of other channels are on disk."""
    own = log_of(layout, pe)
    for channel, rows in first_append.rows.items():
        if channel != own:
            host.append(channel, Message(MessageKind.ROWS, epoch, 0, rows))
    host.flush()
    if own in first_append.rows:
        host.append(own, Message(MessageKind.ROWS, epoch, 0, first_append.rows[own]), first_append.record)
    else:
        host.append_record(own, first_append.record)
    host.flush()


class Takeover:
    """The takeover by one new shard, from what old shards have left on disk."""

    def __init__(self, layout: Layout, pe: Pe, logs: Logs) -> None:
        old, fragment = layout.before, layout.change(pe.fragment)
        assert old is not None
        assert fragment is not None
        self._layout, self._pe, self._logs, self._old = layout, pe, logs, old
        shards = [shard for shard in old.pes if shard.fragment == fragment]
        self._recoveries = {shard: recover(logs.records(log_of(old, shard))) for shard in shards}
        self._last_rows = {channel: _last_row(old, channel, logs) for shard in shards for channel in old.outputs(shard)}
        cuts = [_behind(recovery.cut.key) for recovery in self._recoveries.values() if recovery is not None]
        rows = [behind_trigger(key) for key in self._last_rows.values()]
        self._until = max(START_KEY, *cuts, *rows)
        self._inputs = {channel: old.written(channel) for shard in shards for channel in old.inputs(shard)}

    @property
    def ready(self) -> bool:
        """Whether all input up to the key is available."""
        return all(
            _covered(self._old.shape(channel), _watermark(self._old, written, self._logs), self._until)
            for channel, written in self._inputs.items()
        )

    def first_append(self) -> FirstAppend:
        """The first append, once `ready`."""
        layout, pe = self._layout, self._pe
        repeated = {
            shard: _ShardReplay(layout, pe, self._old, shard, recovery, self._logs, self._until)
            for shard, recovery in self._recoveries.items()
        }
        positions = {channel: at for replay in repeated.values() for channel, at in replay.positions.items()}
        rows = _new_rows(layout, pe, {shard: replay.outputs for shard, replay in repeated.items()}, self._last_rows)
        own = {channel: positions[layout.written(channel)] for channel in layout.inputs(pe)}
        sent = {channel: rows[channel].rows if channel in rows else 0 for channel in layout.outputs(pe)}
        state = gather(replay.heir for replay in repeated.values())
        numbers = numbers_of(own, {}, sent, START_KEY, 0)
        return FirstAppend(
            rows, founding_record(layout.graph, pe.fragment.name, state, self._until, numbers, layout.wanted)
        )


class _ShardReplay:
    """Replays the unsaved input of one old shard up to a key, into the windows that the new shard inherits."""

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        old: Layout,
        shard: Pe,
        recovery: RecordedState | None,
        logs: Logs,
        until: OrderKey,
    ) -> None:
        graph, name = layout.graph, pe.fragment.name
        owners = [owner_of(layout, pe, stream) for stream in graph.inputs(name)]
        own = None if recovery is None else share(recovery, pe.shard, pe.fragment.shards)
        self.heir = TakeoverEngine(graph, name, owners, own, wanted=layout.wanted)
        self.outputs: list[Output] = []
        self._until, self._layout = until, old
        starts = {channel: resumed_at(recovery, channel) for channel in old.inputs(shard)}
        self._inputs = Inputs(
            old, shard, self.heir, cast(Host, None), memory_ledger(ledger_shape(old, shard)), shard_merges(old, shard),
            starts, {}, _ROOM, exact=True, on_arrival=False, restored={},
        )  # fmt: skip
        self.positions = {old.written(channel): at for channel, at in starts.items()}
        reading = {channel: logs.messages(old.written(channel), position) for channel, (_, position) in starts.items()}
        while reading:  # the channel that lags comes first, so that little waits in merges
            channel = min(reading, key=lambda c: self._inputs.channels[c].watermark)
            stored = next(reading[channel], None)
            if stored is None or not self._replay(self._inputs.channels[channel], *stored):
                del reading[channel]
                self.outputs += self._inputs.advance(self._inputs.channels[channel], until)

    def _replay(self, input_: InputChannel, message: Message, behind: int) -> bool:
        """Process the part of a message that is not beyond the key; False: the rest is beyond it."""
        written = self._layout.written(input_.id)
        number, position = self.positions[written]
        skip = max(number - message.number, 0)
        if message.items and skip >= message.items:
            self.positions[written] = number, behind
            return True
        message = without(message, skip) if skip else message
        count = self._up_to(input_.id, message)
        done = count < message.items or (message.watermark is not None and message.watermark >= self._until)
        if done:  # the element reads the message again, for the rest of its rows or the end
            behind = position
            watermark = None if count < message.items else self._until
            message = replace(message, batch=_first(message, count), watermark=watermark)
        if message.items or message.watermark is not None:
            self.outputs += self._inputs.deliver(input_, message, behind)
        self.positions[written] = max(number, message.number + message.items), behind
        return not done

    def _up_to(self, channel: ChannelId, message: Message) -> int:
        if message.at is not None:
            return message.items if message.at <= self._until else 0
        if message.batch is None:
            return message.items
        return _count(keys_of(message.batch, self._layout.shape(channel)), self._until)


def _new_rows(
    layout: Layout, pe: Pe, emitted: Mapping[Pe, list[Output]], last_rows: Mapping[ChannelId, OrderKey]
) -> dict[ChannelId, Views]:
    """By output channel of the new shard, in the order of keys: the rows that the old shards' logs lack."""
    parts: dict[ChannelId, list[Views]] = {}
    for link in (link for link in layout.links if link.source == pe.fragment):
        channels = [channel for channel in layout.outputs(pe) if channel.stream == link.stream.id]
        shape = layout.shape(channels[0])
        divider = Divider(link.by, layout.schema(channels[0]), link.target.divisions) if link.by else None
        for shard, outputs in emitted.items():
            for views in (cast(Views, output.event) for output in outputs if output.name == link.stream.id):
                divided = divider.divide(views) if divider is not None else [views]
                for channel in channels:
                    rows = divided[channel.target % len(divided)]
                    last = last_rows[channel._replace(source=shard.number)]
                    rows = rows.slice(_count(keys_of(rows, shape), last)) if rows.rows else rows
                    if rows.rows:
                        parts.setdefault(channel, []).append(rows)
    return {channel: _sorted(concatenated(views), layout.shape(channel)) for channel, views in parts.items()}


def _sorted(rows: Views, shape: KeyShape) -> Views:
    keys = [np.broadcast_to(part, rows.rows) for part in keys_of(rows, shape)]
    return rows.take(np.lexsort(keys[::-1]))


def _count(keys: Keys, until: OrderKey) -> int:
    """How many of these ascending keys are not beyond a key."""
    return bisect_right(range(len(keys.ts)), until, key=keys.at)


def _first(message: Message, count: int) -> Views | None:
    return message.batch.slice(0, count) if message.batch is not None and count else None


def _behind(cut: OrderKey) -> OrderKey:
    """A key at or above all rows before a cut: a watermark that follows from rows is just below the last of them."""
    last = cut._replace(seq=min(cut.seq + 1, END_KEY.seq), n=0) if cut.n == END_KEY.n else cut
    return behind_trigger(last)


def _last_row(layout: Layout, channel: ChannelId, logs: Logs) -> OrderKey:
    """The key of the last row in a log."""
    rows = [message.batch for message in logs.last(channel) if message.batch is not None]
    return rows[-1].last_key(layout.shape(channel)) if rows else START_KEY


def _watermark(layout: Layout, channel: ChannelId, logs: Logs) -> OrderKey:
    """The watermark of a log."""
    watermark = START_KEY
    for message in logs.last(channel):
        if message.batch is not None and message.at is None:
            watermark = max(watermark, watermark_of_row(message.batch.last_key(layout.shape(channel))))
        if message.watermark is not None:
            watermark = max(watermark, message.watermark)
    return watermark


def _covered(shape: KeyShape, watermark: OrderKey, until: OrderKey) -> bool:
    """Whether a watermark covers a key, the greatest of its trigger: without `_n`, a trigger has one row."""
    return watermark >= until or (not shape.n and watermark[:3] >= until[:3])
