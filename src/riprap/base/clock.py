"""The only place that reads a clock. Whatever needs time takes a `Clock`, so that tests can supply their own."""

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never falls; compare only within one process."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC, as in `_ts`; may jump when the machine's clock is set."""

    def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`."""


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.perf_counter()

    def now(self) -> int:
        return time.time_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()


def thread_seconds() -> float:
    """Seconds of a core that the calling thread has taken."""
    return time.thread_time()
