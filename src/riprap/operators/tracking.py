"""Which windows of an operator are open, which of them have changed, and what of each is saved: arrays by group.

An operator informs its *tracker* before and after every call; the tracker derives the changes from where the rings of
the touched groups start and end. It never processes windows one at a time, nor windows that a call did not touch. A
step lists which groups it touched and where their rings started (`step_events.py`); the tracker reads that list when
it is queried.

Time is counted in *frames*: what happens between two records of an operator's state (`riprap.records`) belongs to
the frame that the second one ends. Frame 0 is empty. A window is *dirty* in a frame if it has rows that no
record has; its *base* is then the last frame before all of them. Its *origin* is the frame of the oldest record that
is needed to restore it.

A window is identified by its group and a number that only grows: a group can open a window after it closed one.
Tumbling windows close when they emit. Otherwise a group has one window, which closes when `close_empty` finds that all
its rows have been evicted. A window that opens and closes within a frame is only counted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from riprap.operators.kernels.window_tracking import distinct, nth_rows, tumble

if TYPE_CHECKING:
    from riprap.operators.windowed import WindowedOperator

_LEAST = np.iinfo(np.int64).min
_NOTHING = np.empty(0, np.int64)
_NO_HASHES = np.empty(0, np.uint64)


class Touched(NamedTuple):
    """The groups of a call's rows, and where their rings were before it: a row for each port."""

    groups: np.ndarray
    head: np.ndarray
    tail: np.ndarray


class FrameEvents(NamedTuple):
    """Windows that opened and closed in a frame."""

    opened: np.ndarray  # groups
    at: np.ndarray  # insertion index of the first row, by port
    start: np.ndarray  # rows that had arrived on each port before it
    closed: np.ndarray  # hashes of windows that opened in an earlier frame
    within: int  # windows that opened and closed in this frame


class FrameCounts:
    """The number of windows per base frame, or per origin frame, and the lowest frame that has any."""

    def __init__(self) -> None:
        self._first = 0  # frame of the first entry
        self._low = 0  # all entries before it are 0
        self._counts = np.zeros(64, np.int64)

    def add(self, frame: int, windows: int) -> None:
        at = frame - self._first
        if at >= len(self._counts):
            keep = self._counts[self._low :]
            self._first += self._low
            at = frame - self._first
            self._counts = np.zeros(max(64, 2 * len(keep), 2 * at), np.int64)
            self._counts[: len(keep)] = keep
            self._low = 0
        self._counts[at] += windows
        if windows:
            self._low = min(self._low, at)

    @property
    def places(self) -> tuple[np.ndarray, int]:
        """The counts, and the frame of the first one."""
        return self._counts, self._first

    def drop(self, frames: np.ndarray) -> None:
        if len(frames):
            np.subtract.at(self._counts, frames - self._first, 1)

    def least(self, otherwise: int) -> int:
        counts, low = self._counts, self._low
        while low < len(counts) and not counts[low]:
            low += 1
        self._low = low
        return otherwise if low == len(counts) else self._first + low


class Tracker:
    """The tracker of one operator, which calls it before and after whatever changes its windows."""

    def __init__(self, operator: "WindowedOperator", ports: int) -> None:
        self._operator, self.ports = operator, ports
        self.frame = 1  # the current frame
        self.rows = np.zeros(ports, np.int64)  # rows that have arrived on each port since the start
        self.marks = np.zeros(ports, np.int64)  # punctuations
        self.now = _LEAST  # greatest _ts of a row
        self.open = 0  # open windows
        self.bases, self.origins = FrameCounts(), FrameCounts()
        self._numbers = 0  # window numbers assigned so far
        self._stamp = 0
        self._within = 0
        self._opened: list[np.ndarray] = []  # groups and numbers, of this frame
        self._closed: list[np.ndarray] = []  # hashes
        self.pending_report: Callable[[], None] | None = None  # reports what a step has listed since the last query
        self.renumbered: Callable[[np.ndarray], None] | None = None  # gets new group numbers by old ones
        self.moves = 0  # how often the arrays were replaced
        self._make(64)

    def _make(self, room: int) -> None:
        """Empty arrays for this many groups."""
        self.moves += 1
        self.number = np.full(room, -1, np.int64)  # of the open window; -1: none is open
        self.since = np.zeros(room, np.int64)  # `_ts` of its first row; with a step, the time when it was first seen
        self.base = np.full(room, -1, np.int64)  # -1: not dirty
        self.origin = np.zeros(room, np.int64)
        self.first = np.zeros(room, np.int64)  # frame in which it opened
        self.chain = np.zeros(room, np.int64)  # rows in the records since the last whole one
        self.saved = np.zeros((self.ports, room), np.int64)  # insertion index behind the last row in a record
        self.at = np.zeros((self.ports, room), np.int64)  # of a window that opened in this frame
        self.start = np.zeros((self.ports, room), np.int64)
        self.touched = np.zeros(room, np.int64)  # stamp of the last call with a row of the group
        self._slots = np.zeros(room, np.int64)

    _BY_GROUP = ("number", "since", "base", "origin", "first", "chain", "saved", "at", "start", "touched", "_slots")

    def make_room(self, groups: int = 0) -> None:
        """Make room for the existing groups, or for `groups`."""
        count, room = max(groups, self._operator.groups.count), len(self.number)
        if count > room:
            old = {name: getattr(self, name) for name in self._BY_GROUP}
            self._make(max(count, 2 * room))
            for name, array in old.items():
                getattr(self, name)[..., :room] = array

    def collect(self) -> None:
        """Collect what a step has listed. Called before anything but a step changes windows, and before every query."""
        pending_report, self.pending_report = self.pending_report, None
        if pending_report is not None:
            pending_report()

    # Calls ------------------------------------------------------------------------------------------------------------

    def before(self, *groups: np.ndarray) -> Touched:
        """Rows of these groups are about to arrive, an array for each port; the rings have room for them already."""
        self.collect()
        self.make_room()
        self._stamp += 1
        every = groups[0] if len(groups) == 1 else np.concatenate(groups)
        touched = distinct(every, self.touched, self._stamp, self._slots)
        head, tail = np.zeros((2, self.ports, len(touched)), np.int64)
        for port, store in self._operator.stores.items():
            head[port], tail[port] = store.head[touched], store.tail[touched]
        return Touched(touched, head, tail)

    def tumbled(self, touched: Touched, groups: np.ndarray, ts: np.ndarray, emitted: np.ndarray) -> None:
        """After rows of port 0, in which every window in `emitted` emitted and closed."""
        store, changed = self._operator.stores[0], touched.groups
        head, tail = store.head[changed], store.tail[changed]
        was = self.number[changed] >= 0
        ended = was & (head > touched.head[0])
        others = distinct(emitted, self.touched, self._stamp, self._slots) if len(emitted) else _NOTHING
        fresh = (tail > head) & (~was | ended)
        self._changed(changed[was & ~ended])
        closing = np.concatenate([changed[ended], others]) if len(others) else changed[ended]
        self._within += len(emitted) - len(closing)
        self.close(closing)
        if fresh.any():
            rows = nth_rows(groups, self._slots, np.where(fresh, head - touched.tail[0], len(groups)))[fresh]
            self._open(changed[fresh], ts[rows], head[fresh][None], (self.rows[0] + rows)[None])
        self._arrived(0, ts)

    def slid(self, touched: Touched, *ts: np.ndarray) -> None:
        """After rows of all ports, in which windows evict rows and do not close by emitting."""
        changed = touched.groups
        was = self.number[changed] >= 0
        self._changed(changed[was])
        if not was.all():
            self._open_sliding(changed, ~was, max(int(t[0]) for t in ts if len(t)), touched.tail, self.rows)
        for port, times in enumerate(ts):
            self._arrived(port, times)

    def _open_sliding(
        self, groups: np.ndarray, fresh: np.ndarray, ts: int, tails: np.ndarray, rows: np.ndarray
    ) -> None:
        """Sliding windows open in those of `groups` that are `fresh`, unless all their rows are evicted already;
        `rows`: rows that had arrived on each port before.
        """
        fresh &= self._alive(groups)
        times = np.full(int(fresh.sum()), ts, np.int64)
        self._open(groups[fresh], times, tails[:, fresh], np.repeat(rows[:, None], len(times), axis=1))

    # Steps, which list where the ring of a group was at its first row since the last query ---------------------------

    def stamp(self) -> int:
        """The new mark of the groups that steps touch until the next query."""
        self._stamp += 1
        return self._stamp

    def step_tumbled(self, groups: np.ndarray, heads: np.ndarray, rows: int, emitted: int) -> None:
        """After a step over tumbling windows, before which `rows` rows had arrived; `emitted` windows emitted and
        closed.

        `start[group]` is how many rows had arrived when the group last emitted, if it did. No row of the group lies
        between that row and the first row of its open window, so it serves as the number of that first row.
        """
        if not len(groups):
            self._within += emitted
            return
        store, frame = self._operator.stores[0], self.frame
        opened, closed = np.empty((2, len(groups)), np.int64), np.empty(len(groups), np.int64)
        opening, from_earlier, ended, dirty = tumble(
            groups, heads, store.head, store.tail, self.number, self.base, self.origin, self.first, self.chain,
            self.at[0], self.saved[0], self.since, self.start[0], frame, self._numbers, self.now, rows,
            *self.bases.places, *self.origins.places, opened, closed,
        )  # fmt: skip
        self._within += emitted - from_earlier
        self.open += opening - ended
        if opening or dirty:
            self.bases.add(frame - 1, opening + dirty)
        if opening:
            self.origins.add(frame, opening)
            self._numbers += opening
            self._opened.append(opened[:, :opening])
        if from_earlier:
            self._closed.append(self._operator.groups.hashes[closed[:from_earlier]])

    def step_slid(self, groups: np.ndarray, tails: np.ndarray, ts: int, rows: int) -> None:
        """After a step over sliding windows; `ts` is the time of its first row, `rows` rows had arrived before."""
        was = self.number[groups] >= 0
        if was.all():
            self._changed(groups)
            return
        self._changed(groups[was])
        self._open_sliding(groups, ~was, ts, tails[None], np.array([rows]))

    def step_arrived(self, rows: int, ts: int) -> None:
        """`rows` rows have arrived in total, the last at time `ts`."""
        if rows > self.rows[0]:
            self.rows[0], self.now = rows, max(self.now, ts)

    def _arrived(self, port: int, ts: np.ndarray) -> None:
        self.rows[port] += len(ts)
        if len(ts):
            self.now = max(self.now, int(ts[-1]))

    def _changed(self, groups: np.ndarray) -> None:
        clean = groups[self.base[groups] < 0]
        if len(clean):
            self.base[clean] = self.frame - 1
            self.bases.add(self.frame - 1, len(clean))

    def _open(self, groups: np.ndarray, ts: np.ndarray, at: np.ndarray, start: np.ndarray) -> None:
        count, frame = len(groups), self.frame
        numbers = np.arange(self._numbers, self._numbers + count)
        self._numbers += count
        self.number[groups], self.since[groups], self.first[groups] = numbers, ts, frame
        self.base[groups], self.origin[groups], self.chain[groups] = frame - 1, frame, 0
        self.at[:, groups], self.start[:, groups], self.saved[:, groups] = at, start, at
        self.bases.add(frame - 1, count)
        self.origins.add(frame, count)
        self.open += count
        self._opened.append(np.stack([groups, numbers]))

    def close(self, groups: np.ndarray) -> None:
        """Close the open windows of these groups."""
        self.collect()
        if not len(groups):
            return
        bases = self.base[groups]
        self.bases.drop(bases[bases >= 0])
        self.origins.drop(self.origin[groups])
        from_earlier = self.first[groups] < self.frame
        self._closed.append(self._operator.groups.hashes[groups[from_earlier]])
        self._within += int((~from_earlier).sum())
        self.number[groups] = self.base[groups] = -1
        self.open -= len(groups)

    def close_empty(self, groups: np.ndarray) -> np.ndarray:
        """Close those of these windows from which all rows were evicted; return the others."""
        self.collect()
        self._operator.settle(groups)
        alive = self._alive(groups)
        self.close(groups[~alive])
        return groups[alive]

    def _alive(self, groups: np.ndarray) -> np.ndarray:
        """Which of these groups are live in a store."""
        alive = np.zeros(len(groups), bool)
        for store in self._operator.stores.values():
            alive |= store.alive(groups)
        return alive

    # Frames -----------------------------------------------------------------------------------------------------------

    def happened(self) -> FrameEvents:
        """What opened and closed in this frame so far."""
        self.collect()
        groups = _NOTHING
        if self._opened:
            groups, numbers = self.opened_since()
            still_open = self.number[groups] == numbers
            groups = groups if still_open.all() else groups[still_open]
        closed = _NO_HASHES
        if self._closed:
            closed = self._closed[0] if len(self._closed) == 1 else np.concatenate(self._closed)
        return FrameEvents(groups, self.at[:, groups], self.start[:, groups], closed, self._within)

    @property
    def eventful(self) -> bool:
        """Whether a window opened or closed in this frame."""
        self.collect()
        return bool(self._opened or self._closed)

    def end_frame(self) -> None:
        """End this frame and start the next."""
        self.frame += 1
        self._opened, self._closed, self._within = [], [], 0

    def opened_since(self) -> np.ndarray:
        """Groups and numbers of the windows that opened in this frame, oldest first; some may be closed again."""
        self.collect()
        if len(self._opened) != 1:
            self._opened = [np.concatenate(self._opened, axis=1) if self._opened else np.empty((2, 0), np.int64)]
        return self._opened[0]

    # After a restore --------------------------------------------------------------------------------------------------

    def begin(
        self,
        frame: int,
        groups: np.ndarray,
        bases: np.ndarray,
        origins: np.ndarray,
        saved: np.ndarray,
        chain: np.ndarray,
    ) -> None:
        """These windows are open after `frame`; base -1: not dirty."""
        self.make_room()
        self.frame = frame + 1
        self.number[groups] = np.arange(len(groups))
        self._numbers = self.open = len(groups)
        self.since[groups] = _LEAST  # so all of them count as slow
        self.base[groups], self.origin[groups], self.chain[groups], self.saved[:, groups] = bases, origins, chain, saved
        for counts, frames in ((self.bases, bases[bases >= 0]), (self.origins, origins)):
            for frame_, windows in zip(*np.unique(frames, return_counts=True), strict=True):
                counts.add(int(frame_), int(windows))

    def moving(self) -> "Moving":
        """What is needed to find the open windows again after the operator has renumbered its groups."""
        self.collect()
        groups = np.flatnonzero(self.number >= 0)
        table = self._operator.groups
        return Moving(groups, table.columns(groups) if table.types else [])

    def moved(self, before: "Moving") -> None:
        """The operator has renumbered its groups."""
        operator, old_groups = self._operator, before.groups
        new_groups = operator.groups.groups(before.columns) if before.columns and len(old_groups) else old_groups
        for store in operator.stores.values():
            store.reserve(_NOTHING)
        old = {name: getattr(self, name) for name in self._BY_GROUP}
        self._make(max(64, operator.groups.count))
        for name in self._BY_GROUP:
            getattr(self, name)[..., new_groups] = old[name][..., old_groups]
        self.touched[:] = 0
        new = np.full(len(old["number"]), -1, np.int64)
        new[old_groups] = new_groups
        self._opened = [np.stack([new[groups], numbers])[:, new[groups] >= 0] for groups, numbers in self._opened]
        if self.renumbered is not None:
            self.renumbered(new)
        self.close_empty(new_groups)  # their rows may have been evicted


class Moving(NamedTuple):
    groups: np.ndarray
    columns: list[pa.Array]
