"""Columns as they travel: the buffers of Arrow's layout, one after another, each beginning at a multiple of 8 bytes.

    the protocol's header, padded
    one byte per column, padded: 1 if some of its values are NULL
    per column: a bit per row that says which are not NULL, if some are; then the values, padded

Numbers, dates and times are stored as they are; booleans are bits; text is 32-bit codes into the dictionary of its
column (`dictionaries.py`). How long each buffer is follows from the number of rows and from the stream's schema, which
both ends know: there are no lengths to be believed. A slice sends its own rows only. What comes in is one buffer per
message, and its columns are views of it; so a value that is kept holds its own message and nothing beside it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.runtime.transport.dictionaries import KnownDictionary, Piece, SentDictionary

Buffers = list[bytes | memoryview]

_PADDING = [bytes(count) for count in range(8)]


def padding(size: int) -> bytes:
    """What brings a buffer of this size to a multiple of 8."""
    return _PADDING[-size & 7]


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def row_bytes(schema: pa.Schema) -> float:
    """What a row takes, without NULLs and without what is new in dictionaries."""
    return float(sum(4 if is_text(type_) else type_.bit_width / 8 for type_ in schema.types))


def plain_types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types, whether a column is dictionary-encoded or not."""
    return [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]


class Encoded(NamedTuple):
    """Rows ready to be sent: their buffers, and what dictionaries lack before them, by column."""

    buffers: Buffers
    size: int
    lacking: list[tuple[int, Piece]]


class ColumnEncoding:
    """The sending end of one connection."""

    def __init__(self, schema: pa.Schema) -> None:
        self._types = [type_ for _, type_ in plain_types(schema)]
        self._widths = [4 if is_text(type_) else type_.bit_width // 8 for type_ in self._types]  # 0: bits
        self._dictionaries = [SentDictionary(type_) if is_text(type_) else None for type_ in self._types]
        self._no_nulls = bytes(len(self._types)) + padding(len(self._types))

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        rows = batch.num_rows
        nulls: bytearray | None = None
        buffers: Buffers = [b""]
        lacking: list[tuple[int, Piece]] = []
        size = len(self._no_nulls)
        columns = batch.columns
        if len(columns) != len(self._types):
            raise DataError(f"a batch of {len(columns)} columns for a channel of {len(self._types)}")
        for at, (column, type_, dictionary) in enumerate(zip(columns, self._types, self._dictionaries, strict=True)):
            if dictionary is not None:
                column, pieces = dictionary.give(column)
                lacking += [(at, piece) for piece in pieces]
            elif column.type != type_:
                column = column.cast(type_)
            if column.null_count:
                nulls = nulls or bytearray(self._no_nulls)
                nulls[at] = 1
                size += _append(buffers, _bits(column.buffers()[0], column.offset, rows))
                if dictionary is not None:
                    column = column.fill_null(0)  # whatever lies there need not be a code
            width = self._widths[at]
            if width:
                size += _append(buffers, _slice(column, width, rows))
            else:
                size += _append(buffers, _bits(column.buffers()[1], column.offset, rows))
        buffers[0] = bytes(nulls) if nulls is not None else self._no_nulls
        return Encoded(buffers, size, lacking)


def _append(buffers: Buffers, data: memoryview) -> int:
    buffers.append(data)
    size = len(data)
    if size & 7:
        buffers.append(padding(size))
        size += -size & 7
    return size


def _slice(column: pa.Array, width: int, rows: int) -> memoryview:
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + rows * width]


def _bits(buffer: pa.Buffer, offset: int, rows: int) -> memoryview:
    """`rows` bits from `offset` on, beginning at a whole byte."""
    first, last = offset // 8, (offset + rows + 7) // 8
    if offset % 8 == 0:
        return memoryview(buffer)[first:last]
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8)[first:last], bitorder="little")
    return np.packbits(bits[offset % 8 : offset % 8 + rows], bitorder="little").data


class ColumnDecoding:
    """The receiving end of one connection."""

    def __init__(self, schema: pa.Schema) -> None:
        self._types = [type_ for _, type_ in plain_types(schema)]
        self._dictionaries = [KnownDictionary(type_) if is_text(type_) else None for type_ in self._types]
        self._bits = [32 if is_text(type_) else type_.bit_width for type_ in self._types]
        self._coded = pa.int32()
        self.schema = pa.schema(
            [
                field.with_type(pa.dictionary(self._coded, type_) if is_text(type_) else type_)
                for field, type_ in zip(schema, self._types, strict=True)
            ]
        )

    def add(self, column: int, before: int, values: int, body: pa.Buffer) -> None:
        """A frame of a dictionary."""
        dictionary = self._dictionaries[column] if column < len(self._types) else None
        if dictionary is None:
            raise DataError(f"a dictionary for column {column}, which has none")
        width = 4 * (values + 1)
        if len(body) < width + (-width & 7):
            raise DataError(f"a dictionary of {values} values in {len(body)} bytes")
        offsets = np.frombuffer(body, np.int32, values + 1)
        start, length = width + (-width & 7), int(offsets[-1])
        if not 0 <= length <= len(body) - start < length + 8:
            raise DataError("a dictionary whose offsets do not fit its text")
        dictionary.add(before, offsets, np.frombuffer(body, np.uint8, length, start) if length else _NO_BYTES)

    def decode(self, body: pa.Buffer, at: int, rows: int) -> pa.RecordBatch:
        """The rows whose columns begin at `at`."""
        count = len(self._types)
        if at + count > len(body):
            raise DataError("a message that ends within its columns")
        nulls = bytes(body[at : at + count])
        at += count + (-count & 7)
        arrays = []
        for (start, width, valid), type_, known in zip(
            self._places(body, at, rows, nulls), self._types, self._dictionaries, strict=True
        ):
            values = body.slice(start, width)
            if known is None:
                arrays.append(pa.Array.from_buffers(type_, rows, [valid, values]))
                continue
            codes = pa.Array.from_buffers(self._coded, rows, [valid, values])
            if int(np.frombuffer(values, np.uint32).max()) >= known.count and not (
                known.count == 0 and codes.null_count == rows
            ):
                raise DataError(f"a code that is not among the {known.count} values of its dictionary")
            arrays.append(pa.DictionaryArray.from_arrays(codes, known.array, safe=False))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _places(self, body: pa.Buffer, at: int, rows: int, nulls: bytes) -> Iterator[tuple[int, int, pa.Buffer | None]]:
        """Where the values of each column lie, how long they are, and which of them are not NULL."""
        end = len(body)
        mask = (rows + 7) // 8
        for bits, null in zip(self._bits, nulls, strict=True):
            valid = None
            if null:
                if null > 1 or at + mask > end:
                    raise DataError("a message that ends within its columns")
                valid = body.slice(at, mask)
                at += mask + (-mask & 7)
            width = (rows * bits + 7) // 8
            if at + width > end:
                raise DataError("a message that ends within its columns")
            yield at, width, valid
            at += width + (-width & 7)
        if at != end:
            raise DataError(f"a message with {end - at} bytes behind its columns")


_NO_BYTES = np.empty(0, np.uint8)
