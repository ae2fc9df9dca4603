"""A segment cut anywhere, another with any byte flipped: nothing wrong is returned, nothing whole is lost."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import FAR_APART, places
from stream_data import SCHEMA, batches, read_until_damage, table, write

from riprap.cli.stream import export
from riprap.graph.order_keys import OrderKey
from riprap.streams import Damaged, PersistentStream
from riprap.streams.frame import BATCH, check_body, frame, read_header
from riprap.streams.positions import Range
from riprap.streams.segment import read_start, walk
from riprap.streams.verify import verify

SIZES = [3, 1, 4, 2]


@pytest.fixture
def stored(memory_path):
    """A stream of one segment, and where each of its batches ends."""
    stream = PersistentStream.create(memory_path / "s", SCHEMA)
    write(stream, batches(SIZES))
    file = stream.files.open("00000000.arrow")
    start = read_start(file)
    ends = [start.end]
    ends += [found.end for found in walk(file, stream.description.id, start.end, file.size(), 0)]
    file.close()
    return memory_path / "s", ends


def finish(path: Path) -> None:
    with PersistentStream.open(path).writer() as writer:
        writer.finish_segment()


def expected(whole: int) -> pa.Table:
    return table(batches(SIZES)[:whole])


@pytest.mark.parametrize("step", FAR_APART)
def test_cut_anywhere_reads_what_is_whole(stored, step):
    path, ends = stored
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    (path / "mark").unlink()
    for size in places(data, ends, step):
        segment.write_bytes(data[:size])
        got, damage = read_until_damage(path)
        whole = sum(end <= size for end in ends[1:])
        assert damage is None
        assert table(got).equals(expected(whole)), f"cut at byte {size}"


def test_cut_below_the_mark_is_damage_to_a_reader(stored):
    """With the mark, a reader in another process knows that what is gone had been stable."""
    path, ends = stored
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    with PersistentStream.open(path).writer(epoch=1):  # a writer lives: readers believe the mark
        for size in range(ends[0], len(data), 7):
            with open(segment, "r+b") as file:
                file.truncate(size)
            stream = PersistentStream(*_parts(path))
            stream.live = lambda: None  # as in another process
            got = []
            with pytest.raises(Damaged) as caught:
                got.extend(stream.read())
            assert caught.value.file == str(segment)
            assert table(got).equals(expected(sum(end <= size for end in ends[1:])))
            with open(segment, "r+b") as file:
                file.write(data)


def _parts(path):
    stream = PersistentStream.open(path)
    return stream.files, path, stream.description, stream.clock


def test_a_writer_recovers_from_any_cut_and_goes_on(stored):
    path, ends = stored
    data = (path / "00000000.arrow").read_bytes()
    borders = {end + by for end in ends for by in (-1, 0, 1) if end + by <= len(data)}
    for size in sorted({*range(0, len(data), 11), *borders}):
        work = path.parent / "work"
        shutil.copytree(path, work)
        (work / "00000000.arrow").write_bytes(data[:size])
        whole = sum(end <= size for end in ends[1:])
        rows = sum(SIZES[:whole])
        with PersistentStream.open(work).writer(epoch=1) as writer:
            assert writer.position == rows
            assert writer.last_sequence == whole - 1
            torn = size - max([0, *(end for end in ends if end <= size)])
            if torn:
                assert writer.cut.size == torn
                assert writer.cut.file == str(work / "00000000.arrow")
                assert str(writer.cut.offset) in str(writer.cut)
            writer.append(batches([2], first=rows)[0])
        assert table(PersistentStream.open(work).read()).equals(
            table([*batches(SIZES)[:whole], *batches([2], first=rows)])
        )
        assert verify(PersistentStream.open(work)).damage == []
        shutil.rmtree(work)


def test_acknowledged_bytes_that_recovery_cuts_are_kept(stored):
    path, ends = stored
    segment = path / "00000000.arrow"
    data = bytearray(segment.read_bytes())
    data[ends[1] + 300] ^= 1
    segment.write_bytes(data)
    with PersistentStream.open(path).writer(epoch=1) as writer:
        assert writer.position == SIZES[0]
        assert (path / writer.cut.kept).read_bytes() == data[ends[1] :]
        assert "acknowledged" in str(writer.cut)


@pytest.mark.parametrize("step", FAR_APART)
@pytest.mark.parametrize("catalogued", [True, False])
def test_flip_any_byte_of_a_finished_segment(stored, catalogued, step):
    path, ends = stored
    finish(path)
    if not catalogued:
        (path / "catalogue").unlink()
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    for at in places(data, ends, step):
        segment.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        got, damage = read_until_damage(path)
        if at < ends[-1]:
            whole = max(sum(end <= at for end in ends) - 1, 0)
            assert damage is not None, f"flipped byte {at}"
            assert damage.file == str(segment)
            assert table(got).equals(expected(whole)), f"flipped byte {at}"
            assert damage.offset == (0 if at < 8 else 8 if at < ends[0] else ends[whole])
        else:  # index and footer: only other Arrow readers need them
            assert damage is None
            assert table(got).equals(expected(len(SIZES)))
        if at % 5 == 0 and catalogued:
            assert any(item.file == str(segment) for item in verify(PersistentStream.open(path)).damage), (
                f"flipped byte {at}"
            )


@pytest.mark.parametrize("step", FAR_APART)
def test_flip_any_byte_of_the_open_segment(stored, step):
    """To a reader without a mark, and to recovery, the first damage is where the stream ends."""
    path, ends = stored
    (path / "mark").unlink()
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    for at in places(data, ends, step):
        segment.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        got, _ = read_until_damage(path)
        whole = max(sum(end <= at for end in ends) - 1, 0)
        assert table(got).equals(expected(whole)), f"flipped byte {at}"


def refused(path: Path) -> bool:
    """Whether verify finds damage and export writes nothing; both, or neither."""
    target = path.parent / "exported.arrow"
    try:
        export(str(path), target)
        assert target.exists()
        target.unlink()
        exported = True
    except Damaged:
        assert not list(path.parent.glob("exported*")), "nothing is left half-written"
        exported = False
    assert exported == (verify(PersistentStream.open(path)).damage == [])
    return not exported


@pytest.mark.parametrize("step", FAR_APART)
def test_every_cut_below_the_mark_is_damage_to_verify_and_export(stored, step):
    path, ends = stored
    segment = path / "00000000.arrow"
    data = segment.read_bytes()
    assert not refused(path)
    for size in places(data, ends, step):
        segment.write_bytes(data[:size])
        [damage] = verify(PersistentStream.open(path)).damage
        assert damage.file == str(segment), f"cut at byte {size}"
        assert size % 9 or refused(path), f"cut at byte {size}"
    segment.unlink()
    assert refused(path)
    segment.write_bytes(data + data[-100:])  # torn behind the mark: what a crash leaves
    assert not refused(path)


def test_every_cut_of_a_second_segment_is_damage(stored):
    path, _ = stored
    finish(path)
    write(PersistentStream.open(path), batches([5, 5], first=sum(SIZES)), epoch=1)
    segment = path / "00000001.arrow"
    data = segment.read_bytes()
    assert not refused(path)
    for size in range(0, len(data), 13):
        segment.write_bytes(data[:size])
        assert refused(path), f"cut at byte {size}"


def test_a_mark_that_was_cut_or_changed_anywhere_is_damage(stored):
    path, _ = stored
    mark = path / "mark"
    data = mark.read_bytes()
    for at in range(len(data)):
        for content in (data[:at], data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]):
            mark.write_bytes(content)
            assert refused(path), f"byte {at}"
    mark.unlink()  # no crash does that: it was there before the first segment
    assert refused(path)


def test_a_segment_under_the_name_of_another_is_damage(stored):
    path, _ = stored
    finish(path)
    write(PersistentStream.open(path), batches([5], first=sum(SIZES)))
    finish(path)
    sound = (path / "00000001.arrow").read_bytes()
    newest = path / "00000002.arrow"
    newest.write_bytes((path / "00000000.arrow").read_bytes())
    assert refused(path)
    with PersistentStream.open(path).writer(epoch=1) as writer:
        assert writer.position == sum(SIZES) + 5
        assert writer.cut.file == str(newest)
    assert (path / "00000001.arrow").read_bytes() == sound, "nothing that is sound was overwritten"
    assert not refused(path)


def test_a_mark_of_an_earlier_moment_is_no_damage(stored):
    path, _ = stored
    before = (path / "mark").read_bytes()
    write(PersistentStream.open(path), batches([5], first=sum(SIZES)))
    (path / "mark").write_bytes(before)
    assert not refused(path)
    finish(path)
    (path / "mark").write_bytes(before)
    assert not refused(path)


@pytest.mark.parametrize("name", ["mark", "catalogue"])
def test_flip_every_byte_of_what_can_be_rebuilt(stored, name):
    path, _ = stored
    finish(path)
    data = (path / name).read_bytes()
    for at in range(len(data)):
        (path / name).write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
        got, damage = read_until_damage(path)
        assert damage is None
        assert table(got).equals(expected(len(SIZES)))


def test_flip_every_byte_of_the_description(stored):
    path, _ = stored
    data = (path / "stream.json").read_bytes()
    for at in range(len(data)):
        (path / "stream.json").write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
        with pytest.raises(Damaged, match=r"stream\.json"):
            PersistentStream.open(path)


@given(st.data())
def test_no_flip_of_a_framed_message_goes_unseen(data):
    item = batches([data.draw(st.integers(1, 50))])[0]
    message = frame(
        item.serialize(), BATCH, stream=b"s" * 16, producer=1, epoch=2, sequence=3, position=4, rows=item.num_rows,
        remaining=0, range_=Range(1, 2, 3, 4), watermark=OrderKey(5), written_at=6,
    )  # fmt: skip
    whole = bytearray(b"".join((message.head, *message.rest)))
    assert pa.ipc.read_record_batch(pa.py_buffer(bytes(whole)), SCHEMA).equals(item)
    assert read_header(memoryview(whole)) == message.header
    assert check_body(message.header, memoryview(whole)) is None
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    header = read_header(memoryview(whole))
    assert isinstance(header, str) or check_body(header, memoryview(whole)) is not None


def test_verify_goes_on_behind_damage(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write(stream, batches([500] * 20))
    finish(tmp_path / "s")
    segment = tmp_path / "s" / "00000000.arrow"
    data = bytearray(segment.read_bytes())
    for at in (len(data) // 3, 2 * len(data) // 3):
        data[at] ^= 1
    segment.write_bytes(data)
    report = verify(PersistentStream.open(tmp_path / "s"))
    assert len(report.damage) == 2
    assert report.batches == 18
