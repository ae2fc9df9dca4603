"""Deadlines of periodic checkpoints: the multiples of the interval, so that they do not drift.

If the plan specifies no interval, it follows from the cost of the last checkpoint, so that checkpoints use at most a
`SHARE` of a core. It is the shortest interval times a power of two, so deadlines of longer intervals are also deadlines
of shorter ones, and small changes of the cost have no effect.

A deadline is *missed* if the previous checkpoint is still being written then, or if it is checked a whole interval
late.
"""

from dataclasses import dataclass

SHARE = 0.02  # of a core
LONGEST = 64  # times the shortest interval


@dataclass
class Deadlines:
    """The deadlines of one unit, in microseconds."""

    every: int
    missed: int = 0
    unwritten: int = 0  # captures that are not durable yet
    _next: int | None = None  # None before the first call of `due`
    _looked: int = 0  # when a deadline was last due

    def due(self, now: int) -> int | None:
        """The deadline that has passed, if a checkpoint is to be taken for it now."""
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
        """Change the interval."""
        self.every = every
        if self._next is not None:
            self._next = self._after(self._looked)

    def _after(self, now: int) -> int:
        return (now // self.every + 1) * self.every


def affordable(cost: int, shortest: int) -> int:
    """The interval for checkpoints that cost this many CPU microseconds each."""
    every = shortest
    while every * SHARE < cost and every < LONGEST * shortest:
        every *= 2
    return every
