"""Continuous checkpoints of an element: records of its one stateful operator, in the log of one of its outputs.

A record goes with the rows of the call that it ends, in the same append, behind everything that the other outputs of
the element had by then. While a new life repeats its past it gives out nothing and writes no records; the numbers of
its outputs go on behind what the last record says they were, and what a log has already is not kept twice.

Positions in other elements' logs are let go of when the record that says so is stable, and so is the part of the
element's own log that no open window needs.
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
from riprap.records.recovery import Coming, RecordedState, recover
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe

EVERY, SHOT = 100_000, 1024  # T and H (microseconds), and M, where neither they nor a goal are given
_RELEASE_EVERY = 1_000_000  # microseconds
_RARE = 100  # times what a record takes are to pass before the next: a hundredth of the time goes into them
_LONGEST = 0.05  # seconds without a record, where one is wanted
_LEAVES = 0.1  # of what is new in an average
_FRAMES = 8192  # that the oldest needed record may lie back, before the windows that need it are saved again
_SOURCE = "source "
_ROW = "row"  # of the log, behind which a record lies
_TOLD = ("told ts", "told src", "told seq", "told n")  # progress that the output had told before


class _Needs(NamedTuple):
    """What a record, once it is stable, leaves needed."""

    number: int  # of the record in this life
    inlets: Mapping[ChannelId, int]  # positions in logs
    row: int  # of the element's own log


class Records:
    """Of one life. `recovery` is what the records of those before say; None: there are none."""

    def __init__(self, layout: Layout, pe: Pe, operator: str, engine: Engine, host: Host, clock: Clock) -> None:
        self.channel = log_of(layout, pe)
        self._name, self._engine, self._host, self._clock = operator, engine, host, clock
        self._operator = cast(WindowedOperator, engine.operators[operator])
        self._names = {channel: _names(channel) for channel in layout.inputs(pe)}
        self._sent = {channel: _sent(channel) for channel in layout.all_outputs(pe)}
        asked = layout.graph[operator].annotations.continuous
        assert asked is not None
        pace = pace_of(asked)
        self._goal: Goal | None = None
        if asked.recovery is not None:
            self._goal = Goal(asked.recovery / 1e6, pace, asked.every, asked.slow_after, asked.shot)
        self._takes, self._next = 0.0, 0.0  # seconds that a record takes on average; when the next one may be made
        self._worked = 0.0  # seconds since the goal was last looked at
        self._seen = (0, 0)  # event time, and rows, when it was
        began = clock.monotonic()
        self.recovery: RecordedState | None = recover(host.records(self.channel))
        self._recorder: Recorder | None = None
        self._coming: Coming | None = None
        self._rows: dict[int, int] = {}  # by frame: where its record lies
        if self.recovery is None:
            self._operator.track()
            self._recorder = Recorder(self._operator, pace)
        else:
            self._coming = self.recovery.into(self._operator, pace)
            self._repeats = clock.monotonic()  # since then
            self._reading = self._repeats - began
            self._rows[0] = self.recovery.oldest.numbers[_ROW]
        self._written = 0
        self._needs: deque[_Needs] = deque()
        self._released = 0

    # Where a life begins ----------------------------------------------------------------------------------------------

    def inlet(self, channel: ChannelId) -> tuple[int, int]:
        """The item that is expected, and its position in the log."""
        return resumed_at(self.recovery, channel)

    def source(self, name: str) -> int:
        return 0 if self.recovery is None else self.recovery.unsaved.numbers[_SOURCE + name]

    def sent(self, channel: ChannelId) -> int:
        return 0 if self.recovery is None else self.recovery.cut.numbers[self._sent[channel]]

    @property
    def told(self) -> OrderKey | None:
        if self.recovery is None:
            return None
        numbers = self.recovery.cut.numbers
        return OrderKey(*(numbers[name] for name in _TOLD))

    @property
    def coming(self) -> bool:
        """Whether it still repeats its past."""
        return self._recorder is None and (self._coming is None or self._coming.recorder is None)

    @property
    def totals(self) -> RecordTotals | None:
        if self._recorder is not None:
            return self._recorder.totals
        return None if self.recovery is None else self.recovery.totals

    # As it goes on ----------------------------------------------------------------------------------------------------

    @property
    def ripe(self) -> bool:
        """Whether it is to be asked if a record is wanted: most calls come too soon behind the last one."""
        return self._recorder is None or self._clock.monotonic() >= self._next

    def wanted(self, gave: bool) -> bool:
        """Whether a record is to be made here and now, of what has happened since the last one.

        Not at every call: rows that a log has behind the newest record are made again, and known by their numbers.
        """
        recorder = self._recorder
        if recorder is None:
            assert self._coming is not None
            recorder = self._recorder = self._coming.recorder
            if recorder is None:
                return False  # on its way back
            self._came_back()
        if not (gave or recorder.due()):
            return False
        return self._engine.reached(self._name) != END_KEY  # told behind the last rows: who comes back tells it again

    def record(
        self,
        inlets: Mapping[ChannelId, InletCut],
        sources: Mapping[str, int],
        sent: Mapping[ChannelId, int],
        told: OrderKey,
    ) -> bytes:
        """The record of what has happened since the last one, which is `wanted`."""
        recorder, began = self._recorder, self._clock.monotonic()
        assert recorder is not None
        row = self._host.row(self.channel)
        passed = {channel: (cut.passed, cut.passed_position) for channel, cut in inlets.items()}
        numbers = numbers_of(passed, sources, sent, told, row)
        self._rows[recorder.frame] = row
        key = self._engine.reached(self._name)
        record = recorder.record(key, numbers, press=max(0, recorder.frame - _FRAMES))
        if self._goal is not None:
            self._goal.checked(len(record.whole), self._clock.monotonic() - began)
        self._written += 1
        unsaved = record.unsaved.numbers
        positions = {channel: unsaved.get(self._names[channel][1], 0) for channel in inlets}
        self._needs.append(_Needs(self._written, positions, self._row(recorder.oldest)))
        encoded = encode(record)
        now = self._clock.monotonic()
        self._takes += (now - began - self._takes) * (_LEAVES if self._takes else 1)
        self._next = now + min(_RARE * self._takes, recorder.schedule.interval / 1e6, _LONGEST)
        return encoded

    def _row(self, frame: int) -> int:
        """Where the record of a frame lies, or one before it."""
        if len(self._rows) > 2 * _FRAMES:
            first = self._rows.pop(0, None)
            self._rows = {f: row for f, row in self._rows.items() if f >= frame}
            if first is not None and frame not in self._rows:
                self._rows[0] = first
        return self._rows.get(frame, self._rows.get(0, 0))

    def worked(self, seconds: float) -> None:
        """The element has worked for so long."""
        self._worked += seconds

    def _came_back(self) -> None:
        if self._goal is not None and self.recovery is not None:
            rows = int((self.recovery.cut.rows - self.recovery.unsaved.rows).sum())
            self._goal.came_back(self._reading, rows, self._clock.monotonic() - self._repeats)

    def _aim(self, recorder: Recorder) -> None:
        """Choose T, H and M anew."""
        assert self._goal is not None
        tracker = recorder.tracker
        tracker.look()
        seen = (tracker.now, int(tracker.rows.sum()))
        if self._seen[0]:
            self._goal.worked(seen[0] - self._seen[0], seen[1] - self._seen[1], self._worked)
        self._seen, self._worked = seen, 0.0
        recorder.schedule.pace = self._goal.choose()
        missed = self._goal.missed(recorder.schedule.slow)
        if missed:
            self._host.warn(f"{self._name}: {missed}")

    def tick(self, now: int) -> None:
        """Let go of what is not needed any more."""
        if now - self._released < _RELEASE_EVERY:
            return
        self._released = now
        if self._goal is not None and self._recorder is not None:
            self._aim(self._recorder)
        stable, last = self._host.stable_records(self.channel), None
        while self._needs and self._needs[0].number <= stable:
            last = self._needs.popleft()
        if last is not None:
            for channel, position in last.inlets.items():
                self._host.release(channel, position)
            self._host.retain(self.channel, last.row)


@lru_cache(maxsize=4096)
def _names(channel: ChannelId) -> tuple[str, str]:
    return f"passed {channel}", f"position {channel}"


@lru_cache(maxsize=4096)
def _sent(channel: ChannelId) -> str:
    return f"sent {channel}"


def numbers_of(
    inlets: Mapping[ChannelId, tuple[int, int]],
    sources: Mapping[str, int],
    sent: Mapping[ChannelId, int],
    told: OrderKey,
    row: int,
) -> dict[str, int]:
    """What a record says of channels: of those that come in the item that is expected and its position in the log."""
    numbers = {_SOURCE + name: position for name, position in sources.items()}
    for channel, at in inlets.items():
        numbers |= zip(_names(channel), at, strict=True)
    for channel, number in sent.items():
        numbers[_sent(channel)] = number
    numbers |= zip(_TOLD, told, strict=True)
    numbers[_ROW] = row
    return numbers


def resumed_at(recovery: RecordedState | None, channel: ChannelId) -> tuple[int, int]:
    """The item of a channel that is expected, and its position in the log. Nothing has come of one that is new."""
    if recovery is None:
        return 0, 0
    passed, position = _names(channel)
    return recovery.unsaved.numbers.get(passed, 0), recovery.unsaved.numbers.get(position, 0)


def log_of(layout: Layout, pe: Pe) -> ChannelId:
    """The output whose log carries the records of an element."""
    return min(layout.all_outputs(pe))


def pace_of(asked: Continuous) -> CheckPace:
    every = asked.every or asked.slow_after or EVERY
    slow_after = asked.slow_after if asked.slow_after is not None else every
    return CheckPace(int(every), int(slow_after), asked.shot or SHOT)
