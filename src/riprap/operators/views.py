"""Column views: rows of one stream as NumPy arrays. Fragments, elements and channels exchange them.

Format, per column: `values` are Arrow's (int8 … int64, uint8 … uint32, float32, float64; a date is int32, a time
int64), read in place and never written; booleans are a byte each. Text and bytes are int32 codes into a `dictionary`,
an Arrow array of strings that many views share; so are decimals, arrays, maps and structs. `valid` is a byte per row, 1
where the value is not null; None if nothing is null. The value at a null is 0 for codes and arbitrary otherwise.
Order-key columns (`_ts`, `_src`, `_seq`, `_n`) are columns like others.

Conversion from and to a record batch copies only validity, booleans, text that is not yet a dictionary, and codes
that are not int32. A view holds a reference to the memory that it reads. Views are immutable; two may share arrays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.base.errors import DataError, known
from riprap.expressions.value_bytes import has_own_bytes
from riprap.expressions.vectors import address_of
from riprap.graph.order_keys import KEY_COLUMNS, SEQ, SRC, TS, KeyShape, N, OrderKey

_DTYPES = {
    pa.date32().id: np.dtype(np.int32),
    pa.timestamp("us").id: np.dtype(np.int64),
    pa.duration("us").id: np.dtype(np.int64),
    **{
        type_.id: np.dtype(type_.to_pandas_dtype())
        for type_ in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
            *(pa.float32(), pa.float64()),
        )
    },
}
_BOOLEAN, _DICTIONARY = pa.bool_().id, pa.dictionary(pa.int32(), pa.string()).id
CODE = np.dtype(np.int32)
_CODES = _DTYPES | {pa.int32().id: CODE, pa.int64().id: np.dtype(np.int64), pa.uint64().id: np.dtype(np.uint64)}


def dtype_of(type_: pa.DataType) -> np.dtype:
    """The layout of values of this logical type."""
    if type_.id == _BOOLEAN:
        return np.dtype(np.uint8)
    return _DTYPES.get(type_.id, CODE)


class ColumnView(NamedTuple):
    """One column. `type` is logical: that of a dictionary's strings where there is one."""

    type: pa.DataType
    values: np.ndarray
    valid: np.ndarray | None = None
    dictionary: pa.Array | None = None

    def slice(self, start: int, stop: int) -> "ColumnView":
        valid = None if self.valid is None else self.valid[start:stop]
        return ColumnView(self.type, self.values[start:stop], valid, self.dictionary)

    def take(self, rows: np.ndarray) -> "ColumnView":
        """These rows, which must be in range: clipping them is twice as fast as checking them."""
        valid = None if self.valid is None else self.valid.take(rows, mode="clip")
        return ColumnView(self.type, self.values.take(rows, mode="clip"), valid, self.dictionary)

    def array(self) -> pa.Array:
        """As an Arrow array, over the same memory."""
        count, nulls, bitmap = len(self.values), 0, None
        if self.valid is not None:
            nulls = count - int(np.count_nonzero(self.valid))
            bitmap = pa.py_buffer(np.packbits(self.valid, bitorder="little")) if nulls else None
        values = np.ascontiguousarray(self.values)
        if self.type.id == _BOOLEAN:
            values = np.packbits(values, bitorder="little")
        buffers = [bitmap, pa.py_buffer(values)]
        if self.dictionary is None:
            return pa.Array.from_buffers(self.type, count, buffers, nulls)
        codes = pa.Array.from_buffers(pa.int32(), count, buffers, nulls)
        if has_own_bytes(self.type):  # few of Arrow's functions support dictionaries of them
            return self.dictionary.take(codes)
        return pa.DictionaryArray.from_arrays(codes, self.dictionary, safe=False)


def column_of(array: pa.Array) -> ColumnView:
    """A view of an Arrow array of any type that a stream may have, in any encoding."""
    type_, valid, dictionary = array.type, None, None
    dtype = _DTYPES.get(type_.id)
    if array.null_count:
        valid = _bytes(array.buffers()[0], array.offset, len(array))
    if dtype is not None:
        return ColumnView(type_, _values(array, dtype), valid)
    if type_.id == _BOOLEAN:
        return ColumnView(type_, _bytes(array.buffers()[1], array.offset, len(array)), valid)
    if has_own_bytes(type_):
        return _opaque(array, valid)
    if type_.id != _DICTIONARY:
        if type_.id not in _PLAIN_TEXT:
            raise DataError(f"a stream cannot have a column of type {type_}; cast it to a type that streams can have")
        array = (array.cast(pa.string()) if type_ == pa.string_view() else array).dictionary_encode()
    elif array.dictionary.null_count:  # NULL is never a value
        return column_of(array.dictionary_decode())
    codes, dictionary = array.indices, array.dictionary
    dtype = _CODES[codes.type.id]
    values = _values(codes, dtype)
    if valid is not None:
        values = np.multiply(values, valid, dtype=CODE, casting="unsafe")  # at a null: 0
    elif dtype is not CODE:
        values = values.astype(CODE)
    return ColumnView(_LOGICAL.get(dictionary.type.id, dictionary.type), values, valid, dictionary)


def _opaque(array: pa.Array, valid: np.ndarray | None) -> ColumnView:
    """A dictionary with one value per row that is not null."""
    if valid is None:
        return ColumnView(array.type, np.arange(len(array), dtype=CODE), None, array)
    codes = np.maximum(np.cumsum(valid, dtype=CODE) - 1, 0).astype(CODE) * valid
    return ColumnView(array.type, codes.astype(CODE), valid, array.drop_null())


_PLAIN_TEXT = {t.id for t in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary())}
_LOGICAL = {pa.large_string().id: pa.string(), pa.string_view().id: pa.string(), pa.large_binary().id: pa.binary()}


def _values(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _bytes(bitmap: pa.Buffer | None, offset: int, count: int) -> np.ndarray:
    """A byte per bit."""
    if bitmap is None:
        return np.zeros(count, np.uint8)
    first = offset // 8
    packed = np.frombuffer(bitmap, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(packed, bitorder="little", count=offset - 8 * first + count)[offset - 8 * first :]


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Rows of one stream. Columns keep their order; the order key is among them."""

    names: tuple[str, ...]
    columns: tuple[ColumnView, ...]
    rows: int

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "Views":
        return cls(tuple(batch.schema.names), tuple(map(column_of, batch.columns)), batch.num_rows)

    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([column.array() for column in self.columns], names=list(self.names))

    def column(self, name: str) -> ColumnView:
        try:
            return self.columns[self.names.index(name)]
        except ValueError:
            raise DataError(f"there is no column {name}; there are {known(self.names, name)}") from None

    def select(self, names: Iterable[str]) -> "Views":
        """These columns, in this order."""
        chosen = tuple(names)
        return Views(chosen, tuple(map(self.column, chosen)), self.rows)

    def slice(self, start: int, rows: int | None = None) -> "Views":
        """As Arrow's `slice`: from `start`, at most `rows`; nothing is copied."""
        stop = self.rows if rows is None else min(self.rows, start + rows)
        start = min(start, stop)
        return Views(self.names, tuple(column.slice(start, stop) for column in self.columns), stop - start)

    def take(self, rows: np.ndarray) -> "Views":
        """These rows, in this order."""
        return Views(self.names, tuple(column.take(rows) for column in self.columns), len(rows))

    def key(self, row: int, shape: KeyShape) -> OrderKey:
        """The order key of one row."""
        index, columns = self.names.index, self.columns
        src = shape.src if shape.src is not None else columns[index(SRC)].values.item(row)
        n = columns[index(N)].values.item(row) if shape.n else 0
        return OrderKey(columns[index(TS)].values.item(row), src, columns[index(SEQ)].values.item(row), n)

    def first_key(self, shape: KeyShape) -> OrderKey:
        return self.key(0, shape)

    def last_key(self, shape: KeyShape) -> OrderKey:
        return self.key(self.rows - 1, shape)

    @property
    def keys(self) -> dict[str, np.ndarray]:
        """The order-key columns of these rows."""
        return {n: c.values for n, c in zip(self.names, self.columns, strict=True) if n in KEY_COLUMNS}

    @property
    def nbytes(self) -> int:
        """Without dictionaries, which are shared."""
        return sum(c.values.nbytes + (0 if c.valid is None else c.valid.nbytes) for c in self.columns)


def concatenated(views: Sequence[Views]) -> Views:
    """Concatenate views with the same columns. Text gets one dictionary: the first one's if all share it."""
    filled = [view for view in views if view.rows] or [views[0]]
    if len(filled) == 1:
        return filled[0]
    names = filled[0].names
    columns = tuple(_joined([view.column(name) for view in filled]) for name in names)
    return Views(names, columns, sum(view.rows for view in filled))


def _joined(columns: list[ColumnView]) -> ColumnView:
    first, valid = columns[0], None
    values = [column.values for column in columns]
    if any(column.valid is not None for column in columns):
        parts = [np.ones(len(c.values), np.uint8) if c.valid is None else c.valid for c in columns]
        valid = np.concatenate(parts)
    dictionary = first.dictionary
    if dictionary is not None and has_own_bytes(first.type):
        arrays = [column.array() for column in columns]
        return column_of(pa.concat_arrays(arrays))
    if dictionary is not None:
        values, dictionary = _recoded(columns)
    return ColumnView(first.type, np.concatenate(values), valid, dictionary)


def _recoded(columns: list[ColumnView]) -> tuple[list[np.ndarray], pa.Array]:
    """Codes into one dictionary: the distinct ones, concatenated."""
    starts: dict[tuple[int, ...], int] = {}
    parts: list[pa.Array] = []
    values = []
    total = 0
    for column in columns:
        dictionary = column.dictionary
        assert dictionary is not None
        key = address_of(dictionary)
        if key not in starts:
            starts[key], total = total, total + len(dictionary)
            parts.append(dictionary.cast(column.type))
        values.append(column.values + CODE.type(starts[key]) if starts[key] else column.values)
    if len(parts) == 1:
        return values, columns[0].dictionary  # unchanged
    # If one dictionary contains the strings of all others, use it: consumers know it already.
    largest = max(parts, key=len)
    found = [pc.index_in(part, value_set=largest) for part in parts]
    if len(largest) and not any(part.null_count for part in found):
        codes = np.concatenate([part.to_numpy() for part in found])
        return [codes.take(part, mode="clip") for part in values], largest
    joined = pa.concat_arrays(parts)
    distinct = joined.dictionary_encode()
    codes = distinct.indices.to_numpy()
    if len(codes) == 0:
        return values, joined
    return [codes.take(part, mode="clip") for part in values], distinct.dictionary  # a null's code may be out of range
