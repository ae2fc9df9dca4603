"""Heartbeats of a process, from a thread of their own.

A process that is stopped or dead sends none. If the main loop is stuck, the heartbeats stop after a while, too: else
this thread would hide it.

Elements that start together would all send their heartbeats in the same millisecond and compete with the dataflow for
cores. So each process delays its first heartbeat by a different part of the interval.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from riprap.base.clock import Clock
from riprap.runtime.coordination.client import Client, CoordinatorLost
from riprap.runtime.coordination.element_metrics import ElementMetrics
from riprap.runtime.coordination.roster import ElementFenced

_GOLDEN = 0.618034  # multiples of it, less their whole parts, lie as far apart as they can
_STUCK = 60.0  # seconds in one iteration of the loop; the first compilation of an operator may take much of it


class Heartbeats:
    def __init__(self, client: Client, metrics: Callable[[], ElementMetrics], interval: float, clock: Clock) -> None:
        self.metrics = metrics  # may be replaced
        self._client, self._interval, self._clock = client, interval, clock
        self._turned_at = clock.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._run, name="heartbeats", daemon=True)
        self._thread.start()

    def alive(self) -> None:
        """The loop has completed an iteration."""
        self._turned_at = self._clock.monotonic()

    def beat(self) -> None:
        """Send the newest numbers now."""
        self._client.beat(self.metrics().as_json())

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(CoordinatorLost, ElementFenced):  # the loop notices it, too
            wait = self._interval * (os.getpid() * _GOLDEN % 1)
            while not self._over.wait(wait):
                wait = self._interval
                if self._clock.monotonic() - self._turned_at < _STUCK:
                    self.beat()
