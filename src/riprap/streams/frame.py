"""The frame: it makes every Arrow message of a stream self-identifying and checksummed.

An encapsulated Arrow message starts with `FFFFFFFF, metadata length, flatbuffer`, and a flatbuffer starts with the
relative offset of its root table. Offsets in flatbuffers are relative, so a gap may follow the first one: the frame is
in that gap, at a fixed place, and every Arrow reader skips it. Bytes of a message:

    0    u32  FFFFFFFF                        Arrow: continuation
    4    i32  length of the metadata          Arrow: includes the frame
    8    u32  offset of the root table        Arrow: includes the frame
    12        the frame, 168 bytes            the fields of `FrameHeader`, then the two checks
    180       the payload, version 3 only     its length (u64), its bytes, zeros up to a multiple of 8
              rest of the flatbuffer, padding, body

A payload is opaque data of the producer's application, checksummed like the rows. A message without one is of version
2, byte for byte.

    body check    xxh3-64 of bytes 180 … end
    header check  xxh3-64 of bytes 0 … 171, which include the body check: so it covers the whole message

No part of a message is interpreted before it is checked: `read_header` verifies the header check of 180 bytes first,
and `check_body` runs before any flatbuffer is parsed. Integers are little-endian.
"""

import struct
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import xxhash

from riprap.graph.order_keys import OrderKey
from riprap.streams.positions import NOTHING, Range

MAGIC = b"RPRP"
PLAIN, WITH_PAYLOAD = 2, 3  # versions
SCHEMA, BATCH = 1, 2
# Marks: entries without rows between the batches, for readers with `marks=True`.
PUNCTUATION, WATERMARK, END, MARKER, RECORD = 3, 4, 5, 6, 7
MarkKind = Literal["punctuation", "progress", "end", "marker", "record"]
MARKS: dict[int, MarkKind] = {
    PUNCTUATION: "punctuation",
    WATERMARK: "progress",
    END: "end",
    MARKER: "marker",  # of a protocol
    RECORD: "record",  # of the producer's state
}
ENTRIES = frozenset((BATCH, *MARKS))

_ARROW = struct.Struct("<IiI")
_FRAME = struct.Struct("<4sHHQ16sQqqqIIqqqqqqqqqqQ")
_HEAD = struct.Struct("<IiI" + _FRAME.format.removeprefix("<"))  # both
_CHECK = struct.Struct("<Q")
_LENGTH = struct.Struct("<Q")
HEADER_SIZE = _ARROW.size + _FRAME.size + _CHECK.size
_GAP = _FRAME.size + _CHECK.size
assert HEADER_SIZE == 180
assert _GAP % 8 == 0  # or the flatbuffer behind it would lose its alignment

_NO_WATERMARK = (NOTHING, 0, 0, 0)
_as: Any = tuple.__new__  # builds a named tuple without a check of its length
_xxh3 = xxhash.xxh3_64_intdigest

END_OF_STREAM = struct.pack("<Ii", 0xFFFFFFFF, 0)


class FrameHeader(NamedTuple):
    """The frame's fields, in the order of the file. Times are microseconds since 1970-01-01 UTC."""

    magic: bytes
    version: int
    kind: int  # SCHEMA (first message of a segment), BATCH, or a kind of mark
    length: int  # bytes of the whole message, this header included
    stream: bytes  # id of the stream, 16 bytes
    producer: int  # xxh3-64 of the producer's name
    epoch: int  # incarnation of the producer
    sequence: int  # the producer's number for the append; never decreases for a producer
    position: int  # of the first row
    rows: int
    remaining: int  # batches that follow in the same atomic append; 0 in its last one
    min_ts: int
    max_ts: int
    min_seq: int
    max_seq: int
    progress_ts: int  # watermark: nothing at or below this key will follow; ts is NOTHING if there is none.
    progress_src: int  # For a punctuation: its own key
    progress_seq: int
    progress_n: int
    written_at: int
    born: int  # when the oldest input that caused this entered the producer's app; 0: unknown
    body_check: int

    @property
    def watermark(self) -> OrderKey | None:
        if self.progress_ts == NOTHING:
            return None
        return OrderKey(self.progress_ts, self.progress_src, self.progress_seq, self.progress_n)

    @property
    def range(self) -> Range:
        return Range(self.min_ts, self.max_ts, self.min_seq, self.max_seq)

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.position + self.rows


class FramedMessage(NamedTuple):
    """A framed message, ready to be written: `head`, then the parts of `rest`, which reference Arrow's buffers."""

    header: FrameHeader
    head: bytes
    rest: tuple[bytes | memoryview, ...]
    metadata: int  # bytes before the body, as Arrow's footer counts them


def producer_id(name: str) -> int:
    return _xxh3(name.encode())


def frame(
    arrow: pa.Buffer | bytearray,
    kind: int,
    stream: bytes,
    producer: int,
    epoch: int,
    sequence: int,
    position: int,
    rows: int,
    remaining: int,
    range_: Range,
    watermark: OrderKey | None,
    written_at: int,
    born: int = 0,
    payload: bytes = b"",
    body: Sequence[bytes | memoryview] = (),
) -> FramedMessage:
    """Insert a frame, and a payload if any, into a serialized Arrow message (uncompressed, with continuation marker);
    `body` has the parts of its body that are not in `arrow`."""
    view = memoryview(arrow)
    _, metadata, root = _ARROW.unpack_from(view)
    own = view[_ARROW.size :]
    rest: tuple[bytes | memoryview, ...] = (own,)
    length, gap, version, between = len(view), _GAP, PLAIN, b""
    if payload or body:
        if payload:
            version, between = WITH_PAYLOAD, _LENGTH.pack(len(payload)) + payload + bytes(-len(payload) % 8)
            gap += len(between)
        rest = (own, *body)
        length += sum(map(len, body))
        hashed = xxhash.xxh3_64(between)
        for part in rest:
            hashed.update(part)
        check = hashed.intdigest()
    else:
        check = _xxh3(own)
    key = _NO_WATERMARK if watermark is None else watermark
    header = _as(FrameHeader, (
        MAGIC, version, kind, length + gap, stream, producer, epoch, sequence, position, rows, remaining,
        *range_, *key, written_at, born, check,
    ))  # fmt: skip
    metadata += gap
    head = _HEAD.pack(0xFFFFFFFF, metadata, root + gap, *header)
    return _as(FramedMessage, (header, head + _CHECK.pack(_xxh3(head)) + between, rest, metadata + 8))


def read_header(data: memoryview, at: int = 0) -> FrameHeader | str:
    """The header of the message at `at`, or what is wrong with it. Does not check the body."""
    checked = at + HEADER_SIZE - _CHECK.size
    if len(data) < at + HEADER_SIZE:
        return f"{len(data) - at} bytes where a header of {HEADER_SIZE} was expected"
    if _CHECK.unpack_from(data, checked)[0] != _xxh3(data[at:checked]):
        return "the header's checksum does not match"
    header = _as(FrameHeader, _FRAME.unpack_from(data, at + _ARROW.size))
    if header.magic != MAGIC or not PLAIN <= header.version <= WITH_PAYLOAD or header.length < HEADER_SIZE:
        return f"a message of version {header.version}, where this release reads {PLAIN} and {WITH_PAYLOAD}"
    return header


def check_body(header: FrameHeader, data: memoryview, at: int = 0) -> str | None:
    """What is wrong with the message at `at`, whose header is sound, or None."""
    if len(data) - at < header.length:
        return f"only {len(data) - at} of the message's {header.length} bytes exist"
    if _xxh3(data[at + HEADER_SIZE : at + header.length]) != header.body_check:
        return "the checksum of the message does not match"
    return None


def payload_of(header: FrameHeader, data: memoryview, at: int = 0) -> bytes:
    """The payload of the message at `at`, which has been checked."""
    if header.version == PLAIN:
        return b""
    begin = at + HEADER_SIZE + _LENGTH.size
    return bytes(data[begin : begin + _LENGTH.unpack_from(data, at + HEADER_SIZE)[0]])


def metadata_size(head: bytes | memoryview) -> int:
    """Bytes of a message before its body, as Arrow's footer counts them."""
    return int(_ARROW.unpack_from(head)[1]) + 8
