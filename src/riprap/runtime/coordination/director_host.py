"""Hosts a director: logs its decisions before they take effect, and tracks the recovery line and its rollbacks.

The coordinator and the simulated host share this code; they differ in `Reach`, how messages get to elements.

The log has one JSON object per decision, in order: {"record": …} is the director's own, {"line": n, "targets": {PE:
[unit, epoch, number] or null}} a recovery line, {"settled": PE} that an element has taken a checkpoint since its
rollback, from which it starts if it dies. A new director knows only the log until elements join. So a rollback that was
incomplete when its director died is ordered again for the elements that have not done it.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from riprap.base import files
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.director import (
    NO_CHECKPOINT,
    OWN_CHECKPOINT,
    CheckpointDurable,
    Command,
    Delete,
    Director,
    DirectorTick,
    Event,
    Finished,
    FromElement,
    Joined,
    Lost,
    Persist,
    RestartElement,
    RollBack,
    SendToElement,
    Silent,
)
from riprap.protocols.events import Durable
from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.history import History
from riprap.runtime.story import DIRECTOR, Story


class Assignment(NamedTuple):
    """Where an incarnation starts, and under which recovery line. `newest`: at the newest valid checkpoint per unit."""

    line: int
    newest: bool
    target: CheckpointId | None = None  # else of the unit `WHOLE`; None: empty state


class Reach(Protocol):
    """Sends the director's orders to elements. They may be lost when either side dies."""

    def say(self, pe: str, message: Mapping[str, Any]) -> None:
        """Send a message to the protocol of an element."""

    def go_back(self, pe: str, assignment: Assignment) -> None:
        """Roll the element back, with a new epoch."""

    def work_under(self, pe: str, line: int) -> None:
        """Let the element continue under a new recovery line."""

    def end(self, pe: str) -> None:
        """Kill the element's process, so that it restarts."""

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        """Let the element delete checkpoints; `void` as in `Delete`."""


class DirectorLog:
    """The log of a real run: a file of JSON lines, each synced before `append` returns. A truncated last line is
    ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Mapping[str, Any]]:
        if not files.exists(self._path):
            return []
        whole, _, _ = files.read_bytes(self._path).rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    def append(self, entry: Mapping[str, Any]) -> None:
        with files.open_file(self._path, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # an earlier driver died while it wrote
                    file.truncate(file.seek(0, os.SEEK_END) - len(files.read_bytes(self._path).rpartition(b"\n")[2]))
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


class DirectorHost:
    """`append` makes an entry of the log durable; `history` records checkpoints and recovery lines."""

    def __init__(
        self,
        director: Director,
        pes: Iterable[str],
        reach: Reach,
        log: Iterable[Mapping[str, Any]],
        append: Callable[[Mapping[str, Any]], None],
        history: History,
        story: Story | None = None,
    ) -> None:
        self._director, self._pes, self._reach, self._append = director, tuple(pes), reach, append
        self._history = history
        self.story = story or Story(DIRECTOR, 1)
        self.line = 0
        self._targets: dict[str, tuple[int, CheckpointId | None]] = {}  # by element: its last rollback
        self._settled: set[str] = set()  # elements with a checkpoint since their last rollback
        self._lost: set[tuple[str, int]] = set()  # incarnations that were reported as lost
        self._replaced: set[tuple[str, int]] = set()  # those that a newer incarnation has replaced
        records = []
        for entry in log:
            if "record" in entry:
                records.append(entry["record"])
            elif "settled" in entry:
                self._settled.add(entry["settled"])
            else:
                self._put_in_force(RollBack(entry["line"], _from_json(entry["targets"])))
        self._do(director.begin(records))

    def assignment(self, pe: str) -> Assignment:
        """Where an element starts that rolls back to the recovery line, or one that lost nothing."""
        if pe not in self._targets or pe in self._settled:
            return Assignment(self.line, newest=True)
        return Assignment(self.line, newest=False, target=self._targets[pe][1])

    def begins(self, pe: str, epoch: int) -> Assignment | None:
        """Where a new incarnation of an element starts; None: it has to wait."""
        begins = self._director.start_point(pe, epoch)
        if begins is None or begins == OWN_CHECKPOINT:
            return None if begins is None else self.assignment(pe)
        return Assignment(
            self.line, newest=False, target=None if begins == NO_CHECKPOINT else cast(CheckpointId, begins)
        )

    # Events -----------------------------------------------------------------------------------------------------------

    def joined(self, pe: str, epoch: int, line: int, checkpoints: Mapping[CheckpointId, Cut]) -> None:
        back = self._targets.get(pe)
        if back is not None and line < back[0]:
            self._reach.go_back(pe, self.assignment(pe))  # an earlier director did not complete it
            return
        if line < self.line:
            self._reach.work_under(pe, self.line)
        if back is not None and pe not in self._settled:
            target = back[1]
            whole = [id_ for id_ in checkpoints if id_.unit == WHOLE]
            void = tuple(id_ for id_ in whole if id_.epoch < epoch and (target is None or id_ > target))
            if void:  # taken before the rollback
                self._reach.delete(pe, void, void=True)
                checkpoints = {id_: cut for id_, cut in checkpoints.items() if id_ not in void}
            if any(id_.epoch == epoch for id_ in whole):
                self._settle(pe)
        self._handle(Joined(pe, epoch, line, checkpoints))

    def lost(self, pe: str, epoch: int) -> None:
        if (pe, epoch) not in self._replaced:
            self._lost.add((pe, epoch))
            self._handle(Lost(pe, epoch))

    def replaced(self, pe: str, epoch: int) -> None:
        """A new incarnation is about to start, so this one is over; the new one starts from the recovery line.

        Each loss causes one rollback: if it was reported before, its recovery line is already in force.
        """
        if (pe, epoch) not in self._lost:
            self._handle(Lost(pe, epoch))
        self._lost.add((pe, epoch))
        self._replaced.add((pe, epoch))

    def silent(self, pe: str, epoch: int) -> None:
        self._handle(Silent(pe, epoch))

    def report(self) -> Mapping[str, Any]:
        return self._director.report()

    def terms(self) -> Mapping[str, int]:
        return self._director.terms()

    def finished(self, pe: str, epoch: int) -> None:
        self._handle(Finished(pe, epoch))

    def took(self, line: int, durable: Durable, size: int, taken: int) -> None:
        id_ = durable.id
        back = self._targets.get(id_.pe)
        if back is not None and line < back[0]:  # taken before the rollback of its element
            self._reach.delete(id_.pe, (id_,), void=True)
            return
        if id_.unit == WHOLE and id_.pe in self._targets and id_.pe not in self._settled:
            self._settle(id_.pe)
        self._history.took(id_, size, taken, forced=durable.forced)
        self._handle(CheckpointDurable(id_, durable.cut, line, durable.tag, durable.forced, size, taken))

    def _settle(self, pe: str) -> None:
        self._append({"settled": pe})
        self._settled.add(pe)

    def heard(self, pe: str, epoch: int, message: Mapping[str, Any]) -> None:
        self._handle(FromElement(pe, epoch, message))

    def tick(self, now: int) -> None:
        self._handle(DirectorTick(now))

    def validate(self) -> None:
        """Raise `AssertionError` for a broken invariant."""
        for pe, (line, target) in self._targets.items():
            assert line <= self.line, f"{pe} rolled back under line {line}, and {self.line} is in force"
            assert target is None or target.unit == WHOLE, f"{pe} rolls back to a part of an element: {target}"
        assert self._settled <= {*self._pes}, f"no elements: {self._settled}"
        assert self._replaced <= self._lost, f"replaced, and not lost: {self._replaced - self._lost}"
        self._director.validate()

    def _handle(self, event: Event) -> None:
        if not isinstance(event, DirectorTick):
            self.story.happened(self._history.now(), event)
        try:
            self._do(self._director.handle(event))
        except Exception as error:
            self.story.failed(self._history.now(), f"{type(error).__name__}: {error}")
            raise

    # Commands ---------------------------------------------------------------------------------------------------------

    def _do(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self.story.ordered(self._history.now(), command)
            match command:
                case Persist(record):
                    self._append({"record": record})
                case SendToElement(pe, message):
                    self._reach.say(pe, message)
                case RollBack(line, targets):
                    if line > self.line:  # else a new director repeats it: elements get it when they join
                        self._append({"line": line, "targets": {pe: id_ and id_[1:] for pe, id_ in targets.items()}})
                        self._put_in_force(command)
                        self._history.put_in_force(line, targets)
                        for pe in self._pes:
                            if pe in targets:
                                self._reach.go_back(pe, self.assignment(pe))
                            else:
                                self._reach.work_under(pe, line)
                case RestartElement(pe):
                    self._reach.end(pe)
                case Delete(ids, void):
                    for pe in dict.fromkeys(id_.pe for id_ in ids):
                        self._reach.delete(pe, tuple(id_ for id_ in ids if id_.pe == pe), void=void)

    def _put_in_force(self, back: RollBack) -> None:
        self.line = back.line
        for pe, target in back.targets.items():
            self._targets[pe] = (back.line, target)
            self._settled.discard(pe)


def _from_json(targets: Mapping[str, Any]) -> dict[str, CheckpointId | None]:
    return {pe: None if id_ is None else CheckpointId(pe, *id_) for pe, id_ in targets.items()}
