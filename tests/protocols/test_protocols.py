"""Protocols in a small world under crashes, broken connections and dying directors: nothing lost, nothing twice."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.protocols.world import World

from riprap.protocols import coordinated, induced, unaligned, uncoordinated

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
        world = World(EXACT[name], seed, edges, sources, settings=SETTINGS | {"scope": ["cycles", "all"][seed % 2]})
        check(world.run())
        checkpoints += world.taken
        commits += world.commits
    assert checkpoints > 100
    if name in ("coordinated", "unaligned"):
        assert commits > 25


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
        check(World(EXACT[name], seed, edges, sources, settings=SETTINGS).run(crashes=4, breaks=4, directors=2))
