"""Reading a stream's records from the newest to the oldest, lazily.

For a producer that restores its own state: the part of the log to read depends on the size of the state, not on the
length of the log. Goes from index run to index run, last first; within a run forward, because a message does not link
to the one before it, and yields the run's records in reverse. The open segment has no index yet: its headers are
scanned once.

Only what is stable is read. Damage raises `Damaged`, as it does for any other read.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from riprap.streams.frame import RECORD, FrameHeader
from riprap.streams.segment import read_entries, read_start, scan_headers, segment_name, walk
from riprap.streams.stream_files import Readable

if TYPE_CHECKING:
    from riprap.streams.stream import PersistentStream


class StoredRecord(NamedTuple):
    """A record, and the number of bytes of the log that were read from the end to reach it."""

    header: FrameHeader
    payload: bytes
    bytes_read: int


def records_backwards(stream: "PersistentStream") -> Iterator[StoredRecord]:
    """Every record of the stream that is stable now, newest first."""
    end = stream.stable()
    found = stream.catalogue(end)
    done = 0
    if end.segment >= 0 and found.open == end.segment:
        file = stream.files.open(segment_name(end.segment))
        try:
            start = read_start(file)
            entries = scan_headers(file, start, end.offset).entries() if end.offset > start.end else ()
            runs = [(int(entry["offset"]), int(entry["position"])) for entry in entries]
            done = yield from _reversed(file, start.carry.stream, runs, end.offset, done)
        finally:
            file.close()
    for summary in reversed(found.finished):
        file = stream.files.open(segment_name(summary.segment))
        try:
            runs = [(int(entry["offset"]), int(entry["position"])) for entry in read_entries(file, summary)]
            done = yield from _reversed(file, stream.description.id, runs, summary.end, done)
        finally:
            file.close()


def _reversed(
    file: Readable, stream: bytes, runs: list[tuple[int, int]], end: int, done: int
) -> Generator[StoredRecord, None, int]:
    """The records of one segment, last first; returns the bytes read so far."""
    for offset, position in reversed(runs):
        done += end - offset
        records = [
            (item.header, item.payload)
            for item in walk(file, stream, offset, end, position)
            if item.header.kind == RECORD
        ]
        for header, payload in reversed(records):
            yield StoredRecord(header, payload, done)
        end = offset
    return done
