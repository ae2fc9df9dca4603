"""Recovery from records: reads them newest first, to the state at the newest cut and the point from which to replay.

The newest record has the number of open windows. Records are read backwards until that many windows are complete. A
window's newest record decides whether it is open (older records of its group do not count then); a *checked* entry that
is not whole needs the ones before it, back to a whole one. How many records are read depends on the windows, not on the
length of the stream. Records that are lost at the end of a stream are lost together with the rows beside them.

`RecordedState.into` loads the contents into a fresh operator, which then replays the input since `unsaved` and ignores
the rows that it already has (`operators/repeating.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.operators.hashes import HashNumbers
from riprap.operators.repeating import RecordedWindows, Repetition
from riprap.operators.windowed import WindowedOperator
from riprap.records.check_schedule import CheckPace
from riprap.records.record import Record, RecordPoint, RecordTotals, decode
from riprap.records.recorder import VERSION, Recorder

# The state of a window while records are read backwards.
_UNKNOWN, _NEEDS_MORE, _COMPLETE, _CLOSED = 0, 1, 2, 3


@dataclass(frozen=True)
class RecordedState:
    """The state at the newest cut of a stream, from its records."""

    cut: RecordPoint
    unsaved: RecordPoint  # the input is replayed from here on
    totals: RecordTotals
    scalars: Mapping[str, int]
    windows: HashNumbers  # that are open
    start: np.ndarray  # by port
    at: np.ndarray
    bare: np.ndarray
    boundary: np.ndarray
    origin: np.ndarray
    parts: tuple[Mapping[int, tuple[pa.RecordBatch, pa.RecordBatch]], ...]  # contents, oldest first
    oldest: RecordPoint  # of the oldest record that was needed
    records_read: int

    def into(self, operator: WindowedOperator, pace: CheckPace) -> "RecoveringOperator":
        """Load a fresh operator, which then replays its input up to the cut."""
        self.load(operator)
        return RecoveringOperator(self, operator, pace)

    def load(self, operator: WindowedOperator) -> None:
        """Load the recorded state into a fresh operator."""
        for part in self.parts:
            for port, (keys, rows) in part.items():
                operator.stores[port].load(f"port{port}", {f"port{port}.keys": keys, f"port{port}.rows": rows})
        operator.version = self.scalars[VERSION]

    @property
    def past(self) -> RecordedWindows:
        """What the operator has to replay then."""
        cut, unsaved = self.cut, self.unsaved
        return RecordedWindows(
            self.windows, self.start, self.at, self.bare, self.boundary, self.scalars,
            cut.rows, cut.marks, unsaved.rows, unsaved.marks,
        )  # fmt: skip


class RecoveringOperator:
    """A recovering operator, which starts to record when it has reached the cut."""

    def __init__(self, recovery: RecordedState, operator: WindowedOperator, pace: CheckPace) -> None:
        self._recovery, self._operator, self._pace = recovery, operator, pace
        self.recorder: Recorder | None = None  # None: still replaying
        operator.repeat(recovery.past, self._replayed)

    def _replayed(self, repetition: Repetition) -> None:
        recovery, operator, tracker = self._recovery, self._operator, self._operator.track()
        groups = repetition.groups()
        bases = np.where(repetition.seen, recovery.unsaved.frame, -1)
        chain = np.zeros(len(groups), np.int64)
        for port, store in operator.stores.items():
            chain += np.maximum(recovery.at[port] - store.head[groups], 0)
        cut = recovery.cut
        tracker.rows[:], tracker.marks[:], tracker.now = cut.rows, cut.marks, recovery.totals.now
        tracker.begin(cut.frame, groups, bases, recovery.origin, recovery.at, chain)
        recorder = Recorder(operator, self._pace, cut, recovery.totals)
        recorder.remember(recovery.unsaved)
        recorder.schedule.restored(np.stack([groups, tracker.number[groups]]))
        self.recorder = recorder


def recover(records: Iterable[bytes]) -> RecordedState | None:
    """The state from a stream's records, newest first; reads only as many as it needs. None: there are none."""
    newest: Record | None = None
    read = 0
    for data in records:
        record = decode(data)
        read += 1
        if newest is None:
            newest = record
            windows = _BackwardScan(len(record.cut.rows))
        windows.take(record)
        if windows.complete == newest.totals.open and not windows.partly:
            break
    if newest is None:
        return None
    if windows.complete != newest.totals.open or windows.partly:
        raise DataError(
            f"the records of the stream end before all {newest.totals.open} open windows are found "
            f"({windows.complete} are): a part of it was deleted or lost; run again from the start"
        )
    return windows.recovery(newest, record.cut, read)


class _BackwardScan:
    """The windows found so far, while records are read backwards."""

    def __init__(self, ports: int) -> None:
        self._windows = HashNumbers()
        self._state = np.zeros(64, np.int8)
        self._bare = np.zeros(64, bool)
        self._boundary = np.zeros(64, np.int64)
        self._origin = np.zeros(64, np.int64)
        self._start = np.zeros((ports, 64), np.int64)
        self._at = np.zeros((ports, 64), np.int64)
        self._parts: list[Mapping[int, tuple[pa.RecordBatch, pa.RecordBatch]]] = []
        self.complete = self.partly = 0

    def take(self, record: Record) -> None:
        """Process a frame backwards: a frame closes windows, then opens others, then checks open ones."""
        self._checked(record)
        self._opened(record)
        self._closed(record)

    def _numbers(self, hashes: np.ndarray) -> np.ndarray:
        numbers = self._windows.add(hashes)
        room = len(self._state)
        if self._windows.count > room:
            size = max(self._windows.count, 2 * room)
            for name in ("_state", "_bare", "_boundary", "_origin", "_start", "_at"):
                old = getattr(self, name)
                larger = np.zeros((*old.shape[:-1], size), old.dtype)
                larger[..., :room] = old
                setattr(self, name, larger)
        return numbers

    def _checked(self, record: Record) -> None:
        if not len(record.whole):
            return
        some = next(iter(record.checked.values()))[0]
        numbers = self._numbers(some.column("_hash").to_numpy())
        state = self._state[numbers]
        wanted = (state == _UNKNOWN) | (state == _NEEDS_MORE)
        if not wanted.any():
            return
        newest = state == _UNKNOWN
        selected = numbers[newest]
        self._boundary[selected] = record.scalars.get("boundary", 0)
        self._start[:, selected] = record.cut.rows[:, None]
        for port, (keys, _) in record.checked.items():
            self._at[port, selected] = keys.column("_tail").to_numpy()[newest]
        whole = wanted & record.whole
        self.partly += int((newest & ~record.whole).sum()) - int(((state == _NEEDS_MORE) & record.whole).sum())
        self._state[numbers[wanted & ~record.whole]] = _NEEDS_MORE
        self._complete(numbers[whole], record.cut.frame)
        self._parts.append(
            record.checked if wanted.all() else {port: only(part, wanted) for port, part in record.checked.items()}
        )

    def _complete(self, numbers: np.ndarray, frame: int) -> None:
        self._state[numbers] = _COMPLETE
        self._origin[numbers] = frame
        self.complete += len(numbers)

    def _opened(self, record: Record) -> None:
        if not len(record.opened):
            return
        numbers = self._numbers(record.opened)
        state = self._state[numbers]
        newest = state == _UNKNOWN
        selected = numbers[newest]
        self._bare[selected] = True
        self._start[:, selected], self._at[:, selected] = record.start[:, newest], record.at[:, newest]
        started = newest | (state == _NEEDS_MORE)
        self.partly -= int((state == _NEEDS_MORE).sum())
        self._complete(numbers[started], record.cut.frame)

    def _closed(self, record: Record) -> None:
        numbers = self._numbers(record.closed)
        self._state[numbers[self._state[numbers] == _UNKNOWN]] = _CLOSED

    def recovery(self, newest: Record, oldest: RecordPoint, read: int) -> RecordedState:
        count = self._windows.count
        selected = np.flatnonzero(self._state[:count] == _COMPLETE)
        windows = HashNumbers()
        windows.add(self._windows.hashes[selected])
        return RecordedState(
            newest.cut,
            newest.unsaved,
            newest.totals,
            newest.scalars,
            windows,
            self._start[:, selected],
            self._at[:, selected],
            self._bare[selected],
            self._boundary[selected],
            self._origin[selected],
            tuple(reversed(self._parts)),
            oldest,
            read,
        )


def only(part: tuple[pa.RecordBatch, pa.RecordBatch], wanted: np.ndarray) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The tables of some windows."""
    keys, rows = part
    of_rows = np.repeat(wanted, keys.column("_rows").to_numpy())
    return keys.filter(pa.array(wanted)), rows.filter(pa.array(of_rows))
