"""Recompute: few streams are kept, nothing is lost, and an element that failed works out again what it misses.

The premise of plans with few backups. Every element is saved as a whole, with the positions of its inputs, and is
repeatable. One that died goes back to its newest checkpoint and takes again what came in since: from the log where its
input is kept, else by recomputing it. For that the elements above it, up to the nearest streams that are kept (sources
are), run once more beside it, from checkpoints of theirs that are old enough, and give it what it misses, by number.
Elements that are healthy are not asked and lose nothing; what they have not sent yet they hold for it. Whatever fails
at once, each recovers from what is on disk alone.

So a checkpoint is needed for as long as some element behind it may go back to before it. The director keeps, of each
element, the newest and those from which it could bring what the kept checkpoints of its consumers miss. Logs follow:
they are let go of up to the oldest checkpoint that is left.
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

EVERY = 1_000_000  # µs between checkpoints of elements whose plan does not say
KEPT = 3  # checkpoints of an element, in case that the newest are damaged
SPARE = 2  # that would serve a consumer's checkpoint, in case that the newer one is damaged


def plan(surroundings: Surroundings) -> RestorePlan:
    operators = surroundings.operators
    intervals = [facts.checkpoint_every for facts in operators.values() if facts.checkpoint_every is not None]
    units = {WHOLE: Unit(tuple(operators), min(intervals, default=surroundings.settings.get("interval", EVERY)))}
    return RestorePlan(units, whole=True, exact=True, delivered="passed", spare=KEPT)


def refuses(surroundings: Surroundings) -> str:
    for name, facts in surroundings.operators.items():
        if facts.checkpoint_off:
            return (
                f'the plan has a bound of recovery, and {name} is never saved (checkpoint = "off"), so it would replay '
                "all of its input: leave one of them out"
            )
        if not facts.deterministic:
            return (
                f"the plan has a bound of recovery, so outputs are recomputed, and {name} is not deterministic: "
                "it would give out others; leave `recovery` out of the plan, or make it deterministic"
            )
    return ""


class Recompute(Protocol):
    """The machine of one life: a checkpoint at each deadline."""

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
    """Deletes checkpoints that nobody will go back to, or recompute from. Nobody goes back because of another."""

    def __init__(self, surroundings: Mapping[str, Surroundings]) -> None:
        self._kept: dict[str, dict[CheckpointId, Cut]] = {pe: {} for pe in surroundings}
        # By element its consumers, with the channels to them that are not logged.
        self._consumers: dict[str, dict[str, list[ChannelId]]] = {pe: {} for pe in surroundings}
        for pe, around in surroundings.items():
            for channel, neighbour in around.outputs.items():
                if neighbour.retention == "recompute":
                    self._consumers[pe].setdefault(neighbour.pe, []).append(channel)

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(pe, _, _, checkpoints):
                self._kept[pe].update(checkpoints)
            case CheckpointDurable(id_, cut):
                self._kept[id_.pe][id_] = cut
            case _:
                return []
        needed: dict[str, set[CheckpointId] | None] = {}
        commands: list[DirectorCommand] = []
        for pe, kept in self._kept.items():
            wanted = self._needed(pe, needed)
            old = tuple(sorted(id_ for id_ in kept if id_ not in wanted)) if wanted is not None else ()
            if old:
                for id_ in old:
                    del kept[id_]
                commands.append(Delete(old))
        return commands

    def _needed(self, pe: str, found: dict[str, set[CheckpointId] | None]) -> set[CheckpointId] | None:
        """The checkpoints of an element that may be asked for; None: its beginning may be, so all logs stay."""
        if pe in found:
            return found[pe]
        kept = sorted(self._kept[pe])
        wanted: set[CheckpointId] | None = set(kept[-KEPT:]) if len(kept) >= KEPT else None
        for consumer, channels in self._consumers[pe].items():
            behind = self._needed(consumer, found)
            for id_ in behind if behind is not None else ():
                cut = self._kept[consumer][id_]
                fitting = [one for one in kept if serves(self._kept[pe][one], cut, channels)][-SPARE:]
                if len(fitting) < SPARE:
                    wanted = None
                elif wanted is not None:
                    wanted.update(fitting)
            if behind is None:
                wanted = None
        found[pe] = wanted
        return wanted


def serves(producer: Cut, consumer: Cut, channels: list[ChannelId]) -> bool:
    """Whether a producer that goes back to its cut gives out again all that a consumer misses that goes back to its."""
    return all(producer.sent[channel] <= consumer.inlets[channel].passed for channel in channels)


SPEC = ProtocolSpec(
    "recompute", plan, Recompute, RecomputeDirector, retention=("recompute", "recompute"), refuses=refuses
)
