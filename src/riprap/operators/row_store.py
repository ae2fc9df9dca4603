"""Rows that an operator stores: a window per group, column by column, in rings (see kernels/rings.py).

One `RowStore` serves one input port. It alone implements the windows' content, snapshot, delta, restore, digest, and
the removal of groups without rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.order_keys import SEQ, N
from riprap.operators.columns import ALL_VALID, WordColumn, batch_of, dtype_of, from_words, picked, to_words
from riprap.operators.groups import GroupTable, fold_column
from riprap.operators.kernels.hashing import SEED, fold_runs
from riprap.operators.kernels.rings import expire, insert_all, move_rings, plan_room, positions_of, scatter
from riprap.operators.strings import StringPool

STAMP = "_stamp"  # what a window evicts by: `_ts`, or the number of the tuple on its port
STATE = "_state"  # all state of a key whose operator calls user code, as text
MATCHED = "_matched"  # 1 if the row has had a match, where a join emits rows without one
# Stored columns that are no attributes of a tuple: no fault alters them.
BOOKKEEPING = frozenset((STAMP, STATE, MATCHED, SEQ, N))
_MARKS = 4  # versions that a delta can be based on


@dataclass
class _Column:
    type: pa.DataType
    values: np.ndarray
    valid: np.ndarray  # empty until the first null


class StoreImage(NamedTuple):
    """A copy of the arrays of a store: rings by group, `emitted_tail` by group, the used part of each column."""

    rings: np.ndarray
    emitted_tail: np.ndarray
    used: int
    columns: tuple[tuple[np.ndarray, np.ndarray], ...]


class RowStore:
    """The windows of one port. `fields` are the stored columns; `stamped` adds STAMP (int64)."""

    def __init__(
        self,
        groups: GroupTable,
        fields: Sequence[tuple[str, pa.DataType]],
        pool: StringPool,
        *,
        stamped: bool = False,
        period: int = 1,
        emits_by_time: bool = False,
        ring: int = 0,
    ) -> None:
        self.groups = groups
        self.pool = pool
        self.period = period  # a group emits by its insertion index modulo this
        self.emits_by_time = emits_by_time  # whether `emitted_tail` matters
        self.stamp_origin = 0  # stamps are relative to this (numbers of tuples to the newest; times to 0)
        stamp = [(STAMP, pa.int64())] if stamped else []
        self._columns = {
            name: _Column(type_, np.empty(256, dtype_of(type_)), ALL_VALID) for name, type_ in [*fields, *stamp]
        }
        self.used = 0  # positions in use, at the front of every column
        self._room = 256
        self.rings = np.zeros((64, 4), np.int64)  # base, cap, head, tail in one cache line: a step reads all four
        self.base, self.cap, self.head, self.tail = self.rings.T
        self.emitted_tail = np.zeros(64, np.int64)  # tail at the last emission, for windows that emit by time
        self._scratch = np.zeros(64, np.int64)
        self._marks: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}  # version → head, tail, emitted_tail
        self.ring = ring  # places of every ring, side by side, if all have one size; else 0
        if ring:
            self.ends = np.zeros((64, 2), np.int64)  # head and tail in one cache line: a step reads both
            self.head, self.tail = self.ends.T
            self.spread(64)

    # Inserting and reading --------------------------------------------------------------------------------------------

    def reserve(self, groups: np.ndarray) -> None:
        """Make room for one more row per entry of `groups`, without overwriting a row that is in a window."""
        if self.ring:
            self.spread(self.groups.make_room())
            self.used = self.groups.count
            return
        self.widen(self.groups.count)
        moves, used = plan_room(groups, self.base, self.cap, self.head, self.tail, self.used, self._scratch)
        self.used = int(used)
        self._grow(self.used)
        if len(moves):
            for column in self._columns.values():
                move_rings(column.values, moves, self.head, self.tail)
                if len(column.valid):
                    move_rings(column.valid, moves, self.head, self.tail)

    def widen(self, groups: int) -> None:
        """Add rings without places, up to this many groups."""
        if groups > len(self.base):
            size = max(groups, 2 * len(self.base))
            self.rings = np.concatenate([self.rings, np.zeros((size - len(self.rings), 4), np.int64)])
            self.base, self.cap, self.head, self.tail = self.rings.T
            self.emitted_tail, self._scratch = _padded(self.emitted_tail, size), _padded(self._scratch, size)
            self.pool.moves += 1

    def free(self, places: int) -> None:
        """Make sure that this many places are free behind the used ones."""
        self._grow(self.used + places)

    @property
    def room(self) -> int:
        """Allocated places."""
        return self._room

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def spread(self, groups: int) -> None:
        """Make rings of one size for this many groups."""
        if groups * self.ring <= self._room and groups <= len(self.cap) and self.cap[groups - 1]:
            return
        if groups > len(self.base):
            for name in ("base", "cap", "emitted_tail", "_scratch"):
                setattr(self, name, _padded(getattr(self, name), groups))
            self.ends = np.concatenate([self.ends, np.zeros((groups - len(self.ends), 2), np.int64)])
            self.head, self.tail = self.ends.T
        self.pool.moves += 1
        self.base = np.arange(len(self.base), dtype=np.int64) * self.ring
        self.cap = np.full(len(self.base), self.ring, np.int64)
        self._grow(len(self.base) * self.ring)

    def _grow(self, room: int) -> None:
        if room > self._room:
            self.pool.moves += 1
            self._room = max(room, 2 * self._room)
            for column in self._columns.values():
                column.values = _longer(column.values, self._room)
                if len(column.valid):
                    column.valid = _longer(column.valid, self._room)

    def validity(self, name: str) -> np.ndarray:
        """A byte per place of a column, 1 where its value is not null."""
        column = self._columns[name]
        if not len(column.valid):
            column.valid = np.ones(self._room, np.uint8)
            self.pool.moves += 1
        return column.valid

    @property
    def stamps(self) -> np.ndarray:
        column = self._columns.get(STAMP)
        return column.values if column is not None else np.empty(0, np.int64)

    def write(self, name: str, positions: np.ndarray, words: WordColumn) -> None:
        """Store one column of inserted rows (position -1: the row is not stored)."""
        column = self._columns[name]
        scatter(column.values, positions, words.values)
        if len(words.valid) or len(column.valid):
            self.validity(name)
            valid = words.valid if len(words.valid) else np.ones(len(positions), np.uint8)
            scatter(column.valid, positions, valid)

    def insert(self, groups: np.ndarray, columns: Mapping[str, WordColumn], stamps: np.ndarray, most: int) -> None:
        """Append a row for each entry of `groups` (none negative); a window keeps its newest `most` rows (0: all)."""
        self.reserve(groups)
        positions = insert_all(groups, self.base, self.cap, self.tail)
        for name, words in columns.items():
            self.write(name, positions, words)
        if STAMP in self._columns:
            self.write(STAMP, positions, WordColumn(stamps, ALL_VALID))
        if most:
            self.head[groups] = np.maximum(self.head[groups], self.tail[groups] - most)

    def column(self, name: str) -> WordColumn:
        """A whole stored column, by position."""
        column = self._columns[name]
        return WordColumn(column.values, column.valid)

    def type_of(self, name: str) -> pa.DataType:
        return self._columns[name].type

    def gather(self, name: str, positions: np.ndarray) -> pa.Array:
        """Stored values as an Arrow column."""
        column = self._columns[name]
        valid = picked(column.valid, positions) if len(column.valid) else ALL_VALID
        return from_words(picked(column.values, positions), valid, column.type, self.pool)

    def rows(self, positions: np.ndarray) -> dict[str, pa.Array]:
        return {name: self.gather(name, positions) for name in self._columns}

    # Content --------------------------------------------------------------------------------------------------------

    def live(self) -> np.ndarray:
        """Groups that have rows, or a position to remember."""
        return np.flatnonzero(self.alive(slice(min(self.groups.count, len(self.base)))))

    def alive(self, groups: np.ndarray | slice) -> np.ndarray:
        """Which of these groups are live."""
        if isinstance(groups, np.ndarray) and len(groups) and groups.max() >= len(self.tail):
            self.reserve(groups[:0])  # a group without rows has no ring yet
        tail = self.tail[groups]
        return (tail > self.head[groups]) | (tail % self.period != 0)

    def size(self) -> int:
        count = min(self.groups.count, len(self.base))
        return int((self.tail[:count] - self.head[:count]).sum())

    def forget(self, before: int, groups: np.ndarray | None = None) -> None:
        """Evict rows with a stamp of at most `before` from every window, or from those of some groups."""
        chosen = self.live() if groups is None else groups
        expire(chosen, self.stamps, self.base, self.cap, self.head, self.tail, before)

    def positions(self, groups: np.ndarray) -> np.ndarray:
        """Positions of the windows of these groups, group by group, oldest first."""
        return positions_of(groups, self.head[groups], self.tail[groups], self.base, self.cap)

    def digest(self, groups: np.ndarray) -> np.ndarray:
        """A hash per group over the rows of its window, in order, and over what else decides when it emits."""
        positions = self.positions(groups)
        hashes = np.full(len(positions), SEED, np.uint64)  # not 0: a row of zeros has to count as a row
        for name, column in self._columns.items():
            values = column.values[positions]
            if name == STAMP:
                values = values - self.stamp_origin
            valid = column.valid[positions] if len(column.valid) else ALL_VALID
            fold_column(WordColumn(values, valid), column.type, self.pool, hashes)
        waiting = (self.tail[groups] > self.emitted_tail[groups]) if self.emits_by_time else np.zeros(len(groups), bool)
        out = (self.tail[groups] % self.period * 2 + waiting).astype(np.uint64)
        fold_runs(hashes, self.tail[groups] - self.head[groups], out)
        return out

    # State -----------------------------------------------------------------------------------------------------------

    def save(self, prefix: str, version: int, since: int | None) -> dict[str, pa.RecordBatch]:
        """The tables of a snapshot, or of a delta since a marked version."""
        count = min(self.groups.count, len(self.base))
        head, tail, emitted_tail = self.head[:count], self.tail[:count], self.emitted_tail[:count]
        if since is None:
            groups = self.live()
            rows = tail - head
        else:
            old_head, old_tail, old_emitted_tail = (_padded(array, count) for array in self._marks[since])
            groups = np.flatnonzero((head != old_head) | (tail != old_tail) | (emitted_tail != old_emitted_tail))
            rows = np.minimum(tail - head, tail - old_tail)
        self._marks[version] = (head.copy(), tail.copy(), emitted_tail.copy())
        while len(self._marks) > _MARKS:
            del self._marks[next(iter(self._marks))]
        groups = groups[np.argsort(self.groups.hashes[groups])]
        return self.save_groups(prefix, groups, rows[groups])

    def save_groups(self, prefix: str, groups: np.ndarray, rows: np.ndarray) -> dict[str, pa.RecordBatch]:
        """The tables of these groups, each with this many of its newest rows."""
        head, tail = self.head[groups], self.tail[groups]
        keys = {f"_key{j}": column for j, column in enumerate(self.groups.columns(groups))} if self.groups.types else {}
        keys |= {
            "_hash": pa.array(self.groups.hashes[groups]),
            "_head": pa.array(head),
            "_tail": pa.array(tail),
            "_spoke": pa.array(self.emitted_tail[groups] if self.emits_by_time else np.zeros(len(groups), np.int64)),
            "_rows": pa.array(rows),
        }
        positions = positions_of(groups, tail - rows, tail, self.base, self.cap)
        content = self.rows(positions) or {"_": pa.nulls(len(positions))}
        return {f"{prefix}.keys": _decoded(keys), f"{prefix}.rows": _decoded(content)}

    def load(self, prefix: str, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Load saved rows into an empty store, or on top of the state that a delta is based on."""
        keys, content = tables[f"{prefix}.keys"], tables[f"{prefix}.rows"]
        count = keys.num_rows
        if self.groups.types:
            columns = [keys.column(f"_key{j}") for j in range(len(self.groups.types))]
            groups = self.groups.groups(columns) if count else np.empty(0, np.int64)
        else:
            groups = np.zeros(count, np.int64)
        names = ("_head", "_tail", "_spoke", "_rows")
        head, tail, emitted_tail, rows = (keys.column(name).to_numpy() for name in names)
        self.reserve(np.empty(0, np.int64))
        whole = rows == tail - head
        self.head[groups[whole]] = self.tail[groups[whole]] = head[whole]
        if (self.tail[groups] != tail - rows).any() or (self.head[groups] > head).any():
            raise DataError("a delta does not fit the state before it: rows are missing")
        repeated = np.repeat(groups, rows)
        self.reserve(repeated)
        positions = insert_all(repeated, self.base, self.cap, self.tail)
        for name in self._columns:
            self.write(name, positions, to_words(content.column(name), self.pool))
        self.head[groups] = head
        self.emitted_tail[groups] = emitted_tail

    def image(self) -> StoreImage:
        """A copy of everything, for `put_back` into this store."""
        count = min(self.groups.count, len(self.base))
        used = count * self.ring if self.ring else self.used
        columns = tuple((c.values[:used].copy(), c.valid[:used].copy()) for c in self._columns.values())
        return StoreImage((self.ends if self.ring else self.rings)[:count].copy(), self.emitted_tail[:count].copy(),
                          self.used, columns)  # fmt: skip

    def put_back(self, image: StoreImage) -> None:
        """Load an image into the current arrays, which never shrink."""
        count, rings = len(image.rings), self.ends if self.ring else self.rings
        rings[:count], self.emitted_tail[:count] = image.rings, image.emitted_tail
        rings[count:], self.emitted_tail[count:] = 0, 0
        self.used, self._marks = image.used, {}
        for column, (values, valid) in zip(self._columns.values(), image.columns, strict=True):
            column.values[: len(values)] = values
            if len(column.valid):
                column.valid[: len(values)] = valid if len(valid) else 1

    def mark(self, version: int) -> None:
        """Allow a delta to be based on this version (after a restore)."""
        count = min(self.groups.count, len(self.base))
        self._marks = {version: (self.head[:count].copy(), self.tail[:count].copy(), self.emitted_tail[:count].copy())}

    def rows_since(self, version: int) -> int:
        """Rows of windows that are newer than a marked version."""
        count = min(self.groups.count, len(self.base))
        head, tail, old_tail = self.head[:count], self.tail[:count], _padded(self._marks[version][1], count)
        return int((tail - np.maximum(head, old_tail)).sum())

    def marked(self, version: int) -> bool:
        """Whether a delta can be based on that version."""
        return version in self._marks


def _decoded(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Text in place of dictionary codes: the dictionary is that of the whole pool."""
    return batch_of({n: c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for n, c in columns.items()})


def _padded(array: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([array, np.zeros(count - len(array), array.dtype)])


def _longer(array: np.ndarray, count: int) -> np.ndarray:
    """A longer array with the same start; the rest is uninitialised and written before it is read."""
    larger = np.empty(count, array.dtype)
    larger[: len(array)] = array
    return larger


def load_kernels() -> None:
    """Compile and load the kernels for saving, so that a process's first capture is not ten times slower."""
    for ring in (0, 1):
        pool = StringPool()
        groups = GroupTable([pa.string()], pool)
        groups.groups([pa.array(["a"])])
        RowStore(groups, [("x", pa.int64())], pool, ring=ring).save("port0", 0, None)
