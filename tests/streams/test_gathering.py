"""Appends that are written together say what they would have said one by one."""

import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from riprap.base.errors import DataError
from riprap.streams import OrderKey, PersistentStream
from riprap.streams.log import Log
from riprap.streams.reader import StoredMark

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("text", pa.string())])


def rows_from(first: int, count: int) -> pa.RecordBatch:
    seq = np.arange(first, first + count)
    return pa.record_batch([pa.array(seq, TS), pa.array(seq), pa.array([f"row {n}" for n in seq])], schema=SCHEMA)


def history(seed: int) -> list[tuple]:
    """What a producer appends, and how: batches and marks, with or without numbers of its own."""
    random, made, first, number = Random(seed), [], 0, 0
    numbered, large = random.random() < 0.6, random.random() < 0.2
    for _ in range(random.randint(1, 40)):
        if random.random() < 0.1:
            made.append(("mark", random.choice(["progress", "marker", "end"]), first))
            continue
        rows = random.choice([0, 1, 2, 7, 30]) if not large else random.choice([1, 5_000, 20_000])
        hole = random.choice([0, 0, 0, 0, 3]) if numbered else 0
        how = {
            "sequence": number + hole + rows - 1 if numbered else None,
            "watermark": OrderKey(first + rows - 1) if random.random() < 0.3 else None,
            "born": random.choice([0, 5, 9]),
            "payload": random.choice([b"", b"", b"", b"p"]),
            "record": b"record" if random.random() < 0.05 else b"",
        }
        if not rows and numbered:
            continue
        made.append(("rows", rows_from(first, rows), how))
        first, number = first + rows, number + hole + rows
    return made


def appended(path, made: list[tuple], **options) -> list:
    with PersistentStream.create(path, SCHEMA, stability="async").writer(producer="p", epoch=1, **options) as writer:
        futures = []
        for entry in made:
            if entry[0] == "mark":
                futures.append(writer.mark(OrderKey(entry[2]), kind=entry[1]))
            else:
                futures.append(writer.append(entry[1], **entry[2]))
        writer.flush()
        assert all(future.done() for future in futures)
        return [future.result() for future in futures]


def told(path) -> tuple[list, list, int]:
    """Row by row what a stream says, however its rows are cut into entries; its marks; how many entries have rows."""
    rows, marks, entries = [], [], 0
    for item in PersistentStream.open(path).read(marks=True):
        if isinstance(item, StoredMark):
            marks.append((item.kind, item.key, item.payload, item.header.position, item.header.sequence))
            continue
        entries += 1
        count, header = item.batch.num_rows, item.header
        assert item.next_position == header.position + count
        seq = item.batch.column("_seq").to_pylist()
        assert (header.min_seq, header.max_seq) == (min(seq), max(seq))
        for at, text in enumerate(item.batch.column("text").to_pylist()):
            rows.append((header.position + at, header.sequence - (count - 1 - at), text, item.payload))
    return rows, marks, entries


@pytest.mark.parametrize("seed", range(60))
def test_what_is_gathered_is_what_was_appended(tmp_path, monkeypatch, seed):
    made = history(seed)
    alone = appended(tmp_path / "alone", made, beside=False)
    monkeypatch.setattr("riprap.streams.writer.GATHERED", 60.0)  # seconds: until somebody waits
    assert appended(tmp_path / "gathered", made) == alone
    rows, marks, entries = told(tmp_path / "alone")
    rows_joined, marks_joined, fewer = told(tmp_path / "gathered")
    assert fewer <= entries
    assert marks_joined == marks
    numbered = all(entry[0] == "mark" or entry[2]["sequence"] is not None for entry in made)
    if not numbered:  # sequences of appends say nothing of rows
        rows, rows_joined = ([(at, text, payload) for at, _, text, payload in each] for each in (rows, rows_joined))
    assert rows_joined == rows
    with (
        PersistentStream.open(tmp_path / "alone").writer(producer="p", epoch=2) as one,
        PersistentStream.open(tmp_path / "gathered").writer(producer="p", epoch=2) as other,
    ):
        assert (one.last_sequence, one.position) == (other.last_sequence, other.position)


def test_small_appends_share_an_entry(tmp_path, monkeypatch):
    monkeypatch.setattr("riprap.streams.writer.GATHERED", 60.0)
    made = [("rows", rows_from(at * 10, 10), {"watermark": OrderKey(at)}) for at in range(20)]
    appended(tmp_path / "s", made)
    items = list(PersistentStream.open(tmp_path / "s").read())
    assert [item.batch.num_rows for item in items] == [10, 190], "the first tells how long rows are"
    assert items[-1].watermark == OrderKey(19)


def test_nobody_has_to_wait_for_what_is_gathered_to_be_written(tmp_path):
    with PersistentStream.create(tmp_path / "s", SCHEMA, stability="async").writer() as writer:
        for at in range(50):
            future = writer.append(rows_from(at, 1))
        assert future.result(timeout=300).position == 49


def test_a_batch_that_must_not_follow_is_refused_at_once_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("riprap.streams.writer.GATHERED", 60.0)
    with PersistentStream.create(tmp_path / "s", SCHEMA, stability="async").writer() as writer:
        writer.append(rows_from(0, 5))
        writer.append(rows_from(5, 5))
        with pytest.raises(DataError, match="order of the keys"):
            writer.append(rows_from(2, 5))
        with pytest.raises(DataError, match="order of the keys"):
            writer.append_all([rows_from(10, 5), rows_from(2, 5)])
        last = writer.append(rows_from(10, 5))
        writer.flush()
        assert last.result().position == 10


def test_what_is_gathered_fails_with_what_went_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr("riprap.streams.writer.GATHERED", 60.0)
    writer = PersistentStream.create(tmp_path / "s", SCHEMA, stability="async").writer()
    writer.append(rows_from(0, 5))

    def broken(log, messages):
        raise OSError("broken")

    monkeypatch.setattr(Log, "write", broken)
    futures = [writer.append(rows_from(5 * at, 5)) for at in range(1, 4)]
    with pytest.raises(OSError, match="broken"):
        writer.flush()
    assert all(isinstance(future.exception(timeout=300), OSError) for future in futures)
    with pytest.raises(OSError, match="broken"):
        writer.close()


def test_appends_of_several_threads_stay_whole(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, stability="async", ordered=False)
    with stream.writer() as writer:

        def some(own: int) -> None:
            for at in range(100):
                writer.append(rows_from(own * 1_000 + at * 3, 3))

        threads = [threading.Thread(target=some, args=(own,)) for own in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    numbers = [
        n for item in PersistentStream.open(tmp_path / "s").read() for n in item.batch.column("_seq").to_pylist()
    ]
    for own in range(4):
        mine = [number for number in numbers if number // 1_000 == own]
        assert mine == list(range(own * 1_000, own * 1_000 + 300)), "in the order of its calls"


@pytest.mark.parametrize("fails", [False, True])
def test_a_flush_returns_when_every_future_is_done(tmp_path, monkeypatch, fails):
    """Also where the thread that completes them is held up in the middle, as on a busy machine."""

    class Held(Future):
        def set_result(self, result):
            time.sleep(0.05)
            super().set_result(result)

        def set_exception(self, exception):
            time.sleep(0.05)
            super().set_exception(exception)

    monkeypatch.setattr("riprap.streams.writer.GATHERED", 60.0)
    monkeypatch.setattr("riprap.streams.writer.Future", Held)
    writer = PersistentStream.create(tmp_path / "s", SCHEMA, stability="async").writer()
    writer.append(rows_from(0, 5))

    def broken(log, messages):
        raise OSError("broken")

    if fails:
        monkeypatch.setattr(Log, "write", broken)
    futures = [writer.append(rows_from(5 * at, 5)) for at in range(1, 4)]
    ending = pytest.raises(OSError, match="broken") if fails else nullcontext()
    with ending:
        writer.flush()
    assert all(future.done() for future in futures)
    with ending:
        writer.close()
