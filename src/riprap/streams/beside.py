"""Whether there is a core to spare for work beside who appends.

Handing an append to another thread pays where that thread has a core of its own. Where all cores are taken, it costs:
each hand-over waits for a turn, and who appends waits for the interpreter's lock while the other has one. The system's
load of the last minute tells which it is, looked at about once a second.
"""

import os

from riprap.base.clock import Clock

_LOOK_EVERY = 1_000_000  # microseconds


class SpareCore:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cores = len(os.sched_getaffinity(0))
        self._looked_at, self._spare = 0, False

    def there(self) -> bool:
        now = self._clock.now()
        if now - self._looked_at >= _LOOK_EVERY:
            self._looked_at = now
            self._spare = self._cores > 1 and os.getloadavg()[0] < self._cores
        return self._spare
