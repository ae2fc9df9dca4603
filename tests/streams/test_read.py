"""Bounded reads against filtering everything; the index against reading it all."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_data import SCHEMA, TS, batch, batches, table, write

from riprap.base.errors import DataError, UsageError
from riprap.streams import OrderKey, PersistentStream
from riprap.streams import segment_index as catalogue
from riprap.streams.positions import Bounds, as_microseconds
from riprap.streams.read_plan import after_bytes, stretches
from riprap.streams.stream_files import LocalFiles

MIXED = pa.schema([("_ts", TS), ("_src", pa.int32()), ("_seq", pa.int64())])


@st.composite
def contents(draw):
    """Batches of two sources, each in order, interleaved at will; and how the stream is cut into segments."""
    rows = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=60))
    clocks, numbers, made = [0, 0], [0, 0], []
    for src, step in rows:
        clocks[src] += step
        made.append((clocks[src], src, numbers[src]))
        numbers[src] += 1
    cuts = sorted(draw(st.sets(st.integers(0, len(made)), max_size=12)))
    parts = [made[low:high] for low, high in zip([0, *cuts], [*cuts, len(made)], strict=True)]
    return made, parts, draw(st.sampled_from([1, 900, 3000, 1 << 20]))


def mixed_batch(rows):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, MIXED, strict=True)], schema=MIXED
    )


@settings(max_examples=200)
@given(contents(), st.data())
def test_bounds_mean_what_a_filter_means(memory_root, content, data):
    made, parts, segment_bytes = content
    stream = PersistentStream.create(
        Path(mkdtemp(dir=memory_root)) / "s", MIXED, segment_bytes=segment_bytes, stability="none"
    )
    write(stream, [mixed_batch(part) for part in parts])
    for _ in range(4):
        some = st.none() | st.integers(-1, 30)
        from_ts, to_ts, from_seq, to_seq = (data.draw(some) for _ in range(4))
        first, last = data.draw(st.integers(0, len(made))), data.draw(st.none() | st.integers(0, len(made) + 2))
        key = data.draw(st.none() | st.builds(OrderKey, st.integers(0, 30), st.integers(0, 1), st.integers(0, 30)))
        expected = [
            row
            for row in made[first : len(made) if last is None else last]
            if (from_ts is None or row[0] >= from_ts)
            and (to_ts is None or row[0] < to_ts)
            and (from_seq is None or row[2] >= from_seq)
            and (to_seq is None or row[2] < to_seq)
            and (key is None or (row[0], row[1], row[2], 0) > key)
        ]
        bounds = {"from_ts": from_ts, "to_ts": to_ts, "from_seq": from_seq, "to_seq": to_seq}
        got = stream.read(from_position=first, to_position=last, after_key=key, **bounds)
        rows = [
            (pc.cast(pa.scalar(row["_ts"], TS), pa.int64()).as_py(), row["_src"], row["_seq"])
            for item in got
            for row in item.batch.to_pylist()
        ]
        assert rows == expected
        planned = stretches(stream, Bounds(first, last, from_ts, to_ts, from_seq, to_seq), 2000)
        assert all(low.to_position <= high.from_position for low, high in pairwise(planned))
        covered = {at for item in planned for at in range(item.from_position, item.to_position)}
        assert {made.index(row) for row in expected} <= covered


def test_a_read_in_order_stops_behind_its_end(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=4000)
    write(stream, batches([50] * 40))
    reader = stream.read(from_ts=100_000, to_ts=200_000)
    assert table(reader).equals(table([batch(100, 100)]))
    assert reader.counts.stored <= 4, "the index leads to the place, and the end is noticed"


def test_progress_ends_a_read_that_no_later_row_can_concern(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", MIXED)
    with stream.writer() as writer:
        writer.append(mixed_batch([(5, 0, 0)]), watermark=OrderKey(9))
        writer.append(mixed_batch([(20, 0, 1)]))
    reader = stream.read(to_ts=9, follow=True)
    assert [item.batch.num_rows for item in reader] == [1]


def test_a_consumer_comes_back_after_its_last_tuple(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write(stream, batches([7] * 10))
    first = [item for item, _ in zip(stream.read(), range(3), strict=False)]
    rest = list(stream.read(from_position=first[-1].next_position))
    assert table(first + rest).equals(table([batch(0, 70)]))
    last = OrderKey(first[-1].header.max_ts, 0, first[-1].header.max_seq)
    assert table(first + list(stream.read(after_key=last))).equals(table([batch(0, 70)]))


def test_columns(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write(stream, batches([3]))
    assert [item.batch.schema.names for item in stream.read(columns=["text", "_seq"])] == [["text", "_seq"]]


class Counted(LocalFiles):
    """Local files that say which of them were opened or read."""

    def __init__(self, directory):
        super().__init__(directory)
        self.touched = []

    def open(self, name):
        self.touched.append(name)
        return super().open(name)

    def get(self, name):
        self.touched.append(name)
        return super().get(name)


def test_opening_does_not_read_the_segments(memory_path):
    """Ten thousand segments, all but one of them empty files: the catalogue alone knows what they would hold."""
    stream = PersistentStream.create(memory_path / "s", SCHEMA)
    write(stream, batches([2]))
    with stream.writer() as writer:
        writer.finish_segment()
    (only,) = stream.catalogue().finished
    data = (memory_path / "s" / "00000000.arrow").read_bytes()
    (memory_path / "s" / "00000001.arrow").unlink()
    (memory_path / "s" / "mark").unlink()
    records = []
    for number in range(10_000):
        (memory_path / "s" / f"{number:08d}.arrow").write_bytes(data if number == 7_777 else b"")
        ts = only.range._replace(min_ts=number * 10, max_ts=number * 10 + 9)
        records.append(replace(only, segment=number, position=2 * number, range=ts))
    catalogue.store(stream.files, tuple(records))
    files = Counted(memory_path / "s")
    opened = PersistentStream(files, files.directory, stream.description, stream.clock)
    assert opened.stable().position == 20_000
    found = opened.catalogue(opened.stable())
    assert found.finished[found.first(Bounds(from_ts=77_775))].segment == 7_777
    assert [name for name in files.touched if name.endswith(".arrow")] == []


@pytest.mark.parametrize("lost", ["catalogue", "index", "both"])
def test_the_index_is_rebuilt(tmp_path, lost):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=100_000)
    write(stream, batches([500] * 60))
    whole = PersistentStream.open(tmp_path / "s").catalogue().finished
    assert len(whole) > 5
    if lost in ("catalogue", "both"):
        (tmp_path / "s" / "catalogue").unlink()
    if lost in ("index", "both"):
        for item in whole:
            path = tmp_path / "s" / f"{item.segment:08d}.arrow"
            path.write_bytes(path.read_bytes()[: item.end + 30])
    again = PersistentStream.open(tmp_path / "s")
    kept = [(item.segment, item.position, item.rows, item.end, item.range) for item in again.catalogue().finished]
    assert kept == [(item.segment, item.position, item.rows, item.end, item.range) for item in whole]
    assert table(again.read(from_ts=12_345_000, to_ts=12_350_000)).equals(table([batch(12_345, 5)]))


def test_bytes_become_positions(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=200_000)
    write(stream, batches([1000] * 30))
    total, position, steps = stream.stable().position, 0, 0
    while position < total:
        reached = after_bytes(stream, position, 100_000)
        assert position < reached <= total
        position, steps = reached, steps + 1
    assert 5 <= steps <= 20
    assert after_bytes(stream, 0, 1 << 40) == total


def test_finished_segments_open_in_other_arrow_readers(tmp_path):
    polars = pytest.importorskip("polars")
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write(stream, batches([5, 6, 7]))
    with stream.writer() as writer:
        writer.finish_segment()
    path = str(tmp_path / "s" / "00000000.arrow")
    expected = table(batches([5, 6, 7]))
    assert pa.ipc.open_file(path).read_all().equals(expected)
    assert polars.read_ipc(path, use_pyarrow=False).to_arrow().cast(SCHEMA).equals(expected)
    with pa.OSFile(path) as file:  # a reader that takes the file for a stream behind its magic
        file.seek(8)
        assert pa.ipc.open_stream(file).read_all().equals(expected)


def test_times_have_many_spellings():
    assert as_microseconds("1970-01-01T00:00:01Z") == as_microseconds("1970-01-01 00:00:01") == 1_000_000
    assert as_microseconds("1970-01-01T02:00:00+02:00") == 0
    assert as_microseconds("123") == as_microseconds(123) == 123
    with pytest.raises(UsageError, match="2009-04-02T09:30:00Z"):
        as_microseconds("yesterday")


def test_what_was_trimmed_is_not_missed_silently(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=1)
    write(stream, batches([2] * 6))
    stream.trim(before_position=6)
    assert table(stream.read()).equals(table([batch(6, 6)]))
    with pytest.raises(DataError, match="starts at 6"):
        list(stream.read(from_position=3))
