"""Full replication: operators run in copies, every copy sends to every downstream copy, and duplicates are dropped.

A consumer accepts each item from the copy that delivers it first (`seen.py`). A producer, sources included, holds its
output until all copies of the consumer have processed it (`runtime/element/copy_output.py`): consumers report their
delivered positions, and the director forwards to the producers the position of one copy and of all its copies.

A restarted copy has lost its state. If it sent output, it would deliver wrong values under keys that consumers have not
seen. So it does not start before a healthy copy has taken a snapshot, and starts from that:

    lost ──► waiting, for a snapshot of another copy ──► catching up, mute ──► speaking

It sends to a consumer ("speaks") once that has reached the position of the snapshot. As every speaking copy holds all
items that the consumer has not processed, nothing is lost or duplicated under any crash that leaves one speaking copy
of every operator. If none is left, the first that recovers starts empty, with what producers still hold, and counts as
*tainted*; the others get their state from it. If all remaining copies are mute to a consumer, one sends all the same
and counts as tainted too.

Copies report digests of their output (`digests.py`); where a majority agrees, the others are restarted as if they had
failed. Sources and sinks run once, with the protection of the plan.

Fault model: that of a run. A director that crashes loses all of this; a new one waits for live copies to join before it
concludes that none is left. This wraps the protocol of the run: messages under "full" are handled here.
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
from riprap.replication.news import FIRST_EPOCH, ReportBuffer, as_json, from_json

OURS = "full"  # the key of messages between these machines and this director
SNAPSHOT = 1  # the tag of a checkpoint from which another copy is to start
_ASK_AGAIN = 2_000_000  # µs after which the request for a snapshot is repeated
_GRACE = 1_000_000  # µs that a new director waits for live copies to join


# In every element -----------------------------------------------------------------------------------------------------


class FullMachine(Protocol):
    """Wraps the machine of an element that runs in copies or has a producer in copies."""

    def __init__(self, inner: Protocol) -> None:
        super().__init__(inner.surroundings, inner.plan)
        self._inner = inner
        self._reports = ReportBuffer(OURS)
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
                return self._on_message(message[OURS])
            case DeliveredUpTo() | OutputDigested():
                self._reports.add(event)
                return []
            case Tick(now):
                commands = self._reports.due_messages(now)
        return [*commands, *(self._inner.handle(event) if type(event) in self._inner.subscriptions else ())]

    def _on_message(self, message: Mapping[str, Any]) -> list[Command]:
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
    """The copies of one element: which are running, and which wait for a snapshot."""

    elements: Sequence[str]
    epochs: dict[str, int] = field(default_factory=dict)  # of running copies
    starting: set[str] = field(default_factory=set)  # copies that know where to start and have not joined
    wanted: set[str] = field(default_factory=set)  # copies that need a snapshot to start from
    snapshots: dict[str, CheckpointId] = field(default_factory=dict)  # by copy that is to start from it
    asked: tuple[str, int] | None = None  # which copy was asked for one, and when
    restored: int = 0  # incarnations that started from the state of another copy
    tainted: int = 0  # how often state was lost because no copy was left
    ended: set[str] = field(default_factory=set)  # copies that were found to be wrong and are being restarted
    comparison: DigestComparison = field(default_factory=DigestComparison)

    def start_point(self, pe: str, epoch: int, waited: bool) -> StartPoint:
        if epoch == FIRST_EPOCH:
            return OWN_CHECKPOINT
        if pe in self.snapshots:
            self.starting.add(pe)
            return self.snapshots[pe]
        if self.epochs or self.starting - {pe} or not waited:
            self.wanted.add(pe)
            return None
        self.starting.add(pe)  # the others get their state from it
        self.tainted += 1
        self.comparison.pending = {}
        return NO_CHECKPOINT

    def joined(self, pe: str, epoch: int) -> bool:
        """Whether it started from a snapshot: then it reports itself when it starts to send."""
        self.epochs[pe] = epoch
        self.starting.discard(pe)
        self.wanted.discard(pe)
        self.ended.discard(pe)
        restored = self.snapshots.pop(pe, None) is not None
        self.restored += restored
        return restored

    def lost(self, pe: str, epoch: int) -> None:
        if self.epochs.get(pe, epoch) > epoch:
            return  # a newer incarnation is running
        self.epochs.pop(pe, None)
        self.starting.discard(pe)
        self.snapshots.pop(pe, None)
        self.wanted.add(pe)
        if self.asked is not None and self.asked[0] == pe:
            self.asked = None

    def ask(self, now: int) -> list[DirectorCommand]:
        """Request a snapshot from a running copy for those that wait for one."""
        if not self.wanted - set(self.snapshots) or not self.epochs:
            return []
        if self.asked is not None and now - self.asked[1] < _ASK_AGAIN:
            return []
        donor = min(set(self.epochs) - self.ended or self.epochs)
        self.asked = (donor, now)
        return [SendToElement(donor, {OURS: {"snapshot": True}})]

    def took(self, id_: CheckpointId) -> None:
        if self.asked is not None and id_.pe == self.asked[0]:
            self.asked = None
            self.snapshots |= dict.fromkeys(self.wanted - set(self.snapshots), id_)

    def unneeded(self, ids: Iterable[CheckpointId]) -> list[DirectorCommand]:
        """Delete the checkpoints of a copy from which no other is to start."""
        old = tuple(id_ for id_ in ids if id_ not in self.snapshots.values())
        return [Delete(old)] if old else []

    def state(self, pe: str, mute: Iterable[str]) -> str:
        if pe in self.epochs:
            return "catching up" if pe in mute else "speaking"
        return "waiting" if pe in self.wanted else "down"


class FullDirector(Director):
    """Wraps the director of the run's protocol. Derives the copies from the elements' surroundings."""

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
        siblings: dict[tuple[str, str, int], list[ChannelId]] = {}
        for pe, around in surroundings.items():
            for channel, strands in around.strands.items():
                self._strands[channel] = strands
                self._channels |= dict.fromkeys(strands, channel)
                siblings.setdefault((around.copies[0] if around.copies else pe, *channel[:2]), []).append(channel)
        self._siblings = {channel: channels for channels in siblings.values() for channel in channels}
        self._inputs = {pe: tuple(around.strands) for pe, around in surroundings.items()}
        self._delivered: dict[ChannelId, Delivered] = {}
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
                if pe in self._copies and self._copies[pe].epochs.get(pe) != epoch:
                    return []  # it was declared dead and has not noticed yet
                return self._on_message(pe, message[OURS])
            case seam.Joined(pe, epoch, _, checkpoints) if pe in self._copies:
                self._forget(pe)
                if self._copies[pe].joined(pe, epoch):
                    self._mute |= {strand for strand in self._channels if self._producer[strand] == pe}
                return self._copies[pe].unneeded(checkpoints)
            case seam.Lost(pe, epoch) if pe in self._copies:
                self._copies[pe].lost(pe, epoch)
                self._forget(pe)
                ours = [*self._copies[pe].ask(self._now), *self._unmute_one()]
            case seam.CheckpointDurable(id_) if id_.pe in self._copies:
                before, self._newest[id_.pe] = self._newest.get(id_.pe), id_
                self._copies[id_.pe].took(id_)
                return [] if before is None else self._copies[id_.pe].unneeded([before])
            case seam.DirectorTick(now):
                self._now, self._since = now, self._since or now
                groups = {id(copies): copies for copies in self._copies.values()}
                ours = [command for copies in groups.values() for command in copies.ask(now)]
        return [*ours, *self._inner.handle(event)]

    def validate(self) -> None:
        self._inner.validate()
        assert self._mute <= self._channels.keys(), f"mute, and no strands of copies: {self._mute}"

    def _forget(self, pe: str) -> None:
        """Forget the delivered positions of the previous incarnation. The next one starts from the snapshot of another
        copy, which may have been behind it. So nothing is released until it reports new positions.
        """
        self._mute = {strand for strand in self._mute if self._producer[strand] != pe}
        for channel in self._inputs[pe]:
            self._delivered.pop(channel, None)

    def _on_message(self, pe: str, message: Mapping[str, Any]) -> list[DirectorCommand]:
        if "had" in message:
            return self._forward_positions([from_json(entry) for entry in message["had"]])
        if "digests" in message:
            return self._compare_digests(pe, message["digests"])
        strand = ChannelId(*message["strand"])
        (self._mute.add if message["mute"] else self._mute.discard)(strand)
        return self._unmute_one()

    def _compare_digests(self, pe: str, by_stream: Mapping[str, Iterable[tuple[int, int]]]) -> list[DirectorCommand]:
        """Restart copies that are found to be wrong, with the state of a correct one."""
        copies, commands = self._copies[pe], list[DirectorCommand]()
        for stream, digests in by_stream.items():
            for wrong in copies.comparison.add(pe, stream, dict(digests), copies.epochs):
                if wrong in copies.epochs and wrong not in copies.ended:
                    copies.ended.add(wrong)
                    commands.append(RestartElement(wrong))
        return commands

    def _forward_positions(self, positions: Iterable[tuple[ChannelId, Delivered]]) -> list[DirectorCommand]:
        """Forward to producers the delivered position of a consumer, and that of all its copies."""
        entries: dict[str, list[Any]] = {}
        for channel, delivered in positions:
            self._delivered[channel] = delivered
            by_all = min(self._delivered.get(other, Delivered()) for other in self._siblings[channel])
            for strand in self._strands[channel]:
                entries.setdefault(self._producer[strand], []).append(
                    [as_json(strand, delivered), as_json(strand, by_all)]
                )
        return [SendToElement(producer, {OURS: {"had": pairs}}) for producer, pairs in entries.items()]

    def _unmute_one(self) -> list[DirectorCommand]:
        """Where all remaining copies are mute to a consumer, make one send."""
        found: list[DirectorCommand] = []
        for channel in dict.fromkeys(self._channels[strand] for strand in self._mute):
            living = [s for s in self._strands[channel] if self._is_alive(self._producer[s])]
            if living and all(strand in self._mute for strand in living):
                self._copies[self._producer[living[0]]].tainted += 1
                self._mute.discard(living[0])
                found.append(SendToElement(self._producer[living[0]], {OURS: {"speak": list(living[0])}}))
        return found

    def _is_alive(self, pe: str) -> bool:
        return pe not in self._copies or pe in self._copies[pe].epochs

    def report(self) -> Mapping[str, Any]:
        mute = {self._producer[strand] for strand in self._mute}
        reports = {
            copies.elements[0].replace("#1", "", 1): {
                "copies": [{"element": pe, "state": copies.state(pe, mute)} for pe in copies.elements],
                "restored": copies.restored,
                "tainted": copies.tainted,
                "differences": copies.comparison.differences,
            }
            for copies in {id(copies): copies for copies in self._copies.values()}.values()
        }
        return {**self._inner.report(), "copies": reports}


# The protocol ---------------------------------------------------------------------------------------------------------


def copied(spec: ProtocolSpec) -> ProtocolSpec:
    """The protocol, wrapped for copies."""
    return replace(spec, plan=partial(_plan, spec), machine=partial(_machine, spec), director=partial(_director, spec))


def _plan(spec: ProtocolSpec, surroundings: Surroundings) -> RestorePlan:
    """A copy takes a checkpoint of the whole element when another copy needs its state."""
    if not surroundings.copies:
        return spec.plan(surroundings)
    return RestorePlan({WHOLE: Unit(tuple(surroundings.operators))}, whole=True, exact=True, delivered="passed")


def _machine(spec: ProtocolSpec, surroundings: Surroundings, plan: RestorePlan) -> Protocol:
    return FullMachine(spec.machine(surroundings, plan))


def _director(spec: ProtocolSpec, surroundings: Mapping[str, Surroundings]) -> Director:
    return FullDirector(spec.director(surroundings), surroundings)
