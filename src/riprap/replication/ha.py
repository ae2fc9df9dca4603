"""High-availability groups: one replica of some operators is active, the others are ready to take its place.

Every replica is fed and works. Only the edge of the active one sends; a backup's edge *remembers* what it would have
sent, back to what the consumers have had (`Delivered`: a key, which means the same to every replica). When any element
of the
active replica is lost, the whole of it is deactivated and another one takes over: it opens its own connections, hears
from each consumer how far that has come, and goes on from there. With `plain` it begins with what it gives out next, as
published.

States of a replica, as the director sees them:

    down       an element of it is not there
    refilling  all are, but one of them has lost state since the replica was last full
    full       it has the state that it would have had without a fault

          all elements there                      its digest is the active one's at one key,
                                                  or its memory has passed the restart
    down ───────────────────► refilling ──────────────────────────────────────────────────► full
      ▲                           │                                                          │
      └───────────────────────────┴──────────────────── an element is lost ──────────────────┘

Who is active: a full replica, if there is one; else the one that is active, if it is whole; else the one that has been
refilling longest, and what it gives out is *tainted*; else nobody. Each activation has a *term*, which only rises, and
is in the director's log before anybody hears of it. A consumer takes items of a term and of none before it. So
whatever is lost or late, it never listens to two replicas: who still believes to be active is turned away.

An element may notice sooner than the director that it is *severed* from another one of its replica: its connection
broke, or a new life speaks, or items are missing. Were it to go on, what it gives out would be wrong under a term that
the consumer still takes, or, in a backup, under one that is on its way to it. So it takes nothing more on that channel,
and waits for it, until the director has spoken, and every edge of the replica has *obeyed*: one that had yet to hear
that it is not active any more would promise the consumer what lies in the hole. It tells the director in any case:
connections break though nobody dies, and what was on its way is lost then too. The same holds for a connection from
outside the group, when the same life of its producer speaks again: that has lost something on its way to this replica
alone. (Of one that died every replica has lost something, and none can take over from the others for that.)

Fault model: that of a run. A director that dies forgets who was full, unless it is in its log; replicas whose elements
live on are full again when they join with the epochs that are there.

This surrounds the protocol of the run: what is said under "ha" is ours, everything else goes through.
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
from riprap.replication.news import FIRST_EPOCH, News, from_json

OURS = "ha"  # marks what is said between these machines and this director
NOBODY = -1
_ASK_EVERY = 200_000  # µs: for digests, while some replica refills
_ANSWER_WITHIN = 2_000_000  # µs: else it is asked again
_WAITED = ("log", "remember", "copy")  # retentions of channels on which nothing is lost, and everybody waits
_TELL_AGAIN = 100_000  # µs: that a connection within a replica broke, if nobody has answered
_NO_TUPLE = (TIMER, END_KEY.seq, 0)  # rest of the key that is asked about: of no source, or it were taken for a tuple's
_FIRST_MARGIN = 10_000  # µs of event time from what consumers have had to the key that is asked about


# In every element -----------------------------------------------------------------------------------------------------


class HaMachine(Protocol):
    """Around the machine of one life of an element that is in a group, or is fed by one."""

    def __init__(self, inner: Protocol) -> None:
        super().__init__(inner.surroundings, inner.plan)
        self._inner = inner
        self._fed = {c for c, n in self.surroundings.inputs.items() if n.retention == "remember"}
        self._plain = self.surroundings.settings.get("failover") == "plain"
        self._news = News(OURS)
        self.term = 0
        self.active = False
        membership = self.surroundings.membership
        self._within = frozenset(membership.within) if membership is not None else frozenset()
        self._severed = False  # and the director has not said that it knows
        self._told_at = 0
        self._outside = frozenset(  # from outside its group, and not waited for while its producer is down
            channel
            for channel, neighbour in self.surroundings.inputs.items()
            if membership is not None and channel not in self._within and neighbour.retention not in _WAITED
        )
        self._held: dict[ChannelId, ProducerGone | ProducerBack] = {}  # on which nothing is taken until it has
        self._away: set[ChannelId] = set()  # what comes on them next was told of
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
                return self._told(message[OURS])
            case DeliveredUpTo():
                self._news.hear(event)
                return []
            case StateDigested(key, digest):
                return [SendToDirector({OURS: {"digest": list(key), "is": digest}})]
            case ProducerBack(channel) if channel in self._away:  # what is asked about has to lie behind the hole
                self._away.discard(channel)
                self._severed = True
                commands = [SendToDirector({OURS: {"severed": str(channel)}})]
            case ProducerGone(channel) | ProducerBack(channel) if channel in self._within:
                return self._hold(channel, event)
            case ProducerBack(channel, _, True) if channel in self._outside:  # of all replicas this one alone missed it
                return self._hold(channel, event)
            case Tick(now):
                commands = [*self._news.tell(now), *self._tell_again(now)]
        return [*commands, *self._through(event)]

    def _hold(self, channel: ChannelId, event: ProducerGone | ProducerBack) -> list[Command]:
        self._severed = True
        self._away.add(channel)
        self._held[channel] = event  # also in a backup: it may be about to hear that it is active
        return [SendToDirector({OURS: {"severed": str(channel)}}), Park(channel)]

    def _through(self, event: Event) -> list[Command]:
        return self._inner.handle(event) if type(event) in self._inner.subscriptions else []

    def _tell_again(self, now: int) -> list[Command]:
        if not self._severed or now - self._told_at < _TELL_AGAIN:
            return []
        self._told_at = now
        return [SendToDirector({OURS: {"severed": ""}})]

    def _go_on(self) -> list[Command]:
        """The director knows: who is active now, it has said, and edges have heard it."""
        held, self._held = self._held, {}
        gone = [command for event in held.values() if type(event) is ProducerGone for command in self._through(event)]
        return [*gone, *map(Unpark, held)]

    def _told(self, message: Mapping[str, Any]) -> list[Command]:
        membership = self.surroundings.membership
        if "digest" in message:
            return [RequestDigest(OrderKey(*message["digest"]))]
        if "had" in message:
            return [Release(*from_json(entry)) for entry in message["had"]]
        if "known" in message:
            self._severed = False
            return self._go_on()
        if membership is None or not membership.edges:
            return []
        return [*self._obey(message, membership), SendToDirector({OURS: {"obeyed": self.term}})]

    def _obey(self, message: Mapping[str, Any], membership: Membership) -> list[Command]:
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
    """One replica, as the director knows it. An element that is in none of `lives` and `lost` was not heard of yet."""

    elements: tuple[str, ...]
    full_at: dict[str, int]  # the epochs of its elements when it was last full
    lives: dict[str, int] = field(default_factory=dict)  # epochs of those that are there
    lost: set[str] = field(default_factory=set)
    since: int = 0  # when it was last whole again
    asked_from: int | None = None  # event time: the first key that it answered for since
    obeyed: dict[str, int] = field(default_factory=dict)  # terms that its edges have heard
    severed: set[str] = field(default_factory=set)  # those that wait to hear that this is known

    def left(self, pe: str) -> None:
        """What is known of a life of an element is over."""
        self.lives.pop(pe, None)
        self.obeyed.pop(pe, None)
        self.severed.discard(pe)

    @property
    def whole(self) -> bool:
        return len(self.lives) == len(self.elements)

    @property
    def full(self) -> bool:
        return self.whole and self.lives == self.full_at

    @property
    def presumed(self) -> bool:
        """Nothing speaks against it: as a director begins, it has not heard of everybody."""
        return not self.lost and all(self.full_at.get(pe) == epoch for pe, epoch in self.lives.items())

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
    resumed: dict[str, dict[str, int]] = field(default_factory=dict)  # by channel, what its new producer tells

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
    """The replicas of one group: who is active, who may be. `memory`: µs of event time after which it has forgotten all
    that came before; None: not known.
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
        self.looked: tuple[int, int] | None = None  # when, and how far consumers had come then
        self.answers: dict[str, int | None] = {}  # digests at the key that was asked about, by element
        self.agreed: dict[int, OrderKey] = {}  # replicas that have had the state of a full one at this key
        self.delivered: dict[ChannelId, Delivered] = {}  # by edge

    def of(self, pe: str) -> _Replica:
        return next(r for r in self.replicas if pe in r.elements)

    def recall(self, record: Mapping[str, Any]) -> None:
        """What a director before this one has logged."""
        if "full" in record:
            self.replicas[record["full"]].full_at = dict(record["epochs"])
        else:
            self.term, self.active, self.tainted = record["term"], record["active"], record["tainted"]

    # Lives ------------------------------------------------------------------------------------------------------------

    def joined(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        replica = self.of(pe)
        if replica.lives.get(pe) == epoch:
            return [self._order(pe)]
        replica.lost.discard(pe)
        replica.left(pe)
        replica.lives[pe] = epoch
        replica.since, replica.asked_from = now, None
        return [*self._settle(pe, now), self._order(pe)]

    def lost(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        replica = self.of(pe)
        if replica.lives.get(pe, epoch) > epoch:
            return []  # a life that has followed it is there already
        replica.left(pe)
        replica.lost.add(pe)
        self.agreed.pop(self.replicas.index(replica), None)
        return [*self._settle(pe, now), *self._known(replica)]

    def severed(self, pe: str, epoch: int, now: int) -> list[DirectorCommand]:
        """An element has had less than it should have: a connection within its replica broke, whoever lives on."""
        replica = self.of(pe)
        if replica.lives.get(pe) != epoch:
            return []
        at = self.replicas.index(replica)
        before, replica.full_at, replica.since, replica.asked_from = replica.full_at, {}, now, None
        self.asked = None
        self.agreed.pop(at, None)
        orders: list[DirectorCommand] = []
        if at == self.active and ((chosen := self._chosen()) != at or not self.tainted):
            orders = self._activate(chosen, pe, now)
        replica.severed.add(pe)
        noted = [self._fullness(at)] if before else []  # it says so again until all edges have obeyed
        return [*noted, *orders, *self._known(replica)]

    def obeyed(self, pe: str, epoch: int, term: int) -> list[DirectorCommand]:
        """An edge has heard who is active in this term."""
        replica = self.of(pe)
        if replica.lives.get(pe) != epoch:
            return []
        replica.obeyed[pe] = term
        return self._known(replica)

    def _known(self, replica: _Replica) -> list[DirectorCommand]:
        """To those that were severed, when no other edge can take what they give out then for that of an older term."""
        edges = self.edges.intersection(replica.elements) - replica.lost
        behind = {edge for edge in edges if replica.obeyed.get(edge, 0) < self.term}
        told = sorted(pe for pe in replica.severed if behind <= {pe})  # itself, it hears the order before this
        replica.severed.difference_update(told)
        return [SendToElement(pe, {OURS: {"known": True}}) for pe in told]

    def silent(self, pe: str, now: int) -> list[DirectorCommand]:
        """Another one takes over if it can; whether this one is lost is not known."""
        replica = self.of(pe)
        others = [at for at, other in enumerate(self.replicas) if other is not replica and other.full]
        if self.active == NOBODY or self.replicas[self.active] is not replica or not others:
            return []
        return self._activate(others[0], pe, now)

    def _settle(self, pe: str, now: int) -> list[DirectorCommand]:
        """Whoever should be active is."""
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
        told = [other for replica in self.replicas for other in replica.lives]
        return [Persist({OURS: record}), *(self._order(other) for other in told)]

    def _order(self, pe: str) -> SendToElement:
        return SendToElement(pe, {OURS: {"term": self.term, "active": self.active}})

    # What consumers have had ------------------------------------------------------------------------------------------

    def came(self, channel: ChannelId, delivered: Delivered) -> list[DirectorCommand]:
        self.delivered[channel] = max(delivered, self.delivered.get(channel, delivered))
        commands: list[DirectorCommand] = []
        for at, key in list(self.agreed.items()):
            if all(other.key >= key for other in self.delivered.values()):
                del self.agreed[at]
                commands += self._filled(at)
        return commands

    def resumed(self, term: int, channel: str, told: Mapping[str, int], now: int) -> None:
        for failover in self.failovers:
            if failover.term == term:
                failover.resumed.setdefault(
                    channel, {"at": now, "dropped": told["dropped"], "doubled": told["doubled"]}
                )

    # Refilling --------------------------------------------------------------------------------------------------------

    def ask(self, now: int) -> list[DirectorCommand]:
        """For digests at a key that nobody has come to yet, while somebody refills."""
        filling = [replica for replica in self.replicas if replica.state == "refilling"]
        if not filling or not self.delivered or self.active == NOBODY or now - self.asked_at < _ASK_EVERY:
            return []
        too_near = any(digest is None for digest in self.answers.values())
        answered = len(self.answers) == sum(len(replica.elements) for replica in self._asked(filling))
        if self.asked is not None and not (too_near or answered) and now - self.asked_at < _ANSWER_WITHIN:
            return []
        if self.asked is not None and too_near:
            self.margin *= 4
        came = max(delivered.key.ts for delivered in self.delivered.values())
        if not START_KEY.ts < came < 1 << 62:
            return []  # nothing has come yet, or the streams have ended
        before, self.looked, self.asked_at = self.looked, (now, came), now
        moved = 0 if before is None else came - before[1]  # in the time between two looks
        self.asked, self.answers = OrderKey(came + max(self.margin, 2 * moved), *_NO_TUPLE), {}
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
        """A replica that is equal to a full one is full, once the consumers have come to that key.

        Until then it might not remember all that they have not had.
        """
        active = self.replicas[self.active] if self.active != NOBODY else None
        if active is None or not active.full or self.asked is None:
            return []
        for at, replica in enumerate(self.replicas):
            if replica.state == "refilling" and at not in self.agreed:
                pairs = zip(active.elements, replica.elements, strict=True)
                digests = [(self.answers.get(one, -1), self.answers.get(other, -2)) for one, other in pairs]
                if all(one == other and one is not None for one, other in digests):
                    self.agreed[at] = self.asked
        return []

    def _filled(self, at: int) -> list[DirectorCommand]:
        replica = self.replicas[at]
        replica.full_at = dict(replica.lives)
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
    """Around the director of the run's protocol. Knows the groups from what elements are told of their surroundings."""

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
                return self._heard(pe, epoch, message[OURS])
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

    def _heard(self, pe: str, epoch: int, message: Mapping[str, Any]) -> list[DirectorCommand]:
        commands: list[DirectorCommand] = []
        if "had" in message:
            told: dict[str, list[Any]] = {}
            for entry in message["had"]:
                channel, delivered = from_json(entry)
                producers = self._producers.get(channel, ())
                for producer in producers:
                    told.setdefault(producer, []).append(entry)
                if producers:
                    commands += self._group[producers[0]].came(channel, delivered)
            commands += [SendToElement(producer, {OURS: {"had": entries}}) for producer, entries in told.items()]
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
    """The groups of a run, from what every element is told."""
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
    """A protocol with groups around it."""
    return replace(spec, machine=partial(_machine, spec), director=partial(_director, spec))


def _machine(spec: ProtocolSpec, surroundings: Surroundings, plan: RestorePlan) -> Protocol:
    return HaMachine(spec.machine(surroundings, plan))


def _director(spec: ProtocolSpec, surroundings: Mapping[str, Surroundings]) -> Director:
    return HaDirector(spec.director(surroundings), surroundings)


def _longest(memories: Sequence[int | None]) -> int | None:
    known = [memory for memory in memories if memory is not None]
    return max(known) if len(known) == len(memories) else None


def _numbered(replica: int) -> int | None:
    """As users count them: from 1."""
    return None if replica == NOBODY else replica + 1
