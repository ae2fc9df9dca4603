"""The catalogue: the records of all finished segments, so that opening a stream reads one file and not all of them.

A file of 120-byte records (`segment_summary.py`), ascending by segment, each with its own checksum; rewritten whenever
a segment is finished. It is redundant: a missing or damaged record is read from the end of its segment or, if that is
damaged too, rebuilt from the segment's headers. The directory listing decides which segments exist.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from riprap.streams.frame import metadata_size
from riprap.streams.positions import Bounds
from riprap.streams.segment import Builder, read_start, read_summary, segment_name, segment_numbers, walk
from riprap.streams.segment_summary import RECORD_SIZE, Summary, unpacked
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Files

CATALOGUE = "catalogue"


@dataclass(frozen=True)
class Catalogue:
    """The finished segments that exist, oldest first, and the number of the open one, if any."""

    finished: tuple[Summary, ...]
    open: int | None

    @cached_property
    def _greatest_ts(self) -> list[int]:
        """The greatest `_ts` up to and including each segment: ascending, whatever the order of the rows."""
        return list(accumulate((item.range.max_ts for item in self.finished), max))

    @cached_property
    def _greatest_seq(self) -> list[int]:
        return list(accumulate((item.range.max_seq for item in self.finished), max))

    @cached_property
    def _positions(self) -> list[int]:
        return [item.position for item in self.finished]

    def first(self, bounds: Bounds) -> int:
        """Index in `finished` of the first segment that can have rows within `bounds`, by binary search."""
        by_position = max(0, bisect_right(self._positions, bounds.from_position) - 1)
        start = bounds.start_ts()
        by_ts = 0 if start is None else bisect_right(self._greatest_ts, start - 1)
        by_seq = 0 if bounds.from_seq is None else bisect_right(self._greatest_seq, bounds.from_seq - 1)
        return max(by_position, by_ts, by_seq)

    def first_marked(self, position: int) -> int:
        """Index of the first segment that can have marks at `position`: one that ends there can."""
        return bisect_left([item.next_position for item in self.finished], position)

    @property
    def next_position(self) -> int:
        return self.finished[-1].next_position if self.finished else 0


def load(files: Files) -> Catalogue:
    numbers = segment_numbers(files.names())
    recorded = _recorded(files)
    newest = numbers[-1] if numbers else None
    finished: list[Summary] = []
    for number in numbers:
        summary = recorded.get(number)
        if summary is None:
            summary = _summarized(files, number, must_be_finished=number != newest)
        if summary is None:
            break
        if finished and finished[-1].next_position != summary.position:
            # A writer that had been replaced recorded an ending of its own: the segment itself knows better.
            finished[-1] = _summarized(files, finished[-1].segment, must_be_finished=True) or finished[-1]
        finished.append(summary)
    return Catalogue(tuple(finished), newest if newest is not None and len(finished) < len(numbers) else None)


def store(files: Files, finished: tuple[Summary, ...]) -> None:
    files.put(CATALOGUE, b"".join(item.packed() for item in finished))


def _recorded(files: Files) -> dict[int, Summary]:
    """The records whose checksum matches."""
    try:
        data = files.get(CATALOGUE)
    except FileNotFoundError:
        return {}
    found = (unpacked(data[at : at + RECORD_SIZE]) for at in range(0, len(data), RECORD_SIZE))
    return {item.segment: item for item in found if item is not None}


def _summarized(files: Files, number: int, must_be_finished: bool) -> Summary | None:
    """The record of a segment, from the segment; None for the newest one while it is open."""
    file = files.open(segment_name(number))
    try:
        summary = read_summary(file)
        if summary is not None and summary.segment != number:
            summary = None  # another segment under this name: continuing after it would overwrite a sound one
        if summary is not None or not must_be_finished:
            return summary
        start = read_start(file)
        builder, last = Builder(start.end), start.written_at
        try:  # the batches end where the headers do; if that is too early, the next segment's position shows it
            for found in walk(file, start.carry.stream, start.end, file.size(), start.carry.position, bodies=False):
                builder.add(found.header, metadata_size(memoryview(found.data)))
                last = found.header.written_at
        except Damaged:
            pass
        return builder.finished(start, last)[0]
    finally:
        file.close()
