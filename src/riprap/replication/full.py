"""Full replication: every operator in copies, every copy sends to every copy behind it, and what was seen is dropped.

A consumer takes each item from whichever copy brings it first (`seen.py`). A producer, a source too, holds what it gave
out until all copies of the consumer have had it (`copying.py`): consumers tell how far their operators have come, and
the director passes on to the producers how far one has, and how far all of its copies have.

A copy that was restarted has lost its state. Were it to speak, it would bring wrong values under keys that nobody has
seen. So its life does not begin before a healthy copy has taken a snapshot, and begins with that:

    lost ──► waiting, for a snapshot of another copy ──► catching up, mute ──► speaking

It speaks to a consumer when that has come to where the snapshot was taken. As every copy that speaks holds all that
the consumer has not had, nothing is lost or doubled under any crash that leaves one speaking copy of every operator. If
none is left, the first that comes back begins empty, with what producers still hold, and counts as *tainted*; the
others get their state from it. If all that are left are mute to a consumer, one speaks all the same: tainted too.

Copies tell digests of what they gave out (`digests.py`); where most agree, the others end, and begin again as if they
had died. Sources and sinks run once, protected as the plan says.

Fault model: that of a run. A director that dies knows nothing; a new one waits for those who live to join before it
says that nobody does. This surrounds the protocol of the run: what is said under "full" is ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from riprap.protocols import director as seam
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.director import (
    NO_CHECKPOINT,
    OWN_CHECKPOINT,
    Delete,
    Director,
    RestartElement,
    SendToElement,
    StartPoint,
)
from riprap.protocols.director import Command as DirectorCommand
from riprap.protocols.director import Event as DirectorEvent
from riprap.protocols.events import (
    Activate,
    Command,
    DeliveredUpTo,
    Event,
    FromDirector,
    OutputDigested,
    Release,
    TakeCheckpoint,
    Tick,
)
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings, Unit
from riprap.replication.digests import INTERVAL, SETTING, DigestComparison
from riprap.replication.news import FIRST_EPOCH, News, as_json, from_json

OURS = "full"  # marks what is said between these machines and this director
SNAPSHOT = 1  # the tag of a checkpoint that another copy is to begin with
_ASK_AGAIN = 2_000_000  # µs: for a snapshot that has not come
_GRACE = 1_000_000  # µs that a new director waits for those who live


# In every element -----------------------------------------------------------------------------------------------------


class FullMachine(Protocol):
    """Around the machine of one life of an element that is in copies, or is fed by some."""

    def __init__(self, inner: Protocol) -> None:
        super().__init__(inner.surroundings, inner.plan)
        self._inner = inner
        self._news = News(OURS)
        self.subscriptions = (
            inner.subscriptions
            | {FromDirector, Tick, OutputDigested}
            | ({DeliveredUpTo} if self.surroundings.strands else frozenset())
        )

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        return self._inner.begin(cut, now)

    def handle(self, event: Event) -> list[Command]:
        commands: Sequence[Command] = ()
        match event:
            case FromDirector(message) if OURS in message:
                return self._told(message[OURS])
            case DeliveredUpTo() | OutputDigested():
                self._news.hear(event)
                return []
            case Tick(now):
                commands = self._news.tell(now)
        return [*commands, *(self._inner.handle(event) if type(event) in self._inner.subscriptions else ())]

    def _told(self, message: Mapping[str, Any]) -> list[Command]:
        if "had" in message:
            pairs = [(from_json(one), from_json(all_)) for one, all_ in message["had"]]
            return [Release(strand, delivered, by_all) for (strand, delivered), (_, by_all) in pairs]
        if "speak" in message:
            return [Activate(ChannelId(*message["speak"]), 0)]
        return [TakeCheckpoint(WHOLE, SNAPSHOT, forced=True)]

    @property
    def missed(self) -> Mapping[str, int]:
        return self._inner.missed

    def snapshot(self) -> bytes:
        return self._inner.snapshot()


# At the coordinator ---------------------------------------------------------------------------------------------------


@dataclass
class Copies:
    """The copies of one element: who lives, and who waits for whose state."""

    elements: Sequence[str]
    lives: dict[str, int] = field(default_factory=dict)  # epochs of those that are there
    begun: set[str] = field(default_factory=set)  # that were told where to begin, and have not joined
    wanted: set[str] = field(default_factory=set)  # that are to begin with a snapshot
    snapshots: dict[str, CheckpointId] = field(default_factory=dict)  # by copy that is to begin with it
    asked: tuple[str, int] | None = None  # who was asked for one, and when
    restored: int = 0  # lives that began with the state of another copy
    tainted: int = 0  # times that something was lost, as no copy was left
    ended: set[str] = field(default_factory=set)  # that were found to be wrong, and are to begin again
    comparison: DigestComparison = field(default_factory=DigestComparison)

    def start_point(self, pe: str, epoch: int, waited: bool) -> StartPoint:
        if epoch == FIRST_EPOCH:
            return OWN_CHECKPOINT
        if pe in self.snapshots:
            self.begun.add(pe)
            return self.snapshots[pe]
        if self.lives or self.begun - {pe} or not waited:
            self.wanted.add(pe)
            return None
        self.begun.add(pe)  # the others get their state from it
        self.tainted += 1
        self.comparison.told = {}
        return NO_CHECKPOINT

    def joined(self, pe: str, epoch: int) -> bool:
        """Whether it began with a snapshot: then it says itself when it speaks."""
        self.lives[pe] = epoch
        self.begun.discard(pe)
        self.wanted.discard(pe)
        self.ended.discard(pe)
        restored = self.snapshots.pop(pe, None) is not None
        self.restored += restored
        return restored

    def lost(self, pe: str, epoch: int) -> None:
        if self.lives.get(pe, epoch) > epoch:
            return  # a life that has followed it is there already
        self.lives.pop(pe, None)
        self.begun.discard(pe)
        self.snapshots.pop(pe, None)
        self.wanted.add(pe)
        if self.asked is not None and self.asked[0] == pe:
            self.asked = None

    def ask(self, now: int) -> list[DirectorCommand]:
        """Of a copy that lives, a snapshot for those that wait for one."""
        if not self.wanted - set(self.snapshots) or not self.lives:
            return []
        if self.asked is not None and now - self.asked[1] < _ASK_AGAIN:
            return []
        donor = min(set(self.lives) - self.ended or self.lives)
        self.asked = (donor, now)
        return [SendToElement(donor, {OURS: {"snapshot": True}})]

    def took(self, id_: CheckpointId) -> None:
        if self.asked is not None and id_.pe == self.asked[0]:
            self.asked = None
            self.snapshots |= dict.fromkeys(self.wanted - set(self.snapshots), id_)

    def unneeded(self, ids: Iterable[CheckpointId]) -> list[DirectorCommand]:
        """Of the checkpoints of a copy, those that nobody is to begin with."""
        old = tuple(id_ for id_ in ids if id_ not in self.snapshots.values())
        return [Delete(old)] if old else []

    def state(self, pe: str, mute: Iterable[str]) -> str:
        if pe in self.lives:
            return "catching up" if pe in mute else "speaking"
        return "waiting" if pe in self.wanted else "down"


class FullDirector(Director):
    """Around the director of the run's protocol. Knows the copies from what elements are told of their surroundings."""

    def __init__(self, inner: Director, surroundings: Mapping[str, Surroundings]) -> None:
        self._inner = inner
        self._copies: dict[str, Copies] = {}
        for around in surroundings.values():
            if around.copies and around.copies[0] not in self._copies:
                comparison = DigestComparison(around.settings.get(SETTING, INTERVAL))
                self._copies |= dict.fromkeys(around.copies, Copies(around.copies, comparison=comparison))
        self._producer = {strand: pe for pe, around in surroundings.items() for strand in around.outputs}
        self._strands: dict[ChannelId, tuple[ChannelId, ...]] = {}
        self._channels: dict[ChannelId, ChannelId] = {}  # by strand
        alike: dict[tuple[str, str, int], list[ChannelId]] = {}
        for pe, around in surroundings.items():
            for channel, strands in around.strands.items():
                self._strands[channel] = strands
                self._channels |= dict.fromkeys(strands, channel)
                alike.setdefault((around.copies[0] if around.copies else pe, *channel[:2]), []).append(channel)
        self._alike = {channel: channels for channels in alike.values() for channel in channels}
        self._into = {pe: tuple(around.strands) for pe, around in surroundings.items()}
        self._had: dict[ChannelId, Delivered] = {}
        self._mute: set[ChannelId] = set()
        self._newest: dict[str, CheckpointId] = {}  # snapshots that copies took last
        self._now = self._since = 0

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[DirectorCommand]:
        return self._inner.begin(log)

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        copies = self._copies.get(pe)
        if copies is None:
            return self._inner.start_point(pe, epoch)
        return copies.start_point(pe, epoch, waited=bool(self._since) and self._now - self._since >= _GRACE)

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        ours: list[DirectorCommand] = []
        match event:
            case seam.FromElement(pe, epoch, message) if OURS in message:
                if pe in self._copies and self._copies[pe].lives.get(pe) != epoch:
                    return []  # it is declared dead, and has yet to die
                return self._heard(pe, message[OURS])
            case seam.Joined(pe, epoch, _, checkpoints) if pe in self._copies:
                self._forget(pe)
                if self._copies[pe].joined(pe, epoch):
                    self._mute |= {strand for strand in self._channels if self._producer[strand] == pe}
                return self._copies[pe].unneeded(checkpoints)
            case seam.Lost(pe, epoch) if pe in self._copies:
                self._copies[pe].lost(pe, epoch)
                self._forget(pe)
                ours = [*self._copies[pe].ask(self._now), *self._unheard()]
            case seam.CheckpointDurable(id_) if id_.pe in self._copies:
                before, self._newest[id_.pe] = self._newest.get(id_.pe), id_
                self._copies[id_.pe].took(id_)
                return [] if before is None else self._copies[id_.pe].unneeded([before])
            case seam.DirectorTick(now):
                self._now, self._since = now, self._since or now
                groups = {id(copies): copies for copies in self._copies.values()}
                ours = [command for copies in groups.values() for command in copies.ask(now)]
        return [*ours, *self._inner.handle(event)]

    def _forget(self, pe: str) -> None:
        """Of the life before nothing is known to hold. What it had had, the next one may lack: that begins where the
        snapshot of another copy was taken, which may have been behind it. So nothing is released until it says more.
        """
        self._mute = {strand for strand in self._mute if self._producer[strand] != pe}
        for channel in self._into[pe]:
            self._had.pop(channel, None)

    def _heard(self, pe: str, message: Mapping[str, Any]) -> list[DirectorCommand]:
        if "had" in message:
            return self._came([from_json(entry) for entry in message["had"]])
        if "digests" in message:
            return self._gave(pe, message["digests"])
        strand = ChannelId(*message["strand"])
        (self._mute.add if message["mute"] else self._mute.discard)(strand)
        return self._unheard()

    def _gave(self, pe: str, told: Mapping[str, Iterable[tuple[int, int]]]) -> list[DirectorCommand]:
        """Copies that are found to be wrong begin again, with the state of one that is not."""
        copies, commands = self._copies[pe], list[DirectorCommand]()
        for stream, digests in told.items():
            for wrong in copies.comparison.tell(pe, stream, dict(digests), copies.lives):
                if wrong in copies.lives and wrong not in copies.ended:
                    copies.ended.add(wrong)
                    commands.append(RestartElement(wrong))
        return commands

    def _came(self, told: Iterable[tuple[ChannelId, Delivered]]) -> list[DirectorCommand]:
        """Producers hear how far a consumer has come, and all copies of it."""
        entries: dict[str, list[Any]] = {}
        for channel, delivered in told:
            self._had[channel] = delivered
            by_all = min(self._had.get(other, Delivered()) for other in self._alike[channel])
            for strand in self._strands[channel]:
                entries.setdefault(self._producer[strand], []).append(
                    [as_json(strand, delivered), as_json(strand, by_all)]
                )
        return [SendToElement(producer, {OURS: {"had": one}}) for producer, one in entries.items()]

    def _unheard(self) -> list[DirectorCommand]:
        """Consumers that all copies which are left are mute to: one of them speaks."""
        found: list[DirectorCommand] = []
        for channel in dict.fromkeys(self._channels[strand] for strand in self._mute):
            living = [s for s in self._strands[channel] if self._lives(self._producer[s])]
            if living and all(strand in self._mute for strand in living):
                self._copies[self._producer[living[0]]].tainted += 1
                self._mute.discard(living[0])
                found.append(SendToElement(self._producer[living[0]], {OURS: {"speak": list(living[0])}}))
        return found

    def _lives(self, pe: str) -> bool:
        return pe not in self._copies or pe in self._copies[pe].lives

    def report(self) -> Mapping[str, Any]:
        mute = {self._producer[strand] for strand in self._mute}
        told = {
            copies.elements[0].replace("#1", "", 1): {
                "copies": [{"element": pe, "state": copies.state(pe, mute)} for pe in copies.elements],
                "restored": copies.restored,
                "tainted": copies.tainted,
                "differences": copies.comparison.differences,
            }
            for copies in {id(copies): copies for copies in self._copies.values()}.values()
        }
        return {**self._inner.report(), "copies": told}


# The protocol ---------------------------------------------------------------------------------------------------------


def copied(spec: ProtocolSpec) -> ProtocolSpec:
    """A protocol with copies around it."""
    return replace(spec, plan=partial(_plan, spec), machine=partial(_machine, spec), director=partial(_director, spec))


def _plan(spec: ProtocolSpec, surroundings: Surroundings) -> RestorePlan:
    """A copy is saved as a whole, when another one needs its state."""
    if not surroundings.copies:
        return spec.plan(surroundings)
    return RestorePlan({WHOLE: Unit(tuple(surroundings.operators))}, whole=True, exact=True, delivered="passed")


def _machine(spec: ProtocolSpec, surroundings: Surroundings, plan: RestorePlan) -> Protocol:
    return FullMachine(spec.machine(surroundings, plan))


def _director(spec: ProtocolSpec, surroundings: Mapping[str, Surroundings]) -> Director:
    return FullDirector(spec.director(surroundings), surroundings)
