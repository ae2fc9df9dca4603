"""One element with a host that writes down its effects; whole runs are in tests/simulation."""

import pyarrow as pa
import pytest

from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import MemoryStorage
from riprap.graph.annotations import backup, checkpoint
from riprap.graph.builder import App
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ConsumerDown, ConsumerUp, ProducerGone
from riprap.protocols.registry import configured
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.host import Arrival
from riprap.runtime.layout import arrange
from riprap.runtime.messages import Message, MessageKind
from riprap.testing.simulated import ListFeed, VirtualClock


class Host:
    """Has room for everything."""

    def __init__(self):
        self.sent, self.kept_messages, self.acknowledged, self.durable = [], [], [], []

    def send(self, channel, message, after=None):
        self.sent.append((channel, message))
        return True

    def append(self, channel, message, record=b""):
        self.kept_messages.append((channel, message))

    def log_end(self, channel):
        return max((m.number + m.items for c, m in self.kept_messages if c == channel), default=0)

    def log_max_time(self, channel):
        return -(2**63)

    def flush(self):
        pass

    def acknowledge(self, channel, next_):
        self.acknowledged.append((channel, next_))

    def release_inputs(self, positions):
        pass

    def release(self, channel, position):
        pass

    def checkpoint_durable(self, durable, size, taken):
        self.durable.append(durable)

    def send_to_director(self, message):
        pass


def batch(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(numbers, pa.timestamp("us", "UTC")), pa.array(numbers, pa.int64())],
        names=["x", "_ts", "_seq"],
    )


class Bench:
    """Lives of one element of an app."""

    def __init__(self, app, pe, fuse="none", protocol="partial"):
        self.layout = arrange(app.build(), fuse, None, *configured(protocol))
        self.pe = self.layout.pe(pe)
        self.host, self.clock, self.storage = Host(), VirtualClock(), MemoryStorage()
        self.ledger, self.epoch = None, 0

    def life(self, batch_rows=4) -> Element:
        self.epoch += 1
        self.ledger = memory_ledger(ledger_shape(self.layout, self.pe), self.ledger)
        units = {name: unit.operators for name, unit in self.layout.plan(self.pe).units.items()}
        return Element(
            self.layout, self.pe, self.epoch, host=self.host, ledger=self.ledger, clock=self.clock,
            checkpointer=Checkpointer(self.storage, self.pe.id, self.epoch, units, background=False) if units else None,
            loaded={name: load(self.storage, self.pe.id, name, self.clock.now()) for name in units},
            feeds=lambda source, position: ListFeed(batch(0, 10), position), rates=None, batch_rows=batch_rows,
        )  # fmt: skip

    def received(self, channel) -> int:
        return self.ledger.inputs[channel].received

    def tick(self, element):
        for _ in range(3):
            element.handle()
            self.clock.time += 2_000_000


def source_app(protect=()):
    app = App("source")
    app.source("S", "x long", protect=protect).filter("x >= 0", name="F").sink("Sink")
    return app


def two_inputs(*protect, saved=(), late="deliver"):
    app = App("two")
    left, right = (app.source(name, "x long", protect=protect).late(late) for name in ("L", "R"))
    left.union(right, name="U", protect=saved).sink("Sink")
    return app


def message(number, count, watermark=None):
    return Message(MessageKind.ROWS, 1, number, Views.of(batch(number, count)), watermark=watermark)


@pytest.mark.parametrize("protocol", ["partial", "coordinated"])
def test_progress_goes_with_the_rows_it_is_behind(protocol):
    """In no message of its own: rows that are held cost a consumer as many messages as others."""
    bench = Bench(source_app(), "S", protocol=protocol)
    element, channel = bench.life(), ChannelId("S→F")
    element.handle([ConsumerUp(channel, 1, 0)])
    while not element.ended:
        element.handle()
    rows = [message for _, message in bench.host.sent if message.kind is MessageKind.ROWS]
    assert [message.items for message in rows] == [4, 4, 2]
    assert all(message.watermark is not None for message in rows)
    assert [message.kind for _, message in bench.host.sent if message.number and message not in rows] == [
        MessageKind.END
    ]


def test_a_consumer_that_comes_late_is_told_the_end_and_what_it_missed():
    bench = Bench(source_app(), "S")
    element, channel = bench.life(), ChannelId("S→F")
    element.handle([ConsumerDown(channel)])
    while not element.ended:
        element.handle()
    assert not bench.host.sent
    element.handle([ConsumerUp(channel, 2, 0)])
    (_, came), (_, told) = bench.host.sent  # how far the stream had come, and that it has ended
    assert (came.kind, came.number) == (MessageKind.WATERMARK, 10)
    assert came.watermark < END_KEY
    assert (told.kind, told.number, told.watermark) == (MessageKind.END, 10, END_KEY)


@pytest.mark.parametrize("stopped_after", [1, 2])
def test_a_source_that_went_back_ends_where_it_had_been(stopped_after):
    bench = Bench(source_app((backup(),)), "S")
    first = bench.life()
    for _ in range(stopped_after):
        first.handle()
    taken = 4 * stopped_after
    assert bench.ledger.sources["S"].position == taken
    second = bench.life()  # without a checkpoint: from the beginning
    second.end_sources()
    while not second.ended:
        second.handle()
    assert bench.ledger.sources["S"].position == taken
    end = bench.host.kept_messages[-1][1]
    assert (end.kind, end.number) == (MessageKind.END, taken)


@pytest.mark.parametrize(("most_rows", "begins"), [(4, 1), (64, 0)], ids=["apart", "joined"])
def test_what_waits_in_a_merge_is_read_again(most_rows, begins):
    bench = Bench(two_inputs(backup(), saved=(checkpoint("1s"),)), "U")
    left, right = ChannelId("L→U"), ChannelId("R→U.1")
    first = bench.life(most_rows)
    first.handle([Arrival(left, message(0, 2), 1), Arrival(left, message(2, 3, OrderKey(4, 0, 4)), 2)])
    first.handle([Arrival(right, Message(MessageKind.WATERMARK, 1, 0, watermark=OrderKey(2, 0, 0)), 1)])
    assert bench.received(left) == 2  # keys of L come before those of R at the same time
    bench.tick(first)
    second = bench.life()
    assert second.replay_from(left) == (begins, 2)
    assert second.replay_from(right) == (1, 0)
    second.handle([Arrival(left, message(0, 2), 1), Arrival(left, message(2, 3, OrderKey(4, 0, 4)), 2)])
    second.handle([Arrival(right, Message(MessageKind.END, 1, 0, watermark=END_KEY), 2)])
    assert (bench.received(left), bench.ledger.inputs[left].repeated) == (5, 0)


@pytest.mark.parametrize("late", ["deliver", "drop"])
def test_what_comes_from_a_producer_that_was_not_waited_for_is_late(late):
    bench = Bench(two_inputs(late=late), "U")
    left, right = ChannelId("L→U"), ChannelId("R→U.1")
    element = bench.life()
    for channel in bench.layout.outputs(bench.pe):
        element.handle([ConsumerUp(channel, 1, 0)])
    element.handle([Arrival(left, message(0, 6, OrderKey(5, 0, 5)))])
    assert bench.received(left) == 0
    element.handle([ProducerGone(right, 1)])
    assert bench.received(left) == 6
    element.handle([Arrival(right, Message(MessageKind.ROWS, 2, 3, Views.of(batch(3, 5))))])  # 0 to 2 miss, 3, 4 late
    if late == "deliver":
        (given,) = [m for _, m in bench.host.sent if m.at is not None]
        assert given.batch.batch().column("_ts").cast(pa.int64()).to_pylist() == [3, 4]
        assert given.at == OrderKey(5, 0, 5, 1)
    element.handle([Arrival(left, Message(MessageKind.END, 1, 6, watermark=END_KEY))])
    element.handle([Arrival(right, Message(MessageKind.END, 2, 8, watermark=END_KEY))])
    record = bench.ledger.inputs[right]
    assert (record.next, record.received, record.late) == ((8, 5, 2) if late == "deliver" else (8, 3, 0))


@pytest.mark.parametrize("late", ["deliver", "drop"])
def test_another_life_knows_what_is_late(late):
    bench = Bench(two_inputs(late=late), "U")
    left, right = ChannelId("L→U"), ChannelId("R→U.1")
    first = bench.life()
    first.handle([Arrival(left, message(0, 6, OrderKey(5, 0, 5)))])
    first.handle([ProducerGone(right, 1)])
    assert bench.received(left) == 6
    second = bench.life()
    second.handle([Arrival(left, Message(MessageKind.END, 1, 6, watermark=END_KEY))])
    second.handle([Arrival(right, Message(MessageKind.ROWS, 2, 3, Views.of(batch(3, 5)), watermark=END_KEY))])
    record = bench.ledger.inputs[right]
    assert (record.next, record.received, record.late) == ((8, 5, 2) if late == "deliver" else (8, 3, 0))


def test_an_element_that_goes_back_and_is_not_exact_says_nothing_twice():
    app = App("mixed")
    left, right = app.source("L", "x long", protect=(backup(),)), app.source("R", "x long")
    left.union(right, name="U").sink("Sink")
    bench = Bench(app, "U")
    left, right = ChannelId("L→U"), ChannelId("R→U.1")
    (out,) = bench.layout.outputs(bench.pe)
    for life in range(2):
        element = bench.life()
        element.handle([ConsumerUp(out, 1, 0)])
        element.handle([Arrival(left, message(0, 6, OrderKey(5, 0, 5)), 1)])
        element.handle([Arrival(right, Message(MessageKind.WATERMARK, life, 0, watermark=END_KEY))])
        assert (bench.received(left), bench.ledger.inputs[left].repeated) == (6, 6 * life)
        assert bench.ledger.outputs[out].number == 6
    rows = [message.batch.rows for _, message in bench.host.sent if message.batch is not None]
    assert sum(rows) == 6
    element.handle(
        [Arrival(left, message(6, 2), 2), Arrival(left, Message(MessageKind.END, 1, 8, watermark=END_KEY), 2)]
    )
    assert bench.ledger.outputs[out].number == 8
