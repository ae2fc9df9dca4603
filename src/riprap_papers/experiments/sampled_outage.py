"""Accuracy against recovery time, if a share of the tuples of an outage is retained.

Published as a suggestion, without numbers: instead of all tuples that a failed operator missed (upstream backup), or
none (a gap), retain a share of them. Bargain Discovery runs as two elements, one with the source and one with the rest,
in this process, with a shelf on disk between them (`retain("while-down", sample=p)`). In the middle of the input the
second element ends as if killed; a part of the input later another incarnation starts from the newest checkpoint.

    seconds  until it has processed what was retained: reading, sending and computing, without detection and restart
    quality  sum(gain) of the input of the outage, relative to a run without faults: a quality score
    found    of the bargains of the outage, the share that was found
    error    of those found, the mean relative difference of their average price from the right one
"""

import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.apps import market
from riprap.apps.bargain_discovery import build
from riprap.base.clock import SYSTEM_CLOCK
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import MemoryStorage
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.annotations import Annotations, Retain, checkpoint
from riprap.graph.graph import Graph
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.host import Arrival, HostEvent
from riprap.runtime.layout import Layout, arrange
from riprap.runtime.messages import Message
from riprap.runtime.shelf import StreamShelf
from riprap.testing.simulated import VirtualClock
from riprap_papers.experiments.window_records import LogHost, TableFeed

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_ROOM = 64  # messages in flight
_BATCH = 1_024  # rows
_TURN = 5_000  # µs of a turn on the clock of checkpoints, so that their positions do not depend on the machine
_NONE = 1e-15


@dataclass(frozen=True)
class OutagePoint:
    """One outage."""

    share: float  # 0: nothing is retained, a gap
    missed: int  # tuples that arrived during the outage
    kept: int  # of those, and of those in flight
    seconds: float
    quality: float
    found: float
    error: float


class _Pair(LogHost):
    """The host of both elements: messages, acknowledgements and output are lists."""

    def __init__(self, layout: Layout, directory: Path) -> None:
        super().__init__(None, layout, layout.pes[0], 1)
        self.layout, self._directory = layout, directory
        self.wire: deque[Arrival] = deque()
        self.up = True
        self.acknowledged: list[HostEvent] = []
        self.out: list[pa.RecordBatch] = []
        self.shelves: dict[ChannelId, StreamShelf] = {}
        self.items, self.moved = 0, False  # sent

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        if not self.up or len(self.wire) >= _ROOM:
            return False
        self.wire.append(Arrival(channel, message))
        self.items += message.items
        self.moved = True
        return True

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        if message.batch is not None:
            self.out.append(message.batch.batch())

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        self.acknowledged.append(Acknowledged(channel, next_))

    def shelf(self, channel: ChannelId) -> StreamShelf:
        path = self._directory / f"shelf-{len(self.shelves)}"
        self.shelves[channel] = StreamShelf(
            path, channel, self.layout.schema(channel), 1, stability="async", clock=SYSTEM_CLOCK
        )
        return self.shelves[channel]

    def close(self) -> None:
        for shelf in self.shelves.values():
            shelf.close()


def protected(share: float) -> Graph:
    """Bargain Discovery, retaining the output of TradeQuote while its consumers are down. A share of 0: no row."""
    graph = build()
    for name in ("Aggregator", "BargainIndex"):
        graph = graph.with_operator(replace(graph[name], annotations=checkpoint(every="20ms")))
    kept = Annotations(retain=Retain(share=share or _NONE))
    return graph.with_operator(replace(graph["TradeQuote"], annotations=kept))


class _Gate(TableFeed):
    """A source that emits nothing while a consumer catches up, so that only the retained tuples are timed."""

    shut = False

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        return None if self.shut else super().next(max_rows)


def points(tuples: int, seed: int, directory: Path, shares: Sequence[float] = SHARES) -> list[OutagePoint]:
    """An outage of a fifth of the input, after two fifths of it, for each share."""
    graph = build()
    (batch,) = keyed(market.generate(tuples, seed).combine_chunks().to_batches(), graph.sources[0])
    golden = pa.Table.from_batches([event for _, event in Engine(graph).run({"Source": [batch]})])  # type: ignore[list-item]
    outage = range(tuples * 2 // 5, tuples * 3 // 5)
    _point(1.0, batch, golden, outage, directory)  # compiles
    return [_point(share, batch, golden, outage, directory) for share in shares]


def _point(share: float, batch: pa.RecordBatch, golden: pa.Table, outage: range, directory: Path) -> OutagePoint:
    place = directory / f"outage-{share:g}"
    layout = arrange(protected(share), "all")
    pair, feed = _Pair(layout, place), _Gate(batch, 0)
    ledgers = [memory_ledger(ledger_shape(layout, pe)) for pe in layout.pes]

    storage, clock = MemoryStorage(), VirtualClock()

    def element(number: int, epoch: int) -> Element:
        pe = layout.pes[number]
        plan = layout.plan(pe)
        units = {name: unit.operators for name, unit in plan.units.items()}
        made = Element(
            layout, pe, epoch, host=pair, ledger=ledgers[number], clock=clock,
            checkpointer=Checkpointer(storage, pe.id, epoch, units, background=False) if units else None,
            loaded={unit: load(storage, pe.id, unit, clock.now(), gap=plan.gap) for unit in units},
            feeds=lambda name, position: feed, rates=None, batch_rows=_BATCH,
        )  # fmt: skip
        made.prepare()
        return made

    producer, consumer, channels = element(0, 1), element(1, 1), layout.inputs(layout.pes[1])

    def turn(*events: HostEvent) -> None:
        clock.time += _TURN
        producer.handle([*events, *pair.acknowledged])
        pair.acknowledged.clear()
        arrivals = list(pair.wire)
        pair.wire.clear()
        consumer.handle(arrivals)

    turn(*(ConsumerUp(channel, 1, 0) for channel in channels))
    while feed.position < outage.start:
        turn()
    pair.up = False
    producer.handle([ConsumerDown(channel) for channel in channels])
    while feed.position < outage.stop:
        clock.time += _TURN
        producer.handle()
    pair.wire.clear()
    consumer, before = element(1, 2), pair.items
    begin = SYSTEM_CLOCK.monotonic()
    feed.shut = pair.up = True
    turn(*(ConsumerUp(channel, 2, consumer.expected(channel)) for channel in channels))
    while pair.moved:
        pair.moved = False
        turn()
    seconds, kept = SYSTEM_CLOCK.monotonic() - begin, pair.items - before
    feed.shut = False
    while not consumer.ended:
        turn()
    pair.close()
    shutil.rmtree(place, ignore_errors=True)
    return _scored(share, pa.Table.from_batches(pair.out), golden, outage, kept, seconds)


def _scored(share: float, out: pa.Table, golden: pa.Table, outage: range, kept: int, seconds: float) -> OutagePoint:
    """Identifies bargains by the number of their quote, which is its row number in the input."""

    def within(table: pa.Table) -> dict[int, tuple[float, float]]:
        seq = table["_seq"].to_numpy()
        rows = np.flatnonzero((seq >= outage.start) & (seq < outage.stop))
        columns = (table[name].to_numpy()[rows].tolist() for name in ("gain", "vwap"))
        return dict(zip(seq[rows].tolist(), zip(*columns, strict=True), strict=True))

    right, found = within(golden), within(out)
    both = right.keys() & found.keys()
    total = sum(gain for gain, _ in right.values())
    errors = [abs(found[one][1] / right[one][1] - 1) for one in both]
    return OutagePoint(
        share,
        len(outage),
        kept,
        seconds,
        sum(gain for gain, _ in found.values()) / total,
        len(both) / len(right),
        float(np.mean(errors)) if errors else 0.0,
    )
