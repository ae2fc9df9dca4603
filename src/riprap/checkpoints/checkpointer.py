"""When checkpoints are taken, and that they are written beside the processing.

A *unit* is what is taken together: one operator, or a whole fragment. Each has its own interval, and deadlines at the
multiples of it, so that they do not drift. The loop asks what is `due`, most urgent first, and has it captured between
two of its calls; that copies. A thread writes the copies, in the same order.

A deadline is *missed* if the unit's checkpoint before it is still being written then, or if the capture comes a whole
interval late. An exception in the thread is raised by every call after it. Checkpoints that somebody deletes under
the run are begun anew, with a warning.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from riprap.base.errors import UsageError, known
from riprap.checkpoints.capture import Capture, capture
from riprap.checkpoints.names import Claim
from riprap.checkpoints.storage import Storage
from riprap.checkpoints.writer import UnitWriter
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState


class Saved(NamedTuple):
    """A checkpoint that is durable."""

    unit: str
    taken_at: int
    bytes: int
    positions: Mapping[str, int]


@dataclass
class Counts:
    """Of one unit in this attempt."""

    taken: int = 0  # written
    missed: int = 0
    bytes: int = 0  # of all that were written


@dataclass
class _Unit:
    operators: tuple[str, ...]
    interval: int  # microseconds
    writer: UnitWriter
    deadline: int | None = None  # the next one; None before the first look at the clock
    unwritten: int = 0  # captures that are not yet durable
    versions: dict[str, int] | None = None  # of the last capture


class Checkpointer:
    """The checkpoints of one attempt of an element. `units`: operators and interval (µs) of each."""

    def __init__(
        self,
        storage: Storage,
        pe: str,
        epoch: int,
        units: Mapping[str, tuple[Iterable[str], int]],
        *,
        keep: int = 3,
        background: bool = True,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        if keep < 1:
            raise UsageError(f"keep={keep}: at least the newest checkpoint is kept; give 1 or more")
        for name, (_, interval) in units.items():
            if interval < 1:
                raise UsageError(f"unit {name}: checkpoints every {interval} µs; give an interval of 1 or more")
        self.keep = keep
        self._warn = warn
        claim = Claim(storage, pe, epoch)
        self._units = {
            name: _Unit(tuple(operators), interval, UnitWriter(storage, pe, name, epoch, claim, keep))
            for name, (operators, interval) in units.items()
        }
        self.counts = {name: Counts() for name in units}
        self.newest: dict[str, Saved] = {}  # the last checkpoint of each unit
        self._lock = threading.Lock()
        self._finished: list[Saved] = []
        self._error: BaseException | None = None
        self._captures: queue.SimpleQueue[Capture | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="checkpoints", daemon=True) if background else None
        if self._thread is not None:
            self._thread.start()

    def due(self, now: int) -> list[str]:
        """Units whose deadline has come, the earliest deadline first."""
        self._raise_error()
        found: list[tuple[int, str]] = []
        for name, unit in self._units.items():
            if unit.deadline is None:
                unit.deadline = _next(unit.interval, now)
            elif unit.deadline <= now:
                if unit.unwritten:
                    self.counts[name].missed += 1 + (now - unit.deadline) // unit.interval
                    unit.deadline = _next(unit.interval, now)
                else:
                    found.append((unit.deadline, name))
        return [name for _, name in sorted(found)]

    def capture(
        self,
        unit: str,
        engine: Engine,
        positions: Mapping[str, int],
        now: int,
        mergers: Mapping[str, MergerState] | None = None,
    ) -> None:
        """Copy the unit's state, to be written. `engine` is always the same one, and lives on undisturbed.

        `mergers` are others than the engine's, to be saved with them.
        """
        self._raise_error()
        if unit not in self._units:
            raise UsageError(f"no unit {unit} is checkpointed here; units are {known(self._units, unit)}")
        state = self._units[unit]
        taken = capture(unit, engine, state.operators, state.versions or {}, positions, now)
        if mergers:
            taken = replace(taken, mergers={**taken.mergers, **mergers})
        state.versions = {name: s.version for name, s in taken.states.items()}
        if state.deadline is not None and state.deadline <= now:
            self.counts[unit].missed += (now - state.deadline) // state.interval
        state.deadline = _next(state.interval, now)
        with self._lock:
            state.unwritten += 1
        if self._thread is None:
            self._write(taken)
        else:
            self._captures.put(taken)

    def finished(self) -> Sequence[Saved]:
        """Checkpoints that have become durable since the last call."""
        self._raise_error()
        with self._lock:
            finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Write what has been captured, and end."""
        if self._thread is not None:
            self._captures.put(None)
            self._thread.join()
            self._thread = None
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # On the thread ----------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while (taken := self._captures.get()) is not None:
            try:
                self._write(taken)
            except BaseException as error:  # whatever it is, the loop has to hear of it
                self._error = error
                return

    def _write(self, taken: Capture) -> None:
        unit, counts = self._units[taken.unit], self.counts[taken.unit]
        if unit.writer.gone():
            self._warn(
                f"the checkpoints of {taken.unit} were deleted while the run was writing them: begun anew with the "
                "next one; a crash before that goes back further"
            )
            unit.writer.forget()
            if not _whole(taken):  # it builds on what is gone: a whole one follows at the next deadline
                counts.missed += 1
                with self._lock:
                    unit.versions = None
                    unit.unwritten -= 1
                return
        size = unit.writer.write(taken)
        counts.taken += 1
        with self._lock:
            self.newest[taken.unit] = Saved(taken.unit, taken.taken_at, size, taken.positions)
            self._finished.append(self.newest[taken.unit])
            unit.unwritten -= 1
        counts.bytes += size + unit.writer.look_after(taken)


def _whole(taken: Capture) -> bool:
    return all(state.since is None for state in taken.states.values())


def _next(interval: int, now: int) -> int:
    """The first multiple of the interval after now."""
    return (now // interval + 1) * interval
