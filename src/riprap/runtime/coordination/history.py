"""What a protocol did in a run: its durable checkpoints and its recovery lines.

The director's host keeps it in memory, for measurements only. Times are microseconds of the host's clock.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from riprap.protocols.cut import CheckpointId


class Checkpoint(NamedTuple):
    id: CheckpointId
    at: int  # when it was captured
    taken: int  # microseconds from then until it was durable
    bytes: int
    forced: bool


class RecoveryLine(NamedTuple):
    number: int
    at: int
    rollback: Mapping[str, int]  # by element that rolls back: microseconds since its checkpoint, or since the start


class History:
    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.began = now()
        self.checkpoints: dict[CheckpointId, Checkpoint] = {}
        self.lines: list[RecoveryLine] = []

    def took(self, id_: CheckpointId, size: int, taken: int, *, forced: bool) -> None:
        self.checkpoints[id_] = Checkpoint(id_, self.now() - taken, taken, size, forced)

    def put_in_force(self, line: int, targets: Mapping[str, CheckpointId | None]) -> None:
        now = self.now()
        since = {pe: self.checkpoints[id_].at if id_ in self.checkpoints else self.began for pe, id_ in targets.items()}
        self.lines.append(RecoveryLine(line, now, {pe: max(now - at, 0) for pe, at in since.items()}))

    def newest_before(self, pe: str, at: int) -> int:
        """The capture time of the element's newest checkpoint that was durable at `at`; else the start of the run."""
        durable = [c.at for c in self.checkpoints.values() if c.id.pe == pe and c.at + c.taken <= at]
        return max(durable, default=self.began)

    def summary(self) -> dict[str, Any]:
        """A JSON object."""
        taken = list(self.checkpoints.values())
        return {
            "checkpoints": len(taken),
            "forced": sum(checkpoint.forced for checkpoint in taken),
            "bytes": sum(checkpoint.bytes for checkpoint in taken),
            "take_ms": sum(checkpoint.taken for checkpoint in taken) / len(taken) / 1e3 if taken else 0.0,
            "lines": [
                {"line": line.number, "elements": len(line.rollback), "rollback": max(line.rollback.values()) / 1e6}
                for line in self.lines
                if line.rollback
            ],
        }
