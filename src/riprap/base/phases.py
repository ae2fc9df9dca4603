"""Measures where the time of a command goes: consecutive phases from its start to its end."""

import os
from pathlib import Path

from riprap.base.clock import SYSTEM_CLOCK, Clock


class Phases:
    """`done` ends a phase and starts the next. Work that runs concurrently is not measured separately."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, since: float | None = None) -> None:
        """`since`: when the first phase started, in the clock's `monotonic` time; by default now."""
        self._clock = clock
        self._at = clock.monotonic() if since is None else since
        self.seconds: dict[str, float] = {}

    def done(self, name: str) -> None:
        now = self._clock.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._at
        self._at = now


def process_started(clock: Clock = SYSTEM_CLOCK) -> float:
    """When this process started, in the clock's `monotonic` time; now, if the system does not report it."""
    now = clock.monotonic()
    try:
        after_boot = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        up = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return now
    return now - max(up - after_boot, 0.0)
