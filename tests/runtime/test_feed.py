"""A feed gives every row once, with the keys it has in the whole input, wherever it begins."""

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.engine.inputs import keyed, read_file
from riprap.graph.order_keys import OrderKey
from riprap.graph.specs import Source
from riprap.runtime import feed as feeds
from riprap.runtime.feed import Feed
from riprap.runtime.stripes import own
from riprap.streams import PersistentStream

TS = pa.timestamp("us", "UTC")
SOURCE = Source(name="In", schema=pa.schema([("at", pa.int64()), ("text", pa.string())]), rank=0, time="at")
ROWS = 1000


def rows(first: int = 0, last: int = ROWS) -> pa.Table:
    numbers = list(range(first, last))
    return pa.table({"at": pa.array(numbers, pa.int64()), "text": [f"row {number}" for number in numbers]})


def stream_rows(first: int, last: int) -> pa.RecordBatch:
    table = rows(first, last)
    seq = pa.array([number * 2 for number in range(first, last)], pa.int64())
    table = table.append_column("_ts", table["at"].cast(TS)).append_column("_seq", seq)
    return table.combine_chunks().to_batches()[0]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The same rows in four forms; in the stream `_seq` has gaps."""
    path = tmp_path_factory.mktemp("inputs")
    pq.write_table(rows(), path / "one.parquet", row_group_size=170)
    (path / "many").mkdir()
    for part, (first, last) in enumerate([(0, 300), (300, 300), (300, 800), (800, ROWS)]):
        pq.write_table(rows(first, last), path / "many" / f"{part}.parquet", row_group_size=90)
    with pa.OSFile(str(path / "one.arrow"), "wb") as file, pa.ipc.new_file(file, rows().schema) as writer:
        writer.write_table(rows(), max_chunksize=130)
    stream = PersistentStream.create(path / "stream", stream_rows(0, 1).schema, segment_bytes=4000, stability="async")
    with stream.writer() as writer:
        for first in range(0, ROWS, 50):
            writer.append(stream_rows(first, first + 50))
            writer.mark(None, kind="progress")
        writer.mark(None, kind="end")
    return path


def drained(feed: Feed, max_rows: int) -> pa.Table:
    got = []
    while (batch := feed.next(max_rows)) is not None:
        assert 0 < batch.num_rows <= max_rows
        got.append(batch)
        assert feed.position == batch.column("at")[-1].as_py() + 1
    assert feed.ended
    return pa.Table.from_batches(got, got[0].schema) if got else None


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["one.parquet", "many", "one.arrow", "stream"]),
    st.integers(0, ROWS),
    st.integers(1, 400),
)
def test_from_any_position(inputs, name, position, max_rows):
    got = drained(Feed(inputs / name, SOURCE, position=position), max_rows)
    if position == ROWS:
        assert got is None
        return
    assert got["at"].to_pylist() == list(range(position, ROWS))
    assert got["text"].to_pylist() == [f"row {number}" for number in range(position, ROWS)]
    assert got["_ts"].cast(pa.int64()).to_pylist() == list(range(position, ROWS))
    factor = 2 if name == "stream" else 1
    assert got["_seq"].to_pylist() == [number * factor for number in range(position, ROWS)]


@pytest.mark.parametrize("name", ["one.parquet", "many", "one.arrow", "stream"])
def test_only_the_columns_asked_for(inputs, name):
    batch = Feed(inputs / name, SOURCE, ["text"], position=700).next(5)
    assert batch.schema.names == ["text", "_ts", "_seq"]
    assert batch["_ts"].cast(pa.int64()).to_pylist() == [700, 701, 702, 703, 704]


def test_a_feed_and_a_bounded_run_agree(inputs):
    bounded = pa.Table.from_batches(keyed(read_file(inputs / "many"), SOURCE))
    assert drained(Feed(inputs / "many", SOURCE), 64).equals(bounded)


def test_what_lies_before_the_position_is_not_read(inputs, monkeypatch):
    read = []
    real = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, group, **more: read.append(group) or real(self, group, **more)
    )
    drained(Feed(inputs / "one.parquet", SOURCE, position=170 * 4 + 3), 50)
    assert read == [4, 5]


def test_disorder_is_found_behind_the_position(tmp_path):
    table = pa.concat_tables([rows(0, 10), rows(5, 15)])
    pq.write_table(table, tmp_path / "bad.parquet", row_group_size=4)
    with pytest.raises(DataError, match="_ts decreases at row 10"):
        drained(Feed(tmp_path / "bad.parquet", SOURCE, position=3), 2)


def test_following_a_stream(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", stream_rows(0, 1).schema, stability="async")
    feed = Feed(tmp_path / "s", SOURCE, follow=True)
    assert feed.next(10) is None
    assert not feed.ended
    got = []
    with stream.writer() as writer:
        for first in range(0, 100, 20):
            writer.append(stream_rows(first, first + 20)).result()
            while (batch := feed.next(7)) is not None:
                got += batch.column("at").to_pylist()
            assert got == list(range(first + 20))
            assert not feed.ended
        writer.mark(None, kind="end").result()
        assert feed.next(7) is None
        assert feed.ended
    assert Feed(tmp_path / "s", SOURCE, position=95).next(100).column("at").to_pylist() == [95, 96, 97, 98, 99]


def test_a_stream_says_that_it_is_idle(tmp_path):
    """What its writer logs of progress holds for a source: no row of an earlier time will come."""
    stream = PersistentStream.create(tmp_path / "s", stream_rows(0, 1).schema, stability="async")
    with stream.writer() as writer:
        writer.append(stream_rows(0, 20)).result()
        feed = Feed(tmp_path / "s", SOURCE, follow=True)
        assert feed.next(100).num_rows == 20
        assert feed.next(100) is None
        assert feed.watermark is None
        writer.mark(OrderKey(500, 7, 3, 2), kind="progress").result()
        for reader in (feed, Feed(tmp_path / "s", SOURCE, position=20, follow=True)):  # also one that comes back
            assert reader.next(100) is None
            assert reader.watermark < OrderKey(500, 0, 0)
            assert reader.watermark > OrderKey(499, 0, 10**9)
        writer.append(stream_rows(500, 510)).result()
        assert feed.next(100).column("at").to_pylist() == [*range(500, 510)]


@pytest.mark.parametrize("form", ["one.parquet", "many", "one.arrow", "stream"])
@pytest.mark.parametrize("max_rows", [3, 50, 10_000])
def test_shards_divide_the_input_between_them(inputs, monkeypatch, form, max_rows):
    monkeypatch.setattr(feeds, "own", partial(own, stripe=7))
    whole = drained(Feed(inputs / form, SOURCE), 1000).to_pylist()
    for begin in (0, 13, 500):
        found = []
        for shard in range(3):
            feed = Feed(inputs / form, SOURCE, position=begin, shard=shard, shards=3)
            before = feed.position
            while not feed.ended:
                batch = feed.next(max_rows)
                assert feed.position - before <= max_rows or max_rows == 10_000 or feed.ended
                before = feed.position
                found += batch.to_pylist() if batch is not None else []
            assert feed.position == ROWS
        assert sorted(found, key=lambda row: row["_seq"]) == whole[begin:]


@pytest.mark.parametrize("name", ["one.parquet", "stream"])
def test_what_is_sorted_has_not_ended_while_rows_are_held(inputs, name):
    """A source that is paced asks whether its input has ended also when no row is due."""
    feed, told = Feed(inputs / name, replace(SOURCE, lateness=400)), []
    while (batch := feed.next(7)) is not None:
        told += batch.column("at").to_pylist()
        assert feed.ended <= (len(told) == ROWS)
    assert told == list(range(ROWS))
    assert feed.ended
