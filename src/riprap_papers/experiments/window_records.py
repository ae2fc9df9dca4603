"""The cost of continuous checkpoints: the published experiment (average price by item), on one element.

Input is (item, price, description). Three applications: *fast* has windows of one tuple, *slow* two items and windows
of 1,000, *mixed* 110 items, 100 of them frequent and 10 rare, and windows of 10. Each runs in one element, a source and
the aggregate, in these modes:

    native  output is computed and not stored
    net     records are built as well, and not stored
    kept    output is stored, without records: `persist()`
    disk    output and records are stored, and no window is ever checked
    checks  the same, and windows are checked, T = H
    interval  output is stored, and the whole state is copied and written every T: checkpoints at an interval

The element is the one that runs in a Spark task, with only its log around it.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.quantities import Duration
from riprap.base.randomness import generator
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import LocalStorage
from riprap.graph.annotations import Annotations, Continuous, persist
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.order_keys import OrderKey
from riprap.graph.reach import BEGINNING
from riprap.graph.windows import count
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Durable
from riprap.records.record import RecordTotals
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.host import Shelf, Spill
from riprap.runtime.layout import Layout, Pe, arrange
from riprap.runtime.logs import LogSender
from riprap.runtime.messages import Message

MODES = ("native", "net", "kept", "disk", "checks", "interval")
PACED = ("checks", "interval")  # those that have a T
_NEVER = Duration(3_600_000_000_000)
_APART = 20  # microseconds of event time between two tuples


@dataclass(frozen=True)
class WindowScenario:
    name: str
    window: int
    items: int
    rare: int  # of the items
    published: str

    @property
    def span(self) -> int:
        """The mean length of a window in microseconds of event time."""
        return self.window * self.items * _APART


SCENARIOS = (
    WindowScenario("fast", 1, 110, 10, "16 % to the net, 35 % to disk"),
    WindowScenario("slow", 1_000, 2, 0, "10 % to disk"),
    WindowScenario("mixed", 10, 110, 10, "16 % to the net, 35 % to disk"),
)


def build(window: int, protect: Annotations) -> Graph:
    app = App("prices")
    source = app.source("Prices", "item long, price long, description string")
    source.aggregate("avg(price) AS price", window=count(window), by="item", name="Mean", protect=(protect,)).sink(
        "Out"
    )
    return app.build()


def prices(scenario: WindowScenario, rows: int, seed: int = 1) -> pa.RecordBatch:
    """Rare items are a hundred times less frequent than others."""
    draws = generator(seed, "prices", scenario.name)
    weights = np.ones(scenario.items)
    weights[scenario.items - scenario.rare :] = 0.01
    items = draws.choice(scenario.items, rows, p=weights / weights.sum()).astype(np.int64)
    names = pa.array([f"item number {item}" for item in range(scenario.items)])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(items),
            pa.array(draws.integers(1, 1_000, rows)),
            pa.DictionaryArray.from_arrays(pa.array(items.astype(np.int32)), names),
            pa.array(np.arange(rows) * _APART, pa.timestamp("us", "UTC")),
            pa.array(np.arange(rows)),
        ],
        names=["item", "price", "description", "_ts", "_seq"],
    )


class TableFeed:
    """A table in memory."""

    def __init__(self, table: pa.RecordBatch, position: int) -> None:
        self._table, self.position, self.ended = table, position, False
        self.watermark: OrderKey | None = None

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        batch = self._table.slice(self.position, max_rows)
        self.position += batch.num_rows
        self.ended = not batch.num_rows
        return batch if batch.num_rows else None


class LogHost:
    """The host of one element: its logs, or nothing."""

    def __init__(self, directory: Path | None, layout: Layout, pe: Pe, epoch: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.sent: dict[ChannelId, int] = {}
        self.logs: dict[ChannelId, LogSender] = {}
        for number, channel in enumerate(layout.all_outputs(pe) if directory is not None else ()):
            assert directory is not None
            path = directory / f"output-{number}"
            self.logs[channel] = LogSender(
                path, channel, layout.schema(channel), epoch, clock=clock, beside=layout.plan(pe).exact
            )
        self.checkpointer: Checkpointer | None = None
        self.recorded_bytes = 0
        self.warnings: list[str] = []

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        self.recorded_bytes += len(record)
        if channel in self.logs:
            self.logs[channel].append(message, record)

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        self.recorded_bytes += len(record)
        if channel in self.logs:
            self.logs[channel].record(record)

    def records(self, channel: ChannelId) -> Iterator[bytes]:
        return self.logs[channel].records() if channel in self.logs else iter(())

    def stable_records(self, channel: ChannelId) -> int:
        return self.logs[channel].stable_records if channel in self.logs else 0

    def row(self, channel: ChannelId) -> int:
        return self.logs[channel].row if channel in self.logs else 0

    def log_end(self, channel: ChannelId) -> int:
        return self.logs[channel].next if channel in self.logs else 0

    def log_max_time(self, channel: ChannelId) -> int:
        return self.logs[channel].until if channel in self.logs else BEGINNING

    def flush(self) -> None:
        for log in self.logs.values():
            log.flush()

    def close(self) -> None:
        if self.checkpointer is not None:
            self.checkpointer.close()
        for log in self.logs.values():
            log.close()

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def retain(self, channel: ChannelId, row: int) -> None:
        pass

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        pass

    def release(self, channel: ChannelId, position: int) -> None:
        pass

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        pass

    def open(self, channel: ChannelId, epoch: int) -> None:
        """There is no group."""

    def shut(self, channel: ChannelId) -> None:
        """There is no group."""

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        return True

    def spill(self, channel: ChannelId) -> Spill:
        raise AssertionError("nothing is held here")

    def shelf(self, channel: ChannelId) -> Shelf:
        raise AssertionError("nothing is retained here")

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        self.recorded_bytes += size

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class RecordsOutcome:
    """One run."""

    scenario: str
    mode: str
    every: int  # T = H, microseconds; 0: no checks
    rows: int
    seconds: float
    longest: float  # seconds of the longest iteration of the loop
    totals: RecordTotals
    recorded_bytes: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def annotations(mode: str, every: int, shot: int) -> Annotations:
    if mode in ("native", "kept"):
        return persist(0)
    if mode == "interval":
        return persist(0) | Annotations(checkpoint_every=Duration(every))
    pace = Duration(every) if mode == "checks" else _NEVER
    return Annotations(continuous=Continuous(None, pace, pace, shot))


def started(
    graph: Graph, table: pa.RecordBatch, directory: Path | None, epoch: int = 1, batch_rows: int = 8192
) -> tuple[Element, LogHost]:
    """The element with the source, and its host."""
    layout = arrange(graph)
    pe = layout.hosting("Mean")[0]
    host = LogHost(directory, layout, pe, epoch)
    units = {name: unit.operators for name, unit in layout.plan(pe).units.items() if unit.every is not None}
    if units and directory is not None:
        host.checkpointer = Checkpointer(LocalStorage(directory / "checkpoints"), pe.id, epoch, units)
    element = Element(
        layout, pe, epoch, host=host, ledger=memory_ledger(ledger_shape(layout, pe)), clock=SYSTEM_CLOCK,
        checkpointer=host.checkpointer, loaded={}, feeds=lambda name, position: TableFeed(table, position), rates=None,
        batch_rows=batch_rows,
    )  # fmt: skip
    element.prepare()
    return element, host


def measure(
    scenario: WindowScenario, mode: str, table: pa.RecordBatch, directory: Path, *, every: int = 0, shot: int = 64,
    batch_rows: int = 8192,
) -> RecordsOutcome:  # fmt: skip
    """Process the whole table; logs are deleted afterwards."""
    graph = build(scenario.window, annotations(mode, every, shot))
    place = None if mode in ("native", "net") else directory / f"{scenario.name}-{mode}-{every}"
    element, host = started(graph, table, place, batch_rows=batch_rows)
    clock, longest = SYSTEM_CLOCK, 0.0
    begin = before = clock.monotonic()
    while not element.ended:
        element.handle()
        now = clock.monotonic()
        longest, before = max(longest, now - before), now
    host.flush()
    seconds = clock.monotonic() - begin
    host.close()
    recording = element.records
    totals = (recording.totals if recording is not None else None) or RecordTotals()
    if place is not None:
        shutil.rmtree(place)
    return RecordsOutcome(scenario.name, mode, every, table.num_rows, seconds, longest, totals, host.recorded_bytes)
