"""Schedules which windows are checked when: T, H and M.

A window that has been open for longer than H (event time) is *slow*, and joins a list in the order in which windows
became slow. In every T each slow window is visited once, and those that changed since their last record are checked: in
S = slow / M shots of at most M windows, one every T / S. A shot continues where the previous one stopped, so its cost
does not depend on the number of windows; closed windows leave the list when a shot passes them. Windows that prevent
trimming the log are checked completely, changed or not (`Recorder.record(press=…)`).

A missed shot only costs time in a recovery, so missed shots are not made up for.
"""

from typing import NamedTuple

import numpy as np

_LEAST = np.iinfo(np.int64).min


class CheckPace(NamedTuple):
    """T, H and M. Times in microseconds of event time."""

    every: int  # T
    slow_after: int  # H
    shot: int  # M: windows


class _List:
    """A growable list of windows as (group, number)."""

    def __init__(self) -> None:
        self.items = np.empty((2, 256), np.int64)
        self.start = self.stop = 0

    def add(self, windows: np.ndarray) -> None:
        count = windows.shape[1]
        if self.stop + count > self.items.shape[1]:
            used = self.items[:, self.start : self.stop]
            larger = np.empty((2, max(256, 2 * (used.shape[1] + count))), np.int64)
            larger[:, : used.shape[1]] = used
            self.items, self.start, self.stop = larger, 0, used.shape[1]
        self.items[:, self.stop : self.stop + count] = windows
        self.stop += count

    def renumber(self, new: np.ndarray) -> None:
        used = self.items[:, self.start : self.stop]
        groups = np.where(used[0] < len(new), new[np.minimum(used[0], len(new) - 1)], -1)
        used = np.stack([groups, used[1]])[:, groups >= 0]
        self.items, self.start, self.stop = used.copy(), 0, used.shape[1]

    def __len__(self) -> int:
        return self.stop - self.start


class Schedule:
    """`number[group]`: the number of the group's open window, from the tracker; `since[group]`: when it opened."""

    def __init__(self, pace: CheckPace) -> None:
        self.pace = pace
        self._young, self._slow = _List(), _List()
        self._at = self._kept = 0  # in the slow list: where the next shot continues, and the end of the compacted part
        self._shot_at = _LEAST  # event time of the last shot

    def opened(self, windows: np.ndarray) -> None:
        """Add windows that opened, oldest first."""
        if windows.shape[1]:
            self._young.add(windows)

    def restored(self, windows: np.ndarray) -> None:
        """Add recovered windows, which are all slow."""
        self._slow.add(windows)

    @property
    def slow(self) -> int:
        return len(self._slow)

    def age(self, now: int, number: np.ndarray, since: np.ndarray) -> None:
        """Move windows that have become slow to the slow list, and drop closed ones."""
        young = self._young
        while len(young):  # in steps, so that the cost does not depend on the length of the list
            part = young.items[:, young.start : min(young.start + 4096, young.stop)]
            is_open = number[part[0]] == part[1]
            old = ~is_open | (since[part[0]] < now - self.pace.slow_after)
            count = len(old) if old.all() else int(old.argmin())
            if count:
                self._slow.add(part[:, :count][:, is_open[:count]])
                young.start += count
            if count < part.shape[1]:
                return

    @property
    def interval(self) -> int:
        """Microseconds between two shots: T / S."""
        return self.pace.every // max(-(-len(self._slow) // self.pace.shot), 1)

    def due(self, now: int, since: np.ndarray) -> bool:
        """Whether it is time for a shot, or a window has become slow. Checked when nothing is emitted."""
        if len(self._slow) and (self._shot_at == _LEAST or now - self._shot_at >= self.interval):
            return True
        young = self._young
        return len(young) > 0 and bool(since[young.items[0, young.start]] < now - self.pace.slow_after)

    def shoot(self, now: int, number: np.ndarray) -> np.ndarray:
        """The groups of the next open windows of the slow list, at most M, changed or not."""
        slow = self._slow
        self._shot_at = now
        if self._at >= len(slow):  # the round is complete: the compacted part is the list
            slow.stop, self._at, self._kept = slow.start + self._kept, 0, 0
        if not len(slow):
            return np.empty(0, np.int64)
        first = slow.start + self._at
        part = slow.items[:, first : min(first + self.pace.shot, slow.stop)].copy()
        self._at += part.shape[1]
        part = part[:, number[part[0]] == part[1]]
        put = slow.start + self._kept
        slow.items[:, put : put + part.shape[1]] = part
        self._kept += part.shape[1]
        return part[0]

    def renumber(self, new: np.ndarray) -> None:
        """Apply new group numbers; -1: the group is gone."""
        slow = self._slow
        tail = slow.items[:, slow.start + self._at : slow.stop]
        slow.items = np.concatenate([slow.items[:, slow.start : slow.start + self._kept], tail], axis=1)
        slow.start, slow.stop = 0, slow.items.shape[1]
        self._at = self._kept = 0
        slow.renumber(new)
        self._young.renumber(new)
