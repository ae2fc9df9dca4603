"""Columns on the wire: the buffers of Arrow's layout, one after another, each aligned to 8 bytes.

    the protocol's header, padded
    one byte per column, padded: 1 if some of its values are NULL
    per column: if some values are NULL, a validity bit per row; then the values, padded

Numbers, dates and times are stored as they are; booleans are bits; text (and decimals, arrays, maps and structs as
bytes, see `expressions/value_bytes.py`) is 32-bit codes into the dictionary of its
column (`dictionaries.py`). The length of each buffer follows from the number of rows and the stream's schema, which
both ends know, so no lengths are sent. A slice sends only its own rows. A received message is one buffer, and its
columns are views of it; so a retained value pins only its own message.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions.value_bytes import from_bytes, has_own_bytes, to_bytes
from riprap.graph.types import plain_schema
from riprap.operators.columns import is_text
from riprap.operators.views import ColumnView, Views, dtype_of
from riprap.runtime.transport.dictionaries import DictionaryPart, KnownDictionary, SentDictionary

Buffer: TypeAlias = Any  # bytes, a memoryview or a contiguous NumPy array
Buffers: TypeAlias = list[Buffer]

_PADDING = [bytes(count) for count in range(8)]


def size_of(buffer: Buffer) -> int:
    """In bytes."""
    return len(buffer) if isinstance(buffer, bytes) else int(buffer.nbytes)


def padding(size: int) -> bytes:
    """The bytes that pad a buffer of this size to a multiple of 8."""
    return _PADDING[-size & 7]


def row_bytes(schema: pa.Schema) -> float:
    """The size of a row, without NULLs and without new dictionary values."""
    return float(sum(4 if is_text(type_) else type_.bit_width / 8 for type_ in schema.types))


class Encoded(NamedTuple):
    """Rows ready to be sent: their buffers, and, by column, dictionary values that must precede them."""

    buffers: Buffers
    size: int
    lacking: list[tuple[int, DictionaryPart]]


class ColumnEncoding:
    """The sending end of one connection."""

    def __init__(self, schema: pa.Schema) -> None:
        self._types = plain_schema(schema).types
        self._dictionaries = [SentDictionary(_sent_as(type_)) if is_text(type_) else None for type_ in self._types]
        self._bits = [pa.types.is_boolean(type_) for type_ in self._types]
        self._no_nulls = bytes(len(self._types)) + padding(len(self._types))

    def encode(self, rows: Views) -> Encoded:
        columns = rows.columns
        if len(columns) != len(self._types):
            raise DataError(f"{len(columns)} columns for a channel of {len(self._types)}")
        nulls: bytearray | None = None
        buffers: Buffers = [b""]
        lacking: list[tuple[int, DictionaryPart]] = []
        size = len(self._no_nulls)
        for at, column in enumerate(columns):
            _, values, valid, _ = column
            if valid is not None:
                nulls = nulls or bytearray(self._no_nulls)
                nulls[at] = 1
                size += _append(buffers, np.packbits(valid, bitorder="little"))
            dictionary = self._dictionaries[at]
            if dictionary is not None:
                values, pieces = dictionary.encode(_as_bytes(column) if has_own_bytes(column.type) else column)
                if pieces:
                    lacking += [(at, piece) for piece in pieces]
            elif self._bits[at]:
                values = np.packbits(values, bitorder="little")
            length = values.nbytes
            if length & 7 or not values.flags.c_contiguous:
                length = _append(buffers, values)
            else:
                buffers.append(values)
            size += length
        buffers[0] = bytes(nulls) if nulls is not None else self._no_nulls
        return Encoded(buffers, size, lacking)


def _sent_as(type_: pa.DataType) -> pa.DataType:
    return pa.binary() if has_own_bytes(type_) else type_


def _as_bytes(column: ColumnView) -> ColumnView:
    """The rows' values as bytes, each in its dictionary once."""
    encoded = to_bytes(column.array()).dictionary_encode()
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    return ColumnView(pa.binary(), codes, column.valid, encoded.dictionary)


def _from_bytes(codes: np.ndarray, valid: np.ndarray | None, dictionary: pa.Array, type_: pa.DataType) -> ColumnView:
    """The inverse of `_as_bytes`: the values in use."""
    if valid is not None:
        codes = np.where(valid != 0, codes, 0)
        dictionary = dictionary if len(dictionary) else pa.array([None], pa.binary())
    used, places = np.unique(codes, return_inverse=True)
    values = from_bytes(dictionary.take(pa.array(used)), type_)
    return ColumnView(type_, places.reshape(-1).astype(np.int32), valid, values)


def _append(buffers: Buffers, values: np.ndarray) -> int:
    """Append the values, padded; they are copied only if they are not contiguous."""
    size = values.nbytes
    buffers.append(values if values.flags.c_contiguous else np.ascontiguousarray(values))
    if size & 7:
        buffers.append(padding(size))
        size += -size & 7
    return size


class ColumnDecoding:
    """The receiving end of one connection."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = tuple(schema.names)
        self._types = plain_schema(schema).types
        self._dictionaries = [KnownDictionary(_sent_as(type_)) if is_text(type_) else None for type_ in self._types]
        # Per column: its type, the dtype of its values (None: bits), and the bits of a value.
        self._columns = [
            (type_, None if pa.types.is_boolean(type_) else dtype_of(type_), 32 if is_text(type_) else type_.bit_width)
            for type_ in self._types
        ]

    def add(self, column: int, before: int, values: int, body: memoryview) -> None:
        """Add a frame of a dictionary."""
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

    def decode(self, body: memoryview, at: int, rows: int) -> Views:
        """The rows whose columns start at `at`: views of the body."""
        count, end = len(self._columns), len(body)
        if at + count > end:
            raise DataError("a message that ends within its columns")
        nulls = bytes(body[at : at + count])
        at += count + (-count & 7)
        columns = []
        for (type_, dtype, bits), null, known in zip(self._columns, nulls, self._dictionaries, strict=True):
            valid = None
            if null:
                width = (rows + 7) >> 3
                if null > 1 or at + width > end:
                    raise DataError("a message that ends within its columns")
                valid = np.unpackbits(np.frombuffer(body, np.uint8, width, at), count=rows, bitorder="little")
                at += width + (-width & 7)
            width = (rows * bits + 7) >> 3
            if at + width > end:
                raise DataError("a message that ends within its columns")
            if dtype is None:
                values = np.unpackbits(np.frombuffer(body, np.uint8, width, at), count=rows, bitorder="little")
                columns.append(ColumnView(type_, values, valid))
            elif known is None:
                columns.append(ColumnView(type_, np.frombuffer(body, dtype, rows, at), valid))
            else:
                codes = np.frombuffer(body, dtype, rows, at)
                if codes.view(np.uint32).max() >= known.count and (known.count or valid is None or valid.any()):
                    raise DataError(f"a code that is not among the {known.count} values of its dictionary")
                own = has_own_bytes(type_)
                columns.append(
                    _from_bytes(codes, valid, known.array, type_)
                    if own
                    else ColumnView(type_, codes, valid, known.array)
                )
            at += width + (-width & 7)
        if at != end:
            raise DataError(f"a message with {end - at} bytes after its columns")
        return Views(self._names, tuple(columns), rows)


_NO_BYTES = np.empty(0, np.uint8)
