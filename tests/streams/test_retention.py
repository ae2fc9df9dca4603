"""What is deleted and what is kept."""

import os

import pytest
from stream_data import SCHEMA, batch, batches, table, write

from riprap.base.errors import DataError, UsageError
from riprap.streams import Damaged, PersistentStream
from riprap.streams.segment import segment_name
from riprap.streams.verify import verify


class FakeClock:
    def __init__(self):
        self.time = 0

    def monotonic(self):
        return self.time / 1e6

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += int(seconds * 1e6)


@pytest.fixture
def stream(tmp_path):
    made = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=1)
    write(made, batches([10] * 8))  # seven finished segments of ten rows, and the open one
    return made


def kept(stream):
    return [item.position for item in stream.catalogue().finished]


def test_trim_deletes_whole_segments_before_a_position_or_a_time(stream):
    assert [item.position for item in stream.trim(before_position=25)] == [0, 10]
    assert [item.position for item in stream.trim(before_ts=40_000)] == [20, 30]
    assert kept(stream) == [40, 50, 60]
    stream.trim(before_position=10**9)
    assert table(PersistentStream.open(stream.files.location).read()).equals(table([batch(70, 10)]))


def test_a_directory_where_a_segment_should_be_is_told(stream, tmp_path):
    names = sorted(path.name for path in (tmp_path / "s").iterdir() if path.suffix == ".arrow")
    (tmp_path / "s" / names[0]).unlink()
    (tmp_path / "s" / names[0]).mkdir()
    with pytest.raises(DataError, match="directory"):
        stream.trim(before_position=25)


def test_trim_stops_at_registered_readers_unless_forced(stream):
    stream.register_reader("slow", 15)
    stream.register_reader("fast", 60)
    stream.trim(before_position=70)
    assert kept(stream)[0] == 10
    stream.register_reader("slow", 42)
    stream.trim(before_position=70)
    assert kept(stream)[0] == 40
    assert stream.readers() == {"slow": 42, "fast": 60}
    stream.unregister_reader("slow")
    stream.trim(before_position=70)
    assert kept(stream)[0] == 60
    stream.trim(before_position=70, force=True)
    assert kept(stream) == []


def test_a_position_that_is_gone_cannot_be_registered(stream):
    stream.trim(before_position=30)
    with pytest.raises(DataError, match="trimmed up to 30"):
        stream.register_reader("late", 29)
    stream.register_reader("late", 30)
    with pytest.raises(UsageError, match="letters, digits"):
        stream.register_reader("../x", 50)


def test_a_damaged_registration_stops_trimming(stream):
    stream.register_reader("r", 20)
    path = os.path.join(stream.files.location, "readers", "r.json")
    with open(path, "r+b") as file:
        file.write(b"x")
    with pytest.raises(Damaged, match=r"r\.json"):
        stream.trim(before_position=70)
    assert kept(stream)[0] == 0


def test_size_and_age_are_enforced_when_segments_are_finished(tmp_path):
    clock = FakeClock()
    by_age = PersistentStream.create(tmp_path / "age", SCHEMA, clock=clock, segment_age=1_000_000, retain_age=3_000_000)
    with by_age.writer() as writer:
        for number in range(10):
            writer.append(batch(number, 1)).result()
            clock.time += 1_000_000
    assert kept(by_age)[0] == 5
    by_size = PersistentStream.create(tmp_path / "size", SCHEMA, segment_bytes=1, retain_bytes=10_000)
    by_size.register_reader("r", 0)
    write(by_size, batches([10] * 5))
    assert kept(by_size)[0] == 0, "a registered reader comes first"
    by_size.unregister_reader("r")
    write(by_size, batches([10] * 20, first=50))
    assert sum(item.end for item in by_size.catalogue().finished) <= 10_000
    assert len(kept(by_size)) > 2


def test_a_first_segment_that_nobody_trimmed_is_lost(stream, tmp_path):
    stream.trim(before_position=20)
    assert verify(stream).damage == []
    os.unlink(tmp_path / "s" / segment_name(2))
    with pytest.raises(Damaged, match="the rows before position 30 are missing, and they were not trimmed"):
        PersistentStream.open(tmp_path / "s").require_whole()
    assert len(verify(PersistentStream.open(tmp_path / "s")).damage) == 1
