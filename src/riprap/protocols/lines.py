"""The director of protocols that take checkpoints on their own: it finds the recovery line when somebody fails.

It keeps the cut of every durable checkpoint. When an element is lost it computes the line (`recovery_line.py`), logs
it and puts it in force: every element goes back to its checkpoint of the line. Checkpoints ahead of the line are void
and deleted; those behind the *worst-case line* (everybody fails, nothing is left but what is durable) as they fall
behind it, because no failure can lead there any more. Counting checkpoints cannot serve: without coordination the line
may stay at the beginning however many there are.

Logs: with `log = "persistent"` every item below *sent* is in a persistent stream that survives, and the line avoids
loss. With "volatile" a log dies with its element, loss was chosen, and is counted by those who can see it: consumers,
by the numbers that are missing.

Virtual checkpoints (`virtual`, with persistent logs): the line may have the live state of elements that did not fail.
They are asked to halt, and to capture what they have; when all have, or take too long, the line is computed, and who
stands at what it captured goes on from there as it is, when the others that live have gone back: what they give out
until then is not what they will give out. Without logs what is on its way to who stays would be lost. That they halt is
what makes it worth it, not what makes it right: who took what another one sent behind its capture would have to go back
further.

After a director's death: the line in force is in its log, and every life that it heard of with the line that it works
under, so that one which died and came back meanwhile, with nobody to hear of it, is noticed. What such a life gives out
until a line is put in force may not be what the one before it had sent under the same numbers: it is *doubted*, and no
line has a checkpoint of it. Checkpoints come with `Joined`. A line is computed only when every element has joined this
director once, since until then some checkpoints are not known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.protocols.channels import ChannelId
from riprap.protocols.commitment import committed, showing
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
PATIENCE = 5_000_000  # microseconds that a line waits for elements to halt


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


def died_unnoticed(lives: Mapping[str, tuple[int, int]], pe: str, epoch: int, line: int) -> bool:
    """Whether a life that joins took the place of one that worked under the line in force, and nobody heard of it."""
    known, under = lives.get(pe, (epoch, line))
    return epoch > known and under == line


def seen(lives: dict[str, tuple[int, int]], pe: str, epoch: int, line: int) -> list[Command]:
    """Remember a life, by its epoch and the line that it works under."""
    if lives.get(pe) == (epoch, line):
        return []
    lives[pe] = (epoch, line)
    return [Persist({"life": [pe, epoch, line]})]


def remember(lives: dict[str, tuple[int, int]], record: Mapping[str, Any]) -> None:
    if "life" in record:
        pe, epoch, line = record["life"]
        lives[pe] = (epoch, line)


class LineDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self.channels = channels_of(elements)
        settings = next((surroundings.settings for surroundings in elements.values()), {})
        self.persistent = settings.get("log", "persistent") == "persistent"
        self.line = 0
        self.targets: dict[str, CheckpointId | None] = {}  # of the line in force
        self.cuts: dict[str, dict[CheckpointId, CheckpointPoint]] = {pe: {} for pe in elements}
        self.unknown = set(elements)  # elements that this director has not heard of yet
        self.lives: dict[str, tuple[int, int]] = {}
        self.void: set[CheckpointId] = set()  # ahead of a line that was put in force
        self.failed = False  # somebody failed, and no line has been computed since
        self.doubted: dict[str, int] = {}  # elements that died unheard since, with the epoch that they came back in
        self.doubtful: list[CheckpointId] = []  # checkpoints that they took since
        self.virtual = bool(settings.get("virtual", False))
        self.alive: set[str] = set()
        self.halting: set[str] | None = None  # of whom live states are awaited for the next line
        self.live: dict[str, CheckpointId] = {}  # what they captured
        self.staying: set[str] = set()  # who goes on from there, and has not answered yet
        self.leaving: set[str] = set()  # who lives, goes back, and has not joined under the line in force yet
        self.waits_until: int | None = None
        self.showing = showing(elements)
        self.committed: dict[str, CheckpointId] = {}  # of elements that show: what they were told

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        for record in log:
            remember(self.lives, record)
            if record.get("halt", 0) > self.line:  # a director before this one knew that somebody had failed
                self.failed = True
                self.doubted.update(record.get("doubted", {}))
            if "line" in record:
                self.line, self.failed, self.doubted = record["line"], False, {}
                self.targets = {pe: _id(target) for pe, target in record["targets"].items()}
                self.void |= {CheckpointId(*id) for id in record["void"]}
        return [RollBack(self.line, self.targets)] if self.line else []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe, epoch, line, checkpoints):
                unheard: list[Command] = []
                if died_unnoticed(self.lives, pe, epoch, self.line):
                    self.failed, self.doubted[pe] = True, min(epoch, self.doubted.get(pe, epoch))
                    self.live.pop(pe, None)
                    unheard = [Persist({"halt": self.line + 1, "doubted": dict(self.doubted)})]
                logged = [*unheard, *seen(self.lives, pe, epoch, max(line, self.line))]  # who stays works under it
                # One that has not heard of the line in force may have checkpoints ahead of it.
                target = self.targets.get(pe)
                void = [id for id in checkpoints if line < self.line and (target is None or id > target)]
                void += [id for id in checkpoints if id in self.void]
                for id, cut in checkpoints.items():
                    if id not in void and not self._doubts(id):
                        self._learn(id, cut)
                self.unknown.discard(pe)
                self.alive.add(pe)
                self.leaving.discard(pe)
                self.committed.pop(pe, None)
                deleted: list[Command] = [Delete(tuple(void), void=True)] if void else []
                then = [] if self.unknown else self._recover() if self.failed else self._committed(*self._line())
                if self.virtual and self.halting is None:  # it may have halted for the line that is in force
                    self.staying.add(pe)
                return [*logged, *deleted, *then, *self._resume()]
            case CheckpointDurable(id, cut, line, tag, _, _, _):
                if line != self.line or self._doubts(id):
                    return []
                self._learn(id, cut)
                return self._halted(id) if tag == live_tag(self.line + 1) else self._forget()
            case DirectorTick(now) if self.halting is not None:
                self.waits_until = now + PATIENCE if self.waits_until is None else self.waits_until
                return self._put_in_force() if now >= self.waits_until else self._halt()
            case DirectorTick() if self.staying:
                return self._resume()
            case FromElement(pe, _, message) if message.get("resumed") == self.line:
                self.staying.discard(pe)
            case Finished(pe, _) if self.showing:
                return [SendToElement(pe, {"last": 0})]
            case Lost(pe, epoch) if epoch >= self.lives.get(pe, (epoch, 0))[0]:
                self.failed = True
                self.alive.discard(pe)
                self.live.pop(pe, None)
                self.staying.discard(pe)
                self.leaving.discard(pe)
                return self._recover() if not self.unknown else []
        return []

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        return OWN_CHECKPOINT if self.halting is None or pe in self.leaving else None  # the next line will say it

    def _doubts(self, id: CheckpointId) -> bool:
        """Whether a checkpoint is of a life that is doubted; it is then void with the next line."""
        doubtful = id.epoch >= self.doubted.get(id.pe, id.epoch + 1)
        if doubtful:
            self.doubtful.append(id)
        return doubtful

    def _learn(self, id: CheckpointId, cut: Cut) -> None:
        self.cuts[id.pe][id] = point_of(cut)

    def _histories(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, list[CheckpointPoint]]]:
        ids: dict[str, list[CheckpointId | None]] = {pe: [None, *sorted(cuts)] for pe, cuts in self.cuts.items()}
        return ids, {pe: [INITIAL if id is None else self.cuts[pe][id] for id in order] for pe, order in ids.items()}

    def _line(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, int]]:
        """With what is durable alone: what is left when everybody fails."""
        ids, histories = self._histories()
        logs = dict.fromkeys(self.channels, EVERYTHING) if self.persistent else None
        return ids, recovery_line(histories, self.channels, logs)

    def _recover(self) -> list[Command]:
        self.failed = False
        if not self.virtual:
            return self._put_in_force()
        if self.halting is not None:  # one of those who were asked, or another one that nobody knew of
            self.halting &= self.alive - self.doubted.keys()
            return [] if self.halting else self._put_in_force()
        self.halting, self.live, self.waits_until = self.alive - self.doubted.keys(), {}, None
        if not self.halting:
            return self._put_in_force()
        self.staying = set()
        return [Persist({"halt": self.line + 1}), *self._halt()]

    def _halt(self) -> list[Command]:
        return [SendToElement(pe, {"halt": self.line + 1}) for pe in sorted(self.halting or ())]

    def _resume(self) -> list[Command]:
        """Not before who goes back has: what it gives out until then is not what it will give out."""
        if self.unknown or self.leaving:
            return []
        return [SendToElement(pe, {"resume": self.line}) for pe in sorted(self.staying)]

    def _halted(self, id: CheckpointId) -> list[Command]:
        """The live state of an element is durable."""
        if self.halting is None:
            return []
        self.live[id.pe] = id
        self.halting.discard(id.pe)
        return [] if self.halting else self._put_in_force()

    def _put_in_force(self) -> list[Command]:
        """The line, of what is durable now."""
        ids, at = self._line()
        self.line += 1
        self.targets = {pe: ids[pe][index] for pe, index in at.items()}
        self.staying = {pe for pe, id in self.live.items() if pe in self.alive and id == self.targets[pe]}
        self.leaving = self.alive - self.staying
        self.halting, self.live = None, {}
        ahead = [id for pe, order in ids.items() for id in order[at[pe] + 1 :] if id is not None]
        for id in ahead:
            del self.cuts[id.pe][id]
        ahead += dict.fromkeys(self.doubtful)
        self.doubted, self.doubtful = {}, []
        self.void |= set(ahead)
        targets = {pe: id and list(id) for pe, id in self.targets.items()}
        deleted: list[Command] = [Delete(tuple(ahead), void=True)] if ahead else []
        record = {"line": self.line, "targets": targets, "void": [list(id) for id in ahead]}
        back = {pe: id for pe, id in self.targets.items() if pe not in self.staying}
        stay = [log for pe in sorted(self.staying) for log in seen(self.lives, pe, self.lives[pe][0], self.line)]
        return [Persist(record), *stay, RollBack(self.line, back), *self._resume(), *deleted]

    def _forget(self) -> list[Command]:
        """What lies behind the line that would hold if everybody failed."""
        ids, at = self._line()
        told = self._committed(ids, at)
        behind = [id for pe, order in ids.items() for id in order[: at[pe]] if id is not None]
        for id in behind:
            del self.cuts[id.pe][id]
        return [*told, *([Delete(tuple(behind))] if behind else [])]

    def _committed(self, ids: Mapping[str, Sequence[CheckpointId | None]], at: Mapping[str, int]) -> list[Command]:
        """What was given out before that line can be seen."""
        told: list[Command] = []
        for pe in sorted(self.showing):
            id = ids[pe][at[pe]]
            if id is not None and id != self.committed.get(pe):
                self.committed[pe] = id
                told.append(committed(id))
        return told


def _id(target: Sequence[Any] | None) -> CheckpointId | None:
    return None if target is None else CheckpointId(*target)
