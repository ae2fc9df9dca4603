"""T, H and M from a recovery goal, by what is measured as the operator goes on and when it comes back.

An operator that comes back reads records, puts windows together, and repeats at most the larger of T and H of event
time: windows that are younger than H have no content in the log, and of older ones nothing is older than T. How much
wall time repeating takes follows from how many rows come in a microsecond of event time and how many of them are taken
in a second: as the operator works, until it has come back once; from then on as fast as it was seen to repeat. What
it needed before it began to repeat is taken off the goal. Half of what is left is for repeating, the other half for
what was on its way and for machines that are busier than they were. A shot is to take a millisecond at most.

A goal cannot be reached when checking all slow windows once in T would take more than a fifth of the work, or when
reading records alone takes too long: then it is told, with the shortest one that can.
"""

from riprap.records.check_schedule import CheckPace

REPEATING = 0.5  # share of the goal, without what reading records takes
CHECKING = 0.2  # share of the work that may go into checking
SHOT_SECONDS = 0.001
_LEAST_SHOT, _MOST_SHOT = 16, 65_536  # windows
_LONGEST = 3_600_000_000  # microseconds of event time
_SHARE = 0.2  # of what is new in an average
_TELLING = 0.02  # of the goal: a repetition that was shorter says nothing of how fast repeating is


class Goal:
    """`recovery`: seconds. `given` has what is not to be chosen; None: it is."""

    def __init__(
        self, recovery: float, begin: CheckPace, every: int | None, slow_after: int | None, shot: int | None
    ) -> None:
        self.recovery = recovery
        self.pace = begin
        self._every, self._slow_after, self._shot = every, slow_after, shot
        self._apart = 0.0  # microseconds of event time between two rows
        self._working = self._repeating = 0.0  # rows by second
        self._window_seconds = 0.0  # to check one window
        self._reading = 0.0  # seconds before rows are repeated

    def worked(self, event_time: int, rows: int, seconds: float) -> None:
        """So much event time, and so many rows, were taken in so many seconds of work."""
        if seconds > 0 and event_time > 0 and rows > 0:
            self._apart = _average(self._apart, event_time / rows)
            self._working = _average(self._working, rows / seconds)

    def came_back(self, reading: float, rows: int, seconds: float) -> None:
        """It took so many seconds until rows were repeated, and so many more to repeat so many."""
        self._reading = reading
        if rows > 0 and seconds >= _TELLING * self.recovery:
            self._repeating = rows / seconds

    def checked(self, windows: int, seconds: float) -> None:
        if windows and seconds > 0:
            self._window_seconds = _average(self._window_seconds, seconds / windows)

    def choose(self) -> CheckPace:
        """What reaches the goal, by what is known so far."""
        every, slow_after, shot = self.pace
        speed = self._apart * (self._repeating or self._working)  # microseconds of event time by second
        if speed:
            left = max(self.recovery - self._reading, 0.0)
            span = int(min(max(left * REPEATING * speed, 1), _LONGEST))
            every, slow_after = span, span
        if self._window_seconds:
            shot = int(min(max(SHOT_SECONDS / self._window_seconds, _LEAST_SHOT), _MOST_SHOT))
        self.pace = CheckPace(self._every or every, slow_after if self._slow_after is None else self._slow_after,
                         self._shot or shot)  # fmt: skip
        return self.pace

    def shortest(self, slow: int) -> float:
        """Seconds of the shortest goal that can be reached with so many slow windows.

        Checking all of them in T takes a share of the work; T is what is repeated in the time there is for it, and that
        is more work when repeating is faster than working.
        """
        faster = self._repeating / self._working if self._repeating and self._working else 1.0
        return self._reading + slow * self._window_seconds / CHECKING / REPEATING / faster

    def missed(self, slow: int) -> str:
        """What to say of a goal that cannot be reached; "": it can."""
        shortest = self.shortest(slow)
        if shortest <= self.recovery:
            return ""
        return (
            f"recovery in {self.recovery * 1e3:.0f} ms cannot be reached with {slow:,} slow windows: "
            f"{shortest * 1e3:.0f} ms can"
        )


def _average(old: float, new: float) -> float:
    return new if not old else (1 - _SHARE) * old + _SHARE * new
