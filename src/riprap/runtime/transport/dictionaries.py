"""Text columns on the wire: codes in the rows, and a dictionary that is sent in frames of its own.

Both ends of a connection hold one dictionary per text column, which only grows or is replaced; the sender brings every
column into that form. A dictionary that stays the same is sent once; of one that grew only the new values are sent.
Dictionaries that change from batch to batch are interned into a pool of the connection, so that repeated values are
also sent once; a pool that grew large is restarted. Of a new dictionary that is larger than its batch only the values
in use are interned, so that a small batch does not carry a large dictionary; if it appears a second time it is sent
whole. A dictionary whose values the receiver mostly has, in another order (as in each row group of a file), is never
sent: its codes are translated into the receiver's, since a new dictionary would cost every downstream element more than
all its rows. NULL is never a value: it is a bit of the rows.

The receiver verifies everything: offsets must not decrease, text must be UTF-8 and cut between characters.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions.vectors import address_of
from riprap.operators.strings import StringPool
from riprap.operators.views import ColumnView

_SMALL = 1024  # values: a smaller dictionary is never reduced to the values in use
_POOL = 1 << 16  # values in the pool before it is restarted
_SHARED = 1 << 14  # values: the codes of larger dictionaries are not translated
_PIECE = 1 << 26  # bytes of values in one frame
_MOST = 2**31 - 1  # bytes: the range of 32-bit offsets


class DictionaryPart:
    """Values to append to a dictionary that has `before` values; 0: they start a new one."""

    __slots__ = ("before", "count", "data", "offsets")

    def __init__(self, before: int, count: int, offsets: np.ndarray, data: memoryview) -> None:
        self.before, self.count, self.offsets, self.data = before, count, offsets, data


class SentDictionary:
    """The sender's dictionary of one column of one connection. `type_` is `string` or `binary`."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._pool = StringPool()
        self._sent: pa.Array | None = None  # the receiver's dictionary
        self._sent_at: tuple[int, ...] = ()
        self._seen: pa.Array | None = None  # the previous one; referenced, so that its address is not reused
        self._translated_at: tuple[int, ...] = ()  # address of the dictionary whose codes are translated
        self._translation = np.empty(0, np.int32)

    def encode(self, column: ColumnView) -> tuple[np.ndarray, list[DictionaryPart]]:
        """The codes of the rows, and the values that the receiver lacks."""
        codes, dictionary = column.values, column.dictionary
        assert dictionary is not None, "text has codes"
        address = address_of(dictionary)
        if address == self._sent_at:
            return codes, []
        if address == self._translated_at:
            return _translated(codes, self._translation, column.valid), []
        if dictionary.type != self._type:  # text of another width, which is never sent directly
            return self._pooled(column, dictionary.cast(self._type), small=False)
        again, self._seen = self._seen is not None and _extends(dictionary, self._seen), dictionary
        before = len(self._sent) if self._sent is not None and _extends(dictionary, self._sent) else 0
        small = len(dictionary) <= max(len(codes), _SMALL)
        if again and not before and self._has_most(dictionary, address):
            ids, pieces = self._interned(dictionary, address)
            self._translated_at, self._translation = address, ids
            return _translated(codes, ids, column.valid), pieces
        if before or again or (self._sent is None and small):
            self._sent, self._sent_at, self._translated_at = dictionary, address, ()
            self._pool = StringPool()  # the old pool does not extend this dictionary
            return codes, list(_pieces(dictionary, before))
        return self._pooled(column, dictionary, small=small)

    def _has_most(self, dictionary: pa.Array, address: tuple[int, ...]) -> bool:
        """Whether the receiver has at least half of these values, in some order."""
        if self._sent is None or max(len(dictionary), len(self._sent)) > _SHARED:
            return False
        self._prepare_pool(len(dictionary))
        count = self._pool.count
        self._pool.ids_of(dictionary, address)
        return 2 * (self._pool.count - count) <= len(dictionary)

    def _pooled(
        self, column: ColumnView, dictionary: pa.Array, *, small: bool
    ) -> tuple[np.ndarray, list[DictionaryPart]]:
        """Encode through the pool: values in the pool are not sent again."""
        codes = column.values
        if not small:  # only the values in use
            used = np.unique(codes if column.valid is None else codes[column.valid != 0])
            codes = np.minimum(np.searchsorted(used, codes), max(len(used) - 1, 0))
            dictionary = dictionary.take(pa.array(used))
        self._prepare_pool(len(dictionary))
        ids, pieces = self._interned(dictionary, address_of(dictionary))
        return _translated(codes, ids, column.valid), pieces

    def _prepare_pool(self, coming: int) -> None:
        self._renew(coming)
        if not self._pool.count and self._sent is not None and len(self._sent) <= _SHARED:
            self._pool.ids_of(self._sent, address_of(self._sent))  # extend the receiver's dictionary

    def _interned(self, dictionary: pa.Array, address: tuple[int, ...]) -> tuple[np.ndarray, list[DictionaryPart]]:
        """The codes of these values in the pool, and the parts of the pool that the receiver lacks."""
        ids = self._pool.ids_of(dictionary, address).astype(np.int32)
        pool = self._pool.array(self._type)
        before = len(self._sent) if self._sent is not None and _extends(pool, self._sent) else 0
        self._sent, self._sent_at, self._translated_at = pool, address_of(pool), ()
        return ids, list(_pieces(pool, before))

    def _renew(self, coming: int) -> None:
        if self._pool.count > max(_POOL, 2 * coming):
            self._pool = StringPool()


def _translated(codes: np.ndarray, into: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    """Codes of another dictionary; 0 for nulls."""
    if not len(into):
        return np.zeros(len(codes), np.int32)
    codes = into.take(codes)
    if valid is not None:
        codes[valid == 0] = 0
    return codes


def _extends(longer: pa.Array, shorter: pa.Array) -> bool:
    """Whether `longer` starts with all values of `shorter`. Growing pools share memory, which is a fast check."""
    if len(longer) < len(shorter) or longer.type != shorter.type:
        return False
    if address_of(longer)[1:] == address_of(shorter)[1:]:
        return True
    return bool(longer.slice(0, len(shorter)).equals(shorter))


def _pieces(dictionary: pa.Array, before: int) -> Iterator[DictionaryPart]:
    count = len(dictionary)
    if count == before:
        return
    _, offsets_buffer, data_buffer = dictionary.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, dictionary.offset * 4)
    data = memoryview(data_buffer).cast("B") if data_buffer is not None else memoryview(b"")
    while before < count:
        start = int(offsets[before])
        until = max(before + 1, int(np.searchsorted(offsets, start + _PIECE, "right")) - 1)
        until = min(until, count)
        piece = offsets[before : until + 1] - offsets[before]
        yield DictionaryPart(before, until - before, piece.astype(np.int32), data[start : int(offsets[until])])
        before = until


class KnownDictionary:
    """The receiver's dictionary of one column of one connection: growable arrays, and an Arrow view of them."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._text = bool(pa.types.is_string(type_))
        self._begin(0, 0)

    def _begin(self, values: int, length: int) -> None:
        self.count = 0
        self._offsets = np.zeros(values + 1, np.int32)
        self._bytes = np.empty(length, np.uint8)
        self._view: pa.Array | None = None

    @property
    def array(self) -> pa.Array:
        if self._view is None:
            offsets, data = pa.py_buffer(self._offsets[: self.count + 1]), pa.py_buffer(self._bytes)
            self._view = pa.Array.from_buffers(self._type, self.count, [None, offsets, data])
        return self._view

    def add(self, before: int, offsets: np.ndarray, data: np.ndarray) -> None:
        """Append values; `before` must be the current count, or 0 to start a new dictionary."""
        if before not in (0, self.count):
            raise DataError(f"a dictionary of {self.count} values is to grow after {before}: a frame is missing")
        if offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise DataError("a dictionary whose offsets do not fit its text")
        if self._text:
            _check_text(offsets, data)
        if before == 0:
            self._begin(len(offsets) - 1, len(data))
        used, count = int(self._offsets[self.count]), self.count + len(offsets) - 1
        if used + len(data) > _MOST:
            raise DataError("a dictionary of more than 2 GiB of text; use numbers as keys")
        self._make_room(count, used, used + len(data))
        self._bytes[used : used + len(data)] = data
        self._offsets[self.count + 1 : count + 1] = offsets[1:] + used
        self.count, self._view = count, None

    def _make_room(self, values: int, used: int, length: int) -> None:
        """Allocate larger arrays; views of earlier batches may still use the old ones."""
        if values + 1 > len(self._offsets):
            larger = np.zeros(2 * values + 1, np.int32)
            larger[: self.count + 1] = self._offsets[: self.count + 1]
            self._offsets = larger
        if length > len(self._bytes):
            grown = np.empty(2 * length, np.uint8)
            grown[:used] = self._bytes[:used]
            self._bytes = grown


def _check_text(offsets: np.ndarray, data: np.ndarray) -> None:
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"a dictionary whose text is not UTF-8 ({error.reason})") from error
    starts = offsets[:-1][offsets[:-1] < len(data)]
    if ((data[starts] & 0xC0) == 0x80).any():
        raise DataError("a dictionary whose text is cut within a character")
