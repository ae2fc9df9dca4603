"""Takes checkpoints: the element's main loop copies state, and a thread writes the copies.

A *unit* is what one checkpoint covers: an operator, or a whole fragment. The main loop captures (copies) a unit between
two calls of its engine. A thread writes the copies in the same order. A protocol decides when to take a checkpoint, and
its director when to delete one; both are in higher layers.

If the thread fails, every later call raises its exception. If someone deletes checkpoints during the run, the next one
is a full one, with a warning, and an incremental copy that depends on a deleted checkpoint is dropped.
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
    """A durable checkpoint."""

    unit: str
    epoch: int
    number: int
    taken_at: int
    bytes: int
    seconds: float  # from the capture until it was durable
    positions: Mapping[str, Any]
    note: Any  # the caller's, from the capture
    cost: float = 0.0  # CPU seconds: copying, writing, and maintaining the parts of the previous one


@dataclass
class CheckpointCounts:
    """Counters of one unit in this incarnation."""

    taken: int = 0  # checkpoints that were written
    dropped: int = 0  # copies that were not written
    bytes: int = 0  # written


@dataclass
class _Unit:
    operators: tuple[str, ...]
    writer: UnitWriter
    versions: dict[str, int] | None = None  # of the last capture
    copied: float = 0.0  # CPU seconds of the last copy
    unpaid: float = 0.0  # CPU seconds of the thread since the last checkpoint was durable


class _Job(NamedTuple):
    """A job for the thread: a capture to write, or checkpoints to delete."""

    unit: str
    taken: CapturedState | None
    note: Any = None
    begun: float = 0.0
    files: tuple[File, ...] = ()
    copied: float = 0.0  # CPU seconds of the copy


class Checkpointer:
    """The checkpoints of one incarnation of an element. `units`: the operators of each unit."""

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
        self._broken: set[str] = set()  # units whose next checkpoint must be a full one
        self._error: BaseException | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True) if background else None
        if self._thread is not None:
            self._thread.start()

    def found(self) -> dict[tuple[str, int, int], Mapping[str, Any]]:
        """The complete checkpoints of earlier incarnations: (unit, epoch, number), and their positions."""
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
        """Copy the unit's state and enqueue it for writing. `engine` is the same in every call, and is not changed."""
        self.write(self.copy(unit, engine, positions, now, mergers), note)

    def copy(
        self,
        unit: str,
        engine: Engine,
        positions: Mapping[str, Any],
        now: int,
        mergers: Mapping[str, MergerState] | None = None,
    ) -> CapturedState:
        """Copy the unit's state. Write it before the next copy: each is incremental to the previous one.

        `mergers`: the merger contents to save; None: everything that waits in the engine's mergers.
        """
        self._raise_error()
        if unit not in self._units:
            raise UsageError(f"unit {unit} is not checkpointed here; units are {known(self._units, unit)}")
        state, start = self._units[unit], self._worked()
        since = {} if unit in self._broken else state.versions or {}
        taken = capture(unit, engine, state.operators, since, positions, now, mergers)
        state.versions = {name: s.version for name, s in taken.states.items()}
        state.copied = self._worked() - start
        return taken

    def forget(self, unit: str) -> None:
        """The last copy will not be written: the next copy is a full one."""
        self._units[unit].versions = None

    def write(self, taken: CapturedState, note: Any = None) -> None:
        """Enqueue a copy for writing; `Saved` will carry `note`."""
        self._raise_error()
        self._put(_Job(taken.unit, taken, note, self._clock.monotonic(), copied=self._units[taken.unit].copied))

    def delete(self, checkpoints: Iterable[tuple[str, int, int]]) -> None:
        """Enqueue checkpoints for deletion, by unit, epoch and number."""
        self._raise_error()
        for unit, epoch, number in checkpoints:
            self._put(_Job(unit, None, files=(File(epoch, number, MANIFEST),)))

    def finished(self) -> Sequence[Saved]:
        """The checkpoints that became durable since the last call."""
        self._raise_error()
        if not self._finished:
            return ()
        with self._lock:
            finished, self._finished = self._finished, []
        return finished

    def dropped(self) -> Sequence[tuple[str, Any]]:
        """The copies that were dropped since the last call: their unit and note. The next copy is a full one."""
        if not self._dropped:
            return ()
        with self._lock:
            dropped, self._dropped = self._dropped, []
        return dropped

    def close(self) -> None:
        """Write all captures, and stop."""
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
            except BaseException as error:  # raised again in the main loop
                self._error = error
                return

    def _do(self, job: _Job) -> None:
        writer, counts, taken = self._units[job.unit].writer, self.counts[job.unit], job.taken
        if taken is None:
            writer.delete(job.files)
            return
        if writer.gone():
            self._warn(
                f"the checkpoints of {taken.unit} were deleted during the run: the next one is a full one; a crash "
                "before that rolls back further"
            )
            writer.forget()
            self._broken.add(job.unit)
        if job.unit in self._broken:
            if not all(state.since is None for state in taken.states.values()):  # incremental to a deleted one
                counts.dropped += 1
                with self._lock:
                    self._dropped.append((job.unit, job.note))
                return
            self._broken.discard(job.unit)
        unit, start = self._units[job.unit], self._worked()
        number, size = writer.write(taken)
        seconds, written = self._clock.monotonic() - job.begun, self._worked()
        cost = job.copied + unit.unpaid + written - start
        counts.taken += 1
        with self._lock:
            saved = Saved(job.unit, self.epoch, number, taken.taken_at, size, seconds, taken.positions, job.note, cost)
            self.newest[job.unit] = saved
            self._finished.append(saved)
        counts.bytes += size + writer.maintain(taken)
        unit.unpaid = self._worked() - written
        if writer.damaged:
            self._warn(
                f"a part of the checkpoints of {taken.unit} is damaged: the next one is a full one; a crash before "
                "that rolls back further"
            )
            self._broken.add(job.unit)
