"""The frame header that every message between elements, and in a spill file, starts with.

It is modelled on the frame of persistent streams: the same fields, magic first, and a checksum of everything before it,
so that no damaged length is used. Integers are little-endian, keys are `ts, src, seq, n`.

    offset  size  field
    0       4     magic, "RPRW"
    4       2     version, 1
    6       1     kind
    7       1     flags: 1 has a watermark, 2 has a punctuation key, 4 has a body check
    8       8     length of the frame, including this header; a multiple of 8
    16      4     rows
    20      4     bytes of the protocol's header, at the start of the body
    24      8     epoch of the sender
    32      8     number of the first item
    40      8     born, microseconds since 1970 UTC; 0: unknown
    48      32    watermark; in a challenge and in an opening frame its nonce
    80      32    punctuation key; in an opening frame and in the first answer to it the proof (`opening.py`)
    112     8     body check: xxh3-64 of the body (in files; on the wire TCP or TLS protect it)
    120     8     header check: xxh3-64 of bytes 0 to 119
    128           the body

Kinds 1 to 5 are messages. The others control the connection:

    16  DICTIONARY       `rows` more values for the text column `number`, after the first `epoch` values
    17  OPEN             the producer's first frame: its epoch; the body names the channel and its columns
    18  HELLO            the consumer's first answer: its epoch, and the item that it expects next
    19  ACKNOWLEDGEMENT  all items below `number` were delivered
    20  GOODBYE          the consumer ends
    21  REFUSED          the consumer refuses this producer; the body gives the reason
    22  CHALLENGE        the first frame of all, from the consumer: a nonce
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import xxhash

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey

MAGIC = b"RPRW"
VERSION = 1
HEADER_SIZE = 128
MAX_LENGTH = 1 << 28  # bytes of one frame: a longer message is sent in pieces
MAX_ANSWER = 4096  # bytes of a control frame, and of the first frame from an unknown process
MAX_ROWS = 1 << 26

_FIELDS = Struct("<4sHBBQIIqqqqqqqqqqqQ")
_CHECK = Struct("<Q")
_CHECKED = _FIELDS.size
assert _CHECKED + _CHECK.size == HEADER_SIZE

_WATERMARK, _PUNCTUATION, _BODY_CHECK = 1, 2, 4
_NO_KEY = (0, 0, 0, 0)
_NONCE, _PROOF = slice(48, 80), slice(80, 112)


class FrameKind(IntEnum):
    ROWS = 1
    PUNCTUATION = 2
    WATERMARK = 3
    END = 4
    MARKER = 5
    DICTIONARY = 16
    OPEN = 17
    HELLO = 18
    ACKNOWLEDGEMENT = 19
    GOODBYE = 20
    REFUSED = 21
    CHALLENGE = 22


_KINDS = {int(kind): kind for kind in FrameKind}
_WITH_ROWS = {FrameKind.ROWS, FrameKind.DICTIONARY}
_ANSWERS = {kind for kind in FrameKind if kind >= FrameKind.OPEN}


class WireHeader(NamedTuple):
    """A header whose fields were checked."""

    kind: FrameKind
    body: int  # bytes that follow
    rows: int = 0
    header: int = 0  # bytes of the body that are the protocol's
    epoch: int = 0
    number: int = 0
    born: int = 0
    watermark: OrderKey | None = None
    punctuation: OrderKey | None = None
    body_check: int | None = None


def pack(header: WireHeader, nonce: bytes = b"", proof: bytes = b"") -> bytes:
    """The bytes of a header; frames that open a channel carry a nonce and a proof where others have keys."""
    packed = pack_fields(*header)
    if nonce or proof:
        replaced = (nonce or packed[_NONCE]) + (proof or packed[_PROOF])
        fields = packed[: _NONCE.start] + replaced + packed[_PROOF.stop : _CHECKED]
        packed = fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields))
    return packed


def pack_fields(
    kind: int,
    body: int,
    rows: int,
    own: int,
    epoch: int,
    number: int,
    born: int,
    watermark: OrderKey | None,
    punctuation: OrderKey | None,
    check: int | None,
) -> bytes:
    """The bytes of a header from the fields of `WireHeader`, without creating one per message."""
    flags = 0 if watermark is None else _WATERMARK
    if punctuation is not None:
        flags |= _PUNCTUATION
    if check is not None:
        flags |= _BODY_CHECK
    fields = _FIELDS.pack(
        MAGIC, VERSION, kind, flags, HEADER_SIZE + body, rows, own, epoch, number, born,
        *(watermark or _NO_KEY), *(punctuation or _NO_KEY), check or 0,
    )  # fmt: skip
    return fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields))


def unpack(data: memoryview, at: int = 0) -> WireHeader:
    """The complete header at `at`. Raises `DataError` if a field is impossible."""
    if data[at : at + 4] != MAGIC:
        raise DataError("bytes that are not a frame of a channel: the sender uses another protocol")
    if _CHECK.unpack_from(data, at + _CHECKED)[0] != xxhash.xxh3_64_intdigest(data[at : at + _CHECKED]):
        raise DataError("a frame whose header does not match its checksum: it was damaged on the way")
    fields = _FIELDS.unpack_from(data, at)
    _, version, number_of_kind, flags, length, rows, own, epoch, number, born = fields[:10]
    if version != VERSION:
        raise DataError(f"a frame of version {version}, expected {VERSION}: run one version everywhere")
    kind = _KINDS.get(number_of_kind)
    if kind is None or flags > 7:
        raise DataError(f"a frame of the unknown kind {number_of_kind} with flags {flags}")
    body = length - HEADER_SIZE
    if not 0 <= body <= (MAX_ANSWER if kind in _ANSWERS else MAX_LENGTH) or length % 8:
        raise DataError(f"a frame of kind {kind.name} that claims to have {length} bytes")
    if own > body or rows > MAX_ROWS or (rows > 0) != (kind in _WITH_ROWS) or epoch < 0 or number < 0 or born < 0:
        raise DataError(
            f"a frame of kind {kind.name} with {rows} rows, number {number}, epoch {epoch}: they do not fit"
        )
    watermark = _key(fields[10:14]) if flags & _WATERMARK else None
    punctuation = _key(fields[14:18]) if flags & _PUNCTUATION else None
    if (punctuation is not None) != (kind is FrameKind.PUNCTUATION):
        raise DataError(f"a frame of kind {kind.name} whose punctuation key does not fit its kind")
    return WireHeader(
        kind,
        body,
        rows,
        own,
        epoch,
        number,
        born,
        watermark,
        punctuation,
        fields[18] if flags & _BODY_CHECK else None,
    )


def signed(frame: bytes) -> bytes:
    """The part of a header that a proof covers: all but the proof itself and the checksum after it."""
    return frame[: _PROOF.start] + frame[_PROOF.stop : _CHECKED]


def credentials(frame: bytes) -> tuple[bytes, bytes]:
    """The nonce and the proof in a frame that opens a channel."""
    return frame[_NONCE], frame[_PROOF]


def _key(parts: tuple[int, ...]) -> OrderKey:
    key = OrderKey(*parts)
    if not -(2**31) <= key.src < 2**31:
        raise DataError(f"a frame with an order key of source {key.src}, which no source can have")
    return key


def check_body(header: WireHeader, body: memoryview) -> None:
    if header.body_check is not None and xxhash.xxh3_64_intdigest(body) != header.body_check:
        raise DataError("a frame whose body does not match its checksum: it was damaged")
