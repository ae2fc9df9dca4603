"""High-availability groups: one replica of some operators is active, the others are on standby.

Every replica receives and processes all input. Only the edge elements of the active one send; the edges of a standby
*remember* what they would have sent since the consumers' delivered positions (`Delivered`: a key, which is valid for
every replica). When any element of the active replica is lost, the whole replica is deactivated and another one takes
over: it opens its own connections, learns the delivered position of each consumer, and continues from there. With
`plain` it starts with its next output, as published.

States of a replica, as the director sees them:

    down       some element is not running
    refilling  all are running, but one of them has lost state since the replica was last full
    full       it has the state that it would have without a fault

          all elements running                    its digest equals the active one's at one key,
                                                  or its memory has passed the restart
    down ───────────────────► refilling ──────────────────────────────────────────────────► full
      ▲                           │                                                          │
      └───────────────────────────┴──────────────────── an element is lost ──────────────────┘

Which replica is active: a full one, if any; else the current one, if it is whole; else the one that has been refilling
longest, and its output is *tainted*; else none. Each activation has a *term*, which only grows and is in the director's
log before it is announced. A consumer accepts items of its newest term and fences older ones. So it never accepts items
from two replicas at once, whatever is lost or late.

An element may notice before the director that it is *severed* from another element of its replica: its connection
broke, or a new incarnation sends, or items are missing. If it continued, it would emit wrong output under a term that
the consumer still accepts or, in a standby, under a term that is about to be assigned to it. So it parks that channel
until the director has answered and every edge of the replica has *obeyed*, that is, applied the newest order: an edge
that does not know yet that it is inactive would send the consumer a watermark past the missing items. It reports to the
director in any case: connections break without a process failure, and items in flight are then lost too. The same holds
for a connection from outside the group if the same incarnation of its producer reconnects: only this replica has lost
items. (If the producer failed, every replica has lost some, and a failover would not help.)

Fault model: that of a run. A director that crashes forgets which replicas were full, unless its log has it; replicas
whose elements kept running are full again when they join with the logged epochs.

This wraps the protocol of the run: messages under "ha" are handled here, all others are passed on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from riprap.graph.order_keys import END_KEY, START_KEY, TIMER, OrderKey
from riprap.protocols import director as seam
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut
from riprap.protocols.director import Command as DirectorCommand
from riprap.protocols.director import Director, Persist, SendToElement
from riprap.protocols.director import Event as DirectorEvent
from riprap.protocols.events import (
    Activate,
    Command,
    Deactivate,
    DeliveredUpTo,
    Event,
    FromDirector,
    Park,
    ProducerBack,
    ProducerGone,
    Release,
    RequestDigest,
    SendToDirector,
    StateDigested,
    Tick,
    Unpark,
)
from riprap.protocols.protocol import Membership, Protocol, ProtocolSpec, RestorePlan, Surroundings
from riprap.replication.news import FIRST_EPOCH, ReportBuffer, from_json

OURS = "ha"  # the key of messages between these machines and this director
NOBODY = -1
_ASK_EVERY = 200_000  # µs between requests for digests, while some replica refills
_ANSWER_WITHIN = 2_000_000  # µs: else the request is repeated
_WAITED = ("log", "remember", "copy")  # retentions without loss, whose channels the merge always waits for
_REPORT_AGAIN = 100_000  # µs after which a report of a broken connection is repeated without an answer
_NO_TUPLE = (TIMER, END_KEY.seq, 0)  # the rest of a requested key: of no source, so that no tuple can have it
_FIRST_MARGIN = 10_000  # µs of event time from the delivered position to the requested key


# In every element -----------------------------------------------------------------------------------------------------


class HaMachine(Protocol):
    """Wraps the machine of an element that is in a group or consumes the output of one."""

    def __init__(self, inner: Protocol) -> None:
        super().__init__(inner.surroundings, inner.plan)
        self._inner = inner
        self._fed = {c for c, n in self.surroundings.inputs.items() if n.retention == "remember"}
        self._plain = self.surroundings.settings.get("failover") == "plain"
        self._reports = ReportBuffer(OURS)
        self.term = 0
        self.active = False
        membership = self.surroundings.membership
        self._within = frozenset(membership.within) if membership is not None else frozenset()
        self._severed = False  # and the director has not confirmed it
        self._reported_at = 0
        self._outside = frozenset(  # inputs from outside its group that the merge does not wait for if they are down
            channel
            for channel, neighbour in self.surroundings.inputs.items()
            if membership is not None and channel not in self._within and neighbour.retention not in _WAITED
        )
        self._held: dict[ChannelId, ProducerGone | ProducerBack] = {}  # parked channels, until it has
        self._reported: set[ChannelId] = set()  # their gap was reported
        self.subscriptions = (
            inner.subscriptions | {FromDirector, StateDigested} | ({DeliveredUpTo, Tick} if self._fed else frozenset())
        )
        if self._within or self._outside:
            self.subscriptions |= {ProducerGone, ProducerBack, Tick}

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        return self._inner.begin(cut, now)

    def handle(self, event: Event) -> list[Command]:
        commands: Sequence[Command] = ()
        match event:
            case FromDirector(message) if OURS in message:
                return self._on_message(message[OURS])
            case DeliveredUpTo():
                self._reports.add(event)
                return []
            case StateDigested(key, digest):
                return [SendToDirector({OURS: {"digest": list(key), "is": digest}})]
            case ProducerBack(channel) if channel in self._reported:  # digests have to be requested behind the gap
                self._reported.discard(channel)
                self._severed = True
                commands = [SendToDirector({OURS: {"severed": str(channel)}})]
            case ProducerGone(channel) | ProducerBack(channel) if channel in self._within:
                return self._hold(channel, event)
            case ProducerBack(channel, _, True) if channel in self._outside:  # only this replica lost items
                return self._hold(channel, event)
            case Tick(now):
                commands = [*self._reports.due_messages(now), *self._report_again(now)]
        return [*commands, *self._through(event)]

    def _hold(self, channel: ChannelId, event: ProducerGone | ProducerBack) -> list[Command]:
        self._severed = True
        self._reported.add(channel)
        self._held[channel] = event  # also in a standby: it may be about to become active
        return [SendToDirector({OURS: {"severed": str(channel)}}), Park(channel)]

    def _through(self, event: Event) -> list[Command]:
        return self._inner.handle(event) if type(event) in self._inner.subscriptions else []

    def _report_again(self, now: int) -> list[Command]:
        if not self._severed or now - self._reported_at < _REPORT_AGAIN:
            return []
        self._reported_at = now
        return [SendToDirector({OURS: {"severed": ""}})]

    def _resume(self) -> list[Command]:
        """The director has confirmed the report, and all edges have applied its newest order."""
        held, self._held = self._held, {}
        gone = [command for event in held.values() if type(event) is ProducerGone for command in self._through(event)]
        return [*gone, *map(Unpark, held)]

    def _on_message(self, message: Mapping[str, Any]) -> list[Command]:
        membership = self.surroundings.membership
        if "digest" in message:
            return [RequestDigest(OrderKey(*message["digest"]))]
        if "had" in message:
            return [Release(*from_json(entry)) for entry in message["had"]]
        if "known" in message:
            self._severed = False
            return self._resume()
        if membership is None or not membership.edges:
            return []
        return [*self._apply_order(message, membership), SendToDirector({OURS: {"obeyed": self.term}})]

    def _apply_order(self, message: Mapping[str, Any], membership: Membership) -> list[Command]:
        if message["term"] <= self.term:
            return []
        self.term, self.active = message["term"], message["active"] == membership.replica
        if self.active:
            return [Activate(channel, self.term, self._plain) for channel in membership.edges]
        return [Deactivate(channel) for channel in membership.edges]

    @property
    def missed(self) -> Mapping[str, int]:
        return self._inner.missed

    def snapshot(self) -> bytes:
        return self._inner.snapshot()


# At the coordinator ---------------------------------------------------------------------------------------------------


@dataclass
class _Replica:
    """One replica, as the director knows it. An element that is in neither `epochs` nor `lost` has not joined yet."""

    elements: tuple[str, ...]
    full_at: dict[str, int]  # the epochs of its elements when it was last full
    epochs: dict[str, int] = field(default_factory=dict)  # of its running elements
    lost: set[str] = field(default_factory=set)
    since: int = 0  # when it last became whole
    asked_from: int | None = None  # event time: the first key that it answered for since
    obeyed: dict[str, int] = field(default_factory=dict)  # by edge: the last term that it applied
    severed: set[str] = field(default_factory=set)  # elements that wait for a confirmation

    def left(self, pe: str) -> None:
        """Forget an incarnation of an element."""
        self.epochs.pop(pe, None)
        self.obeyed.pop(pe, None)
        self.severed.discard(pe)

    @property
    def whole(self) -> bool:
        return len(self.epochs) == len(self.elements)

    @property
    def full(self) -> bool:
        return self.whole and self.epochs == self.full_at

    @property
    def presumed(self) -> bool:
        """It may be full: a new director does not know all elements yet."""
        return not self.lost and all(self.full_at.get(pe) == epoch for pe, epoch in self.epochs.items())

    @property
    def state(self) -> str:
        if not self.whole:
            return "down"
        return "full" if self.full else "refilling"


@dataclass
class _Failover:
    at: int  # µs of the wall clock: when the loss was noticed
    lost: str  # the element, or ""
    before: int
    after: int
    term: int
    tainted: bool
    resumed: dict[str, dict[str, int]] = field(default_factory=dict)  # by channel: the report of its new producer

    def as_json(self) -> dict[str, Any]:
        first = min((entry["at"] for entry in self.resumed.values()), default=None)
        return {
            "at": self.at,
            "lost": self.lost,
            "from": _numbered(self.before),
            "to": _numbered(self.after),
            "term": self.term,
            "tainted": self.tainted,
            "seconds": None if first is None else (first - self.at) / 1e6,
            "dropped": sum(entry["dropped"] for entry in self.resumed.values()),
            "doubled": sum(entry["doubled"] for entry in self.resumed.values()),
        }


class ReplicaGroup:
    """The replicas of one group, and which one is active. `memory`: µs of event time after which earlier input has left
    the state; None: unknown.
    """

    def __init__(
        self,
        name: str,
        replicas: Sequence[Sequence[str]],
        *,
        edges: frozenset[str],
        deterministic: bool,
        memory: int | None,
    ) -> None:
        self.name, self.edges, self.deterministic, self.memory = name, edges, deterministic, memory
        self.replicas = [_Replica(tuple(pes), dict.fromkeys(pes, FIRST_EPOCH)) for pes in replicas]
        self.term, self.active, self.tainted = 1, 0, False
        self.failovers: list[_Failover] = []
        self.asked: OrderKey | None = None
        self.asked_at = 0
        self.margin = _FIRST_MARGIN
        self.looked: tuple[int, int] | None = None  # time and delivered event time of the last request
        self.answers: dict[str, int | None] = {}  # by element: its digest at the requested key
        self.agreed: dict[int, OrderKey] = {}  # replicas whose state equalled a full one's at this key
        self.delivered: dict[ChannelId, Delivered] = {}  # by edge

    def of(self, pe: str) -> _Replica:
        return next(r for r in self.replicas if pe in r.elements)

    def recall(self, record: Mapping[str, Any]) -> None:
        """Restore from a record of an earlier director."""
        if "full" in record:
            self.replicas[record["full"]].full_at = dict(record["epochs"])
        else:
            self.term, self.active, self.tainted = record["term"], record["active"], record["tainted"]

    # Incarnations -----------------------------------------------------------------------------------------------------

    def joined(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        replica = self.of(pe)
        if replica.epochs.get(pe) == epoch:
            return [self._order(pe)]
        replica.lost.discard(pe)
        replica.left(pe)
        replica.epochs[pe] = epoch
        replica.since, replica.asked_from = now, None
        return [*self._settle(pe, now), self._order(pe)]

    def lost(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        replica = self.of(pe)
        if replica.epochs.get(pe, epoch) > epoch:
            return []  # a newer incarnation is running
        replica.left(pe)
        replica.lost.add(pe)
        self.agreed.pop(self.replicas.index(replica), None)
        return [*self._settle(pe, now), *self._known(replica)]

    def severed(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        """An element has missed input: a connection within its replica broke, with or without a process failure."""
        replica = self.of(pe)
        if replica.epochs.get(pe) != epoch:
            return []
        at = self.replicas.index(replica)
        before, replica.full_at, replica.since, replica.asked_from = replica.full_at, {}, now, None
        self.asked = None
        self.agreed.pop(at, None)
        orders: list[DirectorCommand] = []
        if at == self.active and ((chosen := self._chosen()) != at or not self.tainted):
            orders = self._activate(chosen, pe, now)
        replica.severed.add(pe)
        noted = [self._fullness(at)] if before else []  # it repeats the report until all edges have obeyed
        return [*noted, *orders, *self._known(replica)]

    def obeyed(self, pe: str, epoch: int, term: int) -> list[DirectorCommand]:
        """An edge has applied the order of this term."""
        replica = self.of(pe)
        if replica.epochs.get(pe) != epoch:
            return []
        replica.obeyed[pe] = term
        return self._known(replica)

    def _known(self, replica: _Replica) -> list[DirectorCommand]:
        """Confirm to severed elements once no other edge can send their output under an older term."""
        edges = self.edges.intersection(replica.elements) - replica.lost
        behind = {edge for edge in edges if replica.obeyed.get(edge, 0) < self.term}
        answered = sorted(pe for pe in replica.severed if behind <= {pe})  # it gets the order itself before this
        replica.severed.difference_update(answered)
        return [SendToElement(pe, {OURS: {"known": True}}) for pe in answered]

    def silent(self, pe: str, now: int) -> list[DirectorCommand]:
        """Fail over to a full replica, if any, although it is not known whether this one is lost."""
        replica = self.of(pe)
        others = [at for at, other in enumerate(self.replicas) if other is not replica and other.full]
        if self.active == NOBODY or self.replicas[self.active] is not replica or not others:
            return []
        return self._activate(others[0], pe, now)

    def _settle(self, pe: str, now: int) -> list[DirectorCommand]:
        """Fail over if another replica should be active."""
        chosen = self._chosen()
        return [] if chosen == self.active else self._activate(chosen, pe, now)

    def _chosen(self) -> int:
        replicas, active = self.replicas, self.active
        if active != NOBODY and (replicas[active].full or replicas[active].presumed):
            return active
        for at, replica in enumerate(replicas):
            if replica.full:
                return at
        if active != NOBODY and replicas[active].whole:
            return active
        whole = [at for at, replica in enumerate(replicas) if replica.whole]
        return min(whole, key=lambda at: replicas[at].since, default=NOBODY)

    def _activate(self, chosen: int, pe: str, now: int) -> list[DirectorCommand]:
        before, self.active, self.term = self.active, chosen, self.term + 1
        self.tainted = chosen != NOBODY and not self.replicas[chosen].full
        self.asked, self.agreed = None, {}
        self.failovers.append(_Failover(now, pe, before, chosen, self.term, self.tainted))
        record = {"group": self.name, "term": self.term, "active": chosen, "tainted": self.tainted}
        elements = [other for replica in self.replicas for other in replica.epochs]
        return [Persist({OURS: record}), *(self._order(other) for other in elements)]

    def _order(self, pe: str) -> SendToElement:
        return SendToElement(pe, {OURS: {"term": self.term, "active": self.active}})

    # Delivered positions of consumers ---------------------------------------------------------------------------------

    def delivered_up_to(self, channel: ChannelId, delivered: Delivered) -> list[DirectorCommand]:
        self.delivered[channel] = max(delivered, self.delivered.get(channel, delivered))
        commands: list[DirectorCommand] = []
        for at, key in list(self.agreed.items()):
            if all(other.key >= key for other in self.delivered.values()):
                del self.agreed[at]
                commands += self._filled(at)
        return commands

    def resumed(self, term: int, channel: str, counts: Mapping[str, int], now: int) -> None:
        for failover in self.failovers:
            if failover.term == term:
                failover.resumed.setdefault(
                    channel, {"at": now, "dropped": counts["dropped"], "doubled": counts["doubled"]}
                )

    # Refilling --------------------------------------------------------------------------------------------------------

    def ask(self, now: int) -> list[DirectorCommand]:
        """Request digests at a key that no replica has reached yet, while one refills."""
        filling = [replica for replica in self.replicas if replica.state == "refilling"]
        if not filling or not self.delivered or self.active == NOBODY or now - self.asked_at < _ASK_EVERY:
            return []
        too_near = any(digest is None for digest in self.answers.values())
        answered = len(self.answers) == sum(len(replica.elements) for replica in self._asked(filling))
        if self.asked is not None and not (too_near or answered) and now - self.asked_at < _ANSWER_WITHIN:
            return []
        if self.asked is not None and too_near:
            self.margin *= 4
        delivered_up_to = max(delivered.key.ts for delivered in self.delivered.values())
        if not START_KEY.ts < delivered_up_to < 1 << 62:
            return []  # nothing was delivered yet, or the streams have ended
        before, self.looked, self.asked_at = self.looked, (now, delivered_up_to), now
        moved = 0 if before is None else delivered_up_to - before[1]  # since the last request
        self.asked, self.answers = OrderKey(delivered_up_to + max(self.margin, 2 * moved), *_NO_TUPLE), {}
        pes = dict.fromkeys(pe for replica in self._asked(filling) for pe in replica.elements)
        return [SendToElement(pe, {OURS: {"digest": list(self.asked)}}) for pe in pes]

    def _asked(self, filling: Sequence[_Replica]) -> list[_Replica]:
        active = self.replicas[self.active]
        return [*filling, *(() if active in filling else (active,))]

    def answered(self, pe: str, key: OrderKey, digest: int | None) -> list[DirectorCommand]:
        if key != self.asked:
            return []
        self.answers[pe] = digest
        replica = self.of(pe)
        at = self.replicas.index(replica)
        digests = [self.answers.get(other, -1) for other in replica.elements]
        if replica.state != "refilling" or -1 in digests or None in digests:
            return [] if at != self.active else self._compare()
        replica.asked_from = key.ts if replica.asked_from is None else replica.asked_from
        if self.memory is not None and key.ts - replica.asked_from > self.memory:
            self.agreed.setdefault(at, key)
        return self._compare()

    def _compare(self) -> list[DirectorCommand]:
        """A replica whose digests equal a full one's is full once the consumers have reached that key.

        Until then it might not remember all undelivered items.
        """
        active = self.replicas[self.active] if self.active != NOBODY else None
        if active is None or not active.full or self.asked is None:
            return []
        for at, replica in enumerate(self.replicas):
            if replica.state == "refilling" and at not in self.agreed:
                pairs = zip(active.elements, replica.elements, strict=True)
                digests = [(self.answers.get(mine, -1), self.answers.get(other, -2)) for mine, other in pairs]
                if all(digest == other and digest is not None for digest, other in digests):
                    self.agreed[at] = self.asked
        return []

    def _filled(self, at: int) -> list[DirectorCommand]:
        replica = self.replicas[at]
        replica.full_at = dict(replica.epochs)
        if at == self.active:
            self.tainted = False
        return [self._fullness(at)]

    def _fullness(self, at: int) -> Persist:
        return Persist({OURS: {"group": self.name, "full": at, "epochs": self.replicas[at].full_at}})

    def report(self) -> dict[str, Any]:
        return {
            "active": _numbered(self.active),
            "term": self.term,
            "tainted": self.tainted,
            "deterministic": self.deterministic,
            "replicas": [{"elements": list(r.elements), "state": r.state} for r in self.replicas],
            "failovers": [failover.as_json() for failover in self.failovers],
        }


class HaDirector(Director):
    """Wraps the director of the run's protocol. Derives the groups from the elements' surroundings."""

    def __init__(self, inner: Director, surroundings: Mapping[str, Surroundings]) -> None:
        self._inner = inner
        self.groups = groups_of(surroundings)
        self._group = {pe: group for group in self.groups.values() for r in group.replicas for pe in r.elements}
        self._producers: dict[ChannelId, list[str]] = {}
        for pe, around in surroundings.items():
            for channel in around.membership.edges if around.membership is not None else ():
                self._producers.setdefault(channel, []).append(pe)
        self._now = 0

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[DirectorCommand]:
        for record in log:
            if OURS in record:
                self.groups[record[OURS]["group"]].recall(record[OURS])
        return self._inner.begin([record for record in log if OURS not in record])

    def handle(self, event: DirectorEvent) -> list[DirectorCommand]:
        match event:
            case seam.FromElement(pe, epoch, message) if OURS in message:
                return self._on_message(pe, epoch, message[OURS])
            case seam.Joined(pe, epoch) if pe in self._group:
                return [*self._group[pe].joined(pe, epoch, self._now), *self._inner.handle(event)]
            case seam.Lost(pe, epoch) if pe in self._group:
                return [*self._group[pe].lost(pe, epoch, self._now), *self._inner.handle(event)]
            case seam.Silent(pe) if pe in self._group:
                return self._group[pe].silent(pe, self._now)
            case seam.DirectorTick(now):
                self._now = now
                asked = [command for group in self.groups.values() for command in group.ask(now)]
                return [*asked, *self._inner.handle(event)]
        return self._inner.handle(event)

    def validate(self) -> None:
        self._inner.validate()
        for group in self.groups.values():
            assert group.term >= 1, f"{group.name}: term {group.term}"
            assert group.active < len(group.replicas), f"{group.name}: replica {group.active} is active"
            terms = [failover.term for failover in group.failovers]
            assert terms == sorted(set(terms)), f"{group.name}: two failovers under one term, {terms}"

    def _on_message(self, pe: str, epoch: int, message: Mapping[str, Any]) -> list[DirectorCommand]:
        commands: list[DirectorCommand] = []
        if "had" in message:
            by_producer: dict[str, list[Any]] = {}
            for entry in message["had"]:
                channel, delivered = from_json(entry)
                producers = self._producers.get(channel, ())
                for producer in producers:
                    by_producer.setdefault(producer, []).append(entry)
                if producers:
                    commands += self._group[producers[0]].delivered_up_to(channel, delivered)
            commands += [SendToElement(pe, {OURS: {"had": entries}}) for pe, entries in by_producer.items()]
        elif "digest" in message:
            commands = self._group[pe].answered(pe, OrderKey(*message["digest"]), message["is"])
        elif "severed" in message:
            commands = self._group[pe].severed(pe, epoch, self._now)
        elif "obeyed" in message:
            commands = self._group[pe].obeyed(pe, epoch, message["obeyed"])
        elif "resumed" in message:
            self._group[pe].resumed(message["resumed"], message["channel"], message, self._now)
        return commands

    def terms(self) -> Mapping[str, int]:
        return {pe: group.term for pe, group in self._group.items()}

    def report(self) -> Mapping[str, Any]:
        return {**self._inner.report(), "groups": {name: group.report() for name, group in self.groups.items()}}


def groups_of(surroundings: Mapping[str, Surroundings]) -> dict[str, ReplicaGroup]:
    """The groups of a run, from the surroundings of all elements."""
    elements: dict[str, dict[int, list[str]]] = {}
    memory: dict[str, list[int | None]] = {}
    deterministic: dict[str, bool] = {}
    edges = frozenset(pe for pe, around in surroundings.items() if around.membership and around.membership.edges)
    for pe, around in surroundings.items():
        if around.membership is not None:
            name, at = around.membership.group, around.membership.replica
            elements.setdefault(name, {}).setdefault(at, []).append(pe)
            facts = around.operators.values()
            memory.setdefault(name, []).extend(f.memory if f.stateful else 0 for f in facts)
            deterministic[name] = around.membership.deterministic
    return {
        name: ReplicaGroup(
            name,
            [replicas[at] for at in sorted(replicas)],
            edges=edges,
            deterministic=deterministic[name],
            memory=_longest(memory[name]),
        )
        for name, replicas in elements.items()
    }


def replicated(spec: ProtocolSpec) -> ProtocolSpec:
    """The protocol, wrapped for HA groups."""
    return replace(spec, machine=partial(_machine, spec), director=partial(_director, spec))


def _machine(spec: ProtocolSpec, surroundings: Surroundings, plan: RestorePlan) -> Protocol:
    return HaMachine(spec.machine(surroundings, plan))


def _director(spec: ProtocolSpec, surroundings: Mapping[str, Surroundings]) -> Director:
    return HaDirector(spec.director(surroundings), surroundings)


def _longest(memories: Sequence[int | None]) -> int | None:
    known = [memory for memory in memories if memory is not None]
    return max(known) if len(known) == len(memories) else None


def _numbered(replica: int) -> int | None:
    """Replica numbers for users, from 1."""
    return None if replica == NOBODY else replica + 1
