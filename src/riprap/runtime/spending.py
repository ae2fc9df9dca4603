"""What a process of a run takes: cores, memory, bytes that it writes and bytes that it sends.

Seconds of cores are those of all threads of the process since a life began; the first steps, importing and compiling,
are not of it. Memory is the share that is the process's own (PSS, of Linux): elements are forked from one daemon, and
what they share with it is divided among them. Elsewhere it is the most that was ever resident.
"""

import resource
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from riprap.base.clock import Clock

_ROLLUP = Path("/proc/self/smaps_rollup")
_LOOK_FIRST, _LOOK_LAST = 1.0, 10.0  # seconds between looks at memory: the kernel goes over all pages to tell


@dataclass(frozen=True)
class Spent:
    """Of one life; `memory` is what it had when it was last looked at."""

    seconds: float = 0.0  # since it began
    cpu: float = 0.0  # seconds of cores
    memory: int = 0  # bytes
    written: int = 0  # bytes, to checkpoints, persistent streams and spills
    sent: int = 0  # bytes, to other elements

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Spent":
        return cls(data["seconds"], data["cpu"], data["memory"], data["written"], data["sent"])


class Meter:
    """Of a life that begins now."""

    def __init__(self, sent: int, clock: Clock) -> None:
        """`sent`: what the process has sent by now."""
        self._clock, self._sent = clock, sent
        self._began, self._cpu = clock.monotonic(), time.process_time()
        self._memory, self._looked_at = 0, 0.0

    def spent(self, written: int, sent: int) -> Spent:
        now = self._clock.monotonic()
        # The longer it lives, the less its memory changes.
        if now - self._looked_at >= min(max(_LOOK_FIRST, (now - self._began) / 4), _LOOK_LAST):
            self._memory, self._looked_at = own_memory(), now
        cpu = time.process_time() - self._cpu
        return Spent(now - self._began, cpu, self._memory, written, sent - self._sent)


def own_memory() -> int:
    """Bytes."""
    try:
        for line in _ROLLUP.read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
