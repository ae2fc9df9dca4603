"""A stream at a glance: sizes, ranges, rates, readers. From the catalogue, the mark and one header."""

from dataclasses import dataclass
from pathlib import Path

from riprap.base.files import refuse_links
from riprap.streams.lock import is_written
from riprap.streams.positions import NOTHING
from riprap.streams.segment import segment_name
from riprap.streams.stream import PersistentStream
from riprap.streams.stream_files import LocalFiles


@dataclass(frozen=True)
class Overview:
    location: str
    id: str
    segments: int
    rows: int  # retained; trimmed ones are not counted
    bytes: int
    first_position: int
    next_position: int
    min_ts: int | None  # microseconds since 1970-01-01 UTC; None where there are no rows
    max_ts: int | None
    rows_per_second: float | None  # of event time
    bytes_per_second: float | None
    written: bool  # whether a writer is active
    readers: dict[str, int]


def overview(stream: PersistentStream) -> Overview:
    end = stream.stable()
    found = stream.catalogue(end)
    first = stream.first_position()
    rows = max(end.position - first, 0)
    size = sum(item.end for item in found.finished) + end.offset
    earliest = [item.range.min_ts for item in found.finished if item.rows]
    if rows and not earliest:
        earliest = [next(iter(stream.read(columns=[]))).header.min_ts]
    low = min(earliest) if rows else None
    high = end.max_ts if rows and end.max_ts != NOTHING else None
    seconds = (high - low) / 1e6 if low is not None and high is not None else 0.0
    local = stream.files.directory if isinstance(stream.files, LocalFiles) else None
    return Overview(
        stream.files.location,
        stream.description.id.hex(),
        len(found.finished) + (end.segment >= 0),
        rows,
        size,
        first,
        end.position,
        low,
        high,
        rows / seconds if seconds else None,
        size / seconds if seconds else None,
        local is not None and is_written(local),
        stream.readers(),
    )


def streams_below(directory: Path) -> list[Path]:
    """Directories of streams at or below `directory`, by name."""
    refuse_links(directory)
    return sorted(path.parent for path in directory.rglob("stream.json"))


def segment_table(stream: PersistentStream) -> list[dict[str, object]]:
    """One row per finished segment, for people and programs."""
    return [
        {
            "segment": segment_name(item.segment),
            "position": item.position,
            "rows": item.rows,
            "batches": item.batches,
            "bytes": item.end,
            "min_ts": item.range.min_ts,
            "max_ts": item.range.max_ts,
        }
        for item in stream.catalogue().finished
    ]
