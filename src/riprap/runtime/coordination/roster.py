"""What the coordinator knows about every processing element: its incarnation, state and recoveries.

Pure bookkeeping: events with their times go in, states come out. Instants are seconds of the coordinator's monotonic
clock. Each *incarnation* of an element has an epoch. Messages of older incarnations raise `ElementFenced`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.runtime.coordination.element_states import (
    FINAL,
    SystemState,
    WorkerState,
    check_worker,
    next_system,
)
from riprap.runtime.wire import Address

ALIVE = {WorkerState.STARTING, WorkerState.RESTORING, WorkerState.CATCHING_UP, WorkerState.RUNNING}


class ElementFenced(Exception):
    """A newer incarnation has replaced this one: its process must end and must not touch anything."""


class Transition(NamedTuple):
    """One line of the run's history."""

    at: int  # wall clock, microseconds
    pe: str  # "": the run itself
    epoch: int
    before: str
    after: str


@dataclass(frozen=True)
class RecoveryTimings:
    """How long the parts of one recovery took, in seconds; None: not finished, or the element died again before."""

    detect: float  # from the kill if it was reported, else from the last heartbeat, until the loss was noticed
    restart: float | None  # until a new process had registered
    restore: float | None  # until its state was restored
    catch_up: float | None  # until it had processed the backlog; 0 if it went to running at once


@dataclass
class _Loss:
    """The instants of one recovery."""

    last_sign: float
    noticed: float
    killed: float | None = None
    registered: float | None = None
    restored: float | None = None
    caught_up: float | None = None

    def recovery(self) -> RecoveryTimings:
        return RecoveryTimings(
            detect=max(self.noticed - (self.last_sign if self.killed is None else self.killed), 0.0),
            restart=_between(self.noticed, self.registered),
            restore=_between(self.registered, self.restored),
            catch_up=_between(self.restored, self.caught_up),
        )


_MAX_PATIENCE = 16.0


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start


@dataclass
class _Entry:
    """One element."""

    epoch: int
    state: WorkerState = WorkerState.STARTING
    before_hanging: WorkerState = WorkerState.STARTING
    connected: bool = False  # a process of the current epoch is registered
    attempt: int = -1
    host: str = ""
    pid: int = 0
    executor_pid: int = 0
    location: str = ""  # "": not reachable
    last_sign: float = 0.0
    registered: float = 0.0
    patience: float = 1.0  # factor on the heartbeat timeout
    absent_since: float | None = None  # since when it has had no registered process; None: not checked yet
    absent_patience: float = 1.0  # factor on the time that it has to register
    ended_at: float = 0.0  # when its process was last ordered to be killed
    restarts: int = 0
    went_back: int = 0  # rollbacks without a restart
    killed: float | None = None  # reported by the killer before the loss was noticed
    metrics: Mapping[str, Any] = field(default_factory=dict)
    losses: list[_Loss] = field(default_factory=list)


@dataclass(frozen=True)
class PeStatus:
    """One line of the live table."""

    pe: str
    state: WorkerState
    epoch: int
    attempt: int
    host: str
    pid: int
    executor_pid: int
    restarts: int
    silent: float  # seconds since the last heartbeat
    metrics: Mapping[str, Any]
    recoveries: tuple[RecoveryTimings, ...]
    went_back: int = 0
    connected: bool = True  # a process of this epoch is registered


class Roster:
    """`epochs`: the last epoch of each element in an earlier part of the run."""

    def __init__(self, pes: Iterable[str], epochs: Mapping[str, int]) -> None:
        self._entries = {pe: _Entry(epochs.get(pe, 0)) for pe in pes}
        self.system = SystemState.STARTING
        self.stopping = False
        self.error: str | None = None
        self.error_code = 1
        self.events: list[Transition] = []

    # Events -----------------------------------------------------------------------------------------------------------

    def register(self, pe: str, attempt: int, host: str, pid: int, executor_pid: int, at: float, wall: int) -> int:
        """A process of the element has started: return its epoch. The previous incarnation is over."""
        entry = self._entries[pe]
        if attempt < entry.attempt:
            raise ElementFenced(f"attempt {attempt} of {pe} registers after attempt {entry.attempt}")
        if self.final or entry.state is WorkerState.FAILED:
            raise ElementFenced(f"{pe} registers after the run is over: nothing is left to do")
        if entry.connected:
            self.lost(pe, entry.epoch, at, wall)
        entry.epoch += 1
        if entry.state is not WorkerState.STARTING:
            self._enter(pe, WorkerState.STARTING, wall)
        entry.restarts += entry.attempt >= 0
        entry.connected = True
        entry.attempt, entry.host, entry.pid, entry.executor_pid = attempt, host, pid, executor_pid
        entry.last_sign = entry.registered = at
        entry.absent_since = None
        entry.metrics = {}
        entry.killed = None  # of the previous incarnation
        if entry.losses and entry.losses[-1].registered is None:
            entry.losses[-1].registered = at
        return entry.epoch

    def renew(self, pe: str, epoch: int, wall: int) -> int:
        """The process rolls back to a checkpoint and starts a new incarnation: return its epoch."""
        entry = self._current(pe, epoch)
        entry.epoch += 1
        entry.went_back += 1
        entry.location = ""
        if entry.state is WorkerState.ENDED:
            self._enter(pe, WorkerState.STARTING, wall)
        if entry.state is WorkerState.RUNNING:
            self._enter(pe, WorkerState.CATCHING_UP, wall)
        return entry.epoch

    def announce(self, pe: str, epoch: int, location: str) -> None:
        self._current(pe, epoch).location = location

    def beat(self, pe: str, epoch: int, metrics: Mapping[str, Any], at: float, wall: int) -> None:
        self.sign(pe, epoch, at, wall).metrics = metrics

    def sign(self, pe: str, epoch: int, at: float, wall: int) -> _Entry:
        """The current process is alive. If it hung, it returns to its previous state."""
        entry = self._current(pe, epoch)
        entry.last_sign = at
        if entry.state is WorkerState.HANGING:
            entry.losses.pop()
            self._enter(pe, entry.before_hanging, wall)
        return entry

    def status(self, pe: str, epoch: int, state: WorkerState, at: float, wall: int) -> None:
        entry = self.sign(pe, epoch, at, wall)
        if entry.state is state:
            return
        loss = entry.losses[-1] if entry.losses else None
        if loss is not None and loss.caught_up is None:
            if state in (WorkerState.CATCHING_UP, WorkerState.RUNNING, WorkerState.ENDED) and loss.restored is None:
                loss.restored = at
            if state in (WorkerState.RUNNING, WorkerState.ENDED):
                loss.caught_up = at
        if state is WorkerState.RUNNING:
            entry.patience = entry.absent_patience = 1.0
        self._enter(pe, state, wall)

    def fail(self, pe: str, text: str, wall: int, code: int = 1) -> None:
        """The element met an error that a restart would meet again. The first such error is the run's error."""
        if self._entries[pe].state not in (WorkerState.ENDED, WorkerState.FAILED):
            if self.error is None:
                self.error, self.error_code = f"{pe}: {text}", code
            self._enter(pe, WorkerState.FAILED, wall)

    def lost(self, pe: str, epoch: int, at: float, wall: int) -> None:
        """The process of this incarnation is gone. No effect if that is known, or if the element had ended."""
        entry = self._entries[pe]
        if epoch != entry.epoch or not entry.connected:
            return
        entry.connected = False
        entry.absent_since = at
        entry.location = ""
        if entry.state in (WorkerState.ENDED, WorkerState.FAILED):
            return
        if entry.state is not WorkerState.HANGING:  # else it was noticed before
            self._notice(entry, at)
        self._enter(pe, WorkerState.DOWN, wall)

    def excuse(self, seconds: float) -> None:
        """The coordinator itself was stalled for this long: do not count that time as silence."""
        for entry in self._entries.values():
            entry.last_sign += seconds
            if entry.absent_since is not None:
                entry.absent_since += seconds

    def silent_for(self, seconds: float, at: float, wall: int) -> list[PeStatus]:
        """The elements that hang from now on: alive, and without a heartbeat for this long.

        An element that was killed before it was running may only be slow, and would be again. So its next incarnation
        has twice the time, until it is running.
        """
        hanging = []
        for pe, entry in self._entries.items():
            if entry.connected and entry.state in ALIVE and at - entry.last_sign > seconds * entry.patience:
                entry.before_hanging, entry.ended_at = entry.state, at
                if entry.state is not WorkerState.RUNNING:
                    entry.patience = min(entry.patience * 2, _MAX_PATIENCE)
                self._notice(entry, at)
                self._enter(pe, WorkerState.HANGING, wall)
                hanging.append(self.element_status(pe, at))
        return hanging

    def still_there(self, seconds: float, at: float) -> list[PeStatus]:
        """The elements whose silent process still exists this long after the last attempt to kill it: try again.

        An element that has ended waits for the end of the run, serves consumers that recover, and can hang like any
        other. Nothing is lost with it, so its state stays `ended`.
        """
        remaining = []
        for pe, entry in self._entries.items() if not self.final else ():
            silent = entry.state in (WorkerState.HANGING, WorkerState.ENDED) and entry.connected
            if silent and at - max(entry.last_sign, entry.ended_at) > seconds * entry.patience:
                entry.ended_at = at
                remaining.append(self.element_status(pe, at))
        return remaining

    def absent_for(self, seconds: float, at: float) -> list[PeStatus]:
        """The elements without a registered process for this long: a started process may hang before it registers.

        The time doubles with each attempt: the machine may be slow.
        """
        absent = []
        for pe, entry in self._entries.items() if not self.final else ():
            if entry.connected:
                continue
            if entry.absent_since is None:
                entry.absent_since = at
            elif at - entry.absent_since > seconds * entry.absent_patience:
                entry.absent_since = at
                entry.absent_patience = min(entry.absent_patience * 2, _MAX_PATIENCE)
                absent.append(self.element_status(pe, at))
        return absent

    def killed(self, pe: str, at: float) -> None:
        """The element's process was killed at that instant: measure detection from there."""
        entry = self._entries[pe]
        if entry.losses and entry.losses[-1].noticed >= at:
            entry.losses[-1].killed = at
        else:
            entry.killed = at

    def stop(self, wall: int) -> None:
        self.stopping = True
        self._settle(wall)

    # Queries ----------------------------------------------------------------------------------------------------------

    @property
    def final(self) -> bool:
        return self.system in FINAL

    def first(self, pe: str) -> bool:
        """Whether the current process of the element is its first."""
        return self._entries[pe].restarts == 0

    def epochs(self) -> dict[str, int]:
        return {pe: entry.epoch for pe, entry in self._entries.items()}

    def address(self, pe: str) -> Address | None:
        entry = self._entries[pe]
        return Address(entry.location, entry.epoch) if entry.location else None

    def left(self) -> list[str]:
        """Elements that had a process and are not reachable: it is gone, or the next one is still starting."""
        entries = self._entries.items()
        return [pe for pe, e in entries if not e.location and (e.restarts > 0 or (e.attempt >= 0 and not e.connected))]

    def element_status(self, pe: str, at: float) -> PeStatus:
        entry = self._entries[pe]
        return PeStatus(
            pe,
            entry.state,
            entry.epoch,
            entry.attempt,
            entry.host,
            entry.pid,
            entry.executor_pid,
            entry.restarts,
            at - entry.last_sign if entry.connected else 0.0,
            entry.metrics,
            tuple(loss.recovery() for loss in entry.losses),
            entry.went_back,
            entry.connected,
        )

    def table(self, at: float) -> list[PeStatus]:
        return [self.element_status(pe, at) for pe in self._entries]

    # ------------------------------------------------------------------------------------------------------------------

    def _current(self, pe: str, epoch: int) -> _Entry:
        entry = self._entries[pe]
        if epoch != entry.epoch or not entry.connected:
            raise ElementFenced(f"epoch {epoch} of {pe} is over; the newest is {entry.epoch}")
        return entry

    def _notice(self, entry: _Entry, at: float) -> None:
        entry.losses.append(_Loss(entry.last_sign, at, entry.killed))
        entry.killed = None

    def _enter(self, pe: str, state: WorkerState, wall: int) -> None:
        entry = self._entries[pe]
        check_worker(pe, entry.state, state)
        self.events.append(Transition(wall, pe, entry.epoch, entry.state, state))
        entry.state = state
        self._settle(wall)

    def _settle(self, wall: int) -> None:
        then = next_system(self.system, (entry.state for entry in self._entries.values()), stopping=self.stopping)
        if then is not self.system:
            self.events.append(Transition(wall, "", 0, self.system, then))
            self.system = then
