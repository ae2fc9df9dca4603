"""What to kill, and when: `Aggregator@10s,executor@20s,driver@30s`.

The name of an operator stands for the elements that host it, `Aggregator/1` for one shard. In an HA group it stands for
the replica that is active at the time, and `Aggregator#2` for the second replica; of copies, for the first that sends.
`executor` is the executor of the first element, `driver` the process that coordinates the run. Times count from when
the run is running. A process that is down at its time is killed once it is up again; kills that did not happen before
the run was over are reported, with the reason.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, parse_duration
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.replica_groups import active_elements
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.layout import Layout

_DOWN = (WorkerState.DOWN, WorkerState.STARTING, WorkerState.HANGING)


class Kill(NamedTuple):
    at: Duration  # after the run is running
    what: Literal["pe", "executor", "driver"]
    pes: tuple[str, ...] = ()
    active: bool = False  # of replicas, only those that are active
    text: str = ""  # as specified by the user


def signal_to(pid: int, number: int) -> bool:
    """Send a signal; False if the process no longer exists."""
    if pid <= 0:  # would address a process group
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def parse_kills(text: str | None, layout: Layout) -> tuple[Kill, ...]:
    """In the order of their times."""
    return tuple(sorted(_kill(part, layout) for part in listed(text, "`kill`")))


def listed(text: object, option: str) -> list[str]:
    """The parts of an option that are separated by commas; None: no parts."""
    if not isinstance(text, str | None):
        raise UsageError(f"{option} {text!r}: write one text with commas, as in 'Aggregator@10s,VWAP@20s'")
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def parse_timed(part: str, option: str, what: str) -> tuple[str, Duration]:
    """Parse NAME@TIME of an option; `what` stands for NAME in the error."""
    name, at, time = part.partition("@")
    if not at or not name:
        raise UsageError(f"{option} {part!r}: write {what}@TIME, as in Aggregator@10s")
    try:
        return name, parse_duration(time)
    except UsageError as error:
        raise UsageError(f"{option} {part!r}: {error}") from error


def _kill(part: str, layout: Layout) -> Kill:
    name, at = parse_timed(part, "`kill`", "WHAT")
    if name == "executor":
        return Kill(at, "executor", text=part)
    if name == "driver":
        return Kill(at, "driver", text=part)
    ids = [pe.id for pe in layout.pes]
    hosting = [name] if name in ids else []
    if not hosting and name in layout.graph:
        hosting = [pe.id for pe in layout.hosting(name)]
    if not hosting:
        choices = [*(op.name for op in layout.graph.operators), "executor", "driver"]
        raise UsageError(f"`kill={part}`: no operator or element is called {name}; there are {known(choices, name)}")
    replicated = name not in ids and any(pe.fragment.replicas > 1 for pe in layout.hosting(name))
    return Kill(at, "pe", tuple(hosting), active=replicated, text=part)


# End a process and with it these elements; returns whether the process existed.
End = Callable[[int, Sequence[PeStatus]], bool]


class Kills:
    """The kills of a run, each tried from its time on until it succeeds."""

    def __init__(self, kills: Sequence[Kill], end: End, end_driver: Callable[[], None]) -> None:
        self._kills = sorted(kills)
        self._end, self._end_driver = end, end_driver
        self._left: dict[int, list[str]] = {}  # by due kill: elements that are still alive
        self._why: dict[int, str] = {}  # by due kill: why it has not succeeded yet
        self._done: set[int] = set()

    def look(self, ran: float, table: Sequence[PeStatus], report: Mapping[str, Any]) -> None:
        """Carry out what is due after `ran` seconds; `report` is the director's."""
        for number, kill in enumerate(self._kills):
            if kill.at / 1e6 > ran:
                return
            if number in self._done:
                continue
            if kill.what == "driver":
                self._end_driver()
                why = ""
            elif kill.what == "executor":
                why = self._executor(table)
            else:
                why = self._elements(number, kill, table, report)
            self._why[number] = why
            if not why:
                self._done.add(number)

    def _executor(self, table: Sequence[PeStatus]) -> str:
        pid = table[0].executor_pid
        killed = pid > 0 and self._end(pid, [status for status in table if status.executor_pid == pid])
        return "" if killed else f"the executor of {table[0].pe} was gone"

    def _elements(self, number: int, kill: Kill, table: Sequence[PeStatus], report: Mapping[str, Any]) -> str:
        left = self._left.get(number)
        if left is None:
            chosen = active_elements(report, kill.pes) if kill.active else kill.pes
            if not chosen:
                return "no replica was active"
            left = self._left[number] = list(chosen)
        for status in table:
            alive = status.connected and status.state not in (*_DOWN, WorkerState.ENDED)
            if status.pe in left and alive and self._end(status.pid, [status]):
                left.remove(status.pe)
        ended = {status.pe for status in table if status.state is WorkerState.ENDED}
        return ", ".join(f"{pe} {'had ended' if pe in ended else 'had no process'}" for pe in left)

    def not_injected(self, ran: float) -> list[dict[str, str]]:
        """Kills that had not succeeded when the run was over, after `ran` seconds, and why."""
        over = f"the run was over after {ran:.1f} s"
        return [
            {"fault": f"kill {kill.text}", "why": self._why.get(number, over)}
            for number, kill in enumerate(self._kills)
            if number not in self._done
        ]
