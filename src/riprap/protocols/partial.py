"""Partial fault tolerance: every stream has the retention that it was given, and no element waits for another's.

    retention  as users know it  consumer is down                   consumer is back              something is missing
    discard    gap               discard, count                     send what comes from now on   it is lost, go on
    hold       buffer            hold, until acknowledged           send again from its number    its producer died
    log        replay            keep it in the persistent stream   it reads from its checkpoint  cannot be
    while-down while-down        keep it on disk, or a share of it  send what is kept from there  it is lost, go on

An element whose inputs can all be read again, with deterministic operators, is *exact*: it is saved as a whole, goes
back to the numbers of its checkpoint and gives out the same items again, and consumers drop what they have had. One
with some logged input goes back as a whole too. Either is saved at the interval that its operators ask for, or else as
often as its checkpoints are cheap (`deadlines.py`), unless its stateful operators say `checkpoint("off")`: then it
reads all of its input again. Any other restores each operator from a checkpoint of its own, if it
has one, and goes on with what comes.

Two rules are this protocol's own. A producer that is down is not waited for, unless its stream is logged: what it
brings later at or below a key that has passed is late. And what is held is let go of when it has left the consumer's
operator, or, where that is saved, when it is in a durable checkpoint: so the state of an operator that cannot bear loss
comes back with nothing missing. What is kept while a consumer is down is let go of when its operators have had it: what
they had since their checkpoints stays lost.
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

EVERY = 1_000_000  # µs between checkpoints of elements whose plan does not say, where they cost little
KEPT = 3  # checkpoints of a unit, in case that the newest are damaged


def plan(surroundings: Surroundings) -> RestorePlan:
    """How a restarted element comes back."""
    operators, inputs = surroundings.operators, surroundings.inputs
    reason = _not_repeatable(surroundings)
    logged = any(inlet.retention == "log" for inlet in inputs.values())
    kept = any(outlet.retention == "log" for outlet in surroundings.outputs.values() if outlet.pe)
    kept = kept or any(facts.backup for facts in operators.values())
    exact = not reason and (logged or kept)
    if not exact and not logged:
        units = {
            name: Unit((name,), facts.checkpoint_every)
            for name, facts in operators.items()
            if facts.stateful and facts.checkpoint_every is not None
        }
        # What is kept while an element is down comes to the windows of its checkpoint: they have not moved on.
        gap = bool(surroundings.sources) or any(inlet.retention != "while-down" for inlet in inputs.values())
        return RestorePlan(units, whole=False, exact=False, delivered="passed", reason=reason, gap=gap, holes=True)
    continuous = next((name for name, facts in operators.items() if facts.continuous), "")
    if continuous and exact:
        return RestorePlan({}, whole=True, exact=True, delivered="passed", continuous=continuous)
    intervals = [facts.checkpoint_every for facts in operators.values() if facts.checkpoint_every is not None]
    # What is read again must not grow with the history, unless somebody says that it may.
    stateful = [facts for facts in operators.values() if facts.stateful]
    off = stateful and all(facts.checkpoint_off for facts in stateful)
    every = min(intervals, default=surroundings.settings.get("interval", EVERY))
    units = {WHOLE: Unit(tuple(operators), every, paced=not intervals)} if intervals or not off else {}
    return RestorePlan(units, True, exact, "passed", reason, spare=KEPT, holes=True)


def _not_repeatable(surroundings: Surroundings) -> str:
    """Why a restarted element does not give out again exactly what it gave out before; "": it does.

    It does when everything that comes in can be read again, in an order that keys decide, by deterministic operators.
    Then numbers of items tell the consumers what they have already.
    """
    for name, facts in surroundings.operators.items():
        if not facts.deterministic:
            return f"{name} is not deterministic"
    for channel, inlet in surroundings.inputs.items():
        if inlet.retention != "log":
            return f"its input {channel.stream} is not persistent"
    return ""


class Partial(Protocol):
    """The machine of one life of an element."""

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.deadlines = {name: Deadlines(unit.every) for name, unit in plan.units.items() if unit.every is not None}
        unit_of = {operator: name for name, unit in plan.units.items() for operator in unit.operators}
        held = {c: unit_of.get(i.operator) for c, i in surroundings.inputs.items() if i.retention == "hold"}
        # What is held for an operator that is saved is let go of with its checkpoints, else when it has left it.
        self._saved: dict[str, list[ChannelId]] = {name: [] for name in plan.units}
        for channel, unit in held.items():
            if unit is not None:
                self._saved[unit].append(channel)
        self._unsaved = {channel for channel, unit in held.items() if unit is None}
        # What has passed since a tick of what is kept only while this element is down.
        self._had = {c: 0 for c, i in surroundings.inputs.items() if i.retention == "while-down"}
        self._absent: set[ChannelId] = set()  # producers that are not waited for
        self.subscriptions = frozenset((ProducerGone, ProducerBack, Tick, Durable, Dropped, Deleted))
        if self._unsaved or self._had:
            self.subscriptions |= {Passed}

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Passed(channel, next_, left):
                if channel in self._had:
                    self._had[channel] = next_
                return [Acknowledge(channel, left)] if channel in self._unsaved else []
            case ProducerGone(channel):
                # A log has everything, and of replicas another one takes over, or speaks already.
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
                had, self._had = self._had, dict.fromkeys(self._had, 0)
                return [*(Acknowledge(channel, next_) for channel, next_ in had.items() if next_), *self._due(now)]
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
        """Units whose deadline has come, the earliest deadline first."""
        found: list[tuple[int, str]] = []
        for name, deadlines in self.deadlines.items():
            deadline = deadlines.due(now)
            if deadline is not None:
                deadlines.unwritten += 1
                found.append((deadline, name))
        return [TakeCheckpoint(name) for _, name in sorted(found)]

    @property
    def missed(self) -> Mapping[str, int]:
        return {name: deadlines.missed for name, deadlines in self.deadlines.items()}


class PartialDirector(Director):
    """Keeps the newest checkpoints of every unit. Nobody goes back because of another."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[CheckpointId, Cut]] = {}

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case Joined(_, _, _, checkpoints):
                return [command for id_, cut in checkpoints.items() for command in self._keep(id_, cut)]
            case CheckpointDurable(id_, cut):
                return self._keep(id_, cut)
        return []

    def _keep(self, id_: CheckpointId, cut: Cut) -> list[DirectorCommand]:
        kept = self._kept.setdefault((id_.pe, id_.unit), {})
        kept[id_] = cut
        old = sorted(kept)[:-KEPT]
        for one in old:
            del kept[one]
        return [Delete(tuple(old))] if old else []


def _director(surroundings: Mapping[str, Surroundings]) -> Director:
    return PartialDirector()


PARTIAL = ProtocolSpec("partial", plan, Partial, _director, retention=("discard", "hold"))
