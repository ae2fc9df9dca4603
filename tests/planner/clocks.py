"""Time limits that mean the same on every machine."""


class CountingClock:
    """A second passes with every look at it, so that a limit of so many seconds is one of so many passes."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now
