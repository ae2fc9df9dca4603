"""Coming back: from the records of a stream, newest first, to the state at the newest and where to read input again.

The newest record says how many windows are open. Records are read back until that many have been found, each with all
that is needed to put it together: the window's newest record says whether it is open (what is older of its group does
not count then), a *checked* that is not whole needs the ones before it, back to a whole one. How far that is depends on
the windows, not on how long the stream is. What is lost at the end of a stream is lost with the rows beside it.

`RecordedState.into` puts the content into a fresh operator, which then repeats the input since `unsaved` and ignores
what it
has (`operators/repeating.py`).
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

# What is known of a window on the way back.
_UNKNOWN, _NEEDS_MORE, _COMPLETE, _CLOSED = 0, 1, 2, 3


@dataclass(frozen=True)
class RecordedState:
    """What the records of one stream say of its newest cut."""

    cut: RecordPoint
    unsaved: RecordPoint  # the input is read again from here on
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

    def into(self, operator: WindowedOperator, pace: CheckPace) -> "Coming":
        """A fresh operator gets what the records have, and repeats what comes until it is where it was."""
        self.load(operator)
        return Coming(self, operator, pace)

    def load(self, operator: WindowedOperator) -> None:
        """A fresh operator gets what the records have."""
        for part in self.parts:
            for port, (keys, rows) in part.items():
                operator.stores[port].load(f"port{port}", {f"port{port}.keys": keys, f"port{port}.rows": rows})
        operator.version = self.scalars[VERSION]

    @property
    def past(self) -> RecordedWindows:
        """What it has to repeat then."""
        cut, unsaved = self.cut, self.unsaved
        return RecordedWindows(
            self.windows, self.start, self.at, self.bare, self.boundary, self.scalars,
            cut.rows, cut.marks, unsaved.rows, unsaved.marks,
        )  # fmt: skip


class Coming:
    """An operator on its way back, and recording as soon as it is there."""

    def __init__(self, recovery: RecordedState, operator: WindowedOperator, pace: CheckPace) -> None:
        self._recovery, self._operator, self._pace = recovery, operator, pace
        self.recorder: Recorder | None = None  # None: not there yet
        operator.repeat(recovery.past, self._there)

    def _there(self, repetition: Repetition) -> None:
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
    """From records as a stream gives them backwards, of which it takes as many as it needs; None: there is none."""
    newest: Record | None = None
    read = 0
    for data in records:
        record = decode(data)
        read += 1
        if newest is None:
            newest = record
            back = _Back(len(record.cut.rows))
        back.take(record)
        if back.complete == newest.totals.open and not back.partly:
            break
    if newest is None:
        return None
    if back.complete != newest.totals.open or back.partly:
        raise DataError(
            f"the records of the stream end before all {newest.totals.open} open windows are found "
            f"({back.complete} are): a part of it was deleted or lost; run again from the start"
        )
    return back.recovery(newest, record.cut, read)


class _Back:
    """What is known of windows while records are read from the newest on."""

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
        """Within a frame: windows close, others open, and what is open then is checked."""
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
        chosen = numbers[newest]
        self._boundary[chosen] = record.scalars.get("boundary", 0)
        self._start[:, chosen] = record.cut.rows[:, None]
        for port, (keys, _) in record.checked.items():
            self._at[port, chosen] = keys.column("_tail").to_numpy()[newest]
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
        chosen = numbers[newest]
        self._bare[chosen] = True
        self._start[:, chosen], self._at[:, chosen] = record.start[:, newest], record.at[:, newest]
        started = newest | (state == _NEEDS_MORE)
        self.partly -= int((state == _NEEDS_MORE).sum())
        self._complete(numbers[started], record.cut.frame)

    def _closed(self, record: Record) -> None:
        numbers = self._numbers(record.closed)
        self._state[numbers[self._state[numbers] == _UNKNOWN]] = _CLOSED

    def recovery(self, newest: Record, oldest: RecordPoint, read: int) -> RecordedState:
        count = self._windows.count
        chosen = np.flatnonzero(self._state[:count] == _COMPLETE)
        windows = HashNumbers()
        windows.add(self._windows.hashes[chosen])
        return RecordedState(
            newest.cut,
            newest.unsaved,
            newest.totals,
            newest.scalars,
            windows,
            self._start[:, chosen],
            self._at[:, chosen],
            self._bare[chosen],
            self._boundary[chosen],
            self._origin[chosen],
            tuple(reversed(self._parts)),
            oldest,
            read,
        )


def only(part: tuple[pa.RecordBatch, pa.RecordBatch], wanted: np.ndarray) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The tables of some windows."""
    keys, rows = part
    of_rows = np.repeat(wanted, keys.column("_rows").to_numpy())
    return keys.filter(pa.array(wanted)), rows.filter(pa.array(of_rows))
