"""The live table of a run in the terminal: an element a line."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from riprap.base.quantities import format_count
from riprap.runtime.element.latency import format_latency

_COLOURS = {"running": "green", "catching_up": "cyan", "down": "bold red", "hanging": "bold red", "failed": "bold red"}


class LiveTable:
    """Shows the lines that a run makes of itself; a context manager. `show`: False shows nothing."""

    def __init__(self, console: Console, *, show: bool) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True) if show else None
        self._shown: Sequence[dict[str, Any]] = ()

    def __enter__(self) -> "LiveTable":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, state: str, lines: Sequence[dict[str, Any]]) -> None:
        if self._live is not None and lines is not self._shown:
            self._shown = lines
            self._live.update(_table(state, lines))


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
