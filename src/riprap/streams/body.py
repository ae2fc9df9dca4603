"""A record batch as an Arrow message without a copy of the rows: the same bytes as `serialize`.

The metadata of a record batch is a flatbuffer in which everything that differs between batches of one schema is a fixed
number of 64-bit integers: rows, nulls, the offset and length of each buffer. So one message of the schema serves as a
*template*: its integers are located once, by walking the flatbuffer, and overwritten for every batch. The buffers of
the columns are used as they are, each padded with zeros to a multiple of 8 bytes.

This works for columns of fixed width and of text or bytes; a batch with anything else (booleans, nested columns, text
or nulls in a slice) is serialized, and for a small one copying is faster.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

SMALLEST = 256 << 10  # bytes of a batch from which this is faster
Part = bytes | memoryview

_I64 = struct.Struct("<q")
_ZEROS = [bytes(count) for count in range(8)]
_BODY_LENGTH, _HEADER = 3, 2  # fields of a Message
_ROWS, _NODES, _BUFFERS = 0, 1, 2  # fields of a RecordBatch


class EmptyBatch(NamedTuple):
    """A batch without rows, for marks."""

    batch: pa.RecordBatch
    serialized: pa.Buffer


def empty_batch(schema: pa.Schema) -> EmptyBatch:
    # Not from Python values: for those, Arrow imports pandas.
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return EmptyBatch(batch, batch.serialize())


class Template:
    """The message template of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._widths = [_width(field.type) for field in schema]
        self.fits = all(width is not None for width in self._widths) and len(schema) > 0
        if not self.fits:
            return
        one = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=_nullable(schema))
        data = memoryview(one.serialize())
        (metadata,) = struct.unpack_from("<i", data, 4)
        self._data = bytes(data[: 8 + metadata])
        root = 8 + _u32(self._data, 8)
        self._length = _field(self._data, root, _BODY_LENGTH)
        at = _field(self._data, root, _HEADER)
        header = at + _u32(self._data, at)
        self._rows = _field(self._data, header, _ROWS)
        self._nodes, nodes = _vector(self._data, _field(self._data, header, _NODES))
        self._buffers, buffers = _vector(self._data, _field(self._data, header, _BUFFERS))
        self._nodes_format, self._buffers_format = struct.Struct(f"<{2 * nodes}q"), struct.Struct(f"<{2 * buffers}q")

    def message(self, batch: pa.RecordBatch) -> tuple[bytearray, list[Part]] | None:
        """The message up to its body, and the parts of the body; None: serialize it."""
        if not self.fits:
            return None
        rows, offset = batch.num_rows, 0
        nodes: list[int] = []
        buffers: list[int] = []
        parts: list[Part] = []
        for column, width in zip(batch.columns, self._widths, strict=True):
            found = _parts(column, width or 0, rows)
            if found is None:
                return None
            nodes += (rows, column.null_count)
            for part in found:
                size = len(part)
                buffers += (offset, size)
                if size:
                    parts.append(part)
                    if size % 8:
                        parts.append(_ZEROS[-size % 8])
                    offset += size + -size % 8
        data = bytearray(self._data)
        _I64.pack_into(data, self._length, offset)
        _I64.pack_into(data, self._rows, rows)
        self._nodes_format.pack_into(data, self._nodes, *nodes)
        self._buffers_format.pack_into(data, self._buffers, *buffers)
        return data, parts


def _parts(column: pa.Array, width: int, rows: int) -> Sequence[Part] | None:
    """The buffers of a column, as they go into a body; `width` bytes a value, 0: text or bytes with 32-bit offsets."""
    first = column.offset
    own = column.buffers()
    valid: Part = b""
    if column.null_count:
        if first:
            return None
        valid = memoryview(own[0])[: (rows + 7) // 8]
    if width:
        return valid, memoryview(own[1])[first * width : (first + rows) * width]
    if first:
        return None
    offsets = memoryview(own[1])[: 4 * (rows + 1)]
    begin, end = _u32(offsets, 0), _u32(offsets, 4 * rows)
    if begin or own[2] is None:
        return None
    return valid, offsets, memoryview(own[2])[:end]


def _width(type_: pa.DataType) -> int | None:
    """Bytes of a value; 0: text or bytes; None: something else."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return 0
    fixed = (pa.types.is_primitive(type_) and not pa.types.is_boolean(type_)) or pa.types.is_fixed_size_binary(type_)
    return type_.bit_width // 8 or None if fixed else None


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _u32(data: bytes | memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _field(data: bytes, table: int, number: int) -> int:
    """The offset of a field of a flatbuffer's table."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    return table + int(struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0])


def _vector(data: bytes, at: int) -> tuple[int, int]:
    """The offset of a vector's first struct, and their number."""
    begin = at + _u32(data, at)
    return begin + 4, _u32(data, begin)
