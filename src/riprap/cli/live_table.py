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
_PATIENCE = 5  # lines, which come every second, before it is said what is waited for
_NAMED = 3  # elements
_WAITS = {  # in the order in which an element goes through them
    "starting": "to get a process: Spark starts one for each element",
    "down": "to get a new process",
    "hanging": "to give a sign of life: the machine is busy, or the process was stopped",
    "restoring": "to read their state and compile their operators",
    "catching_up": "to hear from the elements before them",
}


class LiveTable:
    """Shows the lines that a run makes of itself; a context manager. `show`: False shows nothing.

    Where the console is no terminal, nothing is shown but what a run that does not come to start waits for.
    """

    def __init__(self, console: Console, *, show: bool) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True) if show else None
        self._shown: Sequence[dict[str, Any]] = ()
        self._console, self._looks, self._said = console, 0, ""

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
            self._looks += 1
            said = waiting(state, lines)
            if self._looks > _PATIENCE and said not in ("", self._said) and not self._console.is_terminal:
                self._said = said
                self._console.print(f"run is {state}: {said}", soft_wrap=True)


def waiting(state: str, lines: Sequence[dict[str, Any]]) -> str:
    """What a run that is starting waits for; "": for nothing."""
    if state != "starting":
        return ""
    for which, what in _WAITS.items():
        pes = [line["pe"] for line in lines if line["state"] == which]
        if pes:
            more = f" and {len(pes) - _NAMED} more" if len(pes) > _NAMED else ""
            return f"waiting for {', '.join(pes[:_NAMED])}{more} {what}"
    return ""


def _failed_over(line: dict[str, Any]) -> str:
    """How an element came to be in the active replica; "": it always was, or is not."""
    failover = line.get("failover")
    if not failover:
        return ""
    took = "" if failover["seconds"] is None else f" in {failover['seconds']:.2f} s"
    count = failover["count"]
    return (
        f"{count} fail-over{'s' if count > 1 else ''}, the last{took}: {failover['dropped']:,} dropped, "
        f"{failover['doubled']:,} doubled"
    )


def _table(state: str, lines: Sequence[dict[str, Any]]) -> Table:
    said = waiting(state, lines)
    table = Table(box=None, title=f"run is {state}{': ' if said else ''}{said}", title_justify="left")
    table.add_column("element")
    table.add_column("state")
    for name in ("in", "out", "tuples/s", "latency", "late", "lost", "last checkpoint", "restarts"):
        table.add_column(name, justify="right")
    for line in lines:
        colour = _COLOURS.get(line["state"], "default")
        age, size = line["checkpoint_age"], line["checkpoint_bytes"]
        table.add_row(
            line["pe"],
            Text(", ".join(filter(None, (line["state"], line.get("role"), _failed_over(line)))), colour),
            f"{line['in']:,}",
            f"{line['out']:,}",
            "" if line["rate"] is None else format_count(round(line["rate"])),
            "" if line["latency"] is None else format_latency(line["latency"]),
            f"{line['late']:,}" if line.get("late") else "",
            f"{line['lost']:,}" if line["lost"] else "",
            "" if age is None else f"{age:.1f} s ago, {size / 1024:,.0f} KiB",
            str(line["restarts"]) if line["restarts"] else "",
        )
    return table
