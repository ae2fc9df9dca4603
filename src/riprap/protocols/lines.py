"""The director of independent checkpointing: it computes the recovery line when an element fails.

It stores the cut of every durable checkpoint. When an element is lost it computes the line (`recovery_line.py`), logs
it and puts it in force: every element rolls back to its checkpoint of the line. Checkpoints ahead of the line are void
and are deleted. Checkpoints behind the *worst-case line* (all elements fail, only durable data survives) are deleted as
they fall behind it, because no failure can lead there any more. Retaining a fixed number would not be safe: without
coordination the line may stay at the initial states, however many checkpoints exist.

Logs: with `log = "persistent"` every item below *sent* is in a persistent stream that survives, and the line avoids
loss. With "volatile" a log dies with its element and loss is accepted; consumers count it by missing numbers.

Virtual checkpoints (`virtual`, with persistent logs): the line may include the live state of elements that did not
fail. The director asks them to halt and capture; when all have, or after a timeout, it computes the line. An element
whose capture is on the line continues from there without a rollback, once the other live elements have rolled back:
their output until then is obsolete. Without logs, items in flight to it would be lost. Halting is an optimisation and
not needed for correctness: an element that received what another one sent after its capture would roll back further.

After a crash of the director: its log has the line in force, and every known incarnation with the line that it runs
under, so that the new director notices an element that failed and restarted in between. The output of such an
incarnation until the next line may differ from what its predecessor sent under the same numbers: it is *suspect*, and
no line includes its checkpoints. Checkpoints are reported with `Joined`. A line is computed only after every element
has joined this director once, since until then some checkpoints are unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.protocols.channels import ChannelId
from riprap.protocols.commitment import announce_committed, committing_elements
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.director import (
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
    RollBack,
    SendToElement,
    StartPoint,
)
from riprap.protocols.protocol import Surroundings
from riprap.protocols.recovery_line import INITIAL, CheckpointPoint, Ends, Span, recovery_line
from riprap.protocols.virtual import live_tag

EVERYTHING: Span = (0, 2**63 - 1)
HALT_TIMEOUT = 5_000_000  # microseconds that a line waits for elements to halt


def channels_of(elements: Mapping[str, Surroundings]) -> dict[ChannelId, Ends]:
    """Every channel between two elements."""
    found = {}
    for pe, surroundings in elements.items():
        for channel, neighbour in surroundings.outputs.items():
            if neighbour.pe:
                found[channel] = Ends(pe, neighbour.pe)
    return found


def point_of(cut: Cut) -> CheckpointPoint:
    return CheckpointPoint(dict(cut.sent), {channel: inlet.taken for channel, inlet in cut.inlets.items()})


def died_unnoticed(incarnations: Mapping[str, tuple[int, int]], pe: str, epoch: int, line: int) -> bool:
    """Whether a joining incarnation replaces one that ran under the line in force and whose failure was not noticed."""
    known, under = incarnations.get(pe, (epoch, line))
    return epoch > known and under == line


def note_incarnation(incarnations: dict[str, tuple[int, int]], pe: str, epoch: int, line: int) -> list[Command]:
    """Log an incarnation: its epoch and the line that it runs under."""
    if incarnations.get(pe) == (epoch, line):
        return []
    incarnations[pe] = (epoch, line)
    return [Persist({"life": [pe, epoch, line]})]


def recall_incarnation(incarnations: dict[str, tuple[int, int]], record: Mapping[str, Any]) -> None:
    if "life" in record:
        pe, epoch, line = record["life"]
        incarnations[pe] = (epoch, line)


class LineDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self.channels = channels_of(elements)
        settings = next((surroundings.settings for surroundings in elements.values()), {})
        self.persistent = settings.get("log", "persistent") == "persistent"
        self.line = 0
        self.targets: dict[str, CheckpointId | None] = {}  # of the line in force
        self.cuts: dict[str, dict[CheckpointId, CheckpointPoint]] = {pe: {} for pe in elements}
        self.unknown = set(elements)  # elements that have not joined this director yet
        self.incarnations: dict[str, tuple[int, int]] = {}
        self.void: set[CheckpointId] = set()  # ahead of a line that was put in force
        self.failed = False  # an element failed, and no line has been computed since
        self.suspect: dict[str, int] = {}  # elements with an unnoticed failure since, and the epoch they restarted in
        self.suspect_checkpoints: list[CheckpointId] = []  # checkpoints that they took since
        self.virtual = bool(settings.get("virtual", False))
        self.alive: set[str] = set()
        self.halting: set[str] | None = None  # elements whose live states the next line waits for
        self.live: dict[str, CheckpointId] = {}  # what they captured
        self.continuing: set[str] = set()  # elements that resume from there and have not confirmed it yet
        self.rolling_back: set[str] = set()  # live elements that roll back and have not joined under the new line yet
        self.waits_until: int | None = None
        self.committing = committing_elements(elements)
        self.committed: dict[str, CheckpointId] = {}  # by element with committed channels: what was announced

    def validate(self) -> None:
        for pe, id_ in (*self.targets.items(), *self.live.items(), *self.committed.items()):
            assert id_ is None or id_.pe == pe, f"{pe} has a checkpoint of another element: {id_}"
        for pe, cuts in self.cuts.items():
            assert all(id_.pe == pe for id_ in cuts), f"{pe} has checkpoints of others: {list(cuts)}"
            assert not self.void & cuts.keys(), f"{pe}: void checkpoints may become part of a line"

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        for record in log:
            recall_incarnation(self.incarnations, record)
            if record.get("halt", 0) > self.line:  # an earlier director knew that an element had failed
                self.failed = True
                self.suspect.update(record.get("doubted", {}))
            if "line" in record:
                self.line, self.failed, self.suspect = record["line"], False, {}
                self.targets = {pe: _id(target) for pe, target in record["targets"].items()}
                self.void |= {CheckpointId(*id) for id in record["void"]}
        return [RollBack(self.line, self.targets)] if self.line else []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe, epoch, line, checkpoints):
                unnoticed: list[Command] = []
                if died_unnoticed(self.incarnations, pe, epoch, self.line):
                    self.failed, self.suspect[pe] = True, min(epoch, self.suspect.get(pe, epoch))
                    self.live.pop(pe, None)
                    unnoticed = [Persist({"halt": self.line + 1, "doubted": dict(self.suspect)})]
                # An element that continues without a rollback runs under the line in force.
                logged = [*unnoticed, *note_incarnation(self.incarnations, pe, epoch, max(line, self.line))]
                # An element that does not know the line in force may have checkpoints ahead of it.
                target = self.targets.get(pe)
                void = [id for id in checkpoints if line < self.line and (target is None or id > target)]
                void += [id for id in checkpoints if id in self.void]
                for id, cut in checkpoints.items():
                    if id not in void and not self._is_suspect(id):
                        self._add(id, cut)
                self.unknown.discard(pe)
                self.alive.add(pe)
                self.rolling_back.discard(pe)
                self.committed.pop(pe, None)
                deleted: list[Command] = [Delete(tuple(void), void=True)] if void else []
                then = [] if self.unknown else self._recover() if self.failed else self._committed(*self._line())
                if self.virtual and self.halting is None:  # it may have halted for the line in force
                    self.continuing.add(pe)
                return [*logged, *deleted, *then, *self._resume()]
            case CheckpointDurable(id, cut, line, tag, _, _, _):
                if line != self.line or self._is_suspect(id):
                    return []
                self._add(id, cut)
                return self._halted(id) if tag == live_tag(self.line + 1) else self._delete_obsolete()
            case DirectorTick(now) if self.halting is not None:
                self.waits_until = now + HALT_TIMEOUT if self.waits_until is None else self.waits_until
                return self._put_in_force() if now >= self.waits_until else self._halt()
            case DirectorTick() if self.continuing:
                return self._resume()
            case FromElement(pe, _, message) if message.get("resumed") == self.line:
                self.continuing.discard(pe)
            case Finished(pe, _) if self.committing:
                return [SendToElement(pe, {"last": 0})]
            case Lost(pe, epoch) if epoch >= self.incarnations.get(pe, (epoch, 0))[0]:
                self.failed = True
                self.alive.discard(pe)
                self.live.pop(pe, None)
                self.continuing.discard(pe)
                self.rolling_back.discard(pe)
                return self._recover() if not self.unknown else []
        return []

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        return OWN_CHECKPOINT if self.halting is None or pe in self.rolling_back else None  # the next line decides

    def _is_suspect(self, id: CheckpointId) -> bool:
        """Whether a checkpoint belongs to a suspect incarnation; the next line then voids it."""
        suspect = id.epoch >= self.suspect.get(id.pe, id.epoch + 1)
        if suspect:
            self.suspect_checkpoints.append(id)
        return suspect

    def _add(self, id: CheckpointId, cut: Cut) -> None:
        self.cuts[id.pe][id] = point_of(cut)

    def _histories(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, list[CheckpointPoint]]]:
        ids: dict[str, list[CheckpointId | None]] = {pe: [None, *sorted(cuts)] for pe, cuts in self.cuts.items()}
        return ids, {pe: [INITIAL if id is None else self.cuts[pe][id] for id in order] for pe, order in ids.items()}

    def _line(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, int]]:
        """The worst-case line: only durable checkpoints, as if all elements failed."""
        ids, histories = self._histories()
        logs = dict.fromkeys(self.channels, EVERYTHING) if self.persistent else None
        return ids, recovery_line(histories, self.channels, logs)

    def _recover(self) -> list[Command]:
        self.failed = False
        if not self.virtual:
            return self._put_in_force()
        if self.halting is not None:  # another failure while elements halt
            self.halting &= self.alive - self.suspect.keys()
            return [] if self.halting else self._put_in_force()
        self.halting, self.live, self.waits_until = self.alive - self.suspect.keys(), {}, None
        if not self.halting:
            return self._put_in_force()
        self.continuing = set()
        return [Persist({"halt": self.line + 1}), *self._halt()]

    def _halt(self) -> list[Command]:
        return [SendToElement(pe, {"halt": self.line + 1}) for pe in sorted(self.halting or ())]

    def _resume(self) -> list[Command]:
        """Wait for the rollbacks: the output of those elements until then is obsolete."""
        if self.unknown or self.rolling_back:
            return []
        return [SendToElement(pe, {"resume": self.line}) for pe in sorted(self.continuing)]

    def _halted(self, id: CheckpointId) -> list[Command]:
        """The live state of an element is durable."""
        if self.halting is None:
            return []
        self.live[id.pe] = id
        self.halting.discard(id.pe)
        return [] if self.halting else self._put_in_force()

    def _put_in_force(self) -> list[Command]:
        """Compute the line from what is durable now."""
        ids, at = self._line()
        self.line += 1
        self.targets = {pe: ids[pe][index] for pe, index in at.items()}
        self.continuing = {pe for pe, id in self.live.items() if pe in self.alive and id == self.targets[pe]}
        self.rolling_back = self.alive - self.continuing
        self.halting, self.live = None, {}
        ahead = [id for pe, order in ids.items() for id in order[at[pe] + 1 :] if id is not None]
        for id in ahead:
            del self.cuts[id.pe][id]
        ahead += dict.fromkeys(self.suspect_checkpoints)
        self.suspect, self.suspect_checkpoints = {}, []
        self.void |= set(ahead)
        targets = {pe: id and list(id) for pe, id in self.targets.items()}
        deleted: list[Command] = [Delete(tuple(ahead), void=True)] if ahead else []
        record = {"line": self.line, "targets": targets, "void": [list(id) for id in ahead]}
        back = {pe: id for pe, id in self.targets.items() if pe not in self.continuing}
        stay = [
            log
            for pe in sorted(self.continuing)
            for log in note_incarnation(self.incarnations, pe, self.incarnations[pe][0], self.line)
        ]
        return [Persist(record), *stay, RollBack(self.line, back), *self._resume(), *deleted]

    def _delete_obsolete(self) -> list[Command]:
        """Delete checkpoints behind the worst-case line."""
        ids, at = self._line()
        commands = self._committed(ids, at)
        behind = [id for pe, order in ids.items() for id in order[: at[pe]] if id is not None]
        for id in behind:
            del self.cuts[id.pe][id]
        return [*commands, *([Delete(tuple(behind))] if behind else [])]

    def _committed(self, ids: Mapping[str, Sequence[CheckpointId | None]], at: Mapping[str, int]) -> list[Command]:
        """Output before the worst-case line becomes visible."""
        commands: list[Command] = []
        for pe in sorted(self.committing):
            id = ids[pe][at[pe]]
            if id is not None and id != self.committed.get(pe):
                self.committed[pe] = id
                commands.append(announce_committed(id))
        return commands


def _id(target: Sequence[Any] | None) -> CheckpointId | None:
    return None if target is None else CheckpointId(*target)
