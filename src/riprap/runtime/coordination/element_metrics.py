"""What an element reports in every heartbeat. Counts are of this incarnation, except for those of channels."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from riprap.runtime.spending import ResourceUse

if TYPE_CHECKING:  # a reader of metrics needs no engine
    from riprap.checkpoints.checkpointer import Checkpointer


@dataclass(frozen=True)
class CheckpointMetrics:
    """Of one unit: an operator, or the whole fragment."""

    taken: int = 0
    missed: int = 0
    bytes: int = 0  # written in total
    last_bytes: int = 0  # of the newest
    last_at: int = 0  # wall clock, microseconds; 0: none yet


@dataclass(frozen=True)
class ElementMetrics:
    received: int = 0  # items from channels, or rows from sources, over all incarnations
    sent: int = 0  # items emitted, over all incarnations
    lost: int = 0  # items that never arrived, over all incarnations
    latency: Mapping[int, int] = field(default_factory=dict)  # histogram of `latency.Latencies`, sinks only
    checkpoints: Mapping[str, CheckpointMetrics] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # sentences for the user
    late: Mapping[str, int] = field(default_factory=dict)  # by source with a lateness: later rows, of all incarnations
    behind: int = 0  # items that arrived behind items with later order keys, over all incarnations
    spent: ResourceUse = field(default_factory=ResourceUse)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ElementMetrics":
        return cls(
            data["received"],
            data["sent"],
            data["lost"],
            {int(bucket): count for bucket, count in data["latency"].items()},
            {name: CheckpointMetrics(**values) for name, values in data["checkpoints"].items()},
            tuple(data["warnings"]),
            dict(data["late"]),
            data["behind"],
            ResourceUse.from_json(data["spent"]),
        )


def checkpoint_metrics(checkpointer: "Checkpointer | None", missed: Mapping[str, int]) -> dict[str, CheckpointMetrics]:
    """By unit. `missed`: deadlines that passed without a checkpoint."""
    metrics = {}
    for unit, counts in checkpointer.counts.items() if checkpointer is not None else ():
        last = checkpointer.newest.get(unit) if checkpointer is not None else None
        size, at = (last.bytes, last.taken_at) if last is not None else (0, 0)
        metrics[unit] = CheckpointMetrics(counts.taken, counts.dropped + missed.get(unit, 0), counts.bytes, size, at)
    return metrics
