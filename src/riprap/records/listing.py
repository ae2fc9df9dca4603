"""Lists the records of a stream, one line each, and checks their consistency.

Frames increase by one from record to record of an incarnation; a new incarnation continues after the frame that it
recovered to. So a record's frame is at most one more than that of the record before it. Everything that is needed to
recover to the newest record must exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from riprap.base.errors import DataError
from riprap.records.record import Record, decode
from riprap.records.recovery import recover
from riprap.streams import PersistentStream, StoredMark


@dataclass(frozen=True)
class RecordLine:
    """One record."""

    position: int  # of the next row in the stream
    epoch: int  # of the incarnation that wrote it
    frame: int
    bytes: int
    opened: int
    checked: int
    closed: int
    open: int  # windows, after it
    unsaved: int  # frame after which the first row arrived that no record contains
    replay: int  # rows of input that a recovery would replay


def records(stream: PersistentStream) -> Iterator[RecordLine]:
    """Every record of a stream, oldest first; raises `DataError` at an invalid one."""
    for item in stream.read(from_position=stream.first_position(), marks=True):
        if isinstance(item, StoredMark) and item.kind == "record":
            yield line(decode(item.payload), item.header.position, item.header.epoch, len(item.payload))


def newest(stream: PersistentStream) -> RecordLine | None:
    for item in stream.records_backwards():
        return line(decode(item.payload), item.header.position, item.header.epoch, len(item.payload))
    return None


def line(record: Record, position: int, epoch: int, size: int) -> RecordLine:
    replay = int((record.cut.rows - record.unsaved.rows).sum())
    return RecordLine(
        position, epoch, record.cut.frame, size, len(record.opened), len(record.whole), len(record.closed),
        record.totals.open, record.unsaved.frame, replay,
    )  # fmt: skip


def check(stream: PersistentStream) -> tuple[int, list[str]]:
    """The number of records, and the problems with them."""
    problems: list[str] = []
    count, before = 0, None
    try:
        for current in records(stream):
            count += 1
            if before is not None and current.frame > before.frame + 1:
                problems.append(
                    f"record {current.frame} at position {current.position} follows record {before.frame}: "
                    "one between them is missing"
                )
            before = current
        if count:
            recover(item.payload for item in stream.records_backwards())
    except DataError as error:
        problems.append(str(error))
    return count, problems
