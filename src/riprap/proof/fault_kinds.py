"""The faults of a proof: one table with an entry for each kind, what it does and what must hold after it.

Each is injected into real processes and real files, from outside and unannounced. An action is a generator: it does
something, then yields what it waits for (seconds, or a condition that is checked about twenty times a second), and
continues. So a lasting fault needs no thread, and several can be in progress at once. It returns why it was not
injected, or "": a fault that hit nothing proves nothing, so every kind checks whether it was injected.

Fault model: whatever the kernel allows one process to do to another of the same user on this machine. Elements on other
machines cannot be reached; the injector reports that before it starts.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

import numpy as np

from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import MissingPrerequisite
from riprap.base.quantities import Duration
from riprap.base.randomness import generator
from riprap.proof.schedule import ALL, GROUP, Demand, ScheduledFault
from riprap.runtime import corruption
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.kills import signal_to

_PIDFD_GETFD = 438  # the system call's number, on every architecture
_TRIES = 20  # to damage a checkpoint while it is the newest
_LATE = 0.9  # of the time between two checkpoints
_DOWN = (WorkerState.DOWN, WorkerState.STARTING, WorkerState.HANGING)


class Victims(Protocol):
    """The current processes of a run."""

    directory: Path  # of the run

    def pid(self, pe: str) -> int:
        """The process id of the element's current incarnation."""

    def state(self, pe: str) -> WorkerState: ...

    def epoch(self, pe: str) -> int: ...

    def executor(self, pe: str) -> int:
        """The process id of the executor that hosts it."""

    def pids(self) -> list[int]:
        """The process ids of all elements."""


Wait: TypeAlias = float | Callable[[], bool]
Action: TypeAlias = Generator[Wait, None, str]
DONE = ""


def _missed(pes: Sequence[str], why: str) -> str:
    return f"{', '.join(pes)} {why}" if pes else DONE


_GONE = "had no process any more"


def _signal(victims: Victims, pes: Sequence[str], number: int) -> str:
    """Send a signal to elements; returns why some did not get it."""
    return _missed([pe for pe in pes if not signal_to(victims.pid(pe), number)], _GONE)


def _kill(victims: Victims, fault: ScheduledFault) -> Action:
    missed = _signal(victims, fault.targets, signal.SIGKILL)
    yield 0.0
    return missed


def _late(victims: Victims, fault: ScheduledFault) -> bool:
    """Whether the next checkpoint of each target is almost due: then the most work has to be repeated.

    This is estimated from the times of the last two, both of this incarnation: one that has just recovered repeats much
    work anyway. For an element with fewer than two, any moment will do.
    """
    now = SYSTEM_CLOCK.now() / 1e6
    for pe in fault.targets:
        written = []
        for manifest in _manifests(victims, pe):
            try:
                written.append((manifest.stat().st_mtime, int(manifest.name.partition("-")[0])))
            except FileNotFoundError:  # deleted since, by the element itself
                continue
        if len(written) < 2:
            continue
        (before, epoch), (last, _) = sorted(written)[-2:]
        if epoch != victims.epoch(pe) or now - last < _LATE * (last - before):
            return False
    return True


def _kill_again(victims: Victims, fault: ScheduledFault) -> Action:
    epochs = {pe: victims.epoch(pe) for pe in fault.targets}
    missed = yield from _kill(victims, fault)
    for pe in fault.targets:
        yield lambda pe=pe: victims.epoch(pe) > epochs[pe]  # type: ignore[misc]
        missed = missed or _signal(victims, [pe], signal.SIGKILL)
    return missed


def _hang(victims: Victims, fault: ScheduledFault) -> Action:
    pids = [victims.pid(pe) for pe in fault.targets]
    try:
        missed = _signal(victims, fault.targets, signal.SIGSTOP)
        yield fault.lasts / 1e6
    finally:
        for pid in pids:
            signal_to(pid, signal.SIGCONT)
    return missed


def _slow(victims: Victims, fault: ScheduledFault) -> Action:
    """Stop and continue the processes in turn."""
    period, left = 0.4, fault.lasts / 1e6
    pids = [victims.pid(pe) for pe in fault.targets]
    missed = _signal(victims, fault.targets, signal.SIGSTOP)
    try:
        while left > 0:
            for pid in pids:
                signal_to(pid, signal.SIGSTOP)
            yield period * (1 - fault.share)
            for pid in pids:
                signal_to(pid, signal.SIGCONT)
            yield period * fault.share
            left -= period
    finally:
        for pid in pids:
            signal_to(pid, signal.SIGCONT)
    return missed


def _executor(victims: Victims, fault: ScheduledFault) -> Action:
    done = signal_to(victims.executor(fault.targets[0]), signal.SIGKILL)
    yield 0.0
    return DONE if done else f"the executor of {fault.targets[0]} {_GONE}"


def _driver(victims: Victims, fault: ScheduledFault) -> Action:
    done = signal_to(os.getpid(), signal.SIGKILL)
    yield 0.0
    return DONE if done else "the driver is still alive"


def _manifests(victims: Victims, pe: str) -> list[Path]:
    """The manifests of an element's checkpoints, newest last."""
    return sorted((victims.directory / "checkpoints" / quote(pe, safe="")).glob("*/*.manifest"))


def _newest_part(victims: Victims, pe: str, draws: np.random.Generator) -> Path | None:
    """A file of the element's newest checkpoint; None while it has none."""
    manifests = _manifests(victims, pe)
    if not manifests:
        return None
    newest = manifests[-1]
    beside = sorted(newest.parent.glob("*.part")) or [newest]
    return newest if draws.random() < 0.5 else beside[-1]


_NO_CHECKPOINT = "had no checkpoint that could be damaged"


def _has_checkpoint(victims: Victims, fault: ScheduledFault) -> bool:
    return all(_manifests(victims, pe) for pe in fault.targets)


def _damage(how: Callable[[Path, np.random.Generator], None]) -> Callable[[Victims, ScheduledFault], Action]:
    def action(victims: Victims, fault: ScheduledFault) -> Action:
        draws = generator(fault.seed, "damage")
        undamaged = [pe for pe in fault.targets if not _damaged(victims, pe, how, draws)]
        missed = yield from _kill(victims, fault)
        return _missed(undamaged, _NO_CHECKPOINT) or missed

    return action


def _damaged(
    victims: Victims, pe: str, how: Callable[[Path, np.random.Generator], None], draws: np.random.Generator
) -> bool:
    """Whether a file of the element's newest checkpoint was damaged; the element may delete one meanwhile."""
    for _ in range(_TRIES):
        file = _newest_part(victims, pe, draws)
        if file is None:
            return False
        try:
            how(file, draws)
            return True
        except FileNotFoundError:
            continue
    return False


def _delete(file: Path, draws: np.random.Generator) -> None:
    files.unlink(file)


def _cut(file: Path, draws: np.random.Generator) -> None:
    files.truncate(file, int(draws.integers(0, max(files.status(file).st_size, 1))))


def _flip(file: Path, draws: np.random.Generator) -> None:
    with files.open_file(file, "r+b") as opened:
        size = files.status(file).st_size
        if size:
            at = int(draws.integers(size))
            opened.seek(at)
            byte = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes([byte ^ (1 << int(draws.integers(8)))]))


def _disk_full(victims: Victims, fault: ScheduledFault) -> Action:
    """No file of the process may grow: writes fail as with an exhausted quota."""
    before: dict[int, tuple[int, int]] = {}
    missed = []
    for pe in fault.targets:
        pid = victims.pid(pe)
        try:
            before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[pid][1]))
        except ProcessLookupError:
            missed.append(pe)
    try:
        yield fault.lasts / 1e6
    finally:
        for pid, limits in before.items():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    return _missed(missed, _GONE)


def _connection(victims: Victims, fault: ScheduledFault) -> Action:
    """Shut down the connections of an element with other elements; all stay alive."""
    missed = []
    for pe in fault.targets:
        pid = victims.pid(pe)
        if not cut_connections(pid, [other for other in victims.pids() if other != pid]):
            missed.append(pe)
    yield 0.0
    return _missed(missed, "had no connections with other elements")


def cut_connections(pid: int, others: Sequence[int]) -> int:
    """Shut down every connection between a process and some others, from outside; returns how many."""
    far_ends = {(there, here) for other in others for _, here, there in _connections(other)}
    count = 0
    for taken, here, there in _connections(pid):
        if (here, there) in far_ends:
            taken.shutdown(socket.SHUT_RDWR)
            count += 1
    return count


def _connections(pid: int) -> Iterator[tuple[socket.socket, Any, Any]]:
    """The connections of a process: the socket, shared with it during the iteration, and both addresses.

    A process that ends meanwhile has none left to cut.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except (FileNotFoundError, ProcessLookupError):
            return
        for name in names:
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except (FileNotFoundError, ProcessLookupError):
                continue
            copy = libc.syscall(_PIDFD_GETFD, handle, int(name), 0)
            if copy < 0 and ctypes.get_errno() in (errno.ESRCH, errno.EBADF):  # it has ended, or closed this one
                continue
            if copy < 0:
                raise MissingPrerequisite(
                    f"a connection of process {pid} cannot be cut: {os.strerror(ctypes.get_errno())}; "
                    "this needs Linux 5.6 and the right to trace the process"
                )
            with socket.socket(fileno=copy) as taken:
                try:
                    here, there = taken.getsockname(), taken.getpeername()
                except OSError:  # it listens, or is broken already
                    continue
                if taken.family in (socket.AF_INET, socket.AF_INET6) or (here and there):  # pairs have no names
                    yield taken, here, there
    finally:
        os.close(handle)


def _corrupt(what: corruption.What) -> Callable[[Victims, ScheduledFault], Action]:
    """Silently change one value in the element: on request, the element does it to itself.

    Whether it did is in the summary of the run (`verdict.results`).
    """

    def action(victims: Victims, fault: ScheduledFault) -> Action:
        for pe in fault.targets:
            corruption.request_corruption(victims.directory, pe, what, chance=fault.seed)
        yield 0.0
        return DONE

    return action


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault."""

    does: str
    holds: str  # what must hold after it, beyond what the plan promises of every fault
    demand: Demand
    action: Callable[[Victims, ScheduledFault], Action]
    fatal: bool = True  # whether an element loses its state by it, and has to recover
    local: bool = True  # whether it is possible in local mode
    bounded: bool = True  # whether a plan's recovery bound covers it
    excused: bool = False  # rows downstream of it may be lost or wrong: no promise covers it
    ready: Callable[[Victims, ScheduledFault], bool] = lambda victims, fault: True  # the moment that it waits for
    waits: str = ""  # why it was not injected if that moment did not come


KINDS: Mapping[str, FaultKind] = {
    "kill": FaultKind("SIGKILL of an element", "it recovers, and others keep their processes", Demand(), _kill),
    "kill-again": FaultKind(
        "SIGKILL, and again as soon as its next process has started", "it still recovers", Demand(), _kill_again
    ),
    "kill-late": FaultKind(
        "SIGKILL just before the next checkpoint is on disk",
        "it recovers, with as much work to repeat as possible",
        Demand(),
        _kill,
        ready=_late,
        waits="was not about to complete a checkpoint",
    ),
    "several": FaultKind("SIGKILL of several elements at once", "all recover", Demand(targets=-1), _kill),
    "all": FaultKind("SIGKILL of every element at once", "all recover", Demand(targets=ALL, drawn=False), _kill),
    "group": FaultKind(
        "SIGKILL of all replicas of an HA group at once",
        "all recover; state and items that only they had are lost",
        Demand(targets=GROUP),
        _kill,
        excused=True,
    ),
    "hang": FaultKind(
        "SIGSTOP, and SIGCONT long after it was replaced",
        "it is replaced, and does nothing when it continues",
        Demand(lasts=Duration(6_000_000)),
        _hang,
    ),
    "slow": FaultKind(
        "a quarter of a core for some seconds",
        "nothing is lost: it is slow, not dead",
        Demand(lasts=Duration(3_000_000)),
        _slow,
        fatal=False,
    ),
    "executor": FaultKind(
        "SIGKILL of the executor that hosts an element", "its elements move", Demand(), _executor, local=False
    ),
    "driver": FaultKind(
        "SIGKILL of the driver, and a resume",
        "the run continues where it was",
        Demand(targets=0, drawn=False),
        _driver,
        bounded=False,  # Spark itself has to start again
    ),
    "checkpoint-deleted": FaultKind(
        "a file of the newest checkpoint is deleted, then SIGKILL",
        "an older one is used",
        Demand(saved=True),
        _damage(_delete),
        ready=_has_checkpoint,
        waits=_NO_CHECKPOINT,
    ),
    "checkpoint-cut": FaultKind(
        "a file of the newest checkpoint is truncated, then SIGKILL",
        "an older one is used",
        Demand(saved=True),
        _damage(_cut),
        ready=_has_checkpoint,
        waits=_NO_CHECKPOINT,
    ),
    "checkpoint-flipped": FaultKind(
        "a bit of the newest checkpoint is flipped, then SIGKILL",
        "an older one is used",
        Demand(saved=True),
        _damage(_flip),
        ready=_has_checkpoint,
        waits=_NO_CHECKPOINT,
    ),
    "disk-full": FaultKind(
        "no file of an element can grow for some seconds",
        "it waits and continues, without dying",
        Demand(lasts=Duration(3_000_000)),
        _disk_full,
        fatal=False,
    ),
    "corrupt-tuple": FaultKind(
        "a bit of a tuple that arrives at an element is flipped",
        "no element dies of it; wrong rows downstream are reported",
        Demand(drawn=False),
        _corrupt("tuple"),
        fatal=False,
        excused=True,
    ),
    "corrupt-state": FaultKind(
        "a bit of an element's state is flipped",
        "no element dies of it; wrong rows downstream are reported",
        Demand(drawn=False),
        _corrupt("state"),
        fatal=False,
        excused=True,
    ),
    "connection": FaultKind(
        "the connections between an element and others are cut, and all stay alive",
        "they are opened again",
        Demand(connected=True),
        _connection,
        fatal=False,
    ),
}


def is_down(state: WorkerState) -> bool:
    return state in _DOWN
