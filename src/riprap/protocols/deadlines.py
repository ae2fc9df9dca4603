"""When checkpoints at intervals are due: at the multiples of the interval, so that they do not drift.

Where nobody says how often, the interval follows from what the last checkpoint cost, so that checkpoints take at most a
`SHARE` of a core. It is the shortest interval or twice, four times, … as long: multiples of one are multiples of the
others, and small changes of the cost change nothing.

A deadline is *missed* if the checkpoint before it is still being written then, or if it is looked at a whole interval
late.
"""

from dataclasses import dataclass

SHARE = 0.02  # of a core
LONGEST = 64  # times the shortest interval


@dataclass
class Deadlines:
    """Of one unit. Microseconds."""

    every: int
    missed: int = 0
    unwritten: int = 0  # captures that are not durable yet
    _next: int | None = None  # None before the first look at the clock
    _looked: int = 0  # when it was last due

    def due(self, now: int) -> int | None:
        """The deadline that has come, if a checkpoint is to be taken for it now."""
        if self._next is None:
            self._next = self._after(now)
            return None
        if self._next > now:
            return None
        late, deadline = (now - self._next) // self.every, self._next
        self.missed += late + (self.unwritten > 0)
        self._next, self._looked = self._after(now), now
        return None if self.unwritten else deadline

    def pace(self, every: int) -> None:
        """Another interval from now on."""
        self.every = every
        if self._next is not None:
            self._next = self._after(self._looked)

    def _after(self, now: int) -> int:
        return (now // self.every + 1) * self.every


def affordable(cost: int, shortest: int) -> int:
    """The interval for checkpoints that cost this many microseconds of a core each."""
    every = shortest
    while every * SHARE < cost and every < LONGEST * shortest:
        every *= 2
    return every
