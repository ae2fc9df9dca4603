"""The live table of a run: an element a line, in the terminal, and as JSON lines in the run's directory."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.disk import is_full
from riprap.base.quantities import format_count
from riprap.runtime.element.latency import Latencies, format_latency
from riprap.runtime.metrics import Metrics

if TYPE_CHECKING:
    from riprap.runtime.roster import PeStatus

_EVERY = 1.0  # seconds between lines in the file
_COLOURS = {"running": "green", "catching_up": "cyan", "down": "bold red", "hanging": "bold red", "failed": "bold red"}


class LiveTable:
    """Shows what it is told of; a context manager. `show`: False writes the file only."""

    def __init__(self, console: Console, directory: Path, *, show: bool) -> None:
        self._directory = directory
        self._live = Live(console=console, refresh_per_second=4, transient=True) if show else None
        self._written = 0.0
        self._before: dict[str, tuple[float, int]] = {}  # by element: an instant, and what it had received then
        self._latencies: dict[str, tuple[int, dict[int, int]]] = {}  # by element: its life, and its histogram then

    def __enter__(self) -> "LiveTable":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, state: str, elements: Sequence["PeStatus"]) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if now - self._written < _EVERY and state not in ("ended", "failed"):
            return
        self._written = now
        lines = [self._line(status, now) for status in elements]
        told = [json.dumps({"at": SYSTEM_CLOCK.now(), "run": state, **line}, ensure_ascii=False) for line in lines]
        _append(self._directory / "metrics.jsonl", "".join(f"{line}\n" for line in told).encode())
        if self._live is not None:
            self._live.update(_table(state, lines))

    def _line(self, status: "PeStatus", now: float) -> dict[str, Any]:
        metrics = Metrics.from_json(status.metrics) if status.metrics else Metrics()
        before = self._before.get(status.pe)
        rate = None if before is None or now <= before[0] else (metrics.received - before[1]) / (now - before[0])
        self._before[status.pe] = (now, metrics.received)
        life, histogram = self._latencies.get(status.pe, (status.epoch, {}))
        self._latencies[status.pe] = (status.epoch, dict(metrics.latency))
        latencies = Latencies(metrics.latency).since(histogram if life == status.epoch else {})
        newest = max(metrics.checkpoints.values(), key=lambda c: c.last_at, default=None)
        saved = newest if newest is not None and newest.last_at else None
        return {
            "pe": status.pe,
            "state": str(status.state),
            "in": metrics.received,
            "out": metrics.sent,
            "rate": max(rate, 0.0) if rate is not None else None,
            "latency": latencies.quantile(0.5),
            "lost": metrics.lost,
            "checkpoint_age": (SYSTEM_CLOCK.now() - saved.last_at) / 1e6 if saved is not None else None,
            "checkpoint_bytes": saved.last_bytes if saved is not None else None,
            "missed": sum(c.missed for c in metrics.checkpoints.values()),
            "restarts": status.restarts,
        }


def _append(path: Path, data: bytes) -> None:
    """Whole lines or none: on a full disk they are left out. What the run itself writes waits for room, or ends it."""
    with path.open("ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            whole = file.write(data) == len(data)
        except OSError as error:
            if not is_full(error):
                raise
            whole = False
        if not whole:
            file.truncate(end)


def _table(state: str, lines: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, title=f"run is {state}", title_justify="left")
    table.add_column("element")
    table.add_column("state")
    for name in ("in", "out", "tuples/s", "latency", "lost", "last checkpoint", "restarts"):
        table.add_column(name, justify="right")
    for line in lines:
        colour = _COLOURS.get(line["state"], "default")
        age, size = line["checkpoint_age"], line["checkpoint_bytes"]
        table.add_row(
            line["pe"],
            Text(line["state"], colour),
            f"{line['in']:,}",
            f"{line['out']:,}",
            "" if line["rate"] is None else format_count(round(line["rate"])),
            "" if line["latency"] is None else format_latency(line["latency"]),
            f"{line['lost']:,}" if line["lost"] else "",
            "" if age is None else f"{age:.1f} s ago, {size / 1024:,.0f} KiB",
            str(line["restarts"]) if line["restarts"] else "",
        )
    return table
