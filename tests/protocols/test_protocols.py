"""Protocols in a small world under crashes, broken connections and dying directors: nothing lost, nothing twice."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.protocols.world import World

from riprap.protocols import coordinated, induced, unaligned, uncoordinated
from riprap.protocols import director as d
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut, InletCut
from riprap.protocols.protocol import WHOLE
from riprap.protocols.registry import protocol

EXACT = {
    "coordinated": coordinated.SPEC,
    "unaligned": unaligned.SPEC,
    "uncoordinated": uncoordinated.SPEC,
    "induced": induced.SPEC,
}
SETTINGS = {"interval": 150_000, "timeout": 900_000}


def graph(seed, *, cyclic):
    """Random edges from lower to higher numbers, and some back; (edges, sources)."""
    generator = np.random.default_rng([seed, 1])
    n = int(generator.integers(3, 7))
    edges = {(int(generator.integers(0, b)), b) for b in range(1, n)}
    for _ in range(int(generator.integers(0, n))):
        a, b = sorted(generator.choice(n, 2, replace=False).tolist())
        edges.add((a, b))
    back = set()
    if cyclic:
        forward = sorted(edges)
        for _ in range(int(generator.integers(1, 3))):
            a, b = forward[int(generator.integers(len(forward)))]
            back.add((b, a))
    sources = {0, *(int(s) for s in generator.choice(n - 1, 2))}
    named = [(f"e{a}", f"e{b}", False) for a, b in sorted(edges)] + [(f"e{a}", f"e{b}", True) for a, b in sorted(back)]
    return named, {f"e{s}" for s in sources}


def forcing(seed):
    """Where and by which rule induced forces checkpoints, so that seeds have all four."""
    return {"scope": ["cycles", "all"][seed % 2], "rule": ["hmnr", "bcs"][seed // 2 % 2]}


def check(world):
    expected = world.expected()
    for pe, life in world.lives.items():
        assert Counter(life.state) == expected[pe], f"seed {world.seed}: element {pe}"
    for pe, given in world.output.items():
        assert Counter(given) == expected[pe], f"seed {world.seed}: output of {pe}"
    assert not sum(world.lost.values())


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("cyclic", [False, True])
def test_exactly_once(name, cyclic):
    checkpoints = commits = 0
    for seed in range(25):
        edges, sources = graph(seed, cyclic=cyclic)
        world = World(EXACT[name], seed, edges, sources, settings=SETTINGS | forcing(seed))
        check(world.run())
        checkpoints += world.taken
        commits += world.commits
    assert checkpoints > 100
    if name in ("coordinated", "unaligned"):
        assert commits > 25


@pytest.mark.parametrize("name", ["uncoordinated", "induced"])
@pytest.mark.parametrize("cyclic", [False, True])
def test_with_virtual_checkpoints_some_stay_and_nothing_is_lost(name, cyclic):
    stayed = 0
    for seed in range(15):
        edges, sources = graph(seed, cyclic=cyclic)
        world = World(EXACT[name], seed, edges, sources, settings=SETTINGS | {"virtual": True})
        check(world.run())
        assert not any(life.halted for life in world.lives.values())
        stayed += world.stayed
    assert stayed > 15


@pytest.mark.parametrize("name", ["uncoordinated", "induced"])
def test_volatile_logs_lose_and_never_repeat(name):
    lost = 0
    for seed in range(25):
        edges, sources = graph(seed, cyclic=False)
        spec = replace(EXACT[name], retention=("hold", "hold"))
        world = World(spec, seed, edges, sources, settings=SETTINGS | {"log": "volatile"}).run(directors=0)
        expected = world.expected()
        for pe, life in world.lives.items():
            assert not Counter(life.state) - expected[pe], f"seed {seed}: element {pe} has something twice"
        missing = sum(sum((expected[pe] - Counter(life.state)).values()) for pe, life in world.lives.items())
        assert (missing > 0) == (sum(world.lost.values()) > 0)
        lost += sum(world.lost.values())
    assert lost > 0


def test_without_faults_every_round_is_committed():
    for name in ("coordinated", "unaligned"):
        edges, sources = graph(3, cyclic=True)
        world = World(EXACT[name], 3, edges, sources, settings=SETTINGS).run(crashes=0, breaks=0, directors=0)
        check(world)
        assert world.commits >= 5


def test_scope_cycles_forces_nothing_outside_cycles():
    forced = {}
    for scope in ("all", "cycles"):
        forced[scope] = 0
        for seed in range(10):
            edges, sources = graph(seed, cyclic=False)
            world = World(induced.SPEC, seed, edges, sources, settings=SETTINGS | {"scope": scope})
            forced[scope] += world.run(crashes=0, breaks=0, directors=0).forced
    assert forced["all"] > 0
    assert forced["cycles"] == 0


@pytest.mark.parametrize("name", ["coordinated", "unaligned"])
def test_a_last_checkpoint_is_no_part_of_a_round_that_began_before_it(name):
    """e0 ends in the middle of a round; its last checkpoint is durable before its part of that round is."""
    edges, sources = graph(1055, cyclic=False)
    check(World(EXACT[name], 1055, edges, sources, settings=SETTINGS).run(crashes=4, breaks=4, directors=2))


@pytest.mark.parametrize(("seed", "cyclic"), [(2898, False), (1308, True), (1489, True)])
def test_a_channel_is_not_parked_for_ever_when_an_older_rounds_messages_complete_the_new_one(seed, cyclic):
    """The marker that ends the older round comes on one channel; the rest of the new round's were parked behind."""
    edges, sources = graph(seed, cyclic=cyclic)
    check(World(EXACT["coordinated"], seed, edges, sources, settings=SETTINGS).run(crashes=4, breaks=4, directors=2))


@pytest.mark.parametrize(
    ("name", "cyclic", "seeds"),
    [
        ("uncoordinated", False, (1025, 1043, 1076, 1118)),
        ("uncoordinated", True, (1014, 1029, 1032)),
        ("induced", False, (1076, 1088, 1116, 1219)),
        ("induced", True, (1000, 1032, 1043)),
    ],
)
def test_virtual_checkpoints_hold_when_directors_die(name, cyclic, seeds):
    """One that had stayed dies with no director to hear of it; one that came back unheard of sends again before there
    is a line; one that stays could go on before the one that it takes from has gone back.
    """
    for seed in seeds:
        edges, sources = graph(seed, cyclic=cyclic)
        settings = SETTINGS | {"virtual": True}
        check(World(EXACT[name], seed, edges, sources, settings=settings).run(crashes=4, breaks=4, directors=2))


class Directed:
    """A director of e0 → e1 → e2 with virtual checkpoints, and what it has logged."""

    def __init__(self, log=()):
        edges = [("e0", "e1", False), ("e1", "e2", False)]
        world = World(uncoordinated.SPEC, 0, edges, {"e0"}, settings=SETTINGS | {"virtual": True})
        self.director, self.log = uncoordinated.SPEC.director(world.surroundings), list(log)
        self.obey(self.director.begin(self.log))

    def obey(self, commands):
        self.log += [command.record for command in commands if isinstance(command, d.Persist)]
        return commands

    def handle(self, event):
        return self.obey(self.director.handle(event))

    def joined(self, **epochs):
        return [c for pe, epoch in epochs.items() for c in self.handle(d.Joined(pe, epoch, self.director.line, {}))]

    def captured(self, pe, epoch, tag, sent, taken):
        """Its live state: so many items sent and taken, on the channels that it has."""
        at = int(pe[1])
        cut = Cut(
            inlets={ChannelId(f"e{at - 1}→{pe}"): InletCut(taken, taken)} if at else {},
            sent={ChannelId(f"{pe}→e{at + 1}"): sent} if at < 2 else {},
        )
        return self.handle(
            d.CheckpointDurable(CheckpointId(pe, WHOLE, epoch, 1), cut, self.director.line, tag, False, 0, 0)
        )


def told(commands, word):
    return {command.pe for command in commands if isinstance(command, d.SendToElement) and word in command.message}


def test_who_stays_goes_on_when_the_others_that_live_have_gone_back():
    run = Directed()
    run.joined(e0=1, e1=2, e2=3)
    assert told(run.handle(d.Lost("e1", 2)), "halt") == {"e0", "e2"}
    run.captured("e0", 1, -1, sent=5, taken=0)
    line = run.captured("e2", 3, -1, sent=0, taken=4)  # of what e1 will not have sent
    (back,) = [command for command in line if isinstance(command, d.RollBack)]
    assert set(back.targets) == {"e1", "e2"}
    assert not told([*line, *run.handle(d.DirectorTick(1))], "resume")
    assert "e0" in told(run.joined(e2=4), "resume")  # e1 is down: nothing comes from it


def test_one_that_stayed_and_died_unheard_is_noticed():
    run = Directed()
    run.joined(e0=1, e1=2, e2=3)
    run.handle(d.Lost("e2", 3))
    run.captured("e0", 1, -1, sent=5, taken=0)
    run.captured("e1", 2, -1, sent=4, taken=5)
    assert run.director.line == 1
    run.joined(e2=4)
    again = Directed(run.log)
    again.joined(e1=2, e2=4)
    assert told(again.joined(e0=5), "halt") == {"e1", "e2"}  # and not the one whose state is doubted


@pytest.mark.parametrize("name", ["coordinated", "unaligned", "hybrid"])
def test_no_round_starts_while_somebody_is_suspected_for_up_to_an_interval(name):
    world = World(protocol(name), 0, [("e0", "e1", False)], {"e0"}, settings={"interval": 1_000_000})

    def joined():
        director = protocol(name).director(world.surroundings)
        for pe in ("e0", "e1"):
            director.handle(d.Joined(pe, 1, 0, {}))
        director.handle(d.DirectorTick(0))
        return director

    director = joined()
    director.handle(d.DirectorTick(900_000))
    director.handle(d.Silent("e1", 1))
    assert not told(director.handle(d.DirectorTick(1_100_000)), "round")
    assert told(director.handle(d.DirectorTick(1_200_000)), "round") == {"e0"}  # it has given a sign
    director = joined()
    for now in range(900_000, 2_000_000, 100_000):
        assert not told(director.handle(d.DirectorTick(now)), "round")
        director.handle(d.Silent("e1", 1))
    assert told(director.handle(d.DirectorTick(2_000_000)), "round") == {"e0"}


def test_nothing_is_released_before_a_round_is_committed():
    """Parts of rounds that were aborted are deleted one after the other, and the beginning is what all go back to."""
    world = World(EXACT["coordinated"], 0, [("e0", "e1", False)], {"e0"}, settings={"interval": 1_000_000})
    director = EXACT["coordinated"].director(world.surroundings)
    for pe in ("e0", "e1"):
        director.handle(d.Joined(pe, 1, 0, {}))
    channel = ChannelId("e0→e1")
    cuts = {"e0": Cut(sent={channel: 5}), "e1": Cut(inlets={channel: InletCut(5, 5)})}

    def took(pe, number):
        id = CheckpointId(pe, WHOLE, 1, number)
        return director.handle(d.CheckpointDurable(id, cuts[pe], 0, director.round, False, 0, 0))

    def deleted(commands):
        return [command.void for command in commands if isinstance(command, d.Delete)]

    director.handle(d.DirectorTick(0))
    director.handle(d.DirectorTick(1_000_000))
    took("e1", 1)
    assert deleted(director.handle(d.DirectorTick(director.timeout + 1_000_000))) == [True]
    for number in (2, 3):
        director.handle(d.DirectorTick(director.timeout + number * 1_000_000))
        after = [*took("e0", number), *took("e1", number)]
    assert deleted(after) == [False]  # of the round before


def test_old_checkpoints_are_deleted():
    for name in EXACT:
        edges, sources = graph(5, cyclic=False)
        world = World(EXACT[name], 5, edges, sources, settings=SETTINGS, items=200)
        world.run(crashes=1, breaks=0, directors=0)
        assert world.taken > 30
        assert len(world.disk) < world.taken / 2, name


@pytest.mark.soak
@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_exactly_once_in_thousands_of_schedules(name, cyclic):
    for seed in range(1000, 3500):
        edges, sources = graph(seed, cyclic=cyclic)
        settings = SETTINGS | {"virtual": bool(seed % 2)} | forcing(seed // 2)
        check(World(EXACT[name], seed, edges, sources, settings=settings).run(crashes=4, breaks=4, directors=2))
