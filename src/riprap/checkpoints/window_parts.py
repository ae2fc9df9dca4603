"""Incremental checkpoints of the windows of one port.

A checkpoint writes only the rows that arrived since the last one. The contents of a window are spread over the parts of
many checkpoints (`parts.py`). When the checkpoint is durable, the parts are maintained for the next one: a part without
live rows is dropped, and three mechanisms keep the others few and small, even if keys are skewed:

pace     Keys are classified by the number of checkpoints in which their window turns over, in powers of four, and each
         class gets a separate part: rows that expire together are stored together, and a cold key does not pin the rows
         of a hot one. A part that outlives its pace is reclassified as slower.
merging  Four parts of one pace and level become one of the next level, up to the level that fits the pace: so there are
         O(log² window) parts, and a row is written O(log window) times. In a window that turns over within four
         checkpoints it is written once.
thinning A large part of which at most a quarter is live is rewritten without the rest: it costs a third of what it
         frees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from riprap.checkpoints.manifest import PartRef, SavedWindows, WindowKind
from riprap.checkpoints.parts import (
    FROM,
    HASH,
    HEAD,
    NUMBER,
    RATE,
    ROWS,
    SPOKE,
    TAIL,
    WindowPart,
    chosen,
    clipped,
    decode_part,
    encode_part,
    united,
    with_columns,
)
from riprap.checkpoints.storage import Contents
from riprap.checkpoints.windows_index import KeyIndex

_STEP = 4  # base of paces, and number of parts per merge
_LARGE = 1_024  # rows and entries; a smaller part is not thinned, and waits for a merge

Write = Callable[[Contents], PartRef]
Read = Callable[[PartRef], bytes | None]  # None: damaged or missing


@dataclass(eq=False)
class _Part:
    """Metadata of a part, in memory."""

    ref: PartRef
    pace: int  # its keys' windows turn over in _STEP ** pace checkpoints or more
    level: int  # merges that led to it
    born: int  # number of the checkpoint that wrote it; if merged, of the newest
    look_at: int  # checkpoint at which its live rows are counted again
    hashes: np.ndarray
    first: np.ndarray  # insertion indices of an entry's first row, and after its last
    stop: np.ndarray
    numbers: np.ndarray

    @property
    def size(self) -> int:
        return len(self.hashes) + int((self.stop - self.first).sum())


class WindowLog:
    """The parts of one port's windows within one epoch, which starts with a snapshot."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write, self._read = write, read
        self._parts: list[_Part] = []
        self._index = KeyIndex()
        self._taken_at: int | None = None
        self.damaged = False  # a live part is unreadable: the next checkpoint must be a full one

    def take(self, captured: WindowPart, kind: WindowKind, number: int, taken_at: int, *, whole: bool) -> SavedWindows:
        """Add a checkpoint: the tables of a delta, or (`whole`) of a snapshot that replaces everything."""
        rates, times, rate = self._rates(captured, taken_at, whole)
        if whole:
            self._parts, self._index, self.damaged = [], KeyIndex(), False
        head, tail, rows = captured.column(HEAD), captured.column(TAIL), captured.column(ROWS)
        numbers = np.full(len(rows), number, np.int64)
        entries = with_columns(captured.entries, {FROM: tail - rows, NUMBER: numbers, RATE: rates})
        self._index.update(captured.column(HASH), head, tail, captured.column(SPOKE), number, times, rates)
        paces = _paces(tail - head, rows)
        for pace in np.unique(paces).tolist():
            self._add(chosen(WindowPart(entries, captured.rows), np.flatnonzero(paces == pace)), pace, 0, number)
        self._taken_at = taken_at
        bounds = None if "_key0" in entries.schema.names else self._index.only()
        schemas = (entries.schema, captured.rows.schema)
        return SavedWindows(kind, tuple(part.ref for part in self._parts), schemas, rate, bounds)

    def _rates(self, captured: WindowPart, taken_at: int, whole: bool) -> tuple[np.ndarray, np.ndarray, float]:
        """Tuples per second of each key since its last entry, with the time of measurement; and of all keys since the
        last checkpoint.

        A snapshot also has keys without new tuples: they keep their rate.
        """
        tail, rows = captured.column(TAIL), captured.column(ROWS)
        known, old_tail, old_at, old_rate = self._index.before(captured.column(HASH))
        new = np.where(known, tail - old_tail, rows)
        since = np.where(known, old_at, self._taken_at if self._taken_at is not None else taken_at)
        seconds = (taken_at - since) / 1e6
        rates = np.divide(new, seconds, out=np.zeros(len(tail)), where=seconds > 0)
        idle = known & (tail == old_tail) & whole
        rates, times = np.where(idle, old_rate, rates), np.where(idle, old_at, taken_at)
        elapsed = (taken_at - self._taken_at) / 1e6 if self._taken_at is not None else 0.0
        return rates, times, float(new.sum()) / elapsed if elapsed > 0 else 0.0

    # Parts ------------------------------------------------------------------------------------------------------------

    def _add(self, part: WindowPart, pace: int, level: int, born: int) -> None:
        first = part.column(FROM)
        added = _Part(
            self._write(encode_part(part)), pace, level, born, born + 1,
            part.column(HASH), first, first + part.column(ROWS), part.column(NUMBER),
        )  # fmt: skip
        self._index.mention(added.hashes, 1)
        self._parts.append(added)

    def _drop(self, part: _Part) -> None:
        self._index.mention(part.hashes, -1)
        self._parts.remove(part)

    def _needed(self, part: _Part, kind: WindowKind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The live entries of a part, and the range of insertion indices of their live rows."""
        head, tail, number, mentions = self._index.look_up(part.hashes)
        first = np.minimum(np.maximum(part.first, head), part.stop)
        stop = np.maximum(np.minimum(part.stop, tail), first)
        # The newest entry of a key has its bounds. They are live while the key has state, or while some part still has
        # rows that have left its window.
        live = (tail > head) | (tail % kind.period != 0) | (mentions > 1)
        needed = (stop > first) | ((part.numbers == number) & live)
        which = np.flatnonzero(needed)
        return which, first[which], stop[which]

    def maintain(self, kind: WindowKind, number: int) -> None:
        """Drop, thin and merge parts, once checkpoint `number` is durable."""
        self._drop_and_thin(kind, number)
        self._merge(kind, number)

    def _drop_and_thin(self, kind: WindowKind, number: int) -> None:
        for part in [part for part in self._parts if part.look_at <= number]:
            which, first, stop = self._needed(part, kind)
            live = len(which) + int((stop - first).sum())
            if not live:
                self._drop(part)
            elif part.size >= _LARGE and _STEP * live <= part.size:
                self._rewrite([part], kind, part.pace, part.level)
            else:
                part.look_at = number + max(1, _STEP ** self._pace_now(part, number) // _STEP)

    def _merge(self, kind: WindowKind, number: int) -> None:
        while True:
            alike: dict[tuple[int, int], list[_Part]] = {}
            for part in self._parts:
                pace = self._pace_now(part, number)
                if part.level < pace:
                    alike.setdefault((pace, part.level), []).append(part)
            full = [(key, parts) for key, parts in alike.items() if len(parts) >= _STEP]
            if not full or self.damaged:
                return
            for (pace, level), parts in full:
                self._rewrite(parts[:_STEP], kind, pace, level + 1)

    def _pace_now(self, part: _Part, number: int) -> int:
        return max(part.pace, _log_step(max(1, number - part.born)))

    def _rewrite(self, parts: list[_Part], kind: WindowKind, pace: int, level: int) -> None:
        """Write the live rows of some parts as one. If one is unreadable, all stay, so that `load` detects it."""
        live: list[WindowPart] = []
        for part in parts:
            which, first, stop = self._needed(part, kind)
            if not len(which):
                continue
            data = self._read(part.ref)
            if data is None:
                self.damaged = True
                return
            live.append(clipped(decode_part(data), which, first, stop - first))
        born = max(part.born for part in parts)
        for part in parts:
            self._drop(part)
        if live:
            self._add(united(live), pace, level, born)


def _paces(size: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The pace of windows of `size` with `rows` new rows: floor(log4(checkpoints until they turn over))."""
    ratio = np.maximum(size, 1) / np.maximum(rows, 1)
    return np.maximum(np.floor(np.log2(ratio) / np.log2(_STEP)), 0).astype(np.int64)


def _log_step(count: int) -> int:
    return (count.bit_length() - 1) // (_STEP.bit_length() - 1)
