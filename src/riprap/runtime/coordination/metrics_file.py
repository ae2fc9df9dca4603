"""`metrics.jsonl` of a run: a line per element and second, written by the driver.

    {"at": wall clock in µs, "run": its state, "pe": …, "state": …, "in": …, …}

`docs/reference/run-directory.md` explains each entry. On a full disk a line is left out, never cut. Other files of the
run wait for room, or end it.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from riprap.base import files
from riprap.base.clock import Clock
from riprap.base.disk import is_full
from riprap.runtime.coordination.element_metrics import ElementMetrics
from riprap.runtime.coordination.replica_groups import Report, failovers, roles
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.element.latency import Latencies

_EVERY = 1.0  # seconds between lines


class MetricsFile:
    """Writes the table of elements once per interval. `lines`: the newest ones."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._path, self._clock = directory / "metrics.jsonl", clock
        self._written = -_EVERY
        self._before: dict[str, tuple[float, int]] = {}  # by element: an instant, and the items received by then
        self._latencies: dict[str, tuple[int, dict[int, int]]] = {}  # by element: its epoch, and its histogram then
        self.lines: list[dict[str, Any]] = []

    def note(self, state: str, elements: Sequence[PeStatus], report: Report | None = None) -> None:
        """`report`: of the director, on HA groups and copies."""
        now = self._clock.monotonic()
        if now - self._written < _EVERY and state not in ("ended", "failed"):
            return
        self._written = now
        role, failover = roles(report or {}), failovers(report or {})
        self.lines = [
            {**self._line(status, now), "role": role.get(status.pe), "failover": failover.get(status.pe)}
            for status in elements
        ]
        entries = [{"at": self._clock.now(), "run": state, **line} for line in self.lines]
        _append(self._path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode())

    def _line(self, status: PeStatus, now: float) -> dict[str, Any]:
        metrics = ElementMetrics.from_json(status.metrics) if status.metrics else ElementMetrics()
        before = self._before.get(status.pe)
        rate = None if before is None or now <= before[0] else (metrics.received - before[1]) / (now - before[0])
        self._before[status.pe] = (now, metrics.received)
        epoch, histogram = self._latencies.get(status.pe, (status.epoch, {}))
        self._latencies[status.pe] = (status.epoch, dict(metrics.latency))
        latencies = Latencies(metrics.latency).since(histogram if epoch == status.epoch else {})
        newest = max(metrics.checkpoints.values(), key=lambda c: c.last_at, default=None)
        saved = newest if newest is not None and newest.last_at else None
        return {
            "pe": status.pe,
            "state": str(status.state),
            "in": metrics.received,
            "out": metrics.sent,
            "rate": max(rate, 0.0) if rate is not None else None,
            "latency": latencies.quantile(0.5),
            "late": metrics.behind,
            "lost": metrics.lost,
            "checkpoint_age": (self._clock.now() - saved.last_at) / 1e6 if saved is not None else None,
            "checkpoint_bytes": saved.last_bytes if saved is not None else None,
            "missed": sum(c.missed for c in metrics.checkpoints.values()),
            "restarts": status.restarts,
        }


def _append(path: Path, data: bytes) -> None:
    with files.open_file(path, "ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            whole = file.write(data) == len(data)
        except OSError as error:
            if not is_full(error):
                raise
            whole = False
        if not whole:
            file.truncate(end)
