"""The director of coordinated checkpointing: rounds are committed for all elements together, or not at all.

The director starts a round at the elements with sources, idle ones included, and at those with feedback inputs only;
markers propagate it. A round is committed when the checkpoint of every element is *durable*, and only then: output of
sinks before it becomes visible, and rollbacks lead there. A finished element takes one last checkpoint, which counts
for all later rounds.

A failure or a timeout aborts the current round. No round starts while an element is down or has not joined under the
line in force, nor, for up to an interval, while an element is suspected to be down: its markers would not arrive, and
items parked behind other markers would wait. A failure puts a new line in force: all elements roll back to the last
committed round. Checkpoints of other rounds are deleted.

After a crash of the director: its log has the number of the round, the committed one and the line. The state of a round
in progress is unknown, so it is aborted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.protocols.commitment import announce_committed, committing_elements
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
from riprap.protocols.lines import channels_of, died_unnoticed, note_incarnation, point_of, recall_incarnation
from riprap.protocols.protocol import Surroundings
from riprap.protocols.recovery_line import INITIAL, CheckpointPoint, recovery_line
from riprap.protocols.uncoordinated import INTERVAL

SUSPICION = 300_000  # microseconds for which a `Silent` counts: it is repeated while heartbeats are missing


def last_tag(line: int) -> int:
    """The tag of the last checkpoint of an element that has finished under a line; rounds have tags above 0."""
    return -1 - line


class RoundDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self.elements = elements
        settings = next((surroundings.settings for surroundings in elements.values()), {})
        self.interval = int(settings.get("interval", INTERVAL))
        self.timeout = int(settings.get("timeout", max(6 * self.interval, 60_000_000)))
        self.line = self.round = 0
        self.committed: dict[str, CheckpointId | None] = dict.fromkeys(elements)  # None: the initial state
        self.joined: dict[str, int] = {}  # by live element: the line that it runs under
        self.incarnations: dict[str, tuple[int, int]] = {}
        self.finished: set[str] = set()
        self.last: dict[str, CheckpointId] = {}  # of elements that have finished
        self.channels = channels_of(elements)
        self.points: dict[CheckpointId, CheckpointPoint] = {}
        self.parts: dict[str, CheckpointId] | None = None  # of the round in progress
        self.others: set[CheckpointId] = set()  # durable, and in no committed round
        self.started = 0
        self.due: int | None = None
        self.now = 0
        self.suspected: int | None = None  # when an element last missed heartbeats
        self.committing = committing_elements(elements)

    def validate(self) -> None:
        for pe, id_ in (*self.committed.items(), *self.last.items(), *(self.parts or {}).items()):
            assert id_ is None or id_.pe == pe, f"{pe} has a checkpoint of another element: {id_}"
        ahead = {pe: line for pe, line in self.joined.items() if line > self.line}
        assert not ahead, f"line {self.line} is in force, and {ahead} run under a later one"

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        for record in log:
            self.round = record.get("round", self.round)
            self.line = record.get("line", self.line)
            recall_incarnation(self.incarnations, record)
            if "committed" in record:
                self.committed = {pe: id and CheckpointId(*id) for pe, id in record["committed"].items()}
        return [RollBack(self.line, dict(self.committed))] if self.line else []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe, epoch, line, checkpoints):
                self.joined[pe] = line
                if died_unnoticed(self.incarnations, pe, epoch, self.line):
                    return self._roll_back(pe)
                logged = note_incarnation(self.incarnations, pe, epoch, line)
                self.others |= set(checkpoints) - {id for id in self.committed.values() if id is not None}
                id = self.committed[pe]
                announce = id is not None and pe in self.committing and line == self.line
                announced = [announce_committed(id)] if id is not None and announce else []
                # A round of an earlier director may be in progress.
                unknown = self.round and self.parts is None
                return [*logged, *announced, *([SendToElement(pe, {"abort": self.round})] if unknown else [])]
            case Lost(pe, epoch):
                return self._roll_back(pe) if epoch >= self.incarnations.get(pe, (epoch, 0))[0] else []
            case Finished(pe, epoch):
                working = self.joined.get(pe) == self.line and self.incarnations[pe][0] == epoch
                if pe in self.finished or not working:  # it finished before a rollback
                    return []
                self.finished.add(pe)
                # Its last checkpoint may become durable before, or instead of, its part of the round in progress, and
                # is not consistent with the other parts: what it sent after its marker would be lost.
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
        """All elements run under the line in force, and some element can start a round."""
        starting = any(s.starts_rounds and pe not in self.finished for pe, s in self.elements.items())
        return starting and all(self.joined.get(pe) == self.line for pe in self.elements)

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
        """Commit the round if it is complete. Once all elements have finished, their last checkpoints form one."""
        commands: list[Command] = []
        for parts in (self.parts, {}):
            # A part of this round takes precedence over a last checkpoint: it is consistent with the other parts.
            whole = {pe: (parts or {}).get(pe) or self.last.get(pe) for pe in self.elements}
            if parts is None or whole == self.committed or any(id is None for id in whole.values()):
                continue
            if not self._consistent({pe: id for pe, id in whole.items() if id is not None}):
                commands += self._abort()
                continue
            self.committed, self.parts = whole, None
            record = {"committed": {pe: id and list(id) for pe, id in whole.items()}, "round": self.round}
            visible = [id for pe, id in whole.items() if pe in self.committing and id is not None]
            commands += [Persist(record), *map(announce_committed, visible)]
        return [*commands, *self._delete()]

    def _consistent(self, whole: Mapping[str, CheckpointId]) -> bool:
        """Whether the round has no orphans. A marker that was lost with a connection could cause some."""
        histories = {pe: [INITIAL, self.points[id]] for pe, id in whole.items()}
        return all(index == 1 for index in recovery_line(histories, self.channels).values())

    def _delete(self) -> list[Command]:
        """Delete checkpoints that belong to neither the committed round nor one in progress. While the initial state
        is the committed one, no checkpoint represents it, so the remaining ones do not show what is still needed.
        """
        retained = {*self.committed.values(), *self.last.values(), *(self.parts or {}).values()}
        gone = tuple(sorted(self.others - retained))
        self.others -= set(gone)
        for id in gone:
            self.points.pop(id, None)
        return [Delete(gone, void=None in self.committed.values())] if gone else []

    def _abort(self) -> list[Command]:
        if self.parts is None:
            return []
        self.parts = None
        return [*(SendToElement(pe, {"abort": self.round}) for pe in self.elements), *self._delete()]

    def _roll_back(self, pe: str) -> list[Command]:
        aborted = self._abort()
        self.line += 1
        self.joined.pop(pe, None)
        self.joined = dict.fromkeys(self.joined, -1)  # until they have joined under the new line
        self.finished.clear()
        self.last.clear()
        return [Persist({"line": self.line}), *aborted, RollBack(self.line, dict(self.committed)), *self._delete()]
