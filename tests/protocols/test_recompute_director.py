"""The director of recompute: what somebody behind may need stays, and nothing else."""

from dataclasses import replace
from random import Random

import pytest

from riprap.apps.bargain_discovery import build
from riprap.base.errors import UsageError
from riprap.protocols import recompute
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut, InletCut
from riprap.protocols.director import CheckpointDurable, Delete, Joined
from riprap.protocols.events import Deleted, Durable, Forget, TakeCheckpoint, Tick
from riprap.protocols.protocol import WHOLE, Neighbour, OperatorFacts, Surroundings
from riprap.runtime.layout import arrange

FACTS = OperatorFacts(stateful=True, deterministic=True, tolerates_loss=True, checkpoint_every=None)
AB, BC, CD = (ChannelId(name) for name in ("A→B", "B→C", "C→D"))


def chain(retention: str = "recompute") -> dict[str, Surroundings]:
    """A → B → C → D, the first stream logged."""
    kinds = {AB: "log", BC: retention, CD: retention}
    ends = {AB: ("A", "B"), BC: ("B", "C"), CD: ("C", "D")}
    return {
        pe: Surroundings(
            pe,
            tuple("ABCD"),
            {pe: FACTS},
            {c: Neighbour(a, pe, kinds[c]) for c, (a, b) in ends.items() if b == pe},
            {c: Neighbour(b, pe, kinds[c]) for c, (a, b) in ends.items() if a == pe},
            ("A",) if pe == "A" else (),
        )
        for pe in "ABCD"
    }


def cut(inlets: dict[ChannelId, int], sent: dict[ChannelId, int]) -> Cut:
    return Cut(inlets={c: InletCut(n, n, n, n) for c, n in inlets.items()}, sent=sent)


def test_whatever_may_be_recomputed_from_stays():
    """Random chains of checkpoints: each that is kept of a consumer can be served by two of its producer."""
    for seed in range(12):
        random = Random(seed)
        director = recompute.RecomputeDirector(chain())
        at = dict.fromkeys((AB, BC, CD), 0)
        kept: dict[str, dict[CheckpointId, Cut]] = {pe: {} for pe in "ABCD"}
        deleted = dict.fromkeys("ABCD", 0)
        for number in range(1, 300):
            at[AB] += random.randint(0, 9)
            at[BC] = random.randint(at[BC], at[AB])
            at[CD] = random.randint(at[CD], at[BC])
            pe = random.choice("ABBBCCD")
            taken = {
                "A": cut({}, {AB: at[AB]}),
                "B": cut({AB: at[BC]}, {BC: at[BC]}),
                "C": cut({BC: at[CD]}, {CD: at[CD]}),
                "D": cut({CD: at[CD]}, {}),
            }[pe]
            id_ = CheckpointId(pe, WHOLE, 1, number)
            kept[pe][id_] = taken
            for command in director.handle(CheckpointDurable(id_, taken, 0, 0, False, 1, 1)):
                assert isinstance(command, Delete)
                for one in command.ids:
                    del kept[one.pe][one]
                    deleted[one.pe] += 1
            for producer, consumer, channel in (("B", "C", BC), ("C", "D", CD)):
                for one in kept[consumer].values():
                    serving = [c for c in kept[producer].values() if recompute.serves(c, one, [channel])]
                    assert len(serving) >= 2 or not deleted[producer], (seed, number)
                few = len(kept[consumer]) < recompute.RETAINED
                assert not (few and deleted[producer]), "a consumer with few checkpoints may begin afresh"
        assert all(deleted[pe] > 10 for pe in "ABCD"), deleted
        assert all(len(found) < 60 for found in kept.values())


def test_a_new_director_deletes_nothing_before_it_has_heard_of_everybody():
    director = recompute.RecomputeDirector(chain())
    many = {CheckpointId("C", WHOLE, 1, n): cut({BC: n}, {CD: n}) for n in range(10)}
    assert director.handle(Joined("C", 2, 0, many)) == []
    few = {CheckpointId("D", WHOLE, 1, n): cut({CD: 9}, {}) for n in range(3)}
    (delete,) = director.handle(Joined("D", 1, 0, few))
    assert isinstance(delete, Delete)
    assert [id_.number for id_ in delete.ids] == list(range(7))


def test_a_checkpoint_at_each_deadline_and_logs_behind_the_oldest():
    around = chain()["B"]
    machine = recompute.Recompute(around, recompute.plan(around))
    assert machine.handle(Tick(100)) == []
    assert machine.handle(Tick(1_000_000)) == [TakeCheckpoint(WHOLE)]
    assert machine.handle(Tick(2_000_000)) == []  # the first is not on disk yet
    machine.handle(Durable(CheckpointId("B", WHOLE, 1, 1), cut({AB: 5}, {BC: 5}), 0, False))
    assert machine.handle(Tick(3_000_000)) == [TakeCheckpoint(WHOLE)]
    assert machine.handle(Deleted(WHOLE, cut({AB: 7}, {BC: 7}))) == [Forget(AB, 7)]


def test_what_cannot_be_repeated_is_refused():
    around = chain()["B"]
    assert recompute.refuses(around) == ""
    dice = replace(around, operators={"Dice": replace(FACTS, deterministic=False)})
    assert "Dice is not deterministic" in recompute.refuses(dice)
    graph = build()
    assert {link.recovery for link in arrange(graph, "none", None, recompute.SPEC).links} == {"recompute"}
    with pytest.raises(UsageError, match="no dice"):
        arrange(graph, "none", None, replace(recompute.SPEC, refuses=lambda surroundings: "no dice"))
