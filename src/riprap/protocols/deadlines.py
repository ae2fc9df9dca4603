"""When checkpoints at intervals are due: at the multiples of the interval, so that they do not drift.

A deadline is *missed* if the checkpoint before it is still being written then, or if it is looked at a whole interval
late.
"""

from dataclasses import dataclass


@dataclass
class Deadlines:
    """Of one unit. Microseconds."""

    every: int
    missed: int = 0
    unwritten: int = 0  # captures that are not durable yet
    _next: int | None = None  # None before the first look at the clock

    def due(self, now: int) -> int | None:
        """The deadline that has come, if a checkpoint is to be taken for it now."""
        if self._next is None:
            self._next = self._after(now)
            return None
        if self._next > now:
            return None
        late, deadline = (now - self._next) // self.every, self._next
        self.missed += late + (self.unwritten > 0)
        self._next = self._after(now)
        return None if self.unwritten else deadline

    def _after(self, now: int) -> int:
        return (now // self.every + 1) * self.every
