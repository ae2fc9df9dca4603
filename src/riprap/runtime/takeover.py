"""How a new shard gets its state where the number of shards has changed: from the logs of all old ones.

The operator's old shards each came to a cut of their own, and their logs have outputs behind the records of those cuts.
A new shard brings the windows that are its own now (`records/division.py`) from all of those cuts to one key, the
same for all new shards: behind every cut, and behind everything that the old logs have. What its windows give out up to
there and the old shards' logs do not have is the beginning of the new shard's log, in one append with a record of all
its windows; from then on it is an element like any other, and comes back from its own log. Up to there everything is a
function of logs that nobody writes any more and of input up to that key: who dies on the input_ begins again, and finds
the same.

That much input has to be there: until it is (its producer may have to come back first), nothing is begun.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from riprap.engine.engine import Output
from riprap.graph.mark_keys import behind_trigger, told_by_row
from riprap.graph.order_keys import END_KEY, START_KEY, KeyShape, OrderKey
from riprap.operators.columns import Keys, keys_of
from riprap.operators.views import Views, concatenated
from riprap.protocols.channels import ChannelId
from riprap.records.division import Heir, founded, gather, share
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

_ROOM = 1 << 40  # bytes: nobody waits for room here


class Logs(Protocol):
    """Persistent streams, by the channels that producers write."""

    def records(self, channel: ChannelId) -> Iterable[bytes]:
        """What was recorded, newest first."""

    def messages(self, channel: ChannelId, position: int) -> Iterator[tuple[Message, int]]:
        """What is there now from a position on, each with the position behind it."""

    def last(self, channel: ChannelId) -> list[Message]:
        """The last message with rows, and all behind it."""


@dataclass(frozen=True)
class Founding:
    """What the log of a new shard begins with."""

    rows: Mapping[ChannelId, Views]  # by outlet that has any
    record: bytes


def takes_over(layout: Layout, pe: Pe, host: Host) -> bool:
    """Whether an element is a new shard that has no state of its own yet."""
    if layout.change(pe.fragment) is None:
        return False
    return next(iter(host.records(log_of(layout, pe))), None) is None


def write(founding: Founding, layout: Layout, pe: Pe, epoch: int, host: Host) -> None:
    """Begin the log of a new shard. The record promises that what is on other channels is there."""
    own = log_of(layout, pe)
    for channel, rows in founding.rows.items():
        if channel != own:
            host.append(channel, Message(MessageKind.ROWS, epoch, 0, rows))
    host.flush()
    if own in founding.rows:
        host.append(own, Message(MessageKind.ROWS, epoch, 0, founding.rows[own]), founding.record)
    else:
        host.append_record(own, founding.record)
    host.flush()


class Takeover:
    """By one new shard. What it begins with is what old shards have left, and nobody writes any more."""

    def __init__(self, layout: Layout, pe: Pe, logs: Logs) -> None:
        old, fragment = layout.before, layout.change(pe.fragment)
        assert old is not None
        assert fragment is not None
        self._layout, self._pe, self._logs, self._old = layout, pe, logs, old
        shards = [shard for shard in old.pes if shard.fragment == fragment]
        self._recoveries = {shard: recover(logs.records(log_of(old, shard))) for shard in shards}
        self._had = {channel: _last_row(old, channel, logs) for shard in shards for channel in old.outputs(shard)}
        cuts = [_behind(recovery.cut.key) for recovery in self._recoveries.values() if recovery is not None]
        rows = [behind_trigger(key) for key in self._had.values()]
        self._until = max(START_KEY, *cuts, *rows)
        self._inlets = {channel: old.written(channel) for shard in shards for channel in old.inputs(shard)}

    @property
    def ready(self) -> bool:
        """Whether all input up to the key is there."""
        return all(
            _covered(self._old.shape(channel), _told(self._old, written, self._logs), self._until)
            for channel, written in self._inlets.items()
        )

    def founding(self) -> Founding:
        """When it is `ready`."""
        layout, pe = self._layout, self._pe
        repeated = {
            shard: _Repeating(layout, pe, self._old, shard, recovery, self._logs, self._until)
            for shard, recovery in self._recoveries.items()
        }
        positions = {channel: at for each in repeated.values() for channel, at in each.positions.items()}
        rows = _given_out(layout, pe, {shard: each.outputs for shard, each in repeated.items()}, self._had)
        own = {channel: positions[layout.written(channel)] for channel in layout.inputs(pe)}
        sent = {channel: rows[channel].rows if channel in rows else 0 for channel in layout.outputs(pe)}
        state = gather(each.heir for each in repeated.values())
        numbers = numbers_of(own, {}, sent, START_KEY, 0)
        return Founding(rows, founded(layout.graph, pe.fragment.name, state, self._until, numbers, layout.wanted))


class _Repeating:
    """What one old shard was given since what it had not saved, up to a key; to the heir of its windows that are the
    new shard's."""

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
        self.heir = Heir(graph, name, owners, own, wanted=layout.wanted)
        self.outputs: list[Output] = []
        self._until, self._layout = until, old
        begins = {channel: resumed_at(recovery, channel) for channel in old.inputs(shard)}
        self._inputs = Inputs(
            old, shard, self.heir, cast(Host, None), memory_ledger(ledger_shape(old, shard)), shard_merges(old, shard),
            begins, {}, _ROOM, exact=True, taken=False, copied={},
        )  # fmt: skip
        self.positions = {old.written(channel): at for channel, at in begins.items()}
        reading = {channel: logs.messages(old.written(channel), position) for channel, (_, position) in begins.items()}
        while reading:  # whoever is behind comes first, so that little waits for others
            channel = min(reading, key=lambda one: self._inputs.channels[one].watermark)
            found = next(reading[channel], None)
            if found is None or not self._take(self._inputs.channels[channel], *found):
                del reading[channel]
                self.outputs += self._inputs.advance(self._inputs.channels[channel], until)

    def _take(self, input_: InputChannel, message: Message, behind: int) -> bool:
        """What of a message is not beyond the key; False: the rest is."""
        written = self._layout.written(input_.id)
        number, position = self.positions[written]
        skip = max(number - message.number, 0)
        if message.items and skip >= message.items:
            self.positions[written] = number, behind
            return True
        message = without(message, skip) if skip else message
        count = self._up_to(input_.id, message)
        over = count < message.items or (message.watermark is not None and message.watermark >= self._until)
        if over:  # what else it says is read again, by its numbers: the rest of its rows, or the end
            behind = position
            told = None if count < message.items else self._until
            message = replace(message, batch=_first(message, count), watermark=told)
        if message.items or message.watermark is not None:
            self.outputs += self._inputs.deliver(input_, message, behind)
        self.positions[written] = max(number, message.number + message.items), behind
        return not over

    def _up_to(self, channel: ChannelId, message: Message) -> int:
        if message.at is not None:
            return message.items if message.at <= self._until else 0
        if message.batch is None:
            return message.items
        return _count(keys_of(message.batch, self._layout.shape(channel)), self._until)


def _given_out(
    layout: Layout, pe: Pe, given: Mapping[Pe, list[Output]], had: Mapping[ChannelId, OrderKey]
) -> dict[ChannelId, Views]:
    """By outlet of the new shard, in the order of keys: what old shards' logs do not have."""
    parts: dict[ChannelId, list[Views]] = {}
    for link in (link for link in layout.links if link.source == pe.fragment):
        outlets = [channel for channel in layout.outputs(pe) if channel.stream == link.stream.id]
        shape = layout.shape(outlets[0])
        divider = Divider(link.by, layout.schema(outlets[0]), link.target.divisions) if link.by else None
        for shard, outputs in given.items():
            for views in (cast(Views, output.event) for output in outputs if output.name == link.stream.id):
                divided = divider.divide(views) if divider is not None else [views]
                for outlet in outlets:
                    rows = divided[outlet.target % len(divided)]
                    last = had[outlet._replace(source=shard.number)]
                    rows = rows.slice(_count(keys_of(rows, shape), last)) if rows.rows else rows
                    if rows.rows:
                        parts.setdefault(outlet, []).append(rows)
    return {outlet: _sorted(concatenated(views), layout.shape(outlet)) for outlet, views in parts.items()}


def _sorted(rows: Views, shape: KeyShape) -> Views:
    keys = [np.broadcast_to(part, rows.rows) for part in keys_of(rows, shape)]
    return rows.take(np.lexsort(keys[::-1]))


def _count(keys: Keys, until: OrderKey) -> int:
    """How many of these, ascending, are not beyond a key."""
    return bisect_right(range(len(keys.ts)), until, key=keys.at)


def _first(message: Message, count: int) -> Views | None:
    return message.batch.slice(0, count) if message.batch is not None and count else None


def _behind(cut: OrderKey) -> OrderKey:
    """A key that all rows before a cut are at or below: input that is known by its rows is said to have come to just
    before the last of them."""
    last = cut._replace(seq=min(cut.seq + 1, END_KEY.seq), n=0) if cut.n == END_KEY.n else cut
    return behind_trigger(last)


def _last_row(layout: Layout, channel: ChannelId, logs: Logs) -> OrderKey:
    """The key of the last row that a log has."""
    rows = [message.batch for message in logs.last(channel) if message.batch is not None]
    return rows[-1].last_key(layout.shape(channel)) if rows else START_KEY


def _told(layout: Layout, channel: ChannelId, logs: Logs) -> OrderKey:
    """How far a log says it has come."""
    told = START_KEY
    for message in logs.last(channel):
        if message.batch is not None and message.at is None:
            told = max(told, told_by_row(message.batch.last_key(layout.shape(channel))))
        if message.watermark is not None:
            told = max(told, message.watermark)
    return told


def _covered(shape: KeyShape, told: OrderKey, until: OrderKey) -> bool:
    """Whether all up to a key, the greatest with its trigger, has come: without `_n`, a trigger has one row."""
    return told >= until or (not shape.n and told[:3] >= until[:3])
