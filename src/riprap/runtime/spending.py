"""The resource use of a process of a run: CPU time, memory, bytes written and bytes sent.

CPU time is that of all threads since the incarnation started, without importing and compiling. Memory is the
proportional set size (PSS, on Linux): elements are forked from one daemon, and pages that they share are divided among
them. Elsewhere it is the maximum resident set size.
"""

import resource
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from riprap.base.clock import Clock

_ROLLUP = Path("/proc/self/smaps_rollup")
_LOOK_FIRST, _LOOK_LAST = 1.0, 10.0  # seconds between measurements of memory: the kernel walks all pages


@dataclass(frozen=True)
class ResourceUse:
    """Of one incarnation; `memory` is the last measurement."""

    seconds: float = 0.0  # since its start
    cpu: float = 0.0  # core seconds
    memory: int = 0  # bytes
    written: int = 0  # bytes, to checkpoints, persistent streams and spills
    sent: int = 0  # bytes, to other elements

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ResourceUse":
        return cls(data["seconds"], data["cpu"], data["memory"], data["written"], data["sent"])


class Meter:
    """Measures an incarnation that starts now."""

    def __init__(self, sent: int, clock: Clock) -> None:
        """`sent`: bytes that the process has sent so far."""
        self._clock, self._sent = clock, sent
        self._started, self._cpu = clock.monotonic(), time.process_time()
        self._memory, self._looked_at = 0, 0.0

    def spent(self, written: int, sent: int) -> ResourceUse:
        now = self._clock.monotonic()
        # The longer it runs, the less its memory changes.
        if now - self._looked_at >= min(max(_LOOK_FIRST, (now - self._started) / 4), _LOOK_LAST):
            self._memory, self._looked_at = own_memory(), now
        cpu = time.process_time() - self._cpu
        return ResourceUse(now - self._started, cpu, self._memory, written, sent - self._sent)


def own_memory() -> int:
    """Bytes."""
    try:
        for line in _ROLLUP.read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
