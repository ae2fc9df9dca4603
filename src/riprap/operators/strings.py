"""Strings as numbers: a pool that gives every distinct string an id, so that windows and kernels hold 64-bit words
only. Decimals, arrays, maps and structs are in it as bytes (`expressions/value_bytes.py`).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.base.errors import DataError
from riprap.expressions.value_bytes import from_bytes, has_own_bytes, to_bytes
from riprap.expressions.vectors import address_of
from riprap.operators.kernels.group_tables import intern, rehash_strings

_REMEMBERED = 8  # dictionaries whose ids are cached; batches of a stream mostly share one


class StringPool:
    """Distinct strings (or bytes), numbered from 0 in order of arrival. The pool only grows; an operator that has
    evicted most of them moves to a new pool (`WindowedOperator.tidy`).
    """

    def __init__(self) -> None:
        self.count = 0
        self.moves = (
            0  # grows with every new string, and when an array of the groups or rows that use the pool is replaced
        )
        self.hashes = np.empty(64, np.uint64)  # stable hash of each string
        self._slots = np.full(128, -1, np.int64)
        self._offsets = np.zeros(65, np.int32)
        self._bytes = np.empty(1024, np.uint8)
        self._dictionaries: dict[tuple[int, ...], tuple[pa.Array, np.ndarray]] = {}
        self._view: pa.Array | None = None  # the pool as an Arrow array, made after the last new string
        self._ranks = np.empty(0, np.int64)
        self._decoded: dict[pa.DataType, pa.Array] = {}

    @property
    def bytes(self) -> int:
        """The total length of all strings."""
        return int(self._offsets[self.count])

    def encode(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes of a text column's rows, which rows are not null (empty: all), and the pool's id for each code."""
        if has_own_bytes(column.type):
            column = to_bytes(column)
        if not isinstance(column, pa.DictionaryArray):
            column = (column.cast(pa.string()) if column.type == pa.string_view() else column).dictionary_encode()
        indices = column.indices
        valid = (
            column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
            if column.null_count
            else np.empty(0, np.uint8)
        )
        codes = indices.fill_null(0) if indices.null_count else indices
        return codes.to_numpy(), valid, self.ids_of(column.dictionary, address_of(column.dictionary))

    def ids(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The id of each row's string, and which rows are not null."""
        codes, valid, ids = self.encode(column)
        if not len(ids):
            return np.zeros(len(codes), np.int64), valid
        return ids[codes], valid

    def column(self, ids: np.ndarray, missing: np.ndarray | None, type_: pa.DataType) -> pa.Array:
        """The values of these ids."""
        if has_own_bytes(type_):
            present = ids if missing is None else ids[~missing]  # the id of a NULL may be that of another type's value
            used, places = np.unique(present, return_inverse=True)
            values = from_bytes(self.array(pa.binary()).take(pa.array(used)), type_)
            rows = np.zeros(len(ids), np.int64)
            rows[slice(None) if missing is None else ~missing] = places.reshape(-1)
            return values.take(pa.array(rows, mask=missing))
        return pa.DictionaryArray.from_arrays(pa.array(ids.astype(np.int32), mask=missing), self.array(type_))

    def array(self, type_: pa.DataType) -> pa.Array:
        """All strings, by id."""
        if has_own_bytes(type_):
            return self._decoded_as(type_)
        if self._view is None or len(self._view) != self.count or self._view.type != type_:
            offsets, data = pa.py_buffer(self._offsets[: self.count + 1]), pa.py_buffer(self._bytes)
            self._view = pa.Array.from_buffers(type_, self.count, [None, offsets, data])
        return self._view

    def _decoded_as(self, type_: pa.DataType) -> pa.Array:
        """All values as this type; those of columns of other types are arbitrary."""
        known = self._decoded.get(type_)
        if known is None or len(known) < self.count:
            start = 0 if known is None else len(known)
            more = from_bytes(self.array(pa.binary()).slice(start), type_, others=True)
            known = self._decoded[type_] = more if known is None else pa.concat_arrays([known, more])
        return known

    def ranks(self) -> np.ndarray:
        """The rank of each string in the order of their bytes."""
        if len(self._ranks) != max(1, self.count):
            self._ranks = np.zeros(max(1, self.count), np.int64)
            self._ranks[pc.array_sort_indices(self.array(pa.binary())).to_numpy()] = np.arange(self.count)
        return self._ranks

    def ids_of(self, dictionary: pa.Array, key: tuple[int, ...]) -> np.ndarray:
        """The id of each of these strings, cached by their address."""
        known = self._dictionaries.get(key)  # holding a reference prevents that the address is reused
        if known is not None:
            return known[1]
        ids = self.intern(dictionary)
        if len(self._dictionaries) >= _REMEMBERED:
            del self._dictionaries[next(iter(self._dictionaries))]
        self._dictionaries[key] = (dictionary, ids)
        return ids

    def intern(self, strings: pa.Array) -> np.ndarray:
        """The id of each of these strings; none may be null."""
        if has_own_bytes(strings.type):
            strings = to_bytes(strings)
        if strings.type == pa.string_view():
            strings = strings.cast(pa.string())
        large = pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type)
        width = np.int64 if large else np.int32
        _, offsets_buffer, data_buffer = strings.buffers()
        if not len(strings):
            return np.empty(0, np.int64)
        offsets = np.frombuffer(offsets_buffer, width, len(strings) + 1, strings.offset * np.dtype(width).itemsize)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        if strings.null_count:  # a dictionary may contain null although it is not a string
            raise DataError("a dictionary has a null among its values; put the null into the indices")
        self._make_room(len(strings), int(offsets[-1] - offsets[0]))
        ids = np.empty(len(strings), np.int64)
        before = self.count
        self.count = int(intern(offsets, data, self._slots, self.hashes, self._offsets, self._bytes, before, ids))
        self.moves += self.count > before  # arrays with an entry for each string are too short now
        return ids

    def _make_room(self, strings: int, length: int) -> None:
        need = self.count + strings
        if need > len(self.hashes):
            size = max(need, 2 * len(self.hashes))
            self.hashes = _grown(self.hashes, size)
            self._offsets = _grown(self._offsets, size + 1)
        if 2 * need > len(self._slots):
            size = len(self._slots)
            while size < 2 * need:
                size *= 2
            self._slots = np.full(size, -1, np.int64)
            rehash_strings(self._slots, self.hashes, self.count)
        used = int(self._offsets[self.count])
        if used + length > len(self._bytes):
            if used + length >= 2**31:
                raise DataError("more than 2 GiB of distinct strings in the state of one operator; use numbers as keys")
            self._bytes = _grown(self._bytes, max(used + length, 2 * len(self._bytes)))


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
