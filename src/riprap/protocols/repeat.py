"""Repeat: logs plus deterministic elements; a failed element rolls back alone, and no other is affected.

Every stream is logged, and every element is repeatable: deterministic operators, inputs merged by key. So an element
that is restored from its newest checkpoint replays the input since then and emits the same items under the same
numbers, and consumers drop duplicates. No recovery line is needed: each element rolls back to its newest checkpoint,
and older ones are deleted as soon as that is durable. Nothing is parked, messages carry no headers, and only the failed
element pays for a failure. The price is a log of every stream and the restriction to deterministic operators.

*Delivered* means passed to the operators: merges are restored empty and refilled from the log.
"""

from collections.abc import Mapping

from riprap.protocols.commitment import announce_committed, committing_elements
from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import CheckpointDurable, Delete, Director, Finished, Joined, SendToElement
from riprap.protocols.director import Command as DirectorCommand
from riprap.protocols.director import Event as DirectorEvent
from riprap.protocols.events import Command, Deleted, Event, Forget
from riprap.protocols.protocol import WHOLE, ProtocolSpec, RestorePlan, Surroundings, Unit
from riprap.protocols.uncoordinated import Uncoordinated, interval_of


def plan(surroundings: Surroundings) -> RestorePlan:
    unit = Unit(tuple(surroundings.operators), interval_of(surroundings))
    return RestorePlan({WHOLE: unit}, whole=True, exact=True, delivered="passed")


def refuses(surroundings: Surroundings) -> str:
    for name, facts in surroundings.operators.items():
        if not facts.deterministic:
            return f"repeat needs deterministic operators, and {name} is not deterministic: use coordinated"
    return ""


class Repeat(Uncoordinated):
    """A local timer, as in `uncoordinated`; logs are trimmed up to the oldest remaining checkpoint."""

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, Deleted):
            return [Forget(channel, inlet.passed_position) for channel, inlet in event.oldest.inlets.items()]
        return super().handle(event)


class RepeatDirector(Director):
    """Commits the newest checkpoint of each element and deletes all others."""

    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self._newest: dict[str, CheckpointId] = {}
        self._committing = committing_elements(elements)

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(pe, _, _, checkpoints):
                ids = sorted(checkpoints)
                if ids:
                    self._newest[pe] = ids[-1]
                return [*self._committed(pe), *([Delete(tuple(ids[:-1]))] if ids[1:] else [])]
            case CheckpointDurable(id=id):
                older, self._newest[id.pe] = self._newest.get(id.pe), id
                return [*self._committed(id.pe), *([Delete((older,))] if older is not None else [])]
            case Finished(pe, _) if pe in self._committing:
                return [SendToElement(pe, {"last": 0})]
        return []

    def _committed(self, pe: str) -> list[DirectorCommand]:
        return [announce_committed(self._newest[pe])] if pe in self._committing and pe in self._newest else []


SPEC = ProtocolSpec("repeat", plan, Repeat, RepeatDirector, retention=("log", "log"), refuses=refuses)
