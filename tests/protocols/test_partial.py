"""Partial fault tolerance: who is waited for, what is let go of when, what is kept, and what comes back how."""

from itertools import pairwise

from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut, InletCut
from riprap.protocols.deadlines import LONGEST, SHARE, affordable
from riprap.protocols.director import CheckpointDurable, Delete, Joined
from riprap.protocols.events import (
    Acknowledge,
    Await,
    Deleted,
    Durable,
    Forget,
    Passed,
    ProducerBack,
    ProducerGone,
    TakeCheckpoint,
    Tick,
)
from riprap.protocols.partial import EVERY, PARTIAL, RETAINED, Partial, PartialDirector, plan
from riprap.protocols.protocol import WHOLE, Neighbour, OperatorFacts, Surroundings, Unit

IN, OUT = ChannelId("A→B"), ChannelId("B→C")
MS = 1_000


def machine(
    retention="discard", *, every=None, stateful=True, deterministic=True, kept="discard", off=False
) -> Partial:
    around = Surroundings(
        "B",
        ("A", "B", "C"),
        {"B": OperatorFacts(stateful, deterministic, True, every, checkpoint_off=off)},
        {IN: Neighbour("A", "B", retention)},
        {OUT: Neighbour("C", "B", kept)},
        (),
    )
    return Partial(around, plan(around))


def durable(unit: str, passed: int) -> Durable:
    cut = Cut(inlets={IN: InletCut(passed + 5, passed, 90, 70)})
    return Durable(CheckpointId("B", unit, 1, 1), cut, 0, forced=False)


def test_a_producer_that_is_down_is_not_waited_for_until_it_speaks():
    protocol = machine()
    assert protocol.handle(ProducerGone(IN, 1)) == [Await(IN, False)]
    assert protocol.handle(ProducerGone(IN, 1)) == []
    assert protocol.handle(ProducerBack(IN, 2)) == [Await(IN, True)]
    assert protocol.handle(ProducerBack(IN, 3)) == []


def test_a_persistent_stream_is_always_waited_for():
    assert machine("log").handle(ProducerGone(IN, 1)) == []


def test_what_is_held_is_let_go_of_when_it_has_left_the_operator():
    protocol = machine("hold")
    assert Passed in protocol.subscriptions
    assert protocol.handle(Passed(IN, next=9, left=4)) == [Acknowledge(IN, 4)]
    assert Passed not in machine("discard").subscriptions


def test_what_is_held_for_an_operator_that_is_saved_is_let_go_of_with_its_checkpoints():
    protocol = machine("hold", every=MS)
    assert Passed not in protocol.subscriptions
    assert protocol.handle(durable("B", 7)) == [Acknowledge(IN, 7)]


def test_logs_forget_what_no_checkpoint_needs():
    protocol = machine("log", every=MS)
    assert protocol.handle(durable(WHOLE, 7)) == []
    assert protocol.handle(Deleted(WHOLE, durable(WHOLE, 7).cut)) == [Forget(IN, 70)]


def test_checkpoints_come_at_multiples_of_the_interval_and_not_while_one_is_written():
    protocol = machine(every=100 * MS)
    assert protocol.handle(Tick(1_005 * MS)) == []
    assert protocol.handle(Tick(1_099 * MS)) == []
    assert protocol.handle(Tick(1_101 * MS)) == [TakeCheckpoint("B")]
    assert protocol.handle(Tick(1_150 * MS)) == []
    assert protocol.handle(Tick(1_200 * MS)) == []
    assert protocol.missed == {"B": 1}
    protocol.handle(durable("B", 7))
    assert protocol.handle(Tick(1_301 * MS)) == [TakeCheckpoint("B")]


def test_who_is_exact():
    assert machine("log").plan.exact
    assert machine("log").plan.units[WHOLE] == Unit(("B",), EVERY, paced=True), "saved without being asked to"
    assert machine("log", every=MS).plan.units[WHOLE] == Unit(("B",), MS)
    assert machine("log", off=True).plan.units == {}, "switched off"
    assert machine("log", stateful=False).plan.units[WHOLE].operators == ("B",)
    mixed = machine("log", deterministic=False)
    assert (mixed.plan.whole, mixed.plan.exact, mixed.plan.reason) == (True, False, "B is not deterministic")
    gaps = machine(every=MS)
    assert (gaps.plan.whole, set(gaps.plan.units)) == (False, {"B"})
    assert {machine("log").plan.delivered, gaps.plan.delivered} == {"passed"}


def test_what_nobody_gave_an_interval_is_saved_as_often_as_it_costs_little():
    intervals = [affordable(cost, EVERY) // EVERY for cost in (0, 20_000, 20_001, 70_000, 10**6, 10**9)]
    assert intervals == [1, 1, 2, 4, 64, LONGEST]
    protocol, begin = machine("log"), 64 * EVERY
    taken = []
    for now in range(begin, begin + 64 * EVERY, EVERY // 10):
        for command in protocol.handle(Tick(now)):
            assert command == TakeCheckpoint(WHOLE)
            taken.append(now - begin)
            saved = durable(WHOLE, 7)
            protocol.handle(saved._replace(cost=10 if now < begin + 20 * EVERY else 300_000))  # 15 s of 2 % of a core
    gaps = [(after - before) // EVERY for before, after in pairwise(taken)]
    assert gaps[:18] == [1] * 18
    assert gaps[-1] == 16
    assert 300_000 / (gaps[-1] * EVERY) < SHARE


def test_the_director_keeps_the_newest_of_each_unit():
    director = PARTIAL.director({})
    assert isinstance(director, PartialDirector)
    ids = [CheckpointId("B", "B", 1, number) for number in range(1, RETAINED + 3)]
    found = director.handle(Joined("B", 2, 0, {id_: Cut() for id_ in ids[:RETAINED]}))
    assert found == []
    for old, new in zip(ids, ids[RETAINED:], strict=False):
        assert director.handle(CheckpointDurable(new, Cut(), 0, 0, False, 10, 5)) == [Delete((old,))]
    assert director.handle(CheckpointDurable(CheckpointId("C", "B", 1, 1), Cut(), 0, 0, False, 10, 5)) == []
