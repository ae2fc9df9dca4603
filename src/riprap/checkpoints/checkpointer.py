"""Checkpoints are copied on the loop and written beside it.

A *unit* is what is taken together: one operator, or a whole fragment. The loop captures one between two of its calls;
that copies. A thread writes the copies, in the same order. When one is taken is the business of a protocol, and when
one may be deleted that of its director; both are above this.

An exception in the thread is raised by every call after it. Checkpoints that somebody deletes under the run are begun
anew, with a warning: a copy that goes on from what is gone is dropped.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riprap.base.clock import SYSTEM_CLOCK, Clock, thread_seconds
from riprap.base.errors import UsageError, known
from riprap.checkpoints.capture import CapturedState, capture
from riprap.checkpoints.checkpoint_writer import UnitWriter
from riprap.checkpoints.names import MANIFEST, Claim, File
from riprap.checkpoints.storage import Storage
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState


class Saved(NamedTuple):
    """A checkpoint that is durable."""

    unit: str
    epoch: int
    number: int
    taken_at: int
    bytes: int
    seconds: float  # from the capture until it was durable
    positions: Mapping[str, Any]
    note: Any  # what was given with the capture
    cost: float = 0.0  # seconds of a core: copying, writing, and looking after the parts of the one before


@dataclass
class CheckpointCounts:
    """Of one unit in this attempt."""

    taken: int = 0  # written
    dropped: int = 0  # copies that were not
    bytes: int = 0  # of all that were written


@dataclass
class _Unit:
    operators: tuple[str, ...]
    writer: UnitWriter
    versions: dict[str, int] | None = None  # of the last capture
    copied: float = 0.0  # seconds of a core that it took
    unpaid: float = 0.0  # seconds of a core after the last checkpoint was durable; of the thread


class _Job(NamedTuple):
    """Something for the thread: a capture to write, or checkpoints to delete."""

    unit: str
    taken: CapturedState | None
    note: Any = None
    begun: float = 0.0
    files: tuple[File, ...] = ()
    copied: float = 0.0  # seconds of a core that the copy took


class Checkpointer:
    """The checkpoints of one attempt of an element. `units`: the operators of each."""

    def __init__(
        self,
        storage: Storage,
        pe: str,
        epoch: int,
        units: Mapping[str, Iterable[str]],
        *,
        background: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        worked: Callable[[], float] = thread_seconds,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        claim = Claim(storage, pe, epoch)
        self._units = {
            name: _Unit(tuple(operators), UnitWriter(storage, pe, name, epoch, claim))
            for name, operators in units.items()
        }
        self.epoch = epoch
        self.counts = {name: CheckpointCounts() for name in units}
        self.newest: dict[str, Saved] = {}  # the last checkpoint of each unit
        self._clock, self._worked, self._warn = clock, worked, warn
        self._lock = threading.Lock()
        self._finished: list[Saved] = []
        self._dropped: list[tuple[str, Any]] = []
        self._broken: set[str] = set()  # units whose next checkpoint has to be a whole one
        self._error: BaseException | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True) if background else None
        if self._thread is not None:
            self._thread.start()

    def found(self) -> dict[tuple[str, int, int], Mapping[str, Any]]:
        """Checkpoints of earlier attempts that are whole: (unit, epoch, number), and their positions."""
        return {
            (name, file.epoch, file.number): positions
            for name, unit in self._units.items()
            for file, positions in unit.writer.found.items()
        }

    def capture(
        self,
        unit: str,
        engine: Engine,
        positions: Mapping[str, Any],
        now: int,
        mergers: Mapping[str, MergerState] | None = None,
        note: Any = None,
    ) -> None:
        """Copy the unit's state and have it written. `engine` is always the same one, and lives on undisturbed."""
        self.write(self.copy(unit, engine, positions, now, mergers), note)

    def copy(
        self,
        unit: str,
        engine: Engine,
        positions: Mapping[str, Any],
        now: int,
        mergers: Mapping[str, MergerState] | None = None,
    ) -> CapturedState:
        """The unit's state. It has to be written before the next one is copied: each goes on from the one before.

        `mergers`: what is to be saved of mergers; None: all that waits in the engine's.
        """
        self._raise_error()
        if unit not in self._units:
            raise UsageError(f"no unit {unit} is checkpointed here; units are {known(self._units, unit)}")
        state, began = self._units[unit], self._worked()
        since = {} if unit in self._broken else state.versions or {}
        taken = capture(unit, engine, state.operators, since, positions, now, mergers)
        state.versions = {name: s.version for name, s in taken.states.items()}
        state.copied = self._worked() - began
        return taken

    def forget(self, unit: str) -> None:
        """What was copied last will not be written: the next copy is whole."""
        self._units[unit].versions = None

    def write(self, taken: CapturedState, note: Any = None) -> None:
        """Have a copy written; `note` comes back with it."""
        self._raise_error()
        self._put(_Job(taken.unit, taken, note, self._clock.monotonic(), copied=self._units[taken.unit].copied))

    def delete(self, checkpoints: Iterable[tuple[str, int, int]]) -> None:
        """Delete checkpoints, by unit, epoch and number; soon."""
        self._raise_error()
        for unit, epoch, number in checkpoints:
            self._put(_Job(unit, None, files=(File(epoch, number, MANIFEST),)))

    def finished(self) -> Sequence[Saved]:
        """Checkpoints that have become durable since the last call."""
        self._raise_error()
        if not self._finished:
            return ()
        with self._lock:
            finished, self._finished = self._finished, []
        return finished

    def dropped(self) -> Sequence[tuple[str, Any]]:
        """Copies that will not be durable since the last call: their unit and note. The next copy is a whole one."""
        if not self._dropped:
            return ()
        with self._lock:
            dropped, self._dropped = self._dropped, []
        return dropped

    def close(self) -> None:
        """Write what has been captured, and end."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _put(self, job: _Job) -> None:
        if self._thread is None:
            self._do(job)
        else:
            self._jobs.put(job)

    # On the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._do(job)
            except BaseException as error:  # whatever it is, the loop has to hear of it
                self._error = error
                return

    def _do(self, job: _Job) -> None:
        writer, counts, taken = self._units[job.unit].writer, self.counts[job.unit], job.taken
        if taken is None:
            writer.delete(job.files)
            return
        if writer.gone():
            self._warn(
                f"the checkpoints of {taken.unit} were deleted while the run was writing them: begun anew with the "
                "next one; a crash before that goes back further"
            )
            writer.forget()
            self._broken.add(job.unit)
        if job.unit in self._broken:
            if not all(state.since is None for state in taken.states.values()):  # it builds on what is gone
                counts.dropped += 1
                with self._lock:
                    self._dropped.append((job.unit, job.note))
                return
            self._broken.discard(job.unit)
        unit, began = self._units[job.unit], self._worked()
        number, size = writer.write(taken)
        seconds, written = self._clock.monotonic() - job.begun, self._worked()
        cost = job.copied + unit.unpaid + written - began
        counts.taken += 1
        with self._lock:
            saved = Saved(job.unit, self.epoch, number, taken.taken_at, size, seconds, taken.positions, job.note, cost)
            self.newest[job.unit] = saved
            self._finished.append(saved)
        counts.bytes += size + writer.look_after(taken)
        unit.unpaid = self._worked() - written
        if writer.damaged:
            self._warn(
                f"a part of the checkpoints of {taken.unit} is damaged: written anew with the next one; a crash before "
                "that goes back further"
            )
            self._broken.add(job.unit)
