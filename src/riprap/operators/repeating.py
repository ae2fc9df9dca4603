"""A recovering operator repeats its past: rows that it processed before, some of which are in its restored state.

A *past* specifies which windows were open at a point, and for each of them from which row of a port on rows are
missing in the restored state. Everything up to that point was emitted before the failure. So until the point is
reached the operator emits nothing, closes no window and opens no other: it inserts the missing rows of open windows,
ignores all other rows, and at the point sets the scalars of the state to their former values.

Rows are counted per port from the start of the stream, so ties of times or keys do not matter. Punctuations are
counted too, because they are emitted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from riprap.graph.windows import Count, Time, Window
from riprap.operators.columns import WordColumn, times_of
from riprap.operators.hashes import HashNumbers

if TYPE_CHECKING:
    from riprap.operators.windowed import WindowedOperator


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class RecordedWindows:
    """Windows in the order of `windows`; arrays by port have a row for each port."""

    windows: HashNumbers  # the open windows
    start: np.ndarray  # number of the first row of a port that is missing in the state
    at: np.ndarray  # insertion index of that row
    bare: np.ndarray  # whether no row of the window was restored: the window opened with that row
    boundary: np.ndarray  # the next boundary when the restored state was saved
    scalars: Mapping[str, int]
    rows: np.ndarray  # rows that had arrived on each port at the point
    marks: np.ndarray  # punctuations
    from_rows: np.ndarray  # the same where the repetition starts
    from_marks: np.ndarray


class Repetition:
    """An operator that repeats its past. `over`: it has reached the point."""

    def __init__(
        self, operator: "WindowedOperator", past: RecordedWindows, then: "Callable[[Repetition], None] | None" = None
    ) -> None:
        """`then` is called at the end, before the next row is processed."""
        self._operator, self._past, self._then = operator, past, then
        self.rows, self.marks = past.from_rows.copy(), past.from_marks.copy()
        self.seen = np.zeros(past.windows.count, bool)  # windows that rows were inserted into
        self._unseen = past.bare.copy()
        self._emitted = np.zeros(past.windows.count, np.int64)  # inserted rows that a boundary covered, per window
        self.over = False
        self._finish_if_reached()

    def punctuated(self, port: int) -> bool:
        """A punctuation arrives; return whether it belongs to the past."""
        if self.over or self.marks[port] >= self._past.marks[port]:
            return False
        self.marks[port] += 1
        self._finish_if_reached()
        return True

    def left(self, port: int) -> int:
        """How many rows of the past have not arrived yet."""
        return int(self._past.rows[port] - self.rows[port])

    def consume(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Rows arrive, a batch for each port; return those that do not belong to the past."""
        rest = []
        for port, batch in enumerate(batches):
            count = min(batch.num_rows, self.left(port))
            if count > 0:
                self._consume(port, batch.slice(0, count))
                self.rows[port] += count
            rest.append(batch.slice(max(count, 0)))
        self._finish_if_reached()
        assert self.over or not any(batch.num_rows for batch in rest), "rows overtook rows of the past"
        return rest

    def _consume(self, port: int, batch: pa.RecordBatch) -> None:
        operator = self._operator
        if port not in operator.stores:
            return
        groups = operator.groups_of(port, batch)
        missing, windows = self._missing(port, groups)
        if len(missing):
            words = operator.words_of(port, batch.take(pa.array(missing)))
            self._insert(port, windows, groups[missing], times_of(batch)[missing], words, self.rows[port] + missing)

    def consume_words(self, groups: np.ndarray, ts: np.ndarray, words: Mapping[str, WordColumn]) -> int:
        """As `consume`, for rows of port 0 with known groups, times and stored columns; return how many belonged to the
        past.
        """
        count = min(len(groups), self.left(0))
        missing, windows = self._missing(0, groups[:count])
        if len(missing):
            chosen = {name: WordColumn(v[missing], ok[missing] if len(ok) else ok) for name, (v, ok) in words.items()}
            self._insert(0, windows, groups[missing], ts[missing], chosen, self.rows[0] + missing)
        self.rows[0] += count
        self._finish_if_reached()
        return count

    def _missing(self, port: int, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the next rows of a port are missing in the state, and the window of each."""
        past = self._past
        if not past.windows.count:
            return _NONE, _NONE
        number = np.arange(self.rows[port], self.rows[port] + len(groups))
        windows = np.where(groups >= 0, past.windows.find(self._operator.groups.hashes[groups]), -1)
        missing = np.flatnonzero((windows >= 0) & (number >= past.start[port][windows]))
        return missing, windows[missing]

    def _insert(
        self, port: int, windows: np.ndarray, groups: np.ndarray, ts: np.ndarray, words: Mapping[str, WordColumn],
        number: np.ndarray,
    ) -> None:  # fmt: skip
        operator, past = self._operator, self._past
        store = operator.stores[port]
        self.seen[windows] = True
        fresh = self._unseen[windows]
        if fresh.any():
            new_windows, places = np.unique(windows[fresh], return_index=True)
            self._unseen[new_windows] = False
            for other_port, other_store in operator.stores.items():
                other_store.reserve(np.empty(0, np.int64))
                new_groups = groups[fresh][places]
                other_store.head[new_groups] = other_store.tail[new_groups] = past.at[other_port][new_windows]
        operator.insert_past(port, words, groups, ts, number)
        if store.emits_by_time:
            every = operator.emission_period
            emitted = windows[(ts // every) * every + every < past.scalars["boundary"]]
            np.add.at(self._emitted, emitted, 1)

    def _finish_if_reached(self) -> None:
        """If the point is reached, set the state to what it was there."""
        past = self._past
        if self.over or (self.rows < past.rows).any() or (self.marks < past.marks).any():
            return
        self.over = True
        operator = self._operator
        operator.restore_scalars(past.scalars)
        groups = self.groups()
        for port, store in operator.stores.items():
            if store.emits_by_time and len(groups):
                passed = (past.scalars["boundary"] > past.boundary) | past.bare
                emitted = past.at[port] + self._emitted
                known = store.emitted_tail[groups]
                store.emitted_tail[groups] = np.where(passed & (~past.bare | (self._emitted > 0)), emitted, known)
        operator.settle()
        if self._then is not None:
            self._then(self)

    def groups(self) -> np.ndarray:
        """The group of each window."""
        table, past = self._operator.groups, self._past
        if not past.windows.count:
            return np.empty(0, np.int64)
        windows = past.windows.find(table.hashes[: table.count])
        out = np.full(past.windows.count, -1, np.int64)
        known = np.flatnonzero(windows >= 0)
        out[windows[known]] = known
        assert (out >= 0).all(), "an open window has neither state nor rows"
        return out


def stamped(window: Window, ts: np.ndarray, number: np.ndarray) -> np.ndarray:
    """What rows are evicted by: their time, or their number on their port."""
    return ts if isinstance(window, Time) else number + 1


def of_count(window: Window) -> int:
    """The greatest number of rows of a window; 0: unlimited."""
    return window.size if isinstance(window, Count) else 0
