"""Converts messages to frames and back: one format for the wire and for spill files.

An encoder and a decoder share state, as the two ends of a connection or of a file: the dictionaries of text columns are
sent once and remembered. So all frames must be decoded, in the order in which they were encoded. A message that exceeds
the largest frame becomes several, with consecutive items.

An invalid frame raises `DataError`: no length, offset or code is used before it was checked.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import xxhash

from riprap.base.errors import DataError
from riprap.operators.views import Views
from riprap.runtime.messages import Message, MessageKind, marked_header, unmarked_header
from riprap.runtime.transport.dictionaries import DictionaryPart
from riprap.runtime.transport.wire_columns import Buffers, ColumnDecoding, ColumnEncoding, padding, row_bytes, size_of
from riprap.runtime.transport.wire_frame import (
    HEADER_SIZE,
    MAX_LENGTH,
    FrameKind,
    WireHeader,
    check_body,
    pack,
    pack_fields,
    unpack,
)

MAX_HEADER = 1 << 20  # bytes that a protocol may put on a message
_JOIN = 1 << 16  # bytes: shorter messages are copied into one buffer, which is faster than sending many


class Encoder:
    """`checked`: bodies get a checksum, for files."""

    def __init__(self, schema: pa.Schema, *, checked: bool = False) -> None:
        self._columns = ColumnEncoding(schema)
        self._most_rows = max(1, int((MAX_LENGTH - MAX_HEADER) / 2 / max(row_bytes(schema), 1.0)))
        self._checked = checked

    def encode(self, message: Message) -> Buffers:
        """The frames of a message."""
        own = marked_header(message)
        if len(own) > MAX_HEADER:
            raise DataError(f"a protocol's header of {len(own)} bytes; a message carries at most {MAX_HEADER}")
        if message.batch is None:
            body: Buffers = [own, padding(len(own))] if own else []
            return self._frame(message, body, len(own) + len(padding(len(own))), 0, len(own))
        rows = message.items
        if rows > self._most_rows:
            return [buffer for part in self._parts(message) for buffer in self.encode(part)]
        buffers, size, lacking = self._columns.encode(message.batch)
        frames: Buffers = []
        for column, piece in lacking:
            frames += self._dictionary(column, piece)
        if own:
            buffers[:0] = [own, padding(len(own))]
            size += len(own) + len(padding(len(own)))
        return frames + self._frame(message, buffers, size, rows, len(own))

    def _parts(self, message: Message) -> Iterator[Message]:
        assert message.batch is not None
        rows = message.items
        for first in range(0, rows, self._most_rows):
            part = message.batch.slice(first, self._most_rows)
            last = first + self._most_rows >= rows
            watermark = message.watermark if last else None
            yield replace(message, number=message.number + first, batch=part, watermark=watermark)

    def _frame(self, message: Message, body: Buffers, size: int, rows: int, own: int) -> Buffers:
        header = pack_fields(
            message.kind, size, rows, own, message.epoch, message.number, message.born,
            message.watermark, message.punctuation, _check(body) if self._checked else None,
        )  # fmt: skip
        return [header, *body] if size > _JOIN else [b"".join((header, *body))]

    def _dictionary(self, column: int, piece: DictionaryPart) -> Buffers:
        offsets = piece.offsets.data.cast("B")
        body: Buffers = [offsets, padding(len(offsets)), piece.data, padding(len(piece.data))]
        size = sum(map(size_of, body))
        check = _check(body) if self._checked else None
        header = WireHeader(
            FrameKind.DICTIONARY, size, piece.count, epoch=piece.before, number=column, body_check=check
        )
        return [pack(header), *body]


def _check(body: Buffers) -> int:
    state = xxhash.xxh3_64()
    for buffer in body:
        state.update(buffer)
    return state.intdigest()


_KINDS = {FrameKind(kind): kind for kind in MessageKind}


class Decoder:
    """The receiving end. Rows are views of the memory of their frame."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = ColumnDecoding(schema)

    def decode(self, header: WireHeader, body: memoryview | None) -> Message | None:
        """The message of a frame; None: it was part of a dictionary, which was stored."""
        if header.body_check is not None:
            check_body(header, body if body is not None else memoryview(b""))
        if header.kind is FrameKind.DICTIONARY:
            if body is None:
                raise DataError("a dictionary without values")
            self._columns.add(header.number, header.epoch, header.rows, body)
            return None
        kind = _KINDS.get(header.kind)
        if kind is None:
            raise DataError(f"a frame of kind {header.kind.name} among messages")
        own = header.header
        start = own + (-own & 7)
        batch: Views | None = None
        if kind is MessageKind.ROWS:
            if body is None:
                raise DataError("a message of rows without columns")
            batch = self._columns.decode(body, start, header.rows)
        elif start != header.body:
            raise DataError(f"a frame of kind {kind.name} with {header.body - start} unexpected bytes")
        stamp, at = unmarked_header(bytes(body[:own])) if own and body is not None else (b"", None)
        return Message(
            kind, header.epoch, header.number, batch, header.punctuation, header.watermark, header.born, stamp, at
        )


def frames(data: memoryview) -> Iterator[tuple[WireHeader, memoryview | None]]:
    """The frames in a block of memory, such as a file; their bodies are views of it."""
    at = 0
    while at < len(data):
        if len(data) - at < HEADER_SIZE:
            raise DataError(f"{len(data) - at} bytes where a frame was expected")
        header = unpack(data, at)
        at += HEADER_SIZE
        if len(data) - at < header.body:
            raise DataError(f"a frame that ends after {len(data) - at} of {header.body} bytes")
        yield header, data[at : at + header.body] if header.body else None
        at += header.body
