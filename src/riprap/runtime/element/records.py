"""Continuous checkpoints of an element: records of its one stateful operator, in the log of one of its outputs.

A record is appended together with the rows of its call, after the rows of the element's other outputs. While a new
incarnation repeats its past, it emits nothing and writes no records. The numbers of its outputs continue after those of
the last record, and items that a log has are not appended again.

When a record is stable, the element releases the positions in other elements' logs, and the part of its own log, that
no open window needs.
"""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, cast

from riprap.base.clock import Clock
from riprap.engine.engine import Engine
from riprap.graph.annotations import Continuous
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.operators.windowed import WindowedOperator
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut
from riprap.records.check_schedule import CheckPace
from riprap.records.goal import Goal
from riprap.records.record import RecordTotals, encode
from riprap.records.recorder import Recorder
from riprap.records.recovery import RecordedState, RecoveringOperator, recover
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe

EVERY, SHOT = 100_000, 1024  # T and H (microseconds), and M, if neither they nor a goal are specified
_RELEASE_EVERY = 1_000_000  # microseconds
_RARE = 100  # pause between records, as a multiple of the time that one takes: records take 1 % of the time
_LONGEST = 0.05  # seconds without a record, if one is due
_LEAVES = 0.1  # weight of a new value in an average
_FRAMES = 8192  # age of the oldest needed record at which the windows that need it are saved again
_SOURCE = "source "
_ROW = "row"  # of the log, after which a record lies
_ANNOUNCED = ("told ts", "told src", "told seq", "told n")  # watermark announced before the record


class _Needs(NamedTuple):
    """What is still needed once a record is stable."""

    number: int  # of the record in this incarnation
    inputs: Mapping[ChannelId, int]  # positions in their logs
    row: int  # of the element's own log


class Records:
    """Of one incarnation. `recovery` is the state from earlier incarnations' records; None: there are none."""

    def __init__(self, layout: Layout, pe: Pe, operator: str, engine: Engine, host: Host, clock: Clock) -> None:
        self.channel = log_of(layout, pe)
        self._name, self._engine, self._host, self._clock = operator, engine, host, clock
        self._operator = cast(WindowedOperator, engine.operators[operator])
        self._names = {channel: _names(channel) for channel in layout.inputs(pe)}
        self._sent = {channel: _sent(channel) for channel in layout.all_outputs(pe)}
        settings = layout.graph[operator].annotations.continuous
        assert settings is not None
        pace = pace_of(settings)
        self._goal: Goal | None = None
        if settings.recovery is not None:
            self._goal = Goal(settings.recovery / 1e6, pace, settings.every, settings.slow_after, settings.shot)
        self._takes, self._next = 0.0, 0.0  # seconds that a record takes on average; earliest time of the next one
        self._worked = 0.0  # seconds since the last update of the goal
        self._seen = (0, 0)  # event time, and rows, at that update
        started = clock.monotonic()
        self.recovery: RecordedState | None = recover(host.records(self.channel))
        self._recorder: Recorder | None = None
        self._recovering: RecoveringOperator | None = None
        self._rows: dict[int, int] = {}  # by frame: the row of its record
        if self.recovery is None:
            self._operator.track()
            self._recorder = Recorder(self._operator, pace)
        else:
            self._recovering = self.recovery.into(self._operator, pace)
            self._repeating_since = clock.monotonic()
            self._reading = self._repeating_since - started
            self._rows[0] = self.recovery.oldest.numbers[_ROW]
        self._written = 0
        self._needs: deque[_Needs] = deque()
        self._released = 0

    # Starting point ---------------------------------------------------------------------------------------------------

    def input_start(self, channel: ChannelId) -> tuple[int, int]:
        """The item expected next, and its position in the log."""
        return resumed_at(self.recovery, channel)

    def source(self, name: str) -> int:
        return 0 if self.recovery is None else self.recovery.unsaved.numbers[_SOURCE + name]

    def sent(self, channel: ChannelId) -> int:
        return 0 if self.recovery is None else self.recovery.cut.numbers[self._sent[channel]]

    @property
    def announced(self) -> OrderKey | None:
        if self.recovery is None:
            return None
        numbers = self.recovery.cut.numbers
        return OrderKey(*(numbers[name] for name in _ANNOUNCED))

    @property
    def repeating(self) -> bool:
        """Whether it still repeats its past."""
        return self._recorder is None and (self._recovering is None or self._recovering.recorder is None)

    @property
    def totals(self) -> RecordTotals | None:
        if self._recorder is not None:
            return self._recorder.totals
        return None if self.recovery is None else self.recovery.totals

    # Recording --------------------------------------------------------------------------------------------------------

    @property
    def ripe(self) -> bool:
        """Whether to check if a record is due: most calls come too soon after the last record."""
        return self._recorder is None or self._clock.monotonic() >= self._next

    def wanted(self, emitted: bool) -> bool:
        """Whether to write a record now.

        Not at every call: rows in the log after the newest record are computed again, and recognised by their numbers.
        """
        recorder = self._recorder
        if recorder is None:
            assert self._recovering is not None
            recorder = self._recorder = self._recovering.recorder
            if recorder is None:
                return False  # still repeating
            self._recovered()
        if not (emitted or recorder.due()):
            return False
        return self._engine.reached(self._name) != END_KEY  # announced after the last rows, and again after a recovery

    def record(
        self,
        inputs: Mapping[ChannelId, InletCut],
        sources: Mapping[str, int],
        sent: Mapping[ChannelId, int],
        announced: OrderKey,
    ) -> bytes:
        """The record of what has happened since the last one; call it if `wanted`."""
        recorder, started = self._recorder, self._clock.monotonic()
        assert recorder is not None
        row = self._host.row(self.channel)
        passed = {channel: (cut.passed, cut.passed_position) for channel, cut in inputs.items()}
        numbers = numbers_of(passed, sources, sent, announced, row)
        self._rows[recorder.frame] = row
        key = self._engine.reached(self._name)
        record = recorder.record(key, numbers, press=max(0, recorder.frame - _FRAMES))
        if self._goal is not None:
            self._goal.checked(len(record.whole), self._clock.monotonic() - started)
        self._written += 1
        unsaved = record.unsaved.numbers
        positions = {channel: unsaved.get(self._names[channel][1], 0) for channel in inputs}
        self._needs.append(_Needs(self._written, positions, self._row(recorder.oldest)))
        encoded = encode(record)
        now = self._clock.monotonic()
        self._takes += (now - started - self._takes) * (_LEAVES if self._takes else 1)
        self._next = now + min(_RARE * self._takes, recorder.schedule.interval / 1e6, _LONGEST)
        return encoded

    def _row(self, frame: int) -> int:
        """The row of the record of a frame, or of one before it."""
        if len(self._rows) > 2 * _FRAMES:
            first = self._rows.pop(0, None)
            self._rows = {f: row for f, row in self._rows.items() if f >= frame}
            if first is not None and frame not in self._rows:
                self._rows[0] = first
        return self._rows.get(frame, self._rows.get(0, 0))

    def worked(self, seconds: float) -> None:
        """The element has worked for this long."""
        self._worked += seconds

    def _recovered(self) -> None:
        if self._goal is not None and self.recovery is not None:
            rows = int((self.recovery.cut.rows - self.recovery.unsaved.rows).sum())
            self._goal.measure_recovery(self._reading, rows, self._clock.monotonic() - self._repeating_since)

    def _aim(self, recorder: Recorder) -> None:
        """Choose T, H and M again."""
        assert self._goal is not None
        tracker = recorder.tracker
        tracker.collect()
        seen = (tracker.now, int(tracker.rows.sum()))
        if self._seen[0]:
            self._goal.worked(seen[0] - self._seen[0], seen[1] - self._seen[1], self._worked)
        self._seen, self._worked = seen, 0.0
        recorder.schedule.pace = self._goal.choose()
        missed = self._goal.missed(recorder.schedule.slow)
        if missed:
            self._host.warn(f"{self._name}: {missed}")

    def tick(self, now: int) -> None:
        """Release what is no longer needed."""
        if now - self._released < _RELEASE_EVERY:
            return
        self._released = now
        if self._goal is not None and self._recorder is not None:
            self._aim(self._recorder)
        stable, last = self._host.stable_records(self.channel), None
        while self._needs and self._needs[0].number <= stable:
            last = self._needs.popleft()
        if last is not None:
            for channel, position in last.inputs.items():
                self._host.release(channel, position)
            self._host.retain(self.channel, last.row)


@lru_cache(maxsize=4096)
def _names(channel: ChannelId) -> tuple[str, str]:
    return f"passed {channel}", f"position {channel}"


@lru_cache(maxsize=4096)
def _sent(channel: ChannelId) -> str:
    return f"sent {channel}"


def numbers_of(
    inputs: Mapping[ChannelId, tuple[int, int]],
    sources: Mapping[str, int],
    sent: Mapping[ChannelId, int],
    announced: OrderKey,
    row: int,
) -> dict[str, int]:
    """The positions in a record; of an input channel, the item expected next and its position in the log."""
    numbers = {_SOURCE + name: position for name, position in sources.items()}
    for channel, at in inputs.items():
        numbers |= zip(_names(channel), at, strict=True)
    for channel, number in sent.items():
        numbers[_sent(channel)] = number
    numbers |= zip(_ANNOUNCED, announced, strict=True)
    numbers[_ROW] = row
    return numbers


def resumed_at(recovery: RecordedState | None, channel: ChannelId) -> tuple[int, int]:
    """The item of a channel expected next, and its position in the log; 0 for a new channel."""
    if recovery is None:
        return 0, 0
    passed, position = _names(channel)
    return recovery.unsaved.numbers.get(passed, 0), recovery.unsaved.numbers.get(position, 0)


def log_of(layout: Layout, pe: Pe) -> ChannelId:
    """The output channel whose log carries the records of an element."""
    return min(layout.all_outputs(pe))


def pace_of(settings: Continuous) -> CheckPace:
    every = settings.every or settings.slow_after or EVERY
    slow_after = settings.slow_after if settings.slow_after is not None else every
    return CheckPace(int(every), int(slow_after), settings.shot or SHOT)
