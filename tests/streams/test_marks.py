"""Marks: in their place for those who ask, invisible to everybody else, numbered and checked as batches are."""

import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import FAR_APART, places
from stream_data import SCHEMA, batch, read_until_damage, table

from riprap.base.errors import UsageError
from riprap.streams import OrderKey, PersistentStream, StoredMark
from riprap.streams.overview import overview
from riprap.streams.read_plan import after_bytes, stretches
from riprap.streams.segment import read_start, walk
from riprap.streams.verify import verify

# A step is a number of rows, or the kind of a mark.
STEPS: list[int | str] = [2, "punctuation", "progress", 3, "progress", "progress", 1, "punctuation", "end"]


def write_steps(stream, steps, **identity) -> None:
    """Sequences count items, as the channels of a run do: rows and punctuations."""
    row = item = 0
    with stream.writer(beside=False, **identity) as writer:  # what is gathered may be joined
        for step in steps:
            if isinstance(step, int):
                writer.append(batch(row, step), sequence=item + step - 1)
                row, item = row + step, item + step
            else:
                item += step == "punctuation"
                writer.mark(OrderKey(row * 1000, 1, -1, 2**62), kind=step, sequence=item - 1)


def expected(steps):
    row, made = 0, []
    for step in steps:
        made.append((row, step))
        row += step if isinstance(step, int) else 0
    return made


def seen(items):
    """What a read delivered, in the form of `expected`."""
    got = []
    for item in items:
        if isinstance(item, StoredMark):
            assert item.key == (item.header.position * 1000, 1, -1, 2**62)
            got.append((item.next_position, item.kind))
        else:
            assert item.batch.equals(batch(item.header.position, item.header.rows))
            got.append((item.header.position, item.header.rows))
    return got


def rows_of(steps) -> int:
    return sum(step for step in steps if isinstance(step, int))


STEP = st.integers(1, 4) | st.sampled_from(["punctuation", "progress", "end"])


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=30), st.sampled_from([1, 3000, 1 << 20]), st.data())
def test_marks_come_in_their_place_from_any_position(tmp_path_factory, steps, segment_bytes, data):
    stream = PersistentStream.create(
        tmp_path_factory.mktemp("m") / "s", SCHEMA, segment_bytes=segment_bytes, stability="async"
    )
    write_steps(stream, steps)
    start = data.draw(st.integers(0, rows_of(steps)))
    got = list(stream.read(from_position=start, marks=True))
    kept = [
        item for item in expected(steps) if item[0] >= start or (isinstance(item[1], int) and item[0] + item[1] > start)
    ]
    kinds = [item.kind if isinstance(item, StoredMark) else "rows" for item in got]
    assert kinds == ["rows" if isinstance(step, int) else step for _, step in kept]
    assert table(item for item in got if not isinstance(item, StoredMark)).equals(
        table([batch(start, rows_of(steps) - start)] if rows_of(steps) > start else [])
    )
    assert table(stream.read(from_position=start)).num_rows == rows_of(steps) - start


def test_nobody_else_sees_them(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write_steps(stream, STEPS)
    with stream.writer(epoch=1) as writer:
        writer.finish_segment()
    rows = table([batch(0, rows_of(STEPS))])
    assert table(stream.read()).equals(rows)
    assert table(stream.read(to_ts=4500)).num_rows == 5
    assert table(stream.read(from_seq=2, to_position=5)).num_rows == 3
    with pa.OSFile(str(tmp_path / "s" / "00000000.arrow")) as file:
        reader = pa.ipc.open_file(file)
        assert [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)] == [2, 3, 1]
        assert reader.read_all().equals(rows)
    report = verify(stream)
    assert (report.batches, report.rows, report.damage) == (3, 6, [])
    assert (overview(stream).min_ts, overview(stream).max_ts) == (0, 5000)


def test_a_segment_of_marks_alone(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write_steps(stream, ["progress", "punctuation"])
    with stream.writer(epoch=1) as writer:
        writer.finish_segment()
        writer.append(batch(0, 2))
    assert seen(stream.read(marks=True)) == expected(["progress", "punctuation", 2])
    assert table(stream.read(from_ts=0)).num_rows == 2
    assert pa.ipc.open_file(tmp_path / "s" / "00000000.arrow").num_record_batches == 0
    assert [(part.from_position, part.to_position) for part in stretches(stream, stream.read()._bounds, 1)] == [(0, 2)]
    assert after_bytes(stream, 0, 1) == 2


@given(cuts=st.lists(st.integers(0, len(STEPS)), max_size=4))
@settings(max_examples=25)
def test_a_read_that_has_ended_goes_on_where_it_was(tmp_path_factory, cuts):
    """Segments of any length: each item once, whatever had been written when it was asked."""
    stream = PersistentStream.create(tmp_path_factory.mktemp("again") / "s", SCHEMA, segment_bytes=2_000)
    reader, got, row, item = stream.read(marks=True), [], 0, 0
    assert seen(reader) == []
    with stream.writer() as writer:
        for at, step in enumerate(STEPS):
            if isinstance(step, int):
                writer.append(batch(row, step), sequence=item + step - 1)
                row, item = row + step, item + step
            else:
                item += step == "punctuation"
                writer.mark(OrderKey(row * 1000, 1, -1, 2**62), kind=step, sequence=item - 1)
            if at in cuts:
                writer.flush()
                got += seen(reader.again())
    got += seen(reader.again())
    assert got == expected(STEPS)
    assert seen(reader.again()) == []


def test_sequences_of_marks(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    key = OrderKey(7)
    with stream.writer(producer="p") as writer:
        assert not writer.mark(key, kind="progress").result().repeated, "before anything: sequence -1"
        writer.append(batch(0, 2), sequence=1)
        assert not writer.mark(key, kind="punctuation", sequence=2).result().repeated
        assert writer.mark(key, kind="punctuation", sequence=2).result().repeated
        assert writer.mark(key, kind="progress", sequence=1).result().repeated
        assert not writer.mark(key, kind="progress", sequence=2).result().repeated
        assert not writer.mark(key, kind="end").result().repeated
        assert writer.last_sequence == 2
        with pytest.raises(UsageError, match="punctuation, progress, end"):
            writer.mark(key, kind="full stop")
    with stream.writer(producer="p", epoch=1) as writer:
        assert writer.last_sequence == 2
        assert writer.mark(key, kind="punctuation", sequence=2).result().repeated
        assert writer.append(batch(0, 2), sequence=1).result().repeated
    sequences = [item.header.sequence for item in stream.read(marks=True)]
    assert sequences == [-1, 1, 2, 2, 2]
    with pytest.raises(UsageError, match="marks=True allows only from_position"):
        stream.read(marks=True, to_ts=5)


@pytest.fixture
def stored(memory_path):
    stream = PersistentStream.create(memory_path / "s", SCHEMA)
    write_steps(stream, STEPS)
    file = stream.files.open("00000000.arrow")
    start = read_start(file)
    ends = [start.end, *(found.end for found in walk(file, stream.description.id, start.end, file.size(), 0))]
    file.close()
    return memory_path / "s", ends


@pytest.mark.parametrize("step", FAR_APART)
def test_cut_anywhere(stored, step):
    path, ends = stored
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    (path / "mark").unlink()
    for size in places(data, ends, step):
        segment.write_bytes(data[:size])
        got, damage = read_until_damage(path, marks=True)
        assert damage is None
        assert seen(got) == expected(STEPS)[: sum(end <= size for end in ends[1:])], f"cut at byte {size}"


def test_a_writer_goes_on_behind_any_cut(stored):
    path, ends = stored
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    for epoch, size in enumerate(sorted({end + by for end in ends for by in (-1, 0, 1)}), 1):
        segment.write_bytes(data[: min(size, len(data))])
        whole = STEPS[: max(sum(end <= size for end in ends) - 1, 0)]
        with PersistentStream.open(path).writer(epoch=epoch) as writer:
            assert writer.position == rows_of(whole)
            assert writer.last_sequence == rows_of(whole) + whole.count("punctuation") - 1
            writer.mark(None, kind="end")
        assert verify(PersistentStream.open(path)).damage == []


@pytest.mark.parametrize("step", FAR_APART)
@pytest.mark.parametrize("finished", [True, False])
def test_flip_any_byte(stored, finished, step):
    path, ends = stored
    if finished:
        with PersistentStream.open(path).writer(epoch=1) as writer:
            writer.finish_segment()
    else:
        (path / "mark").unlink()
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    for at in places(data, ends, step):
        segment.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        got, damage = read_until_damage(path, marks=True)
        whole = max(sum(end <= at for end in ends) - 1, 0)
        assert seen(got) == expected(STEPS)[:whole], f"flipped byte {at}"
        assert (damage is not None) == (finished and at < ends[-1])


@settings(max_examples=20, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=30), st.integers(0, 30), st.sampled_from([1, 3000, 1 << 20]))
def test_a_follower_sees_every_mark_once(tmp_path_factory, steps, before, segment_bytes):
    stream = PersistentStream.create(
        tmp_path_factory.mktemp("m") / "s", SCHEMA, segment_bytes=segment_bytes, stability="async"
    )
    steps = [*steps, "end"]
    write_steps(stream, steps[:before])
    got: list = []

    def follow() -> None:
        for item in PersistentStream.open(stream.files.location).read(follow=True, idle=300, marks=True):
            got.append(item)
            if len(got) == len(steps):
                return

    thread = threading.Thread(target=follow)
    thread.start()
    write_steps(stream, steps, epoch=1)
    thread.join(300)
    ends_early = [step for step in steps[:before] if step in ("progress", "end")]
    if not ends_early:  # those at the very end of the first part may be told twice
        assert seen(got) == expected(steps)
    assert not thread.is_alive()


FOLLOWER = """
import sys
from riprap.streams import PersistentStream
for item in PersistentStream.open(sys.argv[1]).read(follow=True, idle=300, marks=True):
    print(getattr(item, "kind", "rows"), item.next_position, flush=True)
    if getattr(item, "kind", "rows") == "end":
        break
"""


def test_a_follower_in_another_process(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=2000, stability="async")
    steps = STEPS[:-1] * 12 + ["end"]
    command = [sys.executable, "-c", FOLLOWER, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        write_steps(stream, steps)
        output, _ = process.communicate(timeout=300)
    told = [(line.split()[0], int(line.split()[1])) for line in output.splitlines()]
    wanted = [("rows", at + step) if isinstance(step, int) else (step, at) for at, step in expected(steps)]
    assert told == wanted
