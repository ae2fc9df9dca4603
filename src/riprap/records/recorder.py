"""Makes the records of one operator, on its thread and between two of its calls, so that each is a consistent cut.

`record` ends the frame and returns the record to append with the output of the frame. The recorder retains the points
of frames after which some window has unsaved rows, and drops the others.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.windowed import WindowedOperator
from riprap.records.check_schedule import CheckPace, Schedule
from riprap.records.record import Record, RecordPoint, RecordTotals

VERSION = "_version"  # of the operator's state, among the scalars of a record
_LOOK = 65_536  # groups that one frame searches for windows that need old records
_POINTS = 4096  # points that may be retained before unneeded ones are dropped


class Recorder:
    """`start`: the point at which recording starts: frame 0 of a stream, or the last one of another incarnation."""

    def __init__(
        self,
        operator: WindowedOperator,
        pace: CheckPace,
        start: RecordPoint | None = None,
        totals: RecordTotals | None = None,
    ) -> None:
        self._operator = operator
        self.tracker = operator.tracker or operator.track()
        self.schedule = Schedule(pace)
        self.tracker.renumbered = self.schedule.renumber
        ports = self.tracker.ports
        nothing = np.zeros(ports, np.int64)
        self.totals = totals or RecordTotals()
        self._points = {0: RecordPoint(0, START_KEY, nothing, nothing)}
        if start is not None:
            self._points = {start.frame: start}
        self.checked_rows = 0  # in the last record
        self._looked = 0  # the group up to which windows were searched that need old records

    def remember(self, point: RecordPoint) -> None:
        """Retain a point after which restored windows have unsaved rows."""
        self._points[point.frame] = point

    @property
    def frame(self) -> int:
        """The current frame."""
        return self.tracker.frame

    def due(self) -> bool:
        """Whether a record is due although nothing is emitted."""
        return self.tracker.eventful or self.schedule.due(self.tracker.now, self.tracker.since)

    def record(self, key: OrderKey, numbers: Mapping[str, int], *, press: int = 0, everything: bool = False) -> Record:
        """End the frame and return its record. At most M windows whose oldest record is of a frame before `press` are
        checked completely; `everything`: all windows are."""
        tracker, schedule, frame = self.tracker, self.schedule, self.tracker.frame
        tracker.collect()
        if tracker.eventful:
            schedule.opened(tracker.opened_since())
        schedule.age(tracker.now, tracker.number, tracker.since)
        selected = np.empty(0, np.int64)
        if schedule.due(tracker.now, tracker.since):
            selected = tracker.close_empty(schedule.shoot(tracker.now, tracker.number))
            selected = selected[tracker.base[selected] >= 0]
        pressed = self._pressed(press, selected)
        if everything:
            selected, pressed = selected[:0], tracker.close_empty(np.flatnonzero(tracker.number >= 0))
        whole, tables = self._check(selected, pressed)
        happened = tracker.happened()
        totals = self.totals
        self.totals = RecordTotals(
            tracker.open,
            tracker.now,
            totals.opened + len(happened.opened),
            totals.checked + len(whole),
            totals.closed + len(happened.closed),
            totals.within + happened.within,
        )
        cut = RecordPoint(frame, key, tracker.rows.copy(), tracker.marks.copy(), dict(numbers))
        self._points[frame] = cut
        unsaved = self._points[tracker.bases.least(frame)]
        self._forget(unsaved.frame)
        scalars = {**self._operator.scalars(), VERSION: self._operator.version}
        hashes = self._operator.groups.hashes[happened.opened]
        tracker.end_frame()
        return Record(
            cut, unsaved, self.totals, scalars, hashes, happened.at, happened.start, happened.closed, whole, tables
        )

    @property
    def oldest(self) -> int:
        """The frame of the oldest record that a recovery needs."""
        return self.tracker.origins.least(self.tracker.frame - 1)

    def _pressed(self, press: int, selected: np.ndarray) -> np.ndarray:
        tracker = self.tracker
        if press <= 0 or tracker.origins.least(tracker.frame) >= press:
            return np.empty(0, np.int64)
        first, room = self._looked, len(tracker.number)  # some groups at a time, to bound the cost
        until = min(first + _LOOK, room)
        behind = first + np.flatnonzero((tracker.number[first:until] >= 0) & (tracker.origin[first:until] < press))
        most = self.schedule.pace.shot
        self._looked = int(behind[most]) if len(behind) > most else until % room
        behind = behind[:most]
        return tracker.close_empty(behind[~np.isin(behind, selected)])

    def _check(
        self, selected: np.ndarray, pressed: np.ndarray
    ) -> tuple[np.ndarray, dict[int, tuple[pa.RecordBatch, pa.RecordBatch]]]:
        """The contents of windows: the rows since their last record; or all rows, if the records of the window would
        otherwise have more rows than the window."""
        groups = np.concatenate([selected, pressed])
        self.checked_rows = 0
        if not len(groups):
            return np.empty(0, bool), {}
        tracker, stores, frame = self.tracker, self._operator.stores, self.tracker.frame
        size, new = np.zeros((2, len(groups)), np.int64)
        for port, store in stores.items():
            held = store.tail[groups] - store.head[groups]
            size += held
            new += np.minimum(held, store.tail[groups] - tracker.saved[port][groups])
        whole = (tracker.chain[groups] + new > size) | (np.arange(len(groups)) >= len(selected)) | (new == size)
        tables = {}
        for port, store in stores.items():
            tail = store.tail[groups]
            held = tail - store.head[groups]
            rows = np.where(whole, held, np.minimum(held, tail - tracker.saved[port][groups]))
            name = f"port{port}"
            saved = store.save_groups(name, groups, rows)
            tables[port] = (saved[f"{name}.keys"], saved[f"{name}.rows"])
            tracker.saved[port][groups] = tail
            self.checked_rows += int(rows.sum())
        tracker.chain[groups] = np.where(whole, size, tracker.chain[groups] + new)
        bases = tracker.base[groups]
        tracker.bases.drop(bases[bases >= 0])
        tracker.base[groups] = -1
        tracker.origins.drop(tracker.origin[groups[whole]])
        tracker.origin[groups[whole]] = frame
        tracker.origins.add(frame, int(whole.sum()))
        return whole, tables

    def _forget(self, before: int) -> None:
        if len(self._points) > _POINTS and next(iter(self._points)) < before:
            self._points = {frame: point for frame, point in self._points.items() if frame >= before}
