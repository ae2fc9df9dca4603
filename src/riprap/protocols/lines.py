"""The director of protocols that take checkpoints on their own: it finds the recovery line when somebody fails.

It keeps the cut of every durable checkpoint. When an element is lost it computes the line (`recovery_line.py`), logs
it and puts it in force: every element goes back to its checkpoint of the line. Checkpoints ahead of the line are void
and deleted; those behind the *worst-case line* (everybody fails, nothing is left but what is durable) as they fall
behind it, because no failure can lead there any more. Counting checkpoints cannot serve: without coordination the line
may stay at the beginning however many there are.

Logs: with `log = "persistent"` every item below *sent* is in a persistent stream that survives, and the line avoids
loss. With "volatile" a log dies with its element, loss was chosen, and is counted by those who can see it: consumers,
by the numbers that are missing.

After a director's death: the line in force is in its log, and every life that it heard of, so that one which died and
came back meanwhile, with nobody to hear of it, is noticed. Checkpoints come with `Joined`. A line is computed only when
every element has joined this director once, since until then some checkpoints are not known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.director import (
    Command,
    Delete,
    Director,
    Event,
    Finished,
    GoBack,
    Joined,
    Log,
    Lost,
    Say,
    Took,
)
from riprap.protocols.protocol import Surroundings
from riprap.protocols.recovery_line import INITIAL, Ends, Point, Span, recovery_line
from riprap.protocols.showing import committed, showing

EVERYTHING: Span = (0, 2**63 - 1)


def channels_of(elements: Mapping[str, Surroundings]) -> dict[ChannelId, Ends]:
    """Every channel between two elements."""
    found = {}
    for pe, surroundings in elements.items():
        for channel, neighbour in surroundings.outputs.items():
            if neighbour.pe:
                found[channel] = Ends(pe, neighbour.pe)
    return found


def point_of(cut: Cut) -> Point:
    return Point(dict(cut.sent), {channel: inlet.taken for channel, inlet in cut.inlets.items()})


def died_unheard(lives: Mapping[str, tuple[int, int]], pe: str, epoch: int, line: int) -> bool:
    """Whether a life that joins took the place of one that worked under the line in force, and nobody heard of it."""
    known, under = lives.get(pe, (epoch, line))
    return epoch > known and under == line


def seen(lives: dict[str, tuple[int, int]], pe: str, epoch: int, line: int) -> list[Command]:
    """Remember a life, by its epoch and the line that it works under."""
    if lives.get(pe) == (epoch, line):
        return []
    lives[pe] = (epoch, line)
    return [Log({"life": [pe, epoch, line]})]


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
        self.cuts: dict[str, dict[CheckpointId, Point]] = {pe: {} for pe in elements}
        self.unknown = set(elements)  # elements that this director has not heard of yet
        self.lives: dict[str, tuple[int, int]] = {}
        self.void: set[CheckpointId] = set()  # ahead of a line that was put in force
        self.failed = False  # somebody failed, and no line has been computed since
        self.showing = showing(elements)
        self.committed: dict[str, CheckpointId] = {}  # of elements that show: what they were told

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        for record in log:
            remember(self.lives, record)
            if "line" in record:
                self.line = record["line"]
                self.targets = {pe: _id(target) for pe, target in record["targets"].items()}
                self.void |= {CheckpointId(*id) for id in record["void"]}
        return [GoBack(self.line, self.targets)] if self.line else []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe, epoch, line, checkpoints):
                self.failed |= died_unheard(self.lives, pe, epoch, self.line)
                logged = seen(self.lives, pe, epoch, line)
                # One that has not heard of the line in force may have checkpoints ahead of it.
                target = self.targets.get(pe)
                void = [id for id in checkpoints if line < self.line and (target is None or id > target)]
                void += [id for id in checkpoints if id in self.void]
                for id, cut in checkpoints.items():
                    if id not in void:
                        self._learn(id, cut)
                self.unknown.discard(pe)
                self.committed.pop(pe, None)
                deleted: list[Command] = [Delete(tuple(void), void=True)] if void else []
                then = [] if self.unknown else self._recover() if self.failed else self._committed(*self._line())
                return [*logged, *deleted, *then]
            case Took(id, cut, line, _, _, _, _):
                if line != self.line:
                    return []
                self._learn(id, cut)
                return self._forget()
            case Finished(pe, _) if self.showing:
                return [Say(pe, {"last": 0})]
            case Lost(pe, epoch) if epoch >= self.lives.get(pe, (epoch, 0))[0]:
                self.failed = True
                return self._recover() if not self.unknown else []
        return []

    def _learn(self, id: CheckpointId, cut: Cut) -> None:
        self.cuts[id.pe][id] = point_of(cut)

    def _histories(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, list[Point]]]:
        ids: dict[str, list[CheckpointId | None]] = {pe: [None, *sorted(cuts)] for pe, cuts in self.cuts.items()}
        return ids, {pe: [INITIAL if id is None else self.cuts[pe][id] for id in order] for pe, order in ids.items()}

    def _line(self) -> tuple[dict[str, list[CheckpointId | None]], dict[str, int]]:
        """With what is durable alone: what is left when everybody fails."""
        ids, histories = self._histories()
        logs = dict.fromkeys(self.channels, EVERYTHING) if self.persistent else None
        return ids, recovery_line(histories, self.channels, logs)

    def _recover(self) -> list[Command]:
        self.failed = False
        ids, at = self._line()
        self.line += 1
        self.targets = {pe: ids[pe][index] for pe, index in at.items()}
        ahead = [id for pe, order in ids.items() for id in order[at[pe] + 1 :] if id is not None]
        for id in ahead:
            del self.cuts[id.pe][id]
        self.void |= set(ahead)
        targets = {pe: id and list(id) for pe, id in self.targets.items()}
        deleted: list[Command] = [Delete(tuple(ahead), void=True)] if ahead else []
        record = {"line": self.line, "targets": targets, "void": [list(id) for id in ahead]}
        return [Log(record), GoBack(self.line, dict(self.targets)), *deleted]

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
