"""Repeat: logs and elements that repeat themselves; who fails goes back alone, and nobody else notices.

Every stream is logged, and every element is repeatable: deterministic operators, inputs merged by keys. So an element
that is restored from its newest checkpoint reads again what came after it, gives out the same items under the same
numbers, and whoever has had them drops them. There is no line: the newest checkpoint of each element is the one it goes
back to, older ones are deleted as soon as it is durable. Nothing is parked, no message carries anything, and a failure
costs the failed element alone. The price is a log of every stream, and that operators must be deterministic.

*Delivered* means passed to the operators: merges are restored empty, and the log brings again what waited in them.
"""

from collections.abc import Mapping

from riprap.protocols.commitment import committed, showing
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
            return f"repeat needs elements that repeat themselves, and {name} is not deterministic: use coordinated"
    return ""


class Repeat(Uncoordinated):
    """A local timer, as `uncoordinated`; logs forget what comes before the oldest checkpoint that is left."""

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, Deleted):
            return [Forget(channel, inlet.passed_position) for channel, inlet in event.oldest.inlets.items()]
        return super().handle(event)


class RepeatDirector(Director):
    """Deletes what nobody will go back to: all but the newest checkpoint of each element, which is committed."""

    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        self._newest: dict[str, CheckpointId] = {}
        self._showing = showing(elements)

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(pe, _, _, checkpoints):
                there = sorted(checkpoints)
                if there:
                    self._newest[pe] = there[-1]
                return [*self._committed(pe), *([Delete(tuple(there[:-1]))] if there[1:] else [])]
            case CheckpointDurable(id=id):
                older, self._newest[id.pe] = self._newest.get(id.pe), id
                return [*self._committed(id.pe), *([Delete((older,))] if older is not None else [])]
            case Finished(pe, _) if pe in self._showing:
                return [SendToElement(pe, {"last": 0})]
        return []

    def _committed(self, pe: str) -> list[DirectorCommand]:
        return [committed(self._newest[pe])] if pe in self._showing and pe in self._newest else []


SPEC = ProtocolSpec("repeat", plan, Repeat, RepeatDirector, retention=("log", "log"), refuses=refuses)
