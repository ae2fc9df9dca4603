"""HA groups as pure machines: who is active, that terms rise, that a full replica is preferred, what is skipped."""

from random import Random

import numpy as np
import pytest

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.protocols.channels import ChannelId
from riprap.protocols.director import Director, DirectorTick, FromElement, Joined, Lost, Persist, SendToElement, Silent
from riprap.protocols.events import (
    Activate,
    Await,
    Deactivate,
    DeliveredUpTo,
    FromDirector,
    Park,
    ProducerBack,
    ProducerGone,
    Release,
    RequestDigest,
    SendToDirector,
    StateDigested,
    Unpark,
)
from riprap.protocols.events import Tick as ElementTick
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import Membership, Neighbour, OperatorFacts, Surroundings
from riprap.replication.ha import NOBODY, OURS, HaDirector, replicated

EDGE = ChannelId("B→C")
SECOND = 1_000_000
NAMES = ("A", "B")


def surroundings(replicas: int = 2, *, memory: int | None = None, deterministic: bool = True, failover: str = "smart"):
    """A→B in replicas, and behind them C."""
    pes = [f"{name}#{at + 1}" for at in range(replicas) for name in NAMES]
    settings = {"failover": failover}
    found = {}
    for at in range(replicas):
        for name in NAMES:
            edges = (EDGE,) if name == "B" else ()
            pe = f"{name}#{at + 1}"
            within = (ChannelId("A→B", at, at),) if name == "B" else ()
            found[pe] = Surroundings(
                pe, (*pes, "C"), {name: OperatorFacts(True, deterministic, True, None, memory)},
                {channel: Neighbour(f"A#{at + 1}", "B", "discard") for channel in within},
                {edge: Neighbour("C", "B", "remember") for edge in edges}, (), settings,
                membership=Membership("g", at, edges, deterministic, within),
            )  # fmt: skip
    facts = {"C": OperatorFacts(False, True, True, None)}
    found["C"] = Surroundings("C", (*pes, "C"), facts, {EDGE: Neighbour("B", "C", "remember")}, {}, (), settings)
    return found


class World:
    """A director with its log, and what elements believe."""

    def __init__(self, around):
        self.around, self.log, self.said = around, [], []
        self.epochs = dict.fromkeys(around, 0)
        self.alive: dict[str, int] = {}
        self.now = SECOND
        self.direct()

    def direct(self):
        self.director = HaDirector(Director(), self.around)
        self.take(self.director.begin(list(self.log)))
        self.tell(DirectorTick(self.now))
        for pe, epoch in self.alive.items():
            self.tell(Joined(pe, epoch, 0, {}))

    def take(self, commands):
        for command in commands:
            match command:
                case Persist(record):
                    self.log.append(record)
                case SendToElement(pe, message):
                    self.said.append((pe, message[OURS]))
        return commands

    def tell(self, event):
        return self.take(self.director.handle(event))

    def pass_time(self, micros=SECOND):
        self.now += micros
        return self.tell(DirectorTick(self.now))

    def join(self, *pes):
        for pe in pes:
            self.epochs[pe] += 1
            self.alive[pe] = self.epochs[pe]
            self.tell(Joined(pe, self.epochs[pe], 0, {}))

    def lose(self, pe):
        self.alive.pop(pe, None)
        self.tell(Lost(pe, self.epochs[pe]))

    @property
    def group(self):
        return self.director.groups["g"]


def started(**options) -> World:
    world = World(surroundings(**options))
    world.join(*(pe for pe in world.around if pe != "C"))
    return world


def had(world: World, ts: int) -> None:
    world.tell(FromElement("C", 1, {OURS: {"had": [[list(EDGE), [ts, 0, 0, 0], ALL]]}}))


def test_the_first_replica_is_active_from_the_beginning_and_everybody_is_told():
    world = started()
    assert (world.group.active, world.group.term) == (0, 1)
    assert {pe for pe, message in world.said if message == {"term": 1, "active": 0}} == {"A#1", "B#1", "A#2", "B#2"}


@pytest.mark.parametrize("victim", ["A#1", "B#1"])
def test_the_death_of_any_element_deactivates_its_whole_replica(victim):
    world = started()
    world.said = []
    world.lose(victim)
    assert (world.group.active, world.group.term, world.group.tainted) == (1, 2, False)
    assert world.log[-1] == {OURS: {"group": "g", "term": 2, "active": 1, "tainted": False}}
    survivor = {"A#1": "B#1", "B#1": "A#1"}[victim]
    assert (survivor, {"term": 2, "active": 1}) in world.said


def test_the_death_of_a_backup_changes_nothing():
    world = started()
    world.lose("A#2")
    assert (world.group.active, world.group.term) == (0, 1)


def test_a_replica_that_refills_is_not_promoted_while_a_full_one_lives():
    world = started(replicas=3)
    world.lose("A#2")
    world.join("A#2")
    world.lose("A#1")
    assert world.group.active == 2


def test_when_all_refill_the_fullest_is_in_charge_and_tainted():
    world = started(replicas=3)
    for pe in ("A#2", "A#3"):
        world.lose(pe)
        world.join(pe)
        world.pass_time()
    world.lose("B#1")
    assert (world.group.active, world.group.tainted) == (1, True)


def test_nobody_is_active_while_none_is_whole_and_the_first_that_is_takes_over():
    world = started()
    world.lose("A#1")
    world.lose("B#2")
    assert world.group.active == NOBODY
    world.join("B#2")
    assert (world.group.active, world.group.term, world.group.tainted) == (1, 4, True)


def test_equal_digests_make_full_once_the_consumer_has_come_to_their_key():
    world = started()
    world.lose("A#2")
    world.join("A#2")
    had(world, 5 * SECOND)
    key = world.pass_time()[0].message[OURS]["digest"]
    assert key[0] > 5 * SECOND
    assert key[1] < 0  # no source has that rank: merges of one source know its rows by their numbers alone
    for pe, digest in {"A#1": 1, "B#1": 2, "A#2": 1, "B#2": 2}.items():
        world.tell(FromElement(pe, 1, {OURS: {"digest": key, "is": digest}}))
    assert world.group.replicas[1].state == "refilling"
    had(world, key[0])
    assert world.group.replicas[1].state == "full"
    world.lose("A#1")
    assert (world.group.active, world.group.tainted) == (1, False)


@pytest.mark.parametrize("digests", [{"A#1": 1, "A#2": 3}, {"A#1": 1, "A#2": None}], ids=str)
def test_other_digests_do_not(digests):
    world = started()
    world.lose("A#2")
    world.join("A#2")
    had(world, 5 * SECOND)
    key = world.pass_time()[0].message[OURS]["digest"]
    for pe, digest in {"B#1": 2, "B#2": 2, **digests}.items():
        world.tell(FromElement(pe, 1, {OURS: {"digest": key, "is": digest}}))
    had(world, key[0] + SECOND)
    assert world.group.replicas[1].state == "refilling"


def test_without_determinism_a_replica_is_full_when_its_memory_has_passed():
    world = started(deterministic=False, memory=2 * SECOND)
    world.lose("A#2")
    world.join("A#2")
    asked: list[int] = []
    while world.group.replicas[1].state == "refilling":
        had(world, (5 + len(asked)) * SECOND)
        key = world.pass_time()[0].message[OURS]["digest"]
        asked.append(key[0])
        for pe, digest in {"A#1": 1, "B#1": 2, "A#2": 7, "B#2": 8}.items():
            world.tell(FromElement(pe, 1, {OURS: {"digest": key, "is": digest}}))
        assert world.group.replicas[1].state == "refilling", "the consumer has not come to that key"
        had(world, key[0])
    assert asked[-1] - asked[0] > 2 * SECOND


def test_a_silent_one_gives_way_and_may_speak_again():
    world = started()
    world.tell(Silent("A#1", 1))
    assert (world.group.active, world.group.term) == (1, 2)
    world.tell(Silent("A#1", 1))
    assert world.group.term == 2
    world.lose("A#2")
    assert (world.group.active, world.group.tainted) == (0, False)


def test_a_connection_that_breaks_within_the_active_replica_makes_another_one_active():
    world = started()
    world.said = []
    world.tell(FromElement("B#1", 1, {OURS: {"severed": "A→B"}}))
    assert (world.group.active, world.group.term, world.group.tainted) == (1, 2, False)
    assert world.group.replicas[0].state == "refilling"
    assert [message for pe, message in world.said if pe == "B#1"] == [{"term": 2, "active": 1}, {"known": True}]
    world.direct()
    assert world.group.replicas[0].state == "refilling", "the next director knows it too"
    world.said = []
    world.tell(FromElement("B#2", 1, {OURS: {"severed": "A→B"}}))
    assert (world.group.active, world.group.term, world.group.tainted) == (1, 3, True), "nobody else has more"
    assert [message for pe, message in world.said if pe == "B#2"] == [{"term": 3, "active": 1}, {"known": True}]


def test_who_was_severed_goes_on_when_the_edges_of_its_replica_have_heard_who_is_active():
    """Else an edge would give out, under the term that the consumer still takes, that nothing lies in the hole."""
    world = started()

    def heard(pe: str, epoch: int, **message) -> list:
        world.said = []
        world.tell(FromElement(pe, epoch, {OURS: message}))
        return [message for pe, message in world.said if pe == "A#1"]

    assert heard("A#1", 1, severed="S→A") == [{"term": 2, "active": 1}]
    assert heard("A#1", 1, severed="") == [], "B#1 may not have heard it"
    assert heard("B#2", 1, obeyed=2) == heard("B#1", 1, obeyed=1) == heard("B#1", 0, obeyed=2) == []
    assert heard("B#1", 1, obeyed=2) == [{"known": True}]
    assert heard("A#1", 1, severed="S→A") == [{"known": True}]
    world.direct()
    assert heard("A#1", 1, severed="S→A") == [], "a new director does not know who has heard what"
    world.lose("B#1")
    assert ("A#1", {"known": True}) in world.said, "who is dead gives nothing out"


def test_what_a_life_says_that_was_replaced_counts_for_nothing():
    world = started()
    world.lose("B#2")
    world.join("B#2")
    world.tell(FromElement("B#2", 1, {OURS: {"severed": "A→B"}}))
    world.tell(FromElement("B#1", 0, {OURS: {"severed": "A→B"}}))
    assert (world.group.active, world.group.term) == (0, 1)


def check(seed: int) -> None:
    """Deaths, returns, directors that die: terms rise, one is active, and a full one if there is one."""
    random = Random(seed)
    world = started(replicas=random.choice([2, 3]))
    pes = [pe for pe in world.around if pe != "C"]
    believed: dict[int, set[int]] = {}
    term = world.group.term
    for _ in range(random.randint(5, 60)):
        pe = random.choice(pes)
        match random.choice(["lose", "join", "silent", "director", "late", "time", "had", "severed"]):
            case "severed" if pe in world.alive:
                world.tell(FromElement(pe, world.epochs[pe], {OURS: {"severed": ""}}))
            case "lose" if pe in world.alive:
                world.lose(pe)
            case "join" if pe not in world.alive:
                world.join(pe)
            case "silent" if pe in world.alive:
                world.tell(Silent(pe, world.epochs[pe]))
            case "director":
                world.direct()
            case "late" if pe in world.alive and world.epochs[pe] > 1:
                world.tell(Lost(pe, world.epochs[pe] - 1))  # of a life that was replaced
            case "time":
                world.pass_time()
            case "had":
                had(world, world.now)
        group = world.group
        assert group.term >= term, "a term fell"
        term = group.term
        for _, message in world.said:
            if "term" in message:
                believed.setdefault(message["term"], set()).add(message["active"])
        full = [at for at, replica in enumerate(group.replicas) if replica.full]
        if full:
            assert group.active in full or group.replicas[group.active].presumed, "a full one lives and is not active"
        if group.active != NOBODY:
            replica = group.replicas[group.active]
            assert replica.whole or replica.presumed, "the active one is not whole"
            assert not replica.lost, "an element of the active one is lost"
    assert all(len(active) == 1 for active in believed.values()), "two were told to be active in one term"
    logged = [record[OURS]["term"] for record in world.log if "term" in record[OURS]]
    assert logged == sorted(set(logged)), "a term was logged twice"


def test_random_histories():
    for seed in range(300):
        check(seed)


# In an element --------------------------------------------------------------------------------------------------------


def machine(pe: str, **options):
    around = surroundings(**options)[pe]
    spec = replicated(PARTIAL)
    return spec.machine(around, spec.plan(around))


def said(**message):
    return FromDirector({OURS: message})


def test_the_edge_of_the_active_replica_sends_and_no_order_of_the_past_is_obeyed():
    first, second = machine("B#1"), machine("B#2", failover="plain")
    third, fourth = SendToDirector({OURS: {"obeyed": 3}}), SendToDirector({OURS: {"obeyed": 4}})
    assert first.handle(said(term=3, active=0)) == [Activate(EDGE, 3, False), third]
    assert second.handle(said(term=3, active=0)) == [Deactivate(EDGE), third]
    assert first.handle(said(term=4, active=1)) == [Deactivate(EDGE), fourth]
    assert second.handle(said(term=4, active=1)) == [Activate(EDGE, 4, True), fourth]
    assert second.handle(said(term=3, active=0)) == [fourth], "a new director has not heard it"
    assert machine("A#1").handle(said(term=3, active=0)) == []


def test_an_active_replica_takes_nothing_of_a_producer_that_it_was_severed_from_until_the_director_knows():
    edge, channel = machine("B#1"), ChannelId("A→B", 0, 0)
    severed = SendToDirector({OURS: {"severed": str(channel)}})
    edge.handle(said(term=1, active=0))
    assert edge.handle(ProducerGone(channel, 1)) == [severed, Park(channel)]
    assert edge.handle(ElementTick(SECOND)) == [SendToDirector({OURS: {"severed": ""}})], "it may not have been heard"
    assert edge.handle(ElementTick(SECOND + 1)) == []
    ordered = edge.handle(said(term=2, active=1))
    assert ordered == [Deactivate(EDGE), SendToDirector({OURS: {"obeyed": 2}})], "that may be from before it was told"
    assert edge.handle(said(known=True)) == [Await(channel, False), Unpark(channel)]
    assert edge.handle(ElementTick(2 * SECOND)) == []
    assert edge.handle(ProducerBack(channel, 2)) == [severed, Await(channel, True)], "only now the hole is known"


@pytest.mark.parametrize("active", [0, 1])
def test_a_new_life_or_a_hole_within_a_replica_is_told_though_nobody_was_seen_to_go(active):
    edge, channel = machine("B#1"), ChannelId("A→B", 0, 0)
    severed = SendToDirector({OURS: {"severed": str(channel)}})
    edge.handle(said(term=1, active=active))
    assert edge.handle(ProducerBack(channel, 2)) == [severed, Park(channel)], "a backup may be about to be active"
    assert edge.handle(said(known=True)) == [Unpark(channel)]
    assert edge.handle(ProducerBack(channel, 2)) == [severed]
    assert edge.handle(ProducerBack(channel, 3)) == [severed, Park(channel)]


def test_a_consumer_tells_how_far_it_has_come_and_edges_let_go_of_it():
    consumer, came = machine("C"), Delivered(OrderKey(5, 0, 7, 0), 2)
    assert consumer.handle(DeliveredUpTo(EDGE, came)) == []
    (told,) = consumer.handle(ElementTick(SECOND))
    assert isinstance(told, SendToDirector)
    assert consumer.handle(ElementTick(SECOND + 1)) == []
    assert machine("B#2").handle(FromDirector(told.message)) == [Release(EDGE, came)]


def test_digests_go_to_the_director():
    key = OrderKey(5, 0, 0, 0)
    assert machine("A#1").handle(said(digest=list(key))) == [RequestDigest(key)]
    assert machine("A#1").handle(StateDigested(key, 9)) == [SendToDirector({OURS: {"digest": [5, 0, 0, 0], "is": 9}})]


# Keys ----------------------------------------------------------------------------------------------------------------


def keys(*ts: int) -> Keys:
    zero = np.zeros(1, np.int64)
    return Keys(np.array(ts, np.int64), zero, np.zeros(len(ts), np.int64), zero)


def key(ts: int) -> OrderKey:
    return OrderKey(ts, 0, 0, 0)


def test_skipping_is_exact_however_items_are_cut_and_however_many_share_a_key():
    random = Random(1)
    for _ in range(500):
        stream = sorted(random.choices(range(12), k=random.randint(0, 25)))
        taken = random.randint(0, len(stream))
        came = Delivered()
        at = 0
        while at < taken:
            size = random.randint(1, taken - at)
            came = came.after(keys(*stream[at : at + size]), None)
            at += size
        skip, rest, at = Skip(came), [], 0
        while at < len(stream):
            size = random.randint(1, 6)
            part = stream[at : at + size]
            rest += part[skip.of(keys(*part)) :]
            at += size
        assert rest == stream[taken:]


def test_progress_counts_as_having_had_everything_up_to_it():
    came = Delivered().after(keys(1, 2), key(5))
    assert came == Delivered(key(5), ALL)
    assert Skip(came).of(keys(3, 5, 5, 6)) == 3
    assert came.after(keys(), key(4)) == came
    assert Delivered().after(keys(), None) == Delivered(START_KEY, 0)
