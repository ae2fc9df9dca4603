"""Recompute: few streams are persistent, nothing is lost, and a failed element recomputes its missing input.

The premise of plans with few backups. Every element is deterministic and is checkpointed as a whole, with the positions
of its inputs. A failed element rolls back to its newest checkpoint and processes its input since then again: from the
log of a persistent input, else by recomputing it. For that, instances of its upstream elements, up to the nearest
persistent streams (sources are), run beside it from checkpoints that are old enough, and produce the missing items, by
number. Healthy elements are not involved and lose nothing; they hold unsent items for it. Each element recovers from
data on disk alone, whatever fails at the same time.

So a checkpoint is needed as long as some downstream element may roll back past it. The director retains, per element,
the newest checkpoints and those from which it can reproduce the input that its consumers' retained checkpoints need.
Logs are trimmed up to the oldest retained checkpoint.
"""

from collections.abc import Mapping

from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.deadlines import Deadlines
from riprap.protocols.director import CheckpointDurable, Delete, Director, Joined
from riprap.protocols.director import Command as DirectorCommand
from riprap.protocols.director import Event as DirectorEvent
from riprap.protocols.events import Command, Deleted, Dropped, Durable, Event, Forget, TakeCheckpoint, Tick
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings, Unit

EVERY = 1_000_000  # µs between checkpoints where the plan specifies no interval
RETAINED = 3  # checkpoints per element, in case the newest are damaged
SPARE = 2  # checkpoints that fit a consumer's checkpoint, in case the newer one is damaged


def plan(surroundings: Surroundings) -> RestorePlan:
    operators = surroundings.operators
    intervals = [facts.checkpoint_every for facts in operators.values() if facts.checkpoint_every is not None]
    units = {WHOLE: Unit(tuple(operators), min(intervals, default=surroundings.settings.get("interval", EVERY)))}
    return RestorePlan(units, whole=True, exact=True, delivered="passed", spare=RETAINED)


def refuses(surroundings: Surroundings) -> str:
    for name, facts in surroundings.operators.items():
        if facts.checkpoint_off:
            return (
                f'the plan has a recovery bound, and {name} takes no checkpoints (checkpoint = "off"), so it would '
                "replay all of its input: leave one of them out"
            )
        if not facts.deterministic:
            return (
                f"the plan has a recovery bound, so outputs are recomputed, but {name} is not deterministic: "
                "its output would differ; leave recovery out of the plan, or make it deterministic"
            )
    return ""


class Recompute(Protocol):
    """Takes a checkpoint at each deadline."""

    subscriptions = frozenset((Tick, Durable, Dropped, Deleted))

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        every = plan.units[WHOLE].every
        assert every is not None
        self._deadlines = Deadlines(every)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Tick(now):
                if self._deadlines.due(now) is not None:
                    self._deadlines.unwritten += 1
                    return [TakeCheckpoint(WHOLE)]
            case Durable() | Dropped():
                self._deadlines.unwritten -= 1
            case Deleted(_, oldest):
                inputs = self.surroundings.inputs.items()
                logged = [channel for channel, inlet in inputs if inlet.retention == "log"]
                return [Forget(channel, oldest.inlets[channel].passed_position) for channel in logged]
        return []

    @property
    def missed(self) -> Mapping[str, int]:
        return {WHOLE: self._deadlines.missed}


class RecomputeDirector(Director):
    """Deletes checkpoints that no rollback or recomputation needs. No element rolls back because of another."""

    def __init__(self, surroundings: Mapping[str, Surroundings]) -> None:
        self._retained: dict[str, dict[CheckpointId, Cut]] = {pe: {} for pe in surroundings}
        # By element: its consumers, with the unlogged channels to them.
        self._consumers: dict[str, dict[str, list[ChannelId]]] = {pe: {} for pe in surroundings}
        for pe, around in surroundings.items():
            for channel, neighbour in around.outputs.items():
                if neighbour.retention == "recompute":
                    self._consumers[pe].setdefault(neighbour.pe, []).append(channel)

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(pe, _, _, checkpoints):
                self._retained[pe].update(checkpoints)
            case CheckpointDurable(id_, cut):
                self._retained[id_.pe][id_] = cut
            case _:
                return []
        needed: dict[str, set[CheckpointId] | None] = {}
        commands: list[DirectorCommand] = []
        for pe, retained in self._retained.items():
            wanted = self._needed(pe, needed)
            old = tuple(sorted(id_ for id_ in retained if id_ not in wanted)) if wanted is not None else ()
            if old:
                for id_ in old:
                    del retained[id_]
                commands.append(Delete(old))
        return commands

    def _needed(self, pe: str, found: dict[str, set[CheckpointId] | None]) -> set[CheckpointId] | None:
        """The checkpoints of an element that may be needed; None: its initial state may be, so all logs stay."""
        if pe in found:
            return found[pe]
        retained = sorted(self._retained[pe])
        wanted: set[CheckpointId] | None = set(retained[-RETAINED:]) if len(retained) >= RETAINED else None
        for consumer, channels in self._consumers[pe].items():
            behind = self._needed(consumer, found)
            for id_ in behind if behind is not None else ():
                cut = self._retained[consumer][id_]
                fitting = [own for own in retained if serves(self._retained[pe][own], cut, channels)][-SPARE:]
                if len(fitting) < SPARE:
                    wanted = None
                elif wanted is not None:
                    wanted.update(fitting)
            if behind is None:
                wanted = None
        found[pe] = wanted
        return wanted


def serves(producer: Cut, consumer: Cut, channels: list[ChannelId]) -> bool:
    """Whether a producer restored to its cut emits all items that a consumer restored to its cut needs."""
    return all(producer.sent[channel] <= consumer.inlets[channel].passed for channel in channels)


SPEC = ProtocolSpec(
    "recompute", plan, Recompute, RecomputeDirector, retention=("recompute", "recompute"), refuses=refuses, bounded=True
)
