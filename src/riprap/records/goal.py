"""Derives T, H and M from a recovery goal and from measurements during normal work and recoveries.

A recovering operator reads records, reassembles windows, and replays at most the larger of T and H of event time:
windows younger than H have no content in the log, and the unsaved rows of older ones are at most T old. The wall time
of a replay follows from the rows per microsecond of event time and the rows processed per second: at normal speed
until the first recovery, then at the measured replay speed. The time before the replay starts is subtracted from the
goal. Half of the rest is for the replay, the other half is a margin for rows in flight and for busier machines. A shot
should take at most a millisecond.

A goal is unreachable if checking all slow windows once in T would take more than a fifth of the work, or if reading
records alone takes too long. Then a warning reports the shortest reachable goal.
"""

from riprap.records.check_schedule import CheckPace

REPEATING = 0.5  # fraction of the goal for the replay, after the time for reading records
CHECKING = 0.2  # fraction of the work that checking may take
SHOT_SECONDS = 0.001
_LEAST_SHOT, _MOST_SHOT = 16, 65_536  # windows
_LONGEST = 3_600_000_000  # microseconds of event time
_SHARE = 0.2  # weight of a new value in a moving average
_TELLING = 0.02  # fraction of the goal; a shorter replay is too short to measure its speed


class Goal:
    """`recovery`: seconds. `every`, `slow_after` and `shot` are fixed if given; None: derived from the goal."""

    def __init__(
        self, recovery: float, initial: CheckPace, every: int | None, slow_after: int | None, shot: int | None
    ) -> None:
        self.recovery = recovery
        self.pace = initial
        self._every, self._slow_after, self._shot = every, slow_after, shot
        self._apart = 0.0  # microseconds of event time between two rows
        self._working = self._repeating = 0.0  # rows per second
        self._window_seconds = 0.0  # to check one window
        self._reading = 0.0  # seconds before the replay starts

    def worked(self, event_time: int, rows: int, seconds: float) -> None:
        """Measure normal work: rows, and their event time in microseconds, processed in `seconds`."""
        if seconds > 0 and event_time > 0 and rows > 0:
            self._apart = _average(self._apart, event_time / rows)
            self._working = _average(self._working, rows / seconds)

    def measure_recovery(self, reading: float, rows: int, seconds: float) -> None:
        """Measure a recovery: seconds until the replay started, rows replayed, and seconds of the replay."""
        self._reading = reading
        if rows > 0 and seconds >= _TELLING * self.recovery:
            self._repeating = rows / seconds

    def checked(self, windows: int, seconds: float) -> None:
        if windows and seconds > 0:
            self._window_seconds = _average(self._window_seconds, seconds / windows)

    def choose(self) -> CheckPace:
        """The pace that reaches the goal, by the measurements so far."""
        every, slow_after, shot = self.pace
        speed = self._apart * (self._repeating or self._working)  # microseconds of event time per second
        if speed:
            budget = max(self.recovery - self._reading, 0.0)
            span = int(min(max(budget * REPEATING * speed, 1), _LONGEST))
            every, slow_after = span, span
        if self._window_seconds:
            shot = int(min(max(SHOT_SECONDS / self._window_seconds, _LEAST_SHOT), _MOST_SHOT))
        self.pace = CheckPace(self._every or every, slow_after if self._slow_after is None else self._slow_after,
                         self._shot or shot)  # fmt: skip
        return self.pace

    def shortest(self, slow: int) -> float:
        """The shortest reachable goal in seconds, with this number of slow windows.

        Checking all of them in T takes a fraction of the work; T is the event time that fits into the time for the
        replay, which is longer if a replay is faster than normal work.
        """
        faster = self._repeating / self._working if self._repeating and self._working else 1.0
        return self._reading + slow * self._window_seconds / CHECKING / REPEATING / faster

    def missed(self, slow: int) -> str:
        """A warning if the goal cannot be reached; else ""."""
        shortest = self.shortest(slow)
        if shortest <= self.recovery:
            return ""
        return (
            f"recovery in {self.recovery * 1e3:.0f} ms cannot be reached with {slow:,} slow windows: "
            f"the shortest reachable goal is {shortest * 1e3:.0f} ms"
        )


def _average(old: float, new: float) -> float:
    return new if not old else (1 - _SHARE) * old + _SHARE * new
