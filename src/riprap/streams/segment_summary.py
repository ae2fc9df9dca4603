"""The record of a finished segment: it closes the segment's index, and the catalogue is a sequence of them.

120 bytes, fifteen little-endian 64-bit integers: the fields of `Summary` in order, then their checksum.
"""

import struct
from dataclasses import dataclass

import xxhash

from riprap.streams.positions import Range

_RECORD = struct.Struct("<12qQQ")
_CHECK = struct.Struct("<Q")
RECORD_SIZE = _RECORD.size + _CHECK.size
assert RECORD_SIZE == 120


@dataclass(frozen=True)
class Summary:
    segment: int
    position: int  # of the first row
    rows: int
    batches: int
    end: int  # offset after the last batch; the file is a little longer
    range: Range  # of `_ts` and `_seq`: four integers; NOTHING without rows
    created_at: int  # wall clock, microseconds since 1970-01-01 UTC
    finished_at: int
    entries: int  # in the segment's index
    entries_check: int  # xxh3-64 of those entries
    footer_check: int  # xxh3-64 of Arrow's footer, its length and the closing magic

    @property
    def next_position(self) -> int:
        return self.position + self.rows

    def packed(self) -> bytes:
        data = _RECORD.pack(
            self.segment, self.position, self.rows, self.batches, self.end, *self.range,
            self.created_at, self.finished_at, self.entries, self.entries_check, self.footer_check,
        )  # fmt: skip
        return data + _CHECK.pack(xxhash.xxh3_64_intdigest(data))


def unpacked(data: bytes) -> Summary | None:
    """None if the checksum of the record does not match."""
    if len(data) != RECORD_SIZE or _CHECK.unpack(data[_RECORD.size :])[0] != xxhash.xxh3_64_intdigest(
        data[: _RECORD.size]
    ):
        return None
    values = _RECORD.unpack(data[: _RECORD.size])
    return Summary(*values[:5], Range(*values[5:9]), *values[9:])  # type: ignore[call-arg]  # their number is fixed
