"""What is kept while a consumer is down: the output channel and its shelf against lists, then real processes and `kill
-9`."""

import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.test_real_lives import PATIENCE, Hosts, _until
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.graph.annotations import retain
from riprap.graph.builder import App
from riprap.graph.order_keys import KeyShape
from riprap.operators.columns import Keys, keys_of
from riprap.operators.views import Views
from riprap.protocols.channel import Delivered, SendingEnd, sampled
from riprap.protocols.channels import ChannelId
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.coordination.run_summary import read_ledgers
from riprap.runtime.layout import arrange, sink_channel
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.retention.output_channel import OutputStream
from riprap.runtime.retention.while_down import WhileDownOutput
from riprap.runtime.run_context import Run
from riprap.runtime.shelf import StreamShelf
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.stream_files import LocalFiles
from riprap.testing.simulated import ListSpill, MemoryShelf

CHANNEL = ChannelId("A→B", 0, 0)
SCHEMA = pa.schema([("x", pa.int64()), ("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])
SHAPE = KeyShape(0, False, frozenset((0,)))
ROWS = 3  # of a message


class Record:
    discarded = number = 0


class Host:
    """A wire with room for two messages, and a shelf that outlives it."""

    def __init__(self, shelf, writes):
        self._shelf, self.wire, self.writes, self.room = shelf, [], writes, 2

    def shelf(self, channel):
        return self

    def spill(self, channel):
        return ListSpill()

    def send(self, channel, message, after=None):
        if len(self.wire) >= self.room:
            return False
        self.wire.append((message, after))
        return True

    # The shelf, with what is written to it written down.
    @property
    def next(self):
        return self._shelf.next

    def append(self, message):
        self.writes.append(message.number)
        self._shelf.append(message)

    def since(self, number):
        return self._shelf.since(number)

    def release(self, below):
        self._shelf.release(below)


def rows(number: int) -> Message:
    values = np.arange(number, number + ROWS)
    batch = pa.record_batch(
        [pa.array(values), pa.array(values, SCHEMA.field("_ts").type), pa.array(values)], SCHEMA.names
    )
    return Message(MessageKind.ROWS, 1, number, Views.of(batch.cast(SCHEMA)))


EVENTS = ("give", "give", "give", "flush", "flush", "take", "take", "acknowledge", "down", "up", "dies", "producer")


class Channel:
    """A producer that dies, and a consumer that does: what each has is in lists here."""

    def __init__(self, shelf, limit: int, share: float) -> None:
        self.make, self.limit, self.share = shelf, limit, share
        self.writes: list[int] = []
        self.number = self.taken = self.acknowledged = self.epoch = 0
        self.had: list[int] = []
        self.risked: set[int] = set()  # given while the consumer was there, or not known to be gone
        self.lost: set[int] = set()  # of those, what may be lost, as the producer died
        self.up: bool | None = None
        self.begin()

    def begin(self) -> None:
        self.epoch += 1
        self.host = Host(self.make(self.epoch), self.writes)
        sender = SendingEnd("while-down", self.number, guarded=True)
        stream = OutputStream(SHAPE, self.share)
        self.output = WhileDownOutput(CHANNEL, self.epoch, sender, Record(), self.host, self.limit, stream)
        self.up = None

    def do(self, event: str) -> None:
        if event == "give":
            before = len(self.writes)
            self.output.emit([rows(self.output.sender.numbered(ROWS))])
            if self.up is not False:
                self.risked |= set(range(self.number, self.number + ROWS))
            assert self.up is not None or self.output.sender.up is None
            if self.up and not self.output._shelving:
                assert len(self.writes) == before, "written while the consumer is there"
            self.number += ROWS
        elif event == "flush":
            self.output.flush()
        elif event == "take" and self.host.wire:
            message, after = self.host.wire.pop(0)
            fresh = [n for n in message.batch.column("x").values.tolist() if n >= self.taken] if message.batch else []
            assert message.number <= self.taken or (after is not None and after <= self.taken), "a hole nobody knows of"
            self.had += fresh
            self.taken = max(self.taken, message.number + message.items)
        elif event == "acknowledge" and self.up:
            self.acknowledged = self.taken
            self.output.acknowledged(self.taken)
        elif event == "down" and self.up is not False:
            self.host.wire.clear()
            self.output.consumer_down()
            self.up = False
        elif event == "up" and not self.up:
            self.host.wire.clear()
            self.output.consumer_up(self.taken, Delivered())
            self.up = True
        elif event == "producer":
            self.host.wire.clear()
            self.lost |= {n for n in self.risked if n >= self.acknowledged} if self.up is not False else set()
            self.begin()

    def end(self) -> None:
        """The consumer comes back and takes everything."""
        if not self.up:
            self.do("up")
        for _ in range(200):
            self.do("flush")
            while self.host.wire:
                self.do("take")
            self.do("acknowledge")


def play(schedule, make, limit, share=1.0) -> Channel:
    channel = Channel(make, limit, share)
    for event in schedule:
        channel.do(event)
    channel.end()
    assert channel.had == sorted(set(channel.had))
    return channel


schedules = st.lists(st.sampled_from(EVENTS), max_size=80)


def memory():
    shelf = MemoryShelf()
    return lambda epoch: shelf.of(lambda: None)


@given(schedules, st.sampled_from([0, 500, 10**6]))
def test_only_what_a_producer_took_with_it_is_lost(schedule, limit):
    channel = play(schedule, memory(), limit)
    missing = set(range(channel.number)) - set(channel.had)
    assert missing <= channel.lost
    writes = len(channel.writes)
    channel.do("give")
    channel.end()
    assert len(channel.writes) == writes, "it has caught up, and is written for"
    assert set(range(channel.number - ROWS, channel.number)) <= set(channel.had)


@given(schedules, st.sampled_from([0.1, 0.5]))
def test_of_a_share_some_are_left_out_and_counted(schedule, share):
    schedule = [event for event in schedule if event != "producer"]
    channel = play(schedule, memory(), 500, share)
    assert channel.number - len(channel.had) == channel.output.record.discarded


@given(schedules)
@settings(max_examples=15)
def test_a_shelf_on_disk_is_one_in_memory(schedule):
    with tempfile.TemporaryDirectory() as directory:
        path, open_ = Path(directory) / "shelf", []

        def stored(epoch):
            for shelf in open_:
                shelf.close()
            open_[:] = [StreamShelf(path, CHANNEL, SCHEMA, epoch, stability="async", clock=SYSTEM_CLOCK)]
            return open_[0]

        on_disk, in_memory = play(schedule, stored, 500), play(schedule, memory(), 500)
        assert on_disk.had == in_memory.had
        assert on_disk.writes == in_memory.writes
        on_disk.do("give")
        on_disk.end()
        assert not path.exists(), "all was acknowledged"
        open_[0].close()


def test_a_share_is_by_key_and_holds_every_smaller_one():
    count = 20_000
    keys = Keys(np.arange(count), np.zeros(1, np.int64), np.arange(count) * 7, np.zeros(1, np.int64))
    chosen = {share: sampled(keys, share) for share in (0.1, 0.5, 1.0)}
    for share, rows_ in chosen.items():
        assert abs(rows_.mean() - share) < 0.02
    assert not (chosen[0.1] & ~chosen[0.5]).any()
    one = [bool(sampled(Keys(*(part[[at % len(part)]] for part in keys)), 0.5)[0]) for at in range(200)]
    assert one == chosen[0.5][:200].tolist(), "it depends on the row alone"
    batch = rows(5).batch
    assert batch is not None
    assert len(sampled(keys_of(batch, SHAPE), 0.5)) == ROWS


# Real processes -------------------------------------------------------------------------------------------------------


def graph():
    app = App("outage")
    source = app.source("S", "x long", protect=(retain("while-down"),))
    source.select("x", "x * 2 AS y", name="M").sink("Sink")
    return app.build()


def ids(path: Path) -> list[int]:
    if not is_stream(LocalFiles(path)):
        return []
    return [x for item in PersistentStream.open(path).read() for x in item.batch["x"].to_pylist()]


def test_a_killed_consumer_gets_what_came_meanwhile_though_its_producer_dies_too(tmp_path):
    layout = arrange(graph())
    assert [pe.id for pe in layout.pes] == ["S", "M"]
    hosts = Hosts(4)
    numbers = pa.array(np.arange(50_000))
    times = pa.array(np.arange(0, 5_000_000, 100), pa.timestamp("us", "UTC"))
    supply = Supply(tmp_path / "in", pa.table({"x": numbers, "_ts": times, "_seq": numbers}), at_once=20)
    coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=PATIENCE)
    sink, shelf = tmp_path / "sinks" / "Sink", tmp_path / "shelves"
    kept = lambda: [x for one in shelf.glob("*") if not one.name.endswith(".gone") for x in ids(one)]  # noqa: E731
    try:
        coordinator.start()
        run = Run(tmp_path, layout, {"S": str(supply.path)}, coordinator.location, "secret", "127.0.0.1", follow=True)
        for pe in layout.pes:
            hosts.start(run, pe.id)
        _until(lambda: len(ids(sink)) > 50, coordinator, supply)
        _kill(hosts, "M")
        _until(lambda: len(kept()) > 50, coordinator, supply)
        before = kept()
        _kill(hosts, "S")
        hosts.start(run, "S")
        _until(lambda: len(kept()) > len(before) + 50, coordinator, supply)
        hosts.start(run, "M")
        _until(lambda: not list(shelf.glob("*")), coordinator, supply)
        supply.end()
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
    finally:
        coordinator.close()
        hosts.close()
    found = ids(sink)
    assert found == sorted(set(found))
    ledgers = read_ledgers(tmp_path, layout)
    (counts,) = stream_counts(layout, ledgers).values()
    assert counts.recovery == "while-down"
    assert counts.forgotten == 0  # M has no state
    # What M had taken when it was killed, and the log of its sink had not: it asks for what comes behind that.
    unwritten = ledgers["M"].outputs[sink_channel("Sink")].discarded
    assert counts.received == len(found) + unwritten
    assert counts.lost == counts.sent - counts.received
    missing = set(range(counts.sent)) - set(found)
    died_with_m = sorted(missing & set(before))
    assert len(died_with_m) <= unwritten
    assert not died_with_m or died_with_m[-1] - died_with_m[0] == len(died_with_m) - 1
    assert missing - set(died_with_m) <= set(range(before[-1] + 1, counts.sent)) | set(range(before[0]))


def _kill(hosts: Hosts, pe: str) -> None:
    os.kill(hosts.running[pe].pid, signal.SIGKILL)
    hosts.running[pe].join()
