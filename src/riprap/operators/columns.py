"""Conversion between Arrow columns and the arrays that kernels process.

Kernels have two kinds of values: int64 (integers, booleans, dates, timestamps, ids of strings) and float64. `valid` is
a byte per row, 1 where the value is not null, or empty where nothing is null.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.expressions.value_bytes import has_own_bytes
from riprap.expressions.vectors import address_of
from riprap.graph.mark_keys import is_behind_trigger
from riprap.graph.order_keys import END_KEY, SEQ, SRC, TS, TS_TYPE, KeyShape, N, OrderKey
from riprap.graph.types import logical_type
from riprap.operators.kernels.merging import number_runs
from riprap.operators.strings import StringPool
from riprap.operators.views import Views

ALL_VALID = np.empty(0, np.uint8)
# Above every counted `_n`: late rows are numbered from this times 1 + port where another row may have their trigger.
LATE_N = 1 << 40

# By the id of an Arrow type: those that kernels read as stored. An id is quicker to look up than a type.
_AS_THEY_ARE = {pa.float64().id: np.float64, pa.int64().id: np.int64, TS_TYPE.id: np.int64}


class WordColumn(NamedTuple):
    """A column as kernels process it."""

    values: np.ndarray  # int64 or float64
    valid: np.ndarray  # uint8, or empty


def is_text(type_: pa.DataType) -> bool:
    """Whether kernels see an id of the operator's pool: text and bytes, and what is held as bytes."""
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_)) or has_own_bytes(type_)


def dtype_of(type_: pa.DataType) -> type:
    """The kind of value that kernels see for a column of this logical type."""
    return np.float64 if pa.types.is_floating(type_) else np.int64


def view(array: pa.Array, dtype: type | np.dtype) -> np.ndarray:
    """The values of a fixed-width array, not copied; the values at nulls are arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def validity(array: pa.Array) -> np.ndarray:
    return array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8) if array.null_count else ALL_VALID


def to_words(array: pa.Array, pool: StringPool) -> WordColumn:
    type_ = array.type
    if type_.id in _AS_THEY_ARE:
        values = view(array, _AS_THEY_ARE[type_.id])
    elif pa.types.is_boolean(type_):
        values = array.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int64)
    elif pa.types.is_floating(type_):
        values = view(array, np.float32).astype(np.float64)
    elif pa.types.is_date32(type_):
        values = view(array, np.int32).astype(np.int64)
    elif pa.types.is_integer(type_):
        values = view(array, type_.to_pandas_dtype()).astype(np.int64)
    else:
        return WordColumn(*pool.ids(array))
    return WordColumn(values, validity(array))


def from_words(values: np.ndarray, valid: np.ndarray, type_: pa.DataType, pool: StringPool) -> pa.Array:
    """Back to an Arrow column; text and bytes become a dictionary over the pool's strings."""
    missing = None if not len(valid) or valid.all() else valid == 0
    if missing is None and type_.id in _AS_THEY_ARE:
        return _fixed(values, type_)
    if is_text(type_):
        return pool.column(values, missing, type_)
    if pa.types.is_boolean(type_):
        return pa.array(values != 0, type_, mask=missing)
    return (
        pa.array(values.astype(type_.to_pandas_dtype() if not _moment(type_) else np.int64), mask=missing)
        .cast(pa.int32() if pa.types.is_date32(type_) else type_)
        .cast(type_)
    )


def _moment(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


def picked(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`values[rows]` for rows that are in range: clipping them is twice as fast as checking them."""
    return values.take(rows, mode="clip")


def take(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """These rows in this order. Rows are non-decreasing and may repeat. Returns the batch itself if they are all of
    it.
    """
    if len(rows) == batch.num_rows and (rows[1:] > rows[:-1]).all():
        return batch
    columns = [taken(batch.column(index), rows) for index in range(batch.num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def taken(column: pa.Array, rows: np.ndarray) -> pa.Array:
    """Arrow's `take`, in half the time where the values are words and none is null."""
    type_ = column.type
    if isinstance(column, pa.DictionaryArray):
        indices = taken(column.indices, rows)
        return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=type_.ordered, safe=False)
    word = _WORDS.get(type_.id)
    if word is None or column.null_count:
        return column.take(pa.array(rows))
    return _fixed(picked(view(column, word), rows), type_)


# By the id of an Arrow type with values of whole words: an unsigned integer of that width.
_WORDS = {
    type_.id: np.dtype(f"u{type_.bit_width // 8}")
    for type_ in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.duration("us")),
    )
}


def concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays. Text may be encoded differently in each; it stays a dictionary where all share one."""
    arrays = [array for array in arrays if len(array)] or [arrays[0]]
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if isinstance(first, pa.DictionaryArray) and all(_same_dictionary(first, array) for array in arrays):
        return pa.concat_arrays(arrays)
    plain = [array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array for array in arrays]
    if len({array.type for array in plain}) > 1:
        type_ = logical_type(first.type)
        plain = [array.cast(type_) for array in plain]
    return pa.concat_arrays(plain)


def _same_dictionary(left: pa.DictionaryArray, right: pa.Array) -> bool:
    return right.type == left.type and (
        address_of(left.dictionary) == address_of(right.dictionary) or left.dictionary.equals(right.dictionary)
    )


# Order keys -----------------------------------------------------------------------------------------------------------


class Keys(NamedTuple):
    """The order keys of a batch. `src` and `n` have one entry where they are constant."""

    ts: np.ndarray
    src: np.ndarray
    seq: np.ndarray
    n: np.ndarray

    def at(self, row: int) -> OrderKey:
        src = self.src[row if len(self.src) > 1 else 0]
        n = self.n[row if len(self.n) > 1 else 0]
        return OrderKey(int(self.ts[row]), int(src), int(self.seq[row]), int(n))

    def rows(self, rows: np.ndarray) -> "Keys":
        src = picked(self.src, rows) if len(self.src) > 1 else self.src
        n = picked(self.n, rows) if len(self.n) > 1 else self.n
        return Keys(picked(self.ts, rows), src, picked(self.seq, rows), n)


_ZERO = np.zeros(1, np.int64)


def keys_of(batch: pa.RecordBatch | Views, shape: KeyShape) -> Keys:
    if isinstance(batch, Views):
        src = batch.column(SRC).values.astype(np.int64) if shape.src is None else np.array([shape.src], np.int64)
        n = batch.column(N).values if shape.n else _ZERO
        return Keys(batch.column(TS).values, src, batch.column(SEQ).values, n)
    seq = view(batch.column(SEQ), np.int64)
    src = view(batch.column(SRC), np.int32).astype(np.int64) if shape.src is None else np.array([shape.src], np.int64)
    return Keys(times_of(batch), src, seq, view(batch.column(N), np.int64) if shape.n else _ZERO)


def times_of(batch: pa.RecordBatch) -> np.ndarray:
    """`_ts` of each row."""
    return view(batch.column(TS), np.int64)


def key_columns(keys: Keys, shape: KeyShape) -> dict[str, pa.Array]:
    """The columns of `shape` for these keys."""
    count = len(keys.ts)
    columns = {TS: _fixed(keys.ts, TS_TYPE)}
    if shape.src is None:
        columns[SRC] = pa.array(np.broadcast_to(keys.src, count).astype(np.int32))
    columns[SEQ] = _fixed(keys.seq, pa.int64())
    if shape.n:
        columns[N] = pa.array(np.ascontiguousarray(np.broadcast_to(keys.n, count)))
    return columns


def _fixed(values: np.ndarray, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def batch_of(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def renumbered_watermark(key: OrderKey, shapes: Sequence[KeyShape]) -> OrderKey:
    """The watermark of outputs that are numbered by `_n` again for each (_ts, _src, _seq). If a trigger's own `_n`
    may still grow, outputs with any number may follow; otherwise all have been emitted.
    """
    return key._replace(n=-1 if any(shape.n for shape in shapes) else END_KEY.n)


class Numbering:
    """Counts `_n` for outputs that share a trigger, across batches."""

    NAMES = ("_last_ts", "_last_src", "_last_seq", "_next_n")

    def __init__(self) -> None:
        self.last = np.array([-(2**63), -(2**63), -(2**63), 0], np.int64)  # ts, src, seq, and the next `_n`
        self._first = 0

    def number(self, keys: Keys) -> Keys:
        """The same keys with `_n` counted from 0 for each trigger."""
        out = np.empty(len(keys.ts), np.int64)
        if len(out):
            self.last[3] = number_runs(keys.ts, keys.src, keys.seq, *self.last, out)
            self.last[:3] = keys.at(len(out) - 1)[:3]
        return keys._replace(n=out + self._first if self._first else out)

    @contextmanager
    def apart(self, first: int = 0) -> Iterator[None]:
        """For late rows: a separate numbering that starts at `first`, where other rows may have the same trigger."""
        before = self.last.copy()
        self.last[:], self._first = (-(2**63), -(2**63), -(2**63), 0), first
        try:
            yield
        finally:
            self.last[:], self._first = before, 0

    def key(self, key: OrderKey) -> OrderKey:
        """The key of the newest output with this trigger, or number 0 if there is none. A key behind all outputs is
        unchanged.
        """
        if is_behind_trigger(key):
            return key
        same = tuple(self.last[:3].tolist()) == key[:3]
        return key._replace(n=max(0, int(self.last[3]) - 1) if same else 0)

    def scalars(self) -> dict[str, int]:
        return dict(zip(self.NAMES, self.last.tolist(), strict=True))

    def restore(self, scalars: Mapping[str, int]) -> None:
        self.last[:] = [scalars[name] for name in self.NAMES]
