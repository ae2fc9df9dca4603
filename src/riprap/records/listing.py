"""The records of a stream for people: what each says in a line, and whether they hold together.

Frames rise by one from record to record of a life; a new life goes on behind the frame that it came back to. So the
number of a record is at most one more than that of the one before it; and what is needed to come back to the newest has
to be there.
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

    position: int  # of the row that comes next in the stream
    epoch: int  # life that wrote it
    frame: int
    bytes: int
    opened: int
    checked: int
    closed: int
    open: int  # windows, after it
    unsaved: int  # frame after which the first row came that no record has
    replay: int  # rows of input that would be read again


def records(stream: PersistentStream) -> Iterator[RecordLine]:
    """Every record of a stream, oldest first; raises `DataError` at what is not one."""
    for item in stream.read(from_position=stream.first_position(), marks=True):
        if isinstance(item, StoredMark) and item.kind == "record":
            yield line(decode(item.payload), item.header.position, item.header.epoch, len(item.payload))


def newest(stream: PersistentStream) -> RecordLine | None:
    for found in stream.records_backwards():
        return line(decode(found.payload), found.header.position, found.header.epoch, len(found.payload))
    return None


def line(record: Record, position: int, epoch: int, size: int) -> RecordLine:
    replay = int((record.cut.rows - record.unsaved.rows).sum())
    return RecordLine(
        position, epoch, record.cut.frame, size, len(record.opened), len(record.whole), len(record.closed),
        record.totals.open, record.unsaved.frame, replay,
    )  # fmt: skip


def check(stream: PersistentStream) -> tuple[int, list[str]]:
    """How many records there are, and what is wrong with them."""
    wrong: list[str] = []
    count, before = 0, None
    try:
        for found in records(stream):
            count += 1
            if before is not None and found.frame > before.frame + 1:
                wrong.append(
                    f"record {found.frame} at position {found.position} follows record {before.frame}: "
                    "one between them is missing"
                )
            before = found
        if count:
            recover(found.payload for found in stream.records_backwards())
    except DataError as error:
        wrong.append(str(error))
    return count, wrong
