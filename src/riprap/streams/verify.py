"""Check every checksummed byte of a stream, and report all damage.

It continues after damage wherever it can find the next message: after one whose header is sound, else at the next entry
of the segment's index. A torn end of the open segment is the result of a crash, not damage, as long as everything
before the mark is complete.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest

from riprap.streams.frame import END_OF_STREAM, HEADER_SIZE, read_header
from riprap.streams.retention import registered
from riprap.streams.segment import ENTRY, Start, read_entries, read_start, read_summary, segment_name, walk
from riprap.streams.segment_summary import RECORD_SIZE, Summary
from riprap.streams.stream import PersistentStream
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Readable


@dataclass(frozen=True)
class Damage:
    file: str
    offset: int
    what: str


@dataclass
class Report:
    segments: int = 0
    batches: int = 0  # without marks, which are checked all the same
    rows: int = 0
    bytes: int = 0
    damage: list[Damage] = field(default_factory=list)


def verify(stream: PersistentStream, progress: Callable[[int, int], None] = lambda done, of: None) -> Report:
    """`progress` is called after each segment with the bytes checked and the total."""
    report = Report()
    end = stream.stable()
    found = stream.catalogue(end)
    total = sum(item.end for item in found.finished) + end.offset
    expected: int | None = None
    for item in found.finished:
        expected = _verify_segment(stream, report, item.segment, item.end, item, expected)
        progress(report.bytes, total)
    if end.segment >= 0 and found.open == end.segment:
        _verify_segment(stream, report, end.segment, end.offset, None, expected)
        progress(report.bytes, total)
    loss = stream.loss()
    if loss is not None:
        report.damage.append(Damage(loss.file, loss.offset, loss.what))
    try:
        registered(stream.files)
    except Damaged as damage:
        report.damage.append(Damage(damage.file, damage.offset, damage.what))
    return report


def _verify_segment(
    stream: PersistentStream, report: Report, number: int, end: int, recorded: Summary | None, expected: int | None
) -> int | None:
    """Adds to the report; returns the position with which the next segment must start."""
    try:
        file = stream.files.open(segment_name(number))
    except FileNotFoundError:  # trimmed since it was listed
        return None
    try:
        report.segments += 1
        report.bytes += end
        start = read_start(file)
        if expected is not None and start.carry.position != expected:
            missing = f"it starts at position {start.carry.position}, but the segment before it ends at {expected}"
            report.damage.append(Damage(file.name, 0, missing))
        position = start.carry.position
        for item in _batches(file, start, end, recorded):
            if isinstance(item, Damaged):
                report.damage.append(Damage(item.file, item.offset, item.what))
            else:
                report.batches += item[1] > item[0]
                report.rows += item[1] - item[0]
                position = item[1]
        if recorded is not None:
            report.damage += _ending_damage(file, recorded)
            position = recorded.next_position
        return position
    except Damaged as damage:
        report.damage.append(Damage(damage.file, damage.offset, damage.what))
        return recorded.next_position if recorded else None
    finally:
        file.close()


def _batches(file: Readable, start: Start, end: int, recorded: Summary | None) -> Iterator[tuple[int, int] | Damaged]:
    """First and next position of each sound batch, and the damage between them."""
    offset, position = start.end, start.carry.position if recorded is None else recorded.position
    known: int | None = position
    while offset < end:
        try:
            for found in walk(file, start.carry.stream, offset, end, known):
                yield found.header.position, found.header.end
                offset, known = found.end, found.header.end
        except Damaged as damage:
            yield damage
            following = _next_message(file, damage.offset, end, recorded)
            if following is None:
                return
            offset, known = following, None


def _next_message(file: Readable, offset: int, end: int, recorded: Summary | None) -> int | None:
    header = read_header(memoryview(file.read_at(offset, min(HEADER_SIZE, end - offset))))
    if not isinstance(header, str):
        return offset + header.length
    if recorded is None:
        return None
    try:
        behind = [int(entry) for entry in read_entries(file, recorded)["offset"] if entry > offset]
    except Damaged:
        return None
    return behind[0] if behind else None


def _ending_damage(file: Readable, recorded: Summary) -> Iterator[Damage]:
    """Damage after the batches of a finished segment: in its index, record or Arrow's footer."""
    if read_summary(file) != recorded:
        yield Damage(file.name, recorded.end, "its record is damaged; the catalogue has it")
    behind = memoryview(file.read_at(recorded.end, file.size() - recorded.end))
    entries_end = len(END_OF_STREAM) + recorded.entries * ENTRY.itemsize
    if bytes(behind[: len(END_OF_STREAM)]) != END_OF_STREAM:
        yield Damage(file.name, recorded.end, "Arrow's end-of-stream marker is damaged; batches are read without it")
    if xxh3_64_intdigest(behind[len(END_OF_STREAM) : entries_end]) != recorded.entries_check:
        yield Damage(file.name, recorded.end, "its index is damaged; the batches' headers are used instead")
    if xxh3_64_intdigest(behind[entries_end + RECORD_SIZE :]) != recorded.footer_check:
        yield Damage(file.name, recorded.end, "Arrow's footer is damaged; other Arrow readers may not open the file")
