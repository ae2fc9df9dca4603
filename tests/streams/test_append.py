"""Appending: stability, order, identity of producers, schemas, bounded memory."""

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from stream_data import SCHEMA, TS, batch, batches, table, write

from riprap.base.errors import DataError, UsageError
from riprap.streams import Fenced, OrderKey, PersistentStream
from riprap.streams.log import Log


@pytest.mark.parametrize("stability", ["fsync", "async", "none"])
def test_what_is_appended_is_read_back(tmp_path, stability):
    items = batches([3, 0, 5, 1])
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, stability=stability)
    with stream.writer() as writer:
        done = [writer.append(item).result(timeout=300) for item in items]
    assert [(item.position, item.rows) for item in done] == [(0, 3), (3, 0), (3, 5), (8, 1)]
    assert table(PersistentStream.open(tmp_path / "s").read()).equals(table(items))


def test_a_future_is_done_only_after_the_sync(tmp_path, monkeypatch):
    syncing, go_on = threading.Event(), threading.Event()
    real = Log.sync

    def slow(log):
        syncing.set()
        assert go_on.wait(300)
        real(log)

    monkeypatch.setattr(Log, "sync", slow)
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with stream.writer() as writer:
        future = writer.append(batch(0, 3))
        assert syncing.wait(300)
        assert not future.done()
        assert stream.stable().position == 0, "readers see nothing that is not stable"
        go_on.set()
        assert future.result(timeout=300).rows == 3
        assert stream.stable().position == 3


def test_one_sync_serves_all_that_wait(tmp_path, monkeypatch):
    first, go_on, calls = threading.Event(), threading.Event(), []

    def sync(log):
        calls.append(1)
        first.set()
        assert go_on.wait(300)

    monkeypatch.setattr(Log, "sync", sync)
    with PersistentStream.create(tmp_path / "s", SCHEMA).writer() as writer:
        futures = [writer.append(batch(0, 1))]
        assert first.wait(300)
        futures += [writer.append(batch(number, 1)) for number in range(1, 20)]
        go_on.set()
        assert [future.result(timeout=300).position for future in futures] == list(range(20))
        assert len(calls) == 2


def test_append_blocks_while_too_much_is_outstanding(tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(Log, "sync", lambda log: go_on.wait(300))
    with PersistentStream.create(tmp_path / "s", SCHEMA, outstanding=3).writer() as writer:
        appended = []

        def produce():
            for number in range(5):
                writer.append(batch(number, 1))
                appended.append(number)

        thread = threading.Thread(target=produce)
        thread.start()
        thread.join(0.3)
        assert len(appended) == 3
        go_on.set()
        thread.join(300)
        assert len(appended) == 5


def test_a_failed_sync_fails_the_writer_and_everything_it_had_queued(tmp_path, monkeypatch):
    def broken(log):
        raise OSError(5, "Input/output error")

    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with stream.writer() as writer:
        writer.append(batch(0, 2)).result(timeout=300)
    writer = stream.writer(epoch=1)
    with monkeypatch.context() as patch:
        patch.setattr(Log, "sync", broken)
        with pytest.raises(OSError, match="Input/output"):
            writer.append(batch(2, 2)).result(timeout=300)
        with pytest.raises(OSError, match="Input/output"):
            writer.append(batch(4, 2))
    with pytest.raises(OSError, match="Input/output"):
        writer.close()
    with stream.writer(epoch=2) as again:  # what was written but not acknowledged may be there or not; here it is
        assert again.position == 4


def test_a_returning_producer_writes_nothing_twice(tmp_path):
    stream, items = PersistentStream.create(tmp_path / "s", SCHEMA), batches([2, 2, 2, 2])
    with stream.writer(producer="pe-1", epoch=1) as writer:
        for number in range(3):
            writer.append(items[number], sequence=number)
    with stream.writer(producer="pe-1", epoch=2) as writer:
        assert writer.last_sequence == 2
        results = [writer.append(item, sequence=number).result() for number, item in enumerate(items)]
    assert [result.repeated for result in results] == [True, True, True, False]
    assert table(stream.read()).equals(table(items))
    assert [(item.header.epoch, item.header.sequence) for item in stream.read()] == [(1, 0), (1, 1), (1, 2), (2, 3)]


def test_identity_survives_rolling_and_trimming(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=1)
    write(stream, batches([5] * 6), producer="a", epoch=7)
    stream.trim(before_position=10**9)
    with pytest.raises(Fenced, match="epoch 6 is older"):
        stream.writer(producer="a", epoch=6)
    with stream.writer(producer="a", epoch=7) as writer:
        assert writer.last_sequence == 5
        assert writer.position == 30
    with stream.writer(producer="b") as writer:
        assert writer.last_sequence == -1


def test_an_append_of_several_batches_is_all_or_nothing(tmp_path):
    stream, items = PersistentStream.create(tmp_path / "s", SCHEMA), batches([3, 3, 3])
    with stream.writer() as writer:
        writer.append(batch(0, 3)).result()
        whole = stream.stable().offset
        writer.append_all(batches([3, 3, 3], first=3), sequence=9).result()
        end = stream.stable().offset
    segment = tmp_path / "s" / "00000000.arrow"
    data = segment.read_bytes()
    for size in range(whole, end, 13):
        segment.write_bytes(data[:size])
        with stream.writer() as writer:
            assert (writer.position, writer.last_sequence) == (3, 0)
    segment.write_bytes(data)
    with stream.writer() as writer:
        assert (writer.position, writer.last_sequence) == (12, 9)
    assert table(stream.read()).equals(table([items[0], *batches([3, 3, 3], first=3)]))


def test_order_is_checked(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with stream.writer() as writer:
        writer.append(batch(10, 5)).result()
        with pytest.raises(DataError, match="_seq 14"):
            writer.append(batch(14, 1))
        with pytest.raises(DataError, match="sort it"):
            writer.append(batch(20, 5).take(pa.array([1, 0])))
        writer.append(batch(15, 5)).result()
    with pytest.raises(DataError, match="already at"), stream.writer() as writer:
        writer.append(batch(3, 1))
    assert stream.stable().position == 10


def test_several_sources_may_interleave(tmp_path):
    schema = SCHEMA.append(pa.field("_src", pa.int32()))
    stream = PersistentStream.create(tmp_path / "s", schema)
    items = [
        pa.record_batch([*batch(first, 3).columns, pa.array([src] * 3, pa.int32())], schema=schema)
        for first, src in ((10, 0), (0, 1), (13, 0))
    ]
    write(stream, items)
    rows = pa.Table.from_batches([item.batch for item in stream.read(from_ts=12_000, to_ts=14_000)])
    assert rows["_seq"].to_pylist() == [12, 13]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("_ts", TS), ("x", pa.int64())]), "needs the column _seq"),
        (pa.schema([("_ts", pa.timestamp("ns")), ("_seq", pa.int64())]), "must be timestamp"),
        (SCHEMA.append(pa.field("d", pa.dictionary(pa.int32(), pa.string()))), "dictionary-encoded: cast it to string"),
    ],
)
def test_schemas_that_cannot_be_streams(tmp_path, schema, message):
    with pytest.raises(DataError, match=message):
        PersistentStream.create(tmp_path / "s", schema)


def test_the_schema_grows_by_nullable_columns_only(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    wider = SCHEMA.append(pa.field("price", pa.float64()))
    new = pa.record_batch([*batch(4, 2).columns, pa.array([1.5, 2.5])], schema=wider)
    with stream.writer() as writer:
        writer.append(batch(0, 4))
        with pytest.raises(DataError, match=r"price double.*the stream has \(_ts timestamp"):
            writer.append(new)
        for bad in (
            SCHEMA.remove(2),
            SCHEMA.set(2, pa.field("text", pa.binary())),
            wider.set(3, pa.field("p", pa.int8(), False)),
        ):
            with pytest.raises(DataError, match="only by nullable columns added at the end"):
                writer.evolve(bad)
        writer.evolve(wider)
        writer.append(new).result()
    with PersistentStream.open(tmp_path / "s").writer() as writer:
        writer.append(
            new.set_column(1, "_seq", pc.add(new["_seq"], 2)).set_column(0, "_ts", pa.array([6000, 7000], TS))
        )
    rows = pa.Table.from_batches([item.batch for item in PersistentStream.open(tmp_path / "s").read()])
    assert rows.schema == wider
    assert rows["price"].to_pylist() == [None] * 4 + [1.5, 2.5, 1.5, 2.5]


def test_progress_travels_with_its_batch(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with stream.writer() as writer:
        writer.append(batch(0, 1), watermark=OrderKey(5, 1, 2, 3))
        writer.append(batch(1, 1))
    assert [item.watermark for item in stream.read()] == [OrderKey(5, 1, 2, 3), None]


def test_mistakes_have_names(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with pytest.raises(UsageError, match="is already a stream"):
        PersistentStream.create(tmp_path / "s", SCHEMA)
    with pytest.raises(UsageError, match="no stream at"):
        PersistentStream.open(tmp_path / "other")
    with pytest.raises(UsageError, match="did you mean segment_bytes"):
        PersistentStream.create(tmp_path / "t", SCHEMA, segment_byte=3)
    with pytest.raises(UsageError, match="no column"):
        stream.read(columns=["nope"])
    writer = stream.writer()
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.append(batch(0, 1))
    nulls = pa.record_batch([pa.array([None], TS), pa.array([1]), pa.array(["x"])], schema=SCHEMA)
    with stream.writer() as writer, pytest.raises(DataError, match="has nulls"):
        writer.append(nulls)
