"""The vectors of expressions: a column of values, and which of them are valid.

Fixed-width kinds are NumPy arrays (int64, float64, bool), because comparing and adding those costs a tenth of a
nanosecond per value and selecting rows needs no bitmap. Strings and binaries stay Arrow arrays.

Invariants
- `valid` is None when nothing is null; else a bool array, or one bool for all rows.
- `values` is one scalar when all rows have the same value; every kernel broadcasts.
- Where a boolean is null its value is False, so its values alone determine which rows are true.
- Where another fixed-width value is null, its value is arbitrary.
- An Arrow-held vector's own validity agrees with `valid`.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from riprap.expressions.kinds import HELD_BY_ARROW, NUMBERS, ValueKind, kind_of, logical, numpy_dtype

Valid = Any  # np.ndarray of bool, np.bool_, or None


class Vector(NamedTuple):
    values: Any  # np.ndarray or np.generic; pa.Array or pa.Scalar where Arrow holds it
    valid: Valid = None


def boolean(values: Any, valid: Valid) -> Vector:
    """A boolean vector from values that are arbitrary where null."""
    return Vector(values, None) if valid is None else Vector(values & valid, valid)


def null(type_: pa.DataType) -> Vector:
    """All null."""
    kind = kind_of(type_)
    if kind in HELD_BY_ARROW:
        return Vector(pa.scalar(None, type_), np.False_)
    return Vector(numpy_dtype(kind).type(0), np.False_)


def from_arrow(column: pa.Array | pa.Scalar) -> Vector:
    """A vector of any supported type; integers and floats are widened, everything else is a view."""
    word = _WORDS.get(column.type.id)
    if word is not None and isinstance(column, pa.Array) and not column.null_count and len(column):
        return Vector(aligned(np.frombuffer(column.buffers()[1], word, len(column), column.offset * word.itemsize)))
    kind = kind_of(column.type)
    if kind is ValueKind.NULL:
        return null(pa.null())
    if isinstance(column, pa.Scalar):
        if not column.is_valid:
            return null(logical(column.type))
        return Vector(column if kind in HELD_BY_ARROW else from_arrow(pa.repeat(column, 1)).values[0])
    if kind in HELD_BY_ARROW and column.type != logical(column.type):
        column = column.cast(logical(column.type))
    valid = validity(column)
    if kind in HELD_BY_ARROW:
        return Vector(column, valid)
    rows, offset, data = len(column), column.offset, column.buffers()[1]
    if kind is ValueKind.BOOLEAN:
        return boolean(_bits(data, offset, rows), valid)
    if data is None:
        return Vector(np.empty(0, numpy_dtype(kind)), valid)
    stored = stored_dtype(column.type)
    values = aligned(np.frombuffer(data, stored, rows, offset * stored.itemsize))
    return Vector(values.astype(numpy_dtype(kind), copy=False), valid)


# By the id of an Arrow type: those that are computed as stored. Most columns are, so this fast path pays.
_WORDS = {pa.int64().id: np.dtype(np.int64), pa.float64().id: np.dtype(np.float64)}


def aligned(values: np.ndarray) -> np.ndarray:
    """Data from the network may start at any byte; compiled kernels need aligned words."""
    return values if values.flags.aligned else values.copy()


def address_of(array: pa.Array) -> tuple[int, ...]:
    """Two arrays of one type with the same address are equal, as long as both exist."""
    return (len(array), array.offset, *(buffer.address if buffer is not None else 0 for buffer in array.buffers()))


@lru_cache(maxsize=256)
def stored_dtype(type_: pa.DataType) -> np.dtype:
    """How Arrow stores a fixed-width type other than boolean."""
    kind = kind_of(type_)
    if kind in NUMBERS:
        return np.dtype(type_.to_pandas_dtype())
    return np.dtype(np.int32 if kind is ValueKind.DATE else np.int64)


def validity(column: pa.Array) -> Valid:
    return _bits(column.buffers()[0], column.offset, len(column)) if column.null_count else None


def _bits(data: pa.Buffer | None, offset: int, rows: int) -> np.ndarray:
    if data is None or rows == 0:
        return np.zeros(rows, np.bool_)
    first, skip = divmod(offset, 8)
    packed = np.frombuffer(data, np.uint8, (skip + rows + 7) // 8, first)
    return np.unpackbits(packed, bitorder="little", count=skip + rows)[skip:].view(np.bool_)


def to_arrow(vector: Vector, type_: pa.DataType, rows: int) -> pa.Array:
    """The vector as `rows` values of `type_`."""
    values, valid = vector
    word = _WORDS.get(type_.id)
    if valid is None and word is not None and isinstance(values, np.ndarray):
        return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(np.ascontiguousarray(values, word))])
    if type_ == pa.null() or valid is np.False_:
        return pa.nulls(rows, type_)
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, rows) if values.is_valid else pa.nulls(rows, type_)
    if isinstance(values, pa.Array):
        return values
    bitmap = None if valid is None else pa.py_buffer(np.packbits(full(valid, rows), bitorder="little"))
    values = full(values, rows)
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    else:
        data = values.astype(stored_dtype(type_), copy=False)
    return pa.Array.from_buffers(type_, rows, [bitmap, pa.py_buffer(data)])


def full(values: Any, rows: int) -> np.ndarray:
    """A contiguous array of `rows` values, from an array or a scalar."""
    return np.ascontiguousarray(values if np.ndim(values) else np.full(rows, values))
