"""The only place that reads a clock. Code that needs time has a `Clock` parameter, so tests can supply their own."""

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never decreases; comparable only within one process."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC, as in `_ts`; may jump when the machine's clock is set."""

    def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.perf_counter()

    def now(self) -> int:
        return time.time_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()


def thread_seconds() -> float:
    """CPU seconds that the calling thread has used."""
    return time.thread_time()
