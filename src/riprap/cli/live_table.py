"""The live table of a run in the terminal: one line per element."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from riprap.base.quantities import format_count
from riprap.runtime.element.latency import format_latency

_COLOURS = {"running": "green", "catching_up": "cyan", "down": "bold red", "hanging": "bold red", "failed": "bold red"}
_PATIENCE = 5  # updates, one a second, before it names what the run waits for
_NAMED = 3  # elements that a run waits for
_WAITS = {  # by state, in the order of an element's start
    "starting": "to get a process: Spark starts one for each element",
    "down": "to get a new process",
    "hanging": "to send a heartbeat: the machine is busy, or the process was stopped",
    "restoring": "to read their state and compile their operators",
    "catching_up": "to receive the input of upstream elements",
}


class LiveTable:
    """Shows the state of a run; a context manager. `show`: False shows nothing.

    On a console that is not a terminal it only prints what a run that is slow to start waits for.
    """

    def __init__(self, console: Console, *, show: bool) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True) if show else None
        self._shown: Sequence[dict[str, Any]] = ()
        self._console, self._updates, self._reported = console, 0, ""

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
            self._updates += 1
            reason = waiting(state, lines)
            if self._updates > _PATIENCE and reason not in ("", self._reported) and not self._console.is_terminal:
                self._reported = reason
                self._console.print(f"run is {state}: {reason}", soft_wrap=True)


def waiting(state: str, lines: Sequence[dict[str, Any]]) -> str:
    """What a starting run waits for; "": nothing."""
    if state != "starting":
        return ""
    for which, what in _WAITS.items():
        pes = [line["pe"] for line in lines if line["state"] == which]
        if pes:
            more = f" and {len(pes) - _NAMED} more" if len(pes) > _NAMED else ""
            return f"waiting for {', '.join(pes[:_NAMED])}{more} {what}"
    return ""


def _failed_over(line: dict[str, Any]) -> str:
    """The failovers that made the replica of an element active; "": none."""
    failover = line.get("failover")
    if not failover:
        return ""
    took = "" if failover["seconds"] is None else f" in {failover['seconds']:.2f} s"
    count = failover["count"]
    return (
        f"{count} failover{'s' if count > 1 else ''}, the last{took}: {failover['dropped']:,} dropped, "
        f"{failover['doubled']:,} doubled"
    )


def _table(state: str, lines: Sequence[dict[str, Any]]) -> Table:
    reason = waiting(state, lines)
    table = Table(box=None, title=f"run is {state}{': ' if reason else ''}{reason}", title_justify="left")
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
