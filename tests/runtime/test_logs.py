"""Replay channels: exactly the items, in order, whatever either end repeats, and however often it restarts."""

import multiprocessing
import queue
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.runtime.logs import LogFollower, LogSender, open_log
from riprap.runtime.messages import Message, MessageKind
from riprap.streams import Fenced, PersistentStream

CHANNEL = ChannelId("A→B", 0, 1)
TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("word", pa.string()),
        pa.field("_ts", TS, nullable=False),
        pa.field("_seq", pa.int64(), nullable=False),
        pa.field("_n", pa.int64(), nullable=False),
    ]
)


def key(number: int) -> OrderKey:
    return OrderKey(number * 10, 0, number, 2**60)


class Items:
    """A channel's items: True is a punctuation, False a row. An item's content is its number."""

    def __init__(self, items: list[bool]) -> None:
        self.items = items

    def messages(self, cuts: set[int], start: int = 0, epoch: int = 0):
        """From item `start` on, rows cut at `cuts`; progress after each punctuation and at each cut."""
        number = start
        while number < len(self.items):
            if self.items[number]:
                yield Message(MessageKind.PUNCTUATION, epoch, number, punctuation=key(number), born=5)
                number += 1
                yield Message(MessageKind.WATERMARK, epoch, number, watermark=key(number - 1))
                continue
            end = number + 1
            while end < len(self.items) and not self.items[end] and end not in cuts:
                end += 1
            yield Message(MessageKind.ROWS, epoch, number, batch_of(number, end), watermark=key(end - 1), born=7)
            number = end
        yield Message(MessageKind.END, epoch, number, watermark=END_KEY)


def batch_of(first: int, last: int) -> Views:
    numbers = pa.array(range(first, last), pa.int64())
    words = pa.array([None if n % 5 == 0 else f"word {n % 3}" for n in range(first, last)], pa.string())
    times = pa.array([n * 10 for n in range(first, last)], TS)
    return Views.of(pa.record_batch([words.dictionary_encode(), times, numbers, numbers], names=SCHEMA.names))


class Taken:
    """A consumer: takes messages, drops what is repeated by the numbers, refuses a hole."""

    def __init__(self, next_: int = 0) -> None:
        self.queue: queue.Queue[tuple[Message, int]] = queue.Queue()
        self.next = next_
        self.items: list[bool] = []
        self.position = -1
        self.watermark = OrderKey(-1, 0, 0)

    def __call__(self, channel: ChannelId, message: Message, position: int) -> bool:
        assert channel == CHANNEL
        self.queue.put((message, position))
        return True

    def until_end(self, length: int) -> None:
        while True:
            message, self.position = self.queue.get(timeout=300)
            assert message.number <= self.next, "a hole"
            if message.kind is MessageKind.ROWS:
                rows = message.batch.batch()
                numbers = rows.column("_seq").to_pylist()
                assert numbers == list(range(message.number, message.number + message.items))
                assert rows.schema.names == SCHEMA.names
                expected = [None if number % 5 == 0 else f"word {number % 3}" for number in numbers]
                assert rows.column("word").to_pylist() == expected
                assert message.born == 7
            if message.kind is MessageKind.PUNCTUATION:
                assert message.punctuation == key(message.number)
                assert message.born == 5
            new = message.number + message.items - self.next
            if new > 0:
                self.items += [message.kind is MessageKind.PUNCTUATION] * new
                self.next += new
            if message.watermark is not None:
                if message.kind is not MessageKind.END:
                    assert message.watermark <= key(message.number + message.items - 1), "progress before its items"
                self.watermark = message.watermark
            if message.kind is MessageKind.END and self.next >= length:
                assert message.watermark == END_KEY
                return


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.booleans() | st.just(False), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sets(st.integers(0, 40))), min_size=1, max_size=4),
    st.data(),
)
def test_a_producer_that_repeats_itself(tmp_path_factory, items, lives, data):
    """Each life begins at or before where the log ends, cuts its messages otherwise, and stops after some of them."""
    path = tmp_path_factory.mktemp("logs") / "log"
    source = Items(items)
    taken = Taken()
    follower = LogFollower(path, CHANNEL, SCHEMA, "B/1", taken)
    for epoch, (back, messages, cuts) in enumerate([*lives, (40, 1000, set())]):
        sender = LogSender(path, CHANNEL, SCHEMA, epoch)
        start = max(0, sender.next - back)
        for _, message in zip(range(messages), source.messages(cuts, start, epoch), strict=False):
            sender.append(message)
        sender.flush()
        sender.close()
    taken.until_end(len(items))
    follower.close()
    assert follower.failure is None
    assert taken.items == items

    # A consumer that begins in the middle, with what its checkpoint says.
    row = data.draw(st.integers(0, items.count(False)))
    rows = [number for number, punctuation in enumerate(items) if not punctuation]
    number = rows[row] if row < len(rows) else len(items)
    later = Taken(number)
    follower = LogFollower(path, CHANNEL, SCHEMA, "C", later, position=row, number=number)
    later.until_end(len(items))
    follower.close()
    assert later.items == items[number:]
    assert later.position == len(rows)


def test_a_hole_is_refused(tmp_path):
    sender = LogSender(tmp_path / "log", CHANNEL, SCHEMA, 0)
    sender.append(Message(MessageKind.ROWS, 0, 0, batch_of(0, 3)))
    with pytest.raises(DataError, match="ends before item 3 and its producer resumes at 4"):
        sender.append(Message(MessageKind.ROWS, 0, 4, batch_of(4, 5)))
    sender.close()


def test_an_older_life_is_fenced(tmp_path):
    old = LogSender(tmp_path / "log", CHANNEL, SCHEMA, 1)
    old.append(Message(MessageKind.ROWS, 1, 0, batch_of(0, 3)))
    old.flush()
    new = LogSender(tmp_path / "log", CHANNEL, SCHEMA, 2)
    assert new.next == 3
    old.append(Message(MessageKind.ROWS, 1, 3, batch_of(3, 6)))
    with pytest.raises(Fenced):
        old.flush()
    new.append(Message(MessageKind.ROWS, 2, 3, batch_of(3, 5)))
    new.close()
    with pytest.raises(Fenced):
        LogSender(tmp_path / "log", CHANNEL, SCHEMA, 1)
    assert [item.batch.num_rows for item in PersistentStream.open(tmp_path / "log").read()] == [3, 2]


def test_both_ends_may_come_first(tmp_path):
    ids, barrier = [], threading.Barrier(8)

    def come() -> None:
        barrier.wait()
        ids.append(open_log(tmp_path / "log", SCHEMA).description.id)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 1
    assert len(ids) == 8


def test_what_no_checkpoint_needs_is_trimmed(tmp_path):
    stream = PersistentStream.create(tmp_path / "log", SCHEMA, segment_bytes=1, stability="async", ordered=False)
    sender = LogSender(tmp_path / "log", CHANNEL, SCHEMA, 0)
    sender.trim()  # nobody has registered: everything stays
    taken = Taken()
    follower = LogFollower(tmp_path / "log", CHANNEL, SCHEMA, "B/1", taken)
    for message in Items([False, False, True, False, False, True, True, False]).messages({1, 4, 7}):
        sender.append(message)
    sender.flush()
    taken.until_end(8)
    sender.trim()
    assert stream.first_position() == 0, "the consumer's oldest checkpoint is at the start"
    follower.released(4)
    sender.trim()
    assert 0 < stream.first_position() <= 4
    follower.close()
    again = Taken(5)  # from a checkpoint at row 4, taken before the punctuations there
    follower = LogFollower(tmp_path / "log", CHANNEL, SCHEMA, "B/1", again, position=4, number=5)
    again.until_end(8)
    follower.close()
    sender.close()
    assert again.items == [True, True, False]


def test_damage_is_told(tmp_path):
    sender = LogSender(tmp_path / "log", CHANNEL, SCHEMA, 0)
    sender.append(Message(MessageKind.ROWS, 0, 0, batch_of(0, 50)))
    sender.flush()
    segment = tmp_path / "log" / "00000000.arrow"
    data = bytearray(segment.read_bytes())
    data[-100] ^= 1
    segment.write_bytes(data)
    follower = LogFollower(tmp_path / "log", CHANNEL, SCHEMA, "B", Taken())
    follower._thread.join(300)
    assert "checksum" in str(follower.failure)
    follower.close()
    sender.close()


def _produce(path, epoch: int, begin) -> None:
    begin.wait()
    sender = LogSender(path, CHANNEL, SCHEMA, epoch)
    for message in Items([number % 7 == 3 for number in range(3000)]).messages(set(range(0, 3000, 5)), epoch=epoch):
        sender.append(message)
    sender.close()


def test_between_processes_with_kills(tmp_path):
    """The producer is killed in the middle, twice; the follower sees the whole once."""
    context = multiprocessing.get_context("spawn")
    taken = Taken()
    follower = LogFollower(tmp_path / "log", CHANNEL, SCHEMA, "B", taken)
    for epoch in range(3):
        begin = context.Event()
        process = context.Process(target=_produce, args=(tmp_path / "log", epoch, begin))
        process.start()
        begin.set()
        while epoch < 2 and process.is_alive() and taken.queue.qsize() < 200 * (epoch + 1):
            process.join(0.001)
        if epoch < 2:
            process.kill()
        process.join(300)
    taken.until_end(3000)
    follower.close()
    assert taken.items == [number % 7 == 3 for number in range(3000)]


@pytest.mark.parametrize(("stability", "stored"), [("async", "async"), ("group", "fsync"), ("fsync", "fsync")])
def test_an_item_is_kept_as_its_stability_says(tmp_path, monkeypatch, stability, stored):
    sender = LogSender(tmp_path, CHANNEL, SCHEMA, 0, stability=stability)
    syncs = []
    monkeypatch.setattr(sender._writer._log, "sync", lambda: syncs.append(sender.next))
    kept = []
    for message in Items([False] * 12).messages({4, 8}):
        sender.append(message)
        kept.append(sender.next)
        if stability == "fsync":  # nobody goes on before the sync of what was kept
            assert syncs[-1:] == [sender.next]
    sender.flush()
    assert PersistentStream.open(tmp_path).description.settings.stability == stored
    assert syncs[-1:] == ([] if stability == "async" else [12])
    sender.close()
