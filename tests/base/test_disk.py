"""A full disk: what is written waits for room, for the stated time and no longer."""

import errno
import os

import pyarrow as pa
import pytest

from riprap.base import disk
from riprap.base.disk import PATIENCE, DiskFull, retry_while_full
from riprap.streams import PersistentStream
from riprap.streams.stream_files import LocalFiles

SCHEMA = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.at = 0.0

    def monotonic(self):
        return self.at

    def now(self):
        return int(self.at * 1e6)

    def sleep(self, seconds):
        self.at += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(disk.retry_while_full, "__defaults__", (made,))
    return made


def failing(function, error, times):
    """The function, after `times` calls that fail."""
    left = [times]

    def call(*arguments, **options):
        if left[0] > 0:
            left[0] -= 1
            raise OSError(error, os.strerror(error))
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_goes_on_when_there_is_room(clock, error):
    assert retry_while_full(failing(lambda: 7, error, 20), "f") == 7
    assert 0 < clock.at < PATIENCE


def test_it_gives_up_after_the_stated_time(clock):
    with pytest.raises(DiskFull, match=r"the disk of /d/f has been full for 30 s: free space") as caught:
        retry_while_full(failing(lambda: 7, errno.ENOSPC, 1_000), "/d/f")
    assert caught.value.exit_code == 3
    assert clock.at == PATIENCE


def test_other_errors_are_not_tried_again(clock):
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        retry_while_full(failing(lambda: 7, errno.EIO, 1), "f")
    assert clock.at == 0


def test_a_stream_pauses_and_loses_nothing(clock, tmp_path, monkeypatch):
    pwritev = os.pwritev
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=2000)
    with stream.writer() as writer:
        monkeypatch.setattr(os, "pwritev", failing(pwritev, errno.ENOSPC, 3))
        for first in range(0, 1000, 50):
            rows = pa.array(range(first, first + 50), pa.int64())
            writer.append(pa.record_batch([rows.cast(SCHEMA.field(0).type), rows], schema=SCHEMA))
            writer.flush()
            if first == 500:  # half of what is asked for, then nothing, then the rest
                short = iter([lambda file, parts, at: pwritev(file, [bytes(parts[0])[:7]], at)])
                full = failing(pwritev, errno.ENOSPC, 2)
                monkeypatch.setattr(os, "pwritev", lambda *a, short=short, full=full: next(short, full)(*a))
    assert clock.at == 5 * 0.5
    read = pa.Table.from_batches([item.batch for item in stream.read()])
    assert read["_seq"].to_pylist() == list(range(1000))


def test_a_stream_on_a_disk_that_stays_full_says_so(clock, tmp_path, monkeypatch):
    writer = PersistentStream.create(tmp_path / "s", SCHEMA).writer()
    monkeypatch.setattr(os, "pwritev", failing(os.pwritev, errno.ENOSPC, 1_000))
    writer.append(pa.record_batch([pa.array([1], SCHEMA.field(0).type), pa.array([1])], schema=SCHEMA))
    with pytest.raises(DiskFull):
        writer.close()


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(clock, tmp_path, monkeypatch):
    files = LocalFiles(tmp_path)
    files.put("checkpoint", b"old")
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.ENOSPC, 1_000))
    with pytest.raises(DiskFull):
        files.put("checkpoint", b"new")
    assert files.get("checkpoint") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
