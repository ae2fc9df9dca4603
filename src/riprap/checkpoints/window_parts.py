"""Incremental checkpoints of the windows of one port.

A checkpoint writes the rows that came since the last one and nothing else. What is in a window then follows from parts
of many checkpoints (`parts.py`). Afterwards, when the checkpoint is durable, parts are looked after for the next one: a
part of which no row is in a window any more is dropped, and three things keep the others few and small, also when keys
are skewed:

pace     Keys are divided by how many checkpoints it takes them to slide their window over, in steps of four, and each
         step gets a part of its own: so rows that die together lie together, and a cold key does not pin a hot one's.
         A part that lives longer than its pace says has become slower, and counts as such.
merging  Four parts of one pace and level become one of the next level, up to the level that still fits the pace: so
         there are O(log² window) parts, and a row is written O(log window) times. In a window that slides over within
         four checkpoints it is written once.
thinning A large part of which a quarter is left is written anew without the rest: it costs a third of what it frees.
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

_STEP = 4  # of paces and of merging
_LARGE = 1_024  # rows and entries: less is not worth thinning, and waits for a merge

Write = Callable[[Contents], PartRef]
Read = Callable[[PartRef], bytes | None]  # None: damaged or missing


@dataclass(eq=False)
class _Part:
    """What has to be known of a part without reading it."""

    ref: PartRef
    pace: int  # _STEP ** pace checkpoints and more until its keys' windows have slid over
    level: int  # merges that led to it
    born: int  # number of the checkpoint, of the newest where merged
    look_at: int  # checkpoint at which to see again what is left of it
    hashes: np.ndarray
    first: np.ndarray  # insertion index of an entry's first row, and after its last
    stop: np.ndarray
    numbers: np.ndarray

    @property
    def size(self) -> int:
        return len(self.hashes) + int((self.stop - self.first).sum())


class WindowLog:
    """The parts of one port's windows within one epoch, which begins with a whole snapshot."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write, self._read = write, read
        self._parts: list[_Part] = []
        self._index = KeyIndex()
        self._taken_at: int | None = None
        self.damaged = False  # a part of what is in windows cannot be read: nothing can go on from it but a whole

    def take(self, captured: WindowPart, kind: WindowKind, number: int, taken_at: int, *, whole: bool) -> SavedWindows:
        """Add a checkpoint: the tables of a delta, or of a snapshot that replaces everything."""
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
        """Tuples per second of each key since its last entry, as of which time; and of all since the last checkpoint.

        A whole has keys that took in nothing, too: they have the rate that they had.
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
        """Entries that still matter, and from which to before which insertion index their rows do."""
        head, tail, number, mentions = self._index.look_up(part.hashes)
        first = np.minimum(np.maximum(part.first, head), part.stop)
        stop = np.maximum(np.minimum(part.stop, tail), first)
        # The newest entry of a key has its bounds, which matter while the key has anything to remember, or while rows
        # that have left its window are still in some part.
        live = (tail > head) | (tail % kind.period != 0) | (mentions > 1)
        needed = (stop > first) | ((part.numbers == number) & live)
        which = np.flatnonzero(needed)
        return which, first[which], stop[which]

    def look_after(self, kind: WindowKind, number: int) -> None:
        """Drop, thin and merge parts, once checkpoint `number` is durable."""
        self._drop_and_thin(kind, number)
        self._merge(kind, number)

    def _drop_and_thin(self, kind: WindowKind, number: int) -> None:
        for part in [part for part in self._parts if part.look_at <= number]:
            which, first, stop = self._needed(part, kind)
            left = len(which) + int((stop - first).sum())
            if not left:
                self._drop(part)
            elif part.size >= _LARGE and _STEP * left <= part.size:
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
        """Write what is left of some parts as one. If one cannot be read all stay, so that who loads them sees it."""
        left: list[WindowPart] = []
        for part in parts:
            which, first, stop = self._needed(part, kind)
            if not len(which):
                continue
            data = self._read(part.ref)
            if data is None:
                self.damaged = True
                return
            left.append(clipped(decode_part(data), which, first, stop - first))
        born = max(part.born for part in parts)
        for part in parts:
            self._drop(part)
        if left:
            self._add(united(left), pace, level, born)


def _paces(size: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How slowly windows of `size` slide that took `rows`: floor(log4(checkpoints until they have slid over))."""
    ratio = np.maximum(size, 1) / np.maximum(rows, 1)
    return np.maximum(np.floor(np.log2(ratio) / np.log2(_STEP)), 0).astype(np.int64)


def _log_step(count: int) -> int:
    return (count.bit_length() - 1) // (_STEP.bit_length() - 1)
