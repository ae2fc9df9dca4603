"""Hosts a director: logs what it decides before it is done, knows which line is in force, and who has to go back to it.

The same code in the coordinator and under the simulated host; what differs is `Reach`, how elements are told.

The log has one JSON object per decision, in order: {"record": …} is the director's own, {"line": n, "targets": {PE:
[unit, epoch, number] or null}} a line that was put in force, {"settled": PE} that an element which went back has taken
a checkpoint since, from which it begins if it dies. What is in the log is all that a new director knows, until elements
join; so a going back that was half-way when its director died is told again to whoever has not done it.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from riprap.base import files
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.director import (
    ANEW,
    OWN,
    Command,
    Delete,
    Director,
    DirectorTick,
    End,
    Event,
    Finished,
    GoBack,
    Heard,
    Joined,
    Lost,
    Remember,
    Say,
    Silent,
    Took,
)
from riprap.protocols.events import Durable
from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.history import History


class Assignment(NamedTuple):
    """Where a life begins, under which line. `newest`: at the newest good checkpoint of each unit."""

    line: int
    newest: bool
    target: CheckpointId | None = None  # else of the unit `WHOLE`; None: at the beginning


class Reach(Protocol):
    """How elements are told something. What they are told may be lost with either side."""

    def say(self, pe: str, message: Mapping[str, Any]) -> None:
        """To the protocol of an element."""

    def go_back(self, pe: str, assignment: Assignment) -> None:
        """The element begins anew, with a new epoch."""

    def work_under(self, pe: str, line: int) -> None:
        """The element goes on as it is, under a new line."""

    def end(self, pe: str) -> None:
        """Its process is ended, and starts again."""

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        """The element deletes checkpoints of its own; `void` as in `Delete`."""


class DirectorLog:
    """The log of a real run: a file of JSON lines, each synced before `append` returns. A cut last line is none."""

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
                if file.read(1) != b"\n":  # what another driver did not finish
                    file.truncate(file.seek(0, os.SEEK_END) - len(files.read_bytes(self._path).rpartition(b"\n")[2]))
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


class DirectorHost:
    """`append` makes an entry of the log durable; `history`, where there is one, hears what was done."""

    def __init__(
        self,
        director: Director,
        pes: Iterable[str],
        reach: Reach,
        log: Iterable[Mapping[str, Any]],
        append: Callable[[Mapping[str, Any]], None],
        history: History | None = None,
    ) -> None:
        self._director, self._pes, self._reach, self._append = director, tuple(pes), reach, append
        self._history = history
        self.line = 0
        self._targets: dict[str, tuple[int, CheckpointId | None]] = {}  # by element: its last going back
        self._settled: set[str] = set()  # elements with a checkpoint of their own since
        self._over: set[tuple[str, int]] = set()  # lives of which it was told that they are lost
        self._replaced: set[tuple[str, int]] = set()  # those of them that another one has taken the place of
        records = []
        for entry in log:
            if "record" in entry:
                records.append(entry["record"])
            elif "settled" in entry:
                self._settled.add(entry["settled"])
            else:
                self._put_in_force(GoBack(entry["line"], _from_json(entry["targets"])))
        self._do(director.begin(records))

    def assignment(self, pe: str) -> Assignment:
        """Where an element begins that goes back to a line, or one that lost nothing."""
        if pe not in self._targets or pe in self._settled:
            return Assignment(self.line, newest=True)
        return Assignment(self.line, newest=False, target=self._targets[pe][1])

    def begins(self, pe: str, epoch: int) -> Assignment | None:
        """Where a new life of an element begins; None: it has to wait."""
        begins = self._director.begins(pe, epoch)
        if begins is None or begins == OWN:
            return None if begins is None else self.assignment(pe)
        return Assignment(self.line, newest=False, target=None if begins == ANEW else cast(CheckpointId, begins))

    # What happens -----------------------------------------------------------------------------------------------------

    def joined(self, pe: str, epoch: int, line: int, checkpoints: Mapping[CheckpointId, Cut]) -> None:
        back = self._targets.get(pe)
        if back is not None and line < back[0]:
            self._reach.go_back(pe, self.assignment(pe))  # a director before this one did not come to it
            return
        if line < self.line:
            self._reach.work_under(pe, self.line)
        if back is not None and pe not in self._settled:
            target = back[1]
            whole = [id_ for id_ in checkpoints if id_.unit == WHOLE]
            void = tuple(id_ for id_ in whole if id_.epoch < epoch and (target is None or id_ > target))
            if void:  # taken before it went back
                self._reach.delete(pe, void, void=True)
                checkpoints = {id_: cut for id_, cut in checkpoints.items() if id_ not in void}
            if any(id_.epoch == epoch for id_ in whole):
                self._settle(pe)
        self._tell(Joined(pe, epoch, line, checkpoints))

    def lost(self, pe: str, epoch: int) -> None:
        if (pe, epoch) not in self._replaced:
            self._over.add((pe, epoch))
            self._tell(Lost(pe, epoch))

    def replaced(self, pe: str, epoch: int) -> None:
        """A new life is about to begin, so this one is over: who begins again does so where all go back to.

        They go back once for it: if it was heard of before, that line is in force.
        """
        if (pe, epoch) not in self._over:
            self._tell(Lost(pe, epoch))
        self._over.add((pe, epoch))
        self._replaced.add((pe, epoch))

    def silent(self, pe: str, epoch: int) -> None:
        self._tell(Silent(pe, epoch))

    def report(self) -> Mapping[str, Any]:
        return self._director.report()

    def terms(self) -> Mapping[str, int]:
        return self._director.terms()

    def finished(self, pe: str, epoch: int) -> None:
        self._tell(Finished(pe, epoch))

    def took(self, line: int, durable: Durable, size: int, taken: int) -> None:
        id_ = durable.id
        back = self._targets.get(id_.pe)
        if back is not None and line < back[0]:  # it was taken before its element went back
            self._reach.delete(id_.pe, (id_,), void=True)
            return
        if id_.unit == WHOLE and id_.pe in self._targets and id_.pe not in self._settled:
            self._settle(id_.pe)
        if self._history is not None:
            self._history.took(id_, size, taken, forced=durable.forced)
        self._tell(Took(id_, durable.cut, line, durable.tag, durable.forced, size, taken))

    def _settle(self, pe: str) -> None:
        self._append({"settled": pe})
        self._settled.add(pe)

    def heard(self, pe: str, epoch: int, message: Mapping[str, Any]) -> None:
        self._tell(Heard(pe, epoch, message))

    def tick(self, now: int) -> None:
        self._tell(DirectorTick(now))

    def _tell(self, event: Event) -> None:
        self._do(self._director.handle(event))

    # What it says -----------------------------------------------------------------------------------------------------

    def _do(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Remember(record):
                    self._append({"record": record})
                case Say(pe, message):
                    self._reach.say(pe, message)
                case GoBack(line, targets):
                    if line > self.line:  # else it is a repetition by a new director: those who join are told
                        self._append({"line": line, "targets": {pe: id_ and id_[1:] for pe, id_ in targets.items()}})
                        self._put_in_force(command)
                        if self._history is not None:
                            self._history.put_in_force(line, targets)
                        for pe in self._pes:
                            if pe in targets:
                                self._reach.go_back(pe, self.assignment(pe))
                            else:
                                self._reach.work_under(pe, line)
                case End(pe):
                    self._reach.end(pe)
                case Delete(ids, void):
                    for pe in dict.fromkeys(id_.pe for id_ in ids):
                        self._reach.delete(pe, tuple(id_ for id_ in ids if id_.pe == pe), void=void)

    def _put_in_force(self, back: GoBack) -> None:
        self.line = back.line
        for pe, target in back.targets.items():
            self._targets[pe] = (back.line, target)
            self._settled.discard(pe)


def _from_json(targets: Mapping[str, Any]) -> dict[str, CheckpointId | None]:
    return {pe: None if id_ is None else CheckpointId(pe, *id_) for pe, id_ in targets.items()}
