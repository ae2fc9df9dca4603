"""A protocol as one file: every element takes a checkpoint after each `n` items that it has taken in.

A message is taken in before the next checkpoint, however long it is: who goes back to each of them gets on.
"""

from collections.abc import Mapping

from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import CheckpointDurable, Delete, Director, Joined, RollBack
from riprap.protocols.events import Arrived, Command, Deleted, Deliver, Event, Forget, TakeCheckpoint
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings, Unit


def plan(around: Surroundings) -> RestorePlan:
    return RestorePlan({WHOLE: Unit(tuple(around.operators))}, whole=True, exact=True, delivered="taken")


class EveryN(Protocol):
    subscriptions = frozenset((Arrived, Deleted))
    taken = 0

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Arrived(channel, _, items):
                due = self.taken >= self.surroundings.settings["n"]
                self.taken = items if due else self.taken + items
                return [TakeCheckpoint(WHOLE), Deliver(channel)] if due else [Deliver(channel)]
            case Deleted(_, oldest):
                return [Forget(channel, inlet.taken_position) for channel, inlet in oldest.inlets.items()]
        return []


class EveryNDirector(Director):
    """Keeps the newest checkpoint of each element; sends an element back to it after every `back` checkpoints."""

    def __init__(self, around: Mapping[str, Surroundings]) -> None:
        self._back = next(iter(around.values())).settings.get("back", 0)
        self._newest: dict[str, CheckpointId] = {}
        self._line = self._took = 0

    def handle(self, event):
        if isinstance(event, Joined):
            self._line = max(self._line, event.line)
            found = sorted(event.checkpoints)
            self._newest |= {event.pe: found[-1]} if found else {}
            return [Delete(tuple(found[:-1]))] if found[1:] else []
        if not isinstance(event, CheckpointDurable):
            return []
        old, self._newest[event.id.pe] = self._newest.get(event.id.pe), event.id
        self._took += 1
        if self._back and self._took % self._back == 0:
            self._line += 1
            return [RollBack(self._line, {event.id.pe: event.id})]
        return [Delete((old,))] if old is not None else []


EVERY_N = ProtocolSpec("every-n", plan, EveryN, EveryNDirector)
