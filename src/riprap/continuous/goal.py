"""T, H and M from a recovery goal, by what is measured as the operator goes on.

An operator that comes back repeats at most the larger of T and H of event time: windows that are younger than H have
no content in the log, and of older ones nothing is older than T. How much wall time that takes is known from how fast
the element takes its input now: *speed* is event time by seconds of work. Half of the goal is for repeating, the other
half for reading the records and for what was on its way. A shot is to take a millisecond at most.

A goal cannot be reached when checking all slow windows once in T would take more than a fifth of the work: then it is
told, with the shortest one that can.
"""

from riprap.continuous.schedule import Pace

REPEATING = 0.5  # share of the goal
CHECKING = 0.2  # share of the work that may go into checking
SHOT_SECONDS = 0.001
_LEAST_SHOT, _MOST_SHOT = 16, 65_536  # windows
_LONGEST = 3_600_000_000  # microseconds of event time
_SHARE = 0.2  # of what is new in an average


class Goal:
    """`recovery`: seconds. `given` has what is not to be chosen; None: it is."""

    def __init__(
        self, recovery: float, begin: Pace, every: int | None, slow_after: int | None, shot: int | None
    ) -> None:
        self.recovery = recovery
        self.pace = begin
        self._every, self._slow_after, self._shot = every, slow_after, shot
        self._speed = 0.0  # microseconds of event time by second of work
        self._window_seconds = 0.0  # to check one window

    def worked(self, event_time: int, seconds: float) -> None:
        """So much event time was taken in so many seconds of work."""
        if seconds > 0 and event_time > 0:
            self._speed = _average(self._speed, event_time / seconds)

    def checked(self, windows: int, seconds: float) -> None:
        if windows and seconds > 0:
            self._window_seconds = _average(self._window_seconds, seconds / windows)

    def choose(self) -> Pace:
        """What reaches the goal, by what is known so far."""
        every, slow_after, shot = self.pace
        if self._speed:
            span = int(min(max(self.recovery * REPEATING * self._speed, 1), _LONGEST))
            every, slow_after = span, span
        if self._window_seconds:
            shot = int(min(max(SHOT_SECONDS / self._window_seconds, _LEAST_SHOT), _MOST_SHOT))
        self.pace = Pace(self._every or every, slow_after if self._slow_after is None else self._slow_after,
                         self._shot or shot)  # fmt: skip
        return self.pace

    def shortest(self, slow: int) -> float:
        """Seconds of the shortest goal that can be reached with so many slow windows."""
        return slow * self._window_seconds / CHECKING / REPEATING

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
