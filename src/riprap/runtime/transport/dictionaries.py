"""Text on its way: codes in the rows, and the dictionary that they point into, sent in frames of its own.

Both ends of a connection keep one dictionary per text column, which only grows or is replaced. The sending end gives
every column that form. One that comes as a dictionary keeps it: one that is the same from batch to batch is sent once,
and of one that grew only what is new. But a dictionary that is new and larger than its batch is first cut down to the
values in use, so that no batch drags a large dictionary along, unless it comes a second time. Text that comes plain is
interned into a pool of the connection, so that it is sent once as well; a pool that has grown large is begun anew.
NULL is never a value: it is a bit of the rows.

The receiving end believes nothing: offsets must rise, text must be UTF-8 and cut between characters.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.operators.strings import StringPool, address_of

_SMALL = 1024  # values: a dictionary up to here is never worth cutting
_POOL = 1 << 16  # values in the pool of plain text before it is begun anew
_PIECE = 1 << 26  # bytes of values in one frame
_MOST = 2**31 - 1  # bytes that 32-bit offsets reach


class Piece:
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
        self._index_type = pa.int32()

    def give(self, column: pa.Array) -> tuple[pa.Array, list[Piece]]:
        """The codes of the rows, NULL where they are, and what the other end's dictionary lacks."""
        if not isinstance(column, pa.DictionaryArray) or column.type.value_type != self._type:
            column = self._pooled(column)
        elif column.dictionary.null_count:
            column = self._pooled(column.dictionary_decode())
        dictionary = column.dictionary
        address = address_of(dictionary)
        if address == self._sent_at:
            return self._codes(column.indices), []
        again, self._seen = self._seen is not None and _extends(dictionary, self._seen), dictionary
        if self._sent is not None and _extends(dictionary, self._sent):
            before = len(self._sent)
        else:
            before = 0
            if not again and len(dictionary) > max(len(column), _SMALL):
                codes, dictionary = _cut(column)
                self._sent, self._sent_at = dictionary, address_of(dictionary)
                return codes, list(_pieces(dictionary, 0))
        self._sent, self._sent_at = dictionary, address
        return self._codes(column.indices), list(_pieces(dictionary, before))

    def _pooled(self, column: pa.Array) -> pa.DictionaryArray:
        if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
            column = column.dictionary_decode()
        if self._pool.count > _POOL:
            self._pool = StringPool()
        ids, valid = self._pool.ids(column)
        return self._pool.column(ids, valid == 0 if len(valid) else None, self._type)

    def _codes(self, indices: pa.Array) -> pa.Array:
        return indices if indices.type == self._index_type else indices.cast(self._index_type)


def _cut(column: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Codes into the values in use, and those."""
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    codes = column.indices.fill_null(0).to_numpy()
    used = np.unique(codes if missing is None else codes[~missing])
    cut = np.minimum(np.searchsorted(used, codes), max(len(used) - 1, 0)).astype(np.int32)
    return pa.array(cut, mask=missing), column.dictionary.take(pa.array(used))


def _extends(longer: pa.Array, shorter: pa.Array) -> bool:
    """Whether one begins with all values of the other. Growing pools share their memory, which is quick to see."""
    if len(longer) < len(shorter):
        return False
    if address_of(longer)[1:] == address_of(shorter)[1:]:
        return True
    return bool(longer.slice(0, len(shorter)).equals(shorter))


def _pieces(dictionary: pa.Array, before: int) -> Iterator[Piece]:
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
        yield Piece(before, until - before, piece.astype(np.int32), data[start : int(offsets[until])])
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
