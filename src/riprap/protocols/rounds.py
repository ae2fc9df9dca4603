"""The director of protocols that checkpoint in rounds: all elements together, or not at all.

A round is started at the elements with sources, idle ones included, and those that only feedback leads to; markers take
it on from there. It is committed when every element's part is *durable*, and only then: what a sink gave out below its
part may be seen, and going back leads there. An element that has finished is asked once for a last checkpoint, which
stands for all later rounds.

A failure, or a round that takes too long, aborts the round under way; none starts while somebody is down or has not
come back under the line in force, nor, for up to an interval, while somebody is suspected to be down: its markers would
not come, and what is parked behind those of others would wait. A failure puts a new line in force: everybody goes back
to the last committed round. Checkpoints of other rounds are deleted.

After a director's death: the number of the round, the committed one and the line are in its log. What a round under way
has done is not known, so it is aborted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.protocols.commitment import committed, showing
from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import (
    CheckpointDurable,
    Command,
    Delete,
    Director,
    DirectorTick,
    Event,
    Finished,
    Joined,
    Lost,
    Persist,
    RollBack,
    SendToElement,
    Silent,
)
from riprap.protocols.lines import channels_of, died_unnoticed, point_of, remember, seen
from riprap.protocols.protocol import Surroundings
from riprap.protocols.recovery_line import INITIAL, CheckpointPoint, recovery_line
from riprap.protocols.uncoordinated import INTERVAL

SUSPICION = 300_000  # microseconds that a missing sign counts: it is told again while it is missing


def last_tag(line: int) -> int:
    """Of the checkpoint that an element takes when it has finished under a line; rounds have tags above 0."""
    return -1 - line


class RoundDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self.elements = elements
        settings = next((surroundings.settings for surroundings in elements.values()), {})
        self.interval = int(settings.get("interval", INTERVAL))
        self.timeout = int(settings.get("timeout", max(6 * self.interval, 60_000_000)))
        self.line = self.round = 0
        self.committed: dict[str, CheckpointId | None] = dict.fromkeys(elements)  # None: the initial state
        self.joined: dict[str, int] = {}  # by element that lives: the line that it works under
        self.lives: dict[str, tuple[int, int]] = {}
        self.finished: set[str] = set()
        self.last: dict[str, CheckpointId] = {}  # of elements that have finished
        self.channels = channels_of(elements)
        self.points: dict[CheckpointId, CheckpointPoint] = {}
        self.parts: dict[str, CheckpointId] | None = None  # of the round under way
        self.others: set[CheckpointId] = set()  # durable, and of no committed round
        self.started = 0
        self.due: int | None = None
        self.now = 0
        self.suspected: int | None = None  # when somebody gave no sign
        self.showing = showing(elements)

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        for record in log:
            self.round = record.get("round", self.round)
            self.line = record.get("line", self.line)
            remember(self.lives, record)
            if "committed" in record:
                self.committed = {pe: id and CheckpointId(*id) for pe, id in record["committed"].items()}
        return [RollBack(self.line, dict(self.committed))] if self.line else []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe, epoch, line, checkpoints):
                self.joined[pe] = line
                if died_unnoticed(self.lives, pe, epoch, self.line):
                    return self._go_back(pe)
                logged = seen(self.lives, pe, epoch, line)
                self.others |= set(checkpoints) - {id for id in self.committed.values() if id is not None}
                stands = self.committed[pe]
                told = [committed(stands)] if stands is not None and pe in self.showing and line == self.line else []
                # A round may be under way that this director knows nothing of.
                unknown = self.round and self.parts is None
                return [*logged, *told, *([SendToElement(pe, {"abort": self.round})] if unknown else [])]
            case Lost(pe, epoch):
                return self._go_back(pe) if epoch >= self.lives.get(pe, (epoch, 0))[0] else []
            case Finished(pe, epoch):
                working = self.joined.get(pe) == self.line and self.lives[pe][0] == epoch
                if pe in self.finished or not working:  # a life that has gone back since had finished
                    return []
                self.finished.add(pe)
                # Its last checkpoint may be durable sooner than its part of a round under way, or instead of it, and
                # does not go with the parts of others: what it sent behind its marker would be nowhere.
                aborted = self._abort() if self.parts is not None and pe not in self.parts else []
                return [*aborted, SendToElement(pe, {"last": last_tag(self.line)})]
            case CheckpointDurable(id, cut, line, tag, _, _, _) if line == self.line:
                self.points[id] = point_of(cut)
                return self._took(id, tag)
            case Silent():
                self.suspected = self.now
            case DirectorTick(now):
                self.now = now
                return self._tick(now)
        return []

    def _tick(self, now: int) -> list[Command]:
        if self.due is None:
            self.due = now + self.interval
        if self.parts is not None:
            return self._abort() if now >= self.started + self.timeout else []
        doubt = self.suspected is not None and now < min(self.suspected + SUSPICION, self.due + self.interval)
        if now < self.due or doubt or not self._ready():
            return []
        self.due, self.started = max(self.due + self.interval, now), now
        self.round += 1
        self.parts = {}
        begin = [
            SendToElement(pe, {"round": self.round})
            for pe, surroundings in self.elements.items()
            if surroundings.starts_rounds and pe not in self.finished
        ]
        return [Persist({"round": self.round}), *begin]

    def _ready(self) -> bool:
        """Everybody lives and works under the line in force, and there is somebody to ask."""
        asked = any(s.starts_rounds and pe not in self.finished for pe, s in self.elements.items())
        return asked and all(self.joined.get(pe) == self.line for pe in self.elements)

    def _took(self, id: CheckpointId, tag: int) -> list[Command]:
        self.others.add(id)
        if tag == last_tag(self.line):
            self.last[id.pe] = id
        elif tag == self.round and self.parts is not None:
            self.parts[id.pe] = id
        else:
            return self._delete()
        return self._commit()

    def _commit(self) -> list[Command]:
        """If the round is whole. Where all have finished, their last checkpoints are one."""
        commands: list[Command] = []
        for parts in (self.parts, {}):
            # A part of this round stands before a last checkpoint: it is what the others' parts go with.
            whole = {pe: (parts or {}).get(pe) or self.last.get(pe) for pe in self.elements}
            if parts is None or whole == self.committed or any(id is None for id in whole.values()):
                continue
            if not self._consistent({pe: id for pe, id in whole.items() if id is not None}):
                commands += self._abort()
                continue
            self.committed, self.parts = whole, None
            record = {"committed": {pe: id and list(id) for pe, id in whole.items()}, "round": self.round}
            shown = [id for pe, id in whole.items() if pe in self.showing and id is not None]
            commands += [Persist(record), *map(committed, shown)]
        return [*commands, *self._delete()]

    def _consistent(self, whole: Mapping[str, CheckpointId]) -> bool:
        """Nobody has taken what nobody has sent. A marker that was lost with a connection could make it so."""
        histories = {pe: [INITIAL, self.points[id]] for pe, id in whole.items()}
        return all(index == 1 for index in recovery_line(histories, self.channels).values())

    def _delete(self) -> list[Command]:
        """What belongs to no committed round and to none that may still be. While that is the initial state, nothing on
        disk stands for it, and what is left there says nothing of what is needed again.
        """
        kept = {*self.committed.values(), *self.last.values(), *(self.parts or {}).values()}
        gone = tuple(sorted(self.others - kept))
        self.others -= set(gone)
        for id in gone:
            self.points.pop(id, None)
        return [Delete(gone, void=None in self.committed.values())] if gone else []

    def _abort(self) -> list[Command]:
        if self.parts is None:
            return []
        self.parts = None
        return [*(SendToElement(pe, {"abort": self.round}) for pe in self.elements), *self._delete()]

    def _go_back(self, pe: str) -> list[Command]:
        aborted = self._abort()
        self.line += 1
        self.joined.pop(pe, None)
        self.joined = dict.fromkeys(self.joined, -1)  # until they have come back under the new line
        self.finished.clear()
        self.last.clear()
        return [Persist({"line": self.line}), *aborted, RollBack(self.line, dict(self.committed)), *self._delete()]
