"""The mark: how far the open segment is stable, for readers in other processes.

A file of 64 bytes that the writer maps and overwrites after every group commit, and that readers read as a whole:

    4s magic, u32 version, i64 segment, i64 offset after the last stable batch, i64 position after it,
    i64 greatest `_ts`, i64 number of group commits, 8 bytes reserved, u64 check over the 56 bytes before it

A torn or stale mark is harmless: if it is torn, its check fails and the reader retries; if it is stale, it names a
point that was stable and still is. After a crash of the process it is as the writer left it. After a crash of the
machine it may be older; then, once no writer holds the stream, a reader looks for whole batches after it and syncs the
file before it delivers them. It is created before the first segment, so no crash leaves segments without one.
Everything before the mark must exist: `PersistentStream.loss` reports if it does not, and if there is no mark.
"""

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

import xxhash

from riprap.base import files
from riprap.base.clock import Clock
from riprap.base.disk import retry_while_full
from riprap.streams.positions import NOTHING

MARK = "mark"
_MARK = struct.Struct("<4sIqqqqqqQ")
_MAGIC = b"RPMK"
_VERSION = 1
_ATTEMPTS = 100  # a writer takes well under a microsecond to store a mark
_LOOK_FASTEST, _LOOK_SLOWEST = 0.0002, 0.002  # seconds between reads while waiting for the mark to move
assert _MARK.size == 64


class Mark(NamedTuple):
    segment: int
    offset: int
    position: int
    max_ts: int
    commits: int

    @property
    def place(self) -> tuple[int, int, int]:
        """The part that changes with every append, marks included."""
        return self[:3]


BEGINNING = Mark(-1, 0, 0, NOTHING, 0)  # of a stream that has no segment yet


def read_mark(directory: Path) -> Mark | None:
    """None if it is missing or its checksum does not match."""
    try:
        file = files.descriptor(directory / MARK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _read(file)
    except IsADirectoryError:
        return None
    finally:
        os.close(file)


def _read(file: int) -> Mark | None:
    for _ in range(_ATTEMPTS):
        data = os.pread(file, _MARK.size, 0)
        if len(data) < _MARK.size:
            return None
        magic, version, *fields, _, check = _MARK.unpack(data)
        if check == xxhash.xxh3_64_intdigest(data[:-8]) and magic == _MAGIC and version == _VERSION:
            return Mark(*fields)
    return None


def watch(directory: Path, known: Mark, seconds: float, clock: Clock) -> bool:
    """Poll the mark until it is no longer `known` or the time is over.

    False, at once, if it is not `known` at the start: then `known` did not come from the mark.
    """
    try:
        file = files.descriptor(directory / MARK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if _read(file) != known:
            return False
        step, until = _LOOK_FASTEST, clock.monotonic() + seconds
        while clock.monotonic() < until:
            clock.sleep(step)
            if _read(file) != known:
                break
            step = min(step * 2, _LOOK_SLOWEST)
        return True
    finally:
        os.close(file)


class MarkFile:
    """The writer's side. Each writer renames a new file over the old one, so a fenced writer updates only its own."""

    def __init__(self, directory: Path, mark: Mark) -> None:
        temporary = directory / f"{MARK}.{os.getpid()}.tmp"
        file = files.descriptor(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            # Allocate the block now: on a full disk, writing to a mapped hole raises a signal.
            retry_while_full(lambda: os.pwrite(file, bytes(_MARK.size), 0), directory)
            self._map = mmap.mmap(file, _MARK.size)
        finally:
            os.close(file)
        self.store(mark)
        self._map.flush()  # so that no crash leaves a mark without a checksum
        first = not files.exists(directory / MARK)
        files.rename(temporary, directory / MARK)
        if first:
            files.sync_directory(directory)

    def store(self, mark: Mark) -> None:
        data = _MARK.pack(_MAGIC, _VERSION, *mark, 0, 0)[:-8]
        self._map[:] = data + struct.pack("<Q", xxhash.xxh3_64_intdigest(data))

    def close(self) -> None:
        self._map.close()
