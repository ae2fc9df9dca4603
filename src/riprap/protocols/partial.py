"""Partial fault tolerance: every stream has its own retention, and no element waits for another one's.

    retention   user's name  while the consumer is down        when the consumer recovers   if items are missing
    discard     gap          discard and count                 send new items only          lost, continue
    hold        buffer       hold until acknowledged           resend from its number       its producer failed
    log         replay       append to the persistent stream   it reads from its checkpoint cannot happen
    while-down  while-down   write all, or a share, to disk    send what is on disk         lost, continue

An element with deterministic operators and replayable inputs is *exact*: it is checkpointed as a whole, rolls back to
the numbers of its checkpoint and emits the same items again, and consumers drop duplicates. An element with some logged
input rolls back as a whole too. Both take checkpoints at the interval of their operators, or else as often as they are
cheap (`deadlines.py`), unless all stateful operators specify `checkpoint("off")`: then the element replays all of its
input. Any other element restores each operator from its own checkpoint, if one exists, and continues with new input.

Two rules are specific to this protocol. The merge does not wait for a producer that is down, unless its stream is
logged: what it sends later at or below a passed key is late. And held items are acknowledged when they have left the
consumer's operator or, if that is checkpointed, when they are in a durable checkpoint: so an operator that cannot
tolerate loss recovers its complete state. Items of a while-down channel are acknowledged when they were delivered: what
was delivered since the last checkpoint stays lost.
"""

from collections.abc import Mapping

from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.deadlines import Deadlines, affordable
from riprap.protocols.director import CheckpointDurable, Delete, Director, Joined
from riprap.protocols.director import Command as DirectorCommand
from riprap.protocols.director import Event as DirectorEvent
from riprap.protocols.events import (
    Acknowledge,
    Await,
    Command,
    Deleted,
    Dropped,
    Durable,
    Event,
    Forget,
    Passed,
    ProducerBack,
    ProducerGone,
    TakeCheckpoint,
    Tick,
)
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings, Unit

EVERY = 1_000_000  # µs between cheap checkpoints where the plan specifies no interval
RETAINED = 3  # checkpoints per unit, in case the newest are damaged


def plan(surroundings: Surroundings) -> RestorePlan:
    """How an element recovers."""
    operators, inputs = surroundings.operators, surroundings.inputs
    reason = _not_repeatable(surroundings)
    logged = any(inlet.retention == "log" for inlet in inputs.values())
    retained = any(outlet.retention == "log" for outlet in surroundings.outputs.values() if outlet.pe)
    retained = retained or any(facts.backup for facts in operators.values())
    exact = not reason and (logged or retained)
    if not exact and not logged:
        units = {
            name: Unit((name,), facts.checkpoint_every)
            for name, facts in operators.items()
            if facts.stateful and facts.checkpoint_every is not None
        }
        # While-down items are delivered to the windows of the checkpoint, which have not moved on.
        gap = bool(surroundings.sources) or any(inlet.retention != "while-down" for inlet in inputs.values())
        return RestorePlan(units, whole=False, exact=False, delivered="passed", reason=reason, gap=gap, holes=True)
    continuous = next((name for name, facts in operators.items() if facts.continuous), "")
    if continuous and exact:
        return RestorePlan({}, whole=True, exact=True, delivered="passed", continuous=continuous)
    intervals = [facts.checkpoint_every for facts in operators.values() if facts.checkpoint_every is not None]
    # The input to replay must not grow with the history, unless the plan allows it.
    stateful = [facts for facts in operators.values() if facts.stateful]
    off = stateful and all(facts.checkpoint_off for facts in stateful)
    every = min(intervals, default=surroundings.settings.get("interval", EVERY))
    units = {WHOLE: Unit(tuple(operators), every, paced=not intervals)} if intervals or not off else {}
    return RestorePlan(units, True, exact, "passed", reason, spare=RETAINED, holes=True)


def _not_repeatable(surroundings: Surroundings) -> str:
    """Why a restarted element does not emit exactly the same items again; "": it does.

    It does if all input can be replayed, in key order, by deterministic operators. Then consumers recognise duplicates
    by number.
    """
    for name, facts in surroundings.operators.items():
        if not facts.deterministic:
            return f"{name} is not deterministic"
    for channel, inlet in surroundings.inputs.items():
        if inlet.retention != "log":
            return f"its input {channel.stream} is not persistent"
    return ""


class Partial(Protocol):
    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.deadlines = {name: Deadlines(unit.every) for name, unit in plan.units.items() if unit.every is not None}
        unit_of = {operator: name for name, unit in plan.units.items() for operator in unit.operators}
        held = {c: unit_of.get(i.operator) for c, i in surroundings.inputs.items() if i.retention == "hold"}
        # Held items for a checkpointed operator are acknowledged with its checkpoints, else when they have left it.
        self._saved: dict[str, list[ChannelId]] = {name: [] for name in plan.units}
        for channel, unit in held.items():
            if unit is not None:
                self._saved[unit].append(channel)
        self._unsaved = {channel for channel, unit in held.items() if unit is None}
        # While-down inputs: the position that was delivered since the last tick.
        self._delivered = {c: 0 for c, i in surroundings.inputs.items() if i.retention == "while-down"}
        self._absent: set[ChannelId] = set()  # channels that the merge does not wait for
        self.subscriptions = frozenset((ProducerGone, ProducerBack, Tick, Durable, Dropped, Deleted))
        if self._unsaved or self._delivered:
            self.subscriptions |= {Passed}

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Passed(channel, next_, left):
                if channel in self._delivered:
                    self._delivered[channel] = next_
                return [Acknowledge(channel, left)] if channel in self._unsaved else []
            case ProducerGone(channel):
                # A log is complete, and another replica takes over or is already sending.
                if channel in self._absent or self.surroundings.inputs[channel].retention in (
                    "log",
                    "remember",
                    "copy",
                ):
                    return []
                self._absent.add(channel)
                return [Await(channel, False)]
            case ProducerBack(channel):
                if channel not in self._absent:
                    return []
                self._absent.discard(channel)
                return [Await(channel, True)]
            case Tick(now):
                delivered, self._delivered = self._delivered, dict.fromkeys(self._delivered, 0)
                acknowledged = [Acknowledge(channel, next_) for channel, next_ in delivered.items() if next_]
                return [*acknowledged, *self._due(now)]
            case Durable(id_, cut, cost=cost):
                if id_.unit in self.deadlines:
                    self.deadlines[id_.unit].unwritten -= 1
                unit = self.plan.units.get(id_.unit)
                if unit is not None and unit.paced and unit.every is not None:
                    self.deadlines[id_.unit].pace(affordable(cost, unit.every))
                return [Acknowledge(channel, cut.inlets[channel].passed) for channel in self._saved[id_.unit]]
            case Dropped(unit):
                if unit in self.deadlines:
                    self.deadlines[unit].unwritten -= 1
            case Deleted(unit, oldest) if unit == WHOLE:
                inputs = self.surroundings.inputs
                logged = [c for c, inlet in inputs.items() if inlet.retention == "log" and c in oldest.inlets]
                return [Forget(channel, oldest.inlets[channel].passed_position) for channel in logged]
        return []

    def _due(self, now: int) -> list[Command]:
        """Checkpoints of the units whose deadline has passed, earliest deadline first."""
        due_units: list[tuple[int, str]] = []
        for name, deadlines in self.deadlines.items():
            deadline = deadlines.due(now)
            if deadline is not None:
                deadlines.unwritten += 1
                due_units.append((deadline, name))
        return [TakeCheckpoint(name) for _, name in sorted(due_units)]

    @property
    def missed(self) -> Mapping[str, int]:
        return {name: deadlines.missed for name, deadlines in self.deadlines.items()}


class PartialDirector(Director):
    """Retains the newest checkpoints of every unit. No element rolls back because of another."""

    def __init__(self) -> None:
        self._retained: dict[tuple[str, str], dict[CheckpointId, Cut]] = {}

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(_, _, _, checkpoints):
                return [command for id_, cut in checkpoints.items() for command in self._add(id_, cut)]
            case CheckpointDurable(id_, cut):
                return self._add(id_, cut)
        return []

    def _add(self, id_: CheckpointId, cut: Cut) -> list[DirectorCommand]:
        retained = self._retained.setdefault((id_.pe, id_.unit), {})
        retained[id_] = cut
        old = sorted(retained)[:-RETAINED]
        for old_id in old:
            del retained[old_id]
        return [Delete(tuple(old))] if old else []


def _director(surroundings: Mapping[str, Surroundings]) -> Director:
    return PartialDirector()


PARTIAL = ProtocolSpec("partial", plan, Partial, _director, retention=("discard", "hold"))
