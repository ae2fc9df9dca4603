"""Text on its way: codes in the rows, and the dictionary that they point into, sent in frames of its own.

Both ends of a connection keep one dictionary per text column, which only grows or is replaced. The sending end gives
every column that form. A dictionary that is the same from batch to batch is sent once, and of one that grew only what
is new. Dictionaries that change from batch to batch are interned into a pool of the connection, so that what repeats is
sent once as well; a pool that has grown large is begun anew. Of a dictionary that is new and larger than its batch only
the values in use are interned, so that no batch drags a large dictionary along, unless it comes a second time: then it
is sent whole. But one with values that the other end mostly has, in another order (as each row group of a file has), is
never sent: its codes are changed into the other end's, where a new dictionary would cost every element behind it more
than all its rows. NULL is never a value: it is a bit of the rows.

The receiving end believes nothing: offsets must rise, text must be UTF-8 and cut between characters.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions.vectors import address_of
from riprap.operators.strings import StringPool
from riprap.operators.views import ColumnView

_SMALL = 1024  # values: a dictionary up to here is never worth cutting
_POOL = 1 << 16  # values in the pool of plain text before it is begun anew
_SHARED = 1 << 14  # values of a dictionary whose codes are worth changing
_PIECE = 1 << 26  # bytes of values in one frame
_MOST = 2**31 - 1  # bytes that 32-bit offsets reach


class DictionaryPart:
    """Values to be added to a dictionary that has `before` of them; 0: that begin a new one."""

    __slots__ = ("before", "count", "data", "offsets")

    def __init__(self, before: int, count: int, offsets: np.ndarray, data: memoryview) -> None:
        self.before, self.count, self.offsets, self.data = before, count, offsets, data


class SentDictionary:
    """The sending end's, of one column of one connection. `type_` is `string` or `binary`."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._pool = StringPool()
        self._sent: pa.Array | None = None  # what the other end has
        self._sent_at: tuple[int, ...] = ()
        self._seen: pa.Array | None = None  # the last that came; kept, so that its address is not used again
        self._changed_at: tuple[int, ...] = ()  # where a dictionary lies whose codes are changed, and into which
        self._changed = np.empty(0, np.int32)

    def give(self, column: ColumnView) -> tuple[np.ndarray, list[DictionaryPart]]:
        """The codes of the rows, and what the other end's dictionary lacks."""
        codes, dictionary = column.values, column.dictionary
        assert dictionary is not None, "text has codes"
        address = address_of(dictionary)
        if address == self._sent_at:
            return codes, []
        if address == self._changed_at:
            return _changed(codes, self._changed, column.valid), []
        if dictionary.type != self._type:  # text of another width, which is never sent as it is
            return self._pooled(column, dictionary.cast(self._type), small=False)
        again, self._seen = self._seen is not None and _extends(dictionary, self._seen), dictionary
        before = len(self._sent) if self._sent is not None and _extends(dictionary, self._sent) else 0
        small = len(dictionary) <= max(len(codes), _SMALL)
        if again and not before and self._has_most(dictionary, address):
            ids, pieces = self._interned(dictionary, address)
            self._changed_at, self._changed = address, ids
            return _changed(codes, ids, column.valid), pieces
        if before or again or (self._sent is None and small):
            self._sent, self._sent_at, self._changed_at = dictionary, address, ()
            self._pool = StringPool()  # it would go on from something else
            return codes, list(_pieces(dictionary, before))
        return self._pooled(column, dictionary, small=small)

    def _has_most(self, dictionary: pa.Array, address: tuple[int, ...]) -> bool:
        """Whether the other end has at least half of these values, in an order of its own."""
        if self._sent is None or max(len(dictionary), len(self._sent)) > _SHARED:
            return False
        self._begin_pool(len(dictionary))
        count = self._pool.count
        self._pool.ids_of(dictionary, address)
        return 2 * (self._pool.count - count) <= len(dictionary)

    def _pooled(
        self, column: ColumnView, dictionary: pa.Array, *, small: bool
    ) -> tuple[np.ndarray, list[DictionaryPart]]:
        """By way of the pool: of what it has had nothing is sent again."""
        codes = column.values
        if not small:  # only the values in use
            used = np.unique(codes if column.valid is None else codes[column.valid != 0])
            codes = np.minimum(np.searchsorted(used, codes), max(len(used) - 1, 0))
            dictionary = dictionary.take(pa.array(used))
        self._begin_pool(len(dictionary))
        ids, pieces = self._interned(dictionary, address_of(dictionary))
        return _changed(codes, ids, column.valid), pieces

    def _begin_pool(self, coming: int) -> None:
        self._renew(coming)
        if not self._pool.count and self._sent is not None and len(self._sent) <= _SHARED:
            self._pool.ids_of(self._sent, address_of(self._sent))  # go on from what the other end has

    def _interned(self, dictionary: pa.Array, address: tuple[int, ...]) -> tuple[np.ndarray, list[DictionaryPart]]:
        """The codes of these values in the pool, which the other end has from here on, and what it lacks of it."""
        ids = self._pool.ids_of(dictionary, address).astype(np.int32)
        pool = self._pool.array(self._type)
        before = len(self._sent) if self._sent is not None and _extends(pool, self._sent) else 0
        self._sent, self._sent_at, self._changed_at = pool, address_of(pool), ()
        return ids, list(_pieces(pool, before))

    def _renew(self, coming: int) -> None:
        if self._pool.count > max(_POOL, 2 * coming):
            self._pool = StringPool()


def _changed(codes: np.ndarray, into: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    """Codes of another dictionary; at nulls there is 0."""
    if not len(into):
        return np.zeros(len(codes), np.int32)
    codes = into.take(codes)
    if valid is not None:
        codes[valid == 0] = 0
    return codes


def _extends(longer: pa.Array, shorter: pa.Array) -> bool:
    """Whether one begins with all values of the other. Growing pools share their memory, which is quick to see."""
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
    """The receiving end's, of one column of one connection: arrays with room to grow, and an Arrow view of them."""

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
        """Values behind the first `before`, of which there must be so many; 0 begins anew."""
        if before not in (0, self.count):
            raise DataError(f"a dictionary of {self.count} values is to grow behind {before}: a frame is missing")
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
        """Larger arrays beside the old ones, which views of earlier batches may still show."""
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
