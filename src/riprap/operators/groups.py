"""Group numbers: every distinct key of an operator gets a dense number, in order of arrival."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riprap.operators.columns import ALL_VALID, WordColumn, from_words, is_text, to_words
from riprap.operators.kernels.group_tables import groups_by_code, groups_by_words, rehash_words
from riprap.operators.kernels.hashing import SEED, hash_through, hash_words
from riprap.operators.strings import StringPool

_REMEMBERED = 8  # dictionaries whose groups are cached; batches of a stream mostly share one
_CANONICAL_NAN = np.array([np.nan]).view(np.int64)[0]


class GroupTable:
    """Keys of an operator and their numbers. `types` are the logical types of the key columns; none: one group, 0."""

    def __init__(self, types: Sequence[pa.DataType], pool: StringPool) -> None:
        self.types = tuple(types)
        self.pool = pool
        self.count = 0 if types else 1
        self._hashes = np.full(64, SEED, np.uint64)
        self._hashed = self.count  # groups with computed hashes
        self._by_hash = np.empty(0, np.int64)  # groups in the order of their hashes, when last sorted
        self.by_code = len(self.types) == 1 and is_text(self.types[0])
        # For one text column: the id of each group's string (-1: null), the group of each id, the group of each code of
        # a dictionary.
        self.own_ids = np.empty(64, np.int64)
        self._group_of_id = np.full(64, -1, np.int64)
        self._null_group = -1
        self._luts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Otherwise: the words of each group's key (a word per column, then one with a bit per null), and the hash
        # table.
        self.keys = np.empty((64, len(self.types) + 1), np.int64)
        self.slots = np.full(128, -1, np.int64)

    def groups(self, columns: Sequence[pa.Array], *, null_is_a_key: bool = True) -> np.ndarray:
        """The group of each row; new keys get new groups. Rows with a null get -1 if null is not a key."""
        if not self.types:
            raise AssertionError("without key columns there is one group, 0")
        return self._by_one_text(columns[0], null_is_a_key) if self.by_code else self._by_any(columns, null_is_a_key)

    @property
    def hashes(self) -> np.ndarray:
        """The stable hash of each group's key."""
        if self._hashed < self.count:
            self._hash_new(self._hashed)
            self._hashed = self.count
        return self._hashes

    def with_hashes(self, wanted: np.ndarray) -> np.ndarray:
        """The group with each of these key hashes; -1: none."""
        if len(self._by_hash) != self.count:
            self._by_hash = np.argsort(self.hashes[: self.count])
        if not self.count:
            return np.full(len(wanted), -1)
        hashes, order = self.hashes[: self.count], self._by_hash
        at = order[np.minimum(np.searchsorted(hashes, wanted, sorter=order), self.count - 1)]
        return np.where(hashes[at] == wanted, at, -1)

    def columns(self, groups: np.ndarray) -> list[pa.Array]:
        """The key columns of these groups."""
        return [
            from_words(words.values, words.valid, type_, self.pool)
            for words, type_ in zip(self._words(groups), self.types, strict=True)
        ]

    def _by_one_text(self, column: pa.Array, null_is_a_key: bool) -> np.ndarray:
        codes, valid, ids = self.pool.encode(column)
        if not null_is_a_key and len(valid):
            out = np.full(len(codes), -1, np.int64)
            keyed = np.flatnonzero(valid)
            out[keyed] = self._number_codes(codes[keyed], ALL_VALID, ids)
            return out
        return self._number_codes(codes, valid, ids)

    def _number_codes(self, codes: np.ndarray, valid: np.ndarray, ids: np.ndarray) -> np.ndarray:
        out = np.empty(len(codes), np.int64)
        new_ids = np.empty(len(ids) + 1, np.int64)
        state = np.array([self.count, self._null_group], np.int64)
        groups_by_code(codes, valid, self.lut(ids), ids, self.group_of_id(), state, out, new_ids)
        count, self._null_group = int(state[0]), int(state[1])
        if count > self.count:
            self._ensure(count)
            self.own_ids[self.count : count] = new_ids[: count - self.count]
            self.count = count
        return out

    def group_of_id(self) -> np.ndarray:
        """The group of each id of the pool; -1: unknown."""
        if len(self._group_of_id) < self.pool.count:
            larger = np.full(2 * self.pool.count, -1, np.int64)
            larger[: len(self._group_of_id)] = self._group_of_id
            self._group_of_id = larger
            self.pool.moves += 1
        return self._group_of_id

    def lut(self, ids: np.ndarray) -> np.ndarray:
        """The group of null, and of each code of one dictionary; -1: unknown."""
        known = self._luts.get(id(ids))
        if known is None or known[0] is not ids:
            if len(self._luts) >= _REMEMBERED:
                del self._luts[next(iter(self._luts))]
            known = self._luts[id(ids)] = (ids, np.full(len(ids) + 1, -1, np.int32))
        known[1][0] = self._null_group
        return known[1]

    def _by_any(self, columns: Sequence[pa.Array], null_is_a_key: bool) -> np.ndarray:
        count = len(columns[0])
        rows = np.zeros((count, len(columns) + 1), np.int64)
        for j, (column, type_) in enumerate(zip(columns, self.types, strict=True)):
            values, valid = to_words(column, self.pool)
            rows[:, j] = _comparable(values) if pa.types.is_floating(type_) else values
            if len(valid):
                rows[valid == 0, j] = 0
                rows[:, -1] |= (valid == 0).astype(np.int64) << j
        if not null_is_a_key and rows[:, -1].any():
            keyed = rows[:, -1] == 0
            out = np.full(count, -1, np.int64)
            out[keyed] = self._number(rows[keyed])
            return out
        return self._number(rows)

    def make_room(self, more: int = 1) -> int:
        """Make room for this many more groups; return how many groups fit before this must be called again."""
        need = self.count + more
        if self.by_code or not self.types:
            if need > len(self._hashes):
                self._ensure(2 * need)
            return len(self._hashes)
        if need > min(len(self.keys), len(self.slots) // 2, len(self._hashes)):
            self._make_room(2 * need)
            self._ensure(2 * need)
        return min(len(self.keys), len(self.slots) // 2, len(self._hashes))

    def numbered(self, count: int) -> None:
        """Update the count after a loop added groups, with their `own_ids` or `keys`."""
        before, self.count = self.count, count
        if count > before and self.by_code and self._null_group < 0:
            missing = np.flatnonzero(self.own_ids[before:count] < 0)
            self._null_group = before + int(missing[0]) if len(missing) else -1

    def _make_room(self, need: int) -> None:
        if need > len(self.keys):
            larger = np.empty((max(need, 2 * len(self.keys)), self.keys.shape[1]), np.int64)
            larger[: self.count] = self.keys[: self.count]
            self.keys = larger
            self.pool.moves += 1
        if 2 * need > len(self.slots):
            size = len(self.slots)
            while size < 2 * need:
                size *= 2
            self.slots = np.full(size, -1, np.int64)
            rehash_words(self.slots, self.keys, self.count)
            self.pool.moves += 1

    def _number(self, rows: np.ndarray) -> np.ndarray:
        self._make_room(self.count + len(rows))
        out = np.empty(len(rows), np.int64)
        count = int(groups_by_words(rows, self.slots, self.keys, self.count, out))
        self._ensure(count)
        self.count = count
        return out

    def _ensure(self, count: int) -> None:
        if count > len(self._hashes):
            size = max(count, 2 * len(self._hashes))
            hashes = np.full(size, SEED, np.uint64)
            hashes[: len(self._hashes)] = self._hashes
            ids = np.empty(size, np.int64)
            ids[: len(self.own_ids)] = self.own_ids
            self._hashes, self.own_ids = hashes, ids
            self.pool.moves += 1

    def _words(self, groups: np.ndarray) -> list[WordColumn]:
        if self.by_code:
            ids = self.own_ids[groups]
            return [WordColumn(np.maximum(ids, 0), (ids >= 0).view(np.uint8))]
        keys = self.keys[groups]
        words = []
        for j, type_ in enumerate(self.types):
            values = np.ascontiguousarray(keys[:, j])
            valid = ((keys[:, -1] >> j) & 1 == 0).view(np.uint8)
            words.append(WordColumn(values.view(np.float64) if pa.types.is_floating(type_) else values, valid))
        return words

    def _hash_new(self, first: int) -> None:
        groups = np.arange(first, self.count)
        out = np.full(len(groups), SEED, np.uint64)
        for words, type_ in zip(self._words(groups), self.types, strict=True):
            fold_column(words, type_, self.pool, out)
        self._hashes[first : self.count] = out


def fold_column(words: WordColumn, type_: pa.DataType, pool: StringPool, hashes: np.ndarray) -> None:
    """Fold a column into the hashes of its rows, in place: equal values have equal hashes, in any process."""
    if is_text(type_):
        hash_through(words.values, pool.hashes, words.valid, hashes)
    elif words.values.dtype == np.float64:
        hash_words(_comparable(words.values), words.valid, hashes)
    else:
        hash_words(words.values, words.valid, hashes)


def _comparable(values: np.ndarray) -> np.ndarray:
    """Floats as words, so that equal keys have equal words: one zero, one NaN."""
    words = np.ascontiguousarray(values + 0.0).view(np.int64).copy()
    words[np.isnan(values)] = _CANONICAL_NAN
    return words
