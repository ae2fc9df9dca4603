"""Signs of life of a process, from a thread of their own.

A process that is stopped or dead gives none. One whose loop does not come round any more gives none either after a
while: a thread that goes on beating would hide it.

Elements that begin together would all beat in the same millisecond, and what they tell takes some of each: cores that
are to move tuples. So the first beat comes after a part of the interval that differs from process to process.
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
_STUCK = 60.0  # seconds in one turn of the loop; compiling an operator for the first time may take a good part of it


class Beats:
    def __init__(self, client: Client, metrics: Callable[[], ElementMetrics], interval: float, clock: Clock) -> None:
        self.metrics = metrics  # what there is to tell; may be replaced
        self._client, self._interval, self._clock = client, interval, clock
        self._turned_at = clock.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._run, name="signs of life", daemon=True)
        self._thread.start()

    def alive(self) -> None:
        """The loop has come round."""
        self._turned_at = self._clock.monotonic()

    def beat(self) -> None:
        """Tell the newest numbers now."""
        self._client.beat(self.metrics().as_json())

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(CoordinatorLost, ElementFenced):  # the loop finds out by itself
            wait = self._interval * (os.getpid() * _GOLDEN % 1)
            while not self._over.wait(wait):
                wait = self._interval
                if self._clock.monotonic() - self._turned_at < _STUCK:
                    self.beat()
