"""Large cores are solved by compiled code. Here small graphs are, where trying everything is possible."""

import numpy as np
import pytest
from tests.planner.brute_force import cheapest, random_case
from tests.planner.clocks import CountingClock
from tests.planner.test_brute_force import asked_of, cuts_of, disagreements

from riprap.base.errors import PlanError
from riprap.planner import exact
from riprap.planner import paths as ways
from riprap.planner.covering_lp import CoveringLp
from riprap.planner.exact import solve
from riprap.planner.neighbours import neighbours
from riprap.planner.packing import packed_bound
from riprap.planner.paths import LongPaths
from riprap.planner.problem import problem
from riprap.planner.reductions import reduce
from riprap_papers.published.topologies import SECOND, layered


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(exact, "COMPILED", 1)
    monkeypatch.setattr(ways, "COMPILED", 1)
    monkeypatch.setattr(exact, "SHARE", 0.01)


def test_no_disagreement_on_compiled_ways(compiled, tmp_path):
    assert disagreements(range(600, 640), tmp_path / "random.json", 6) == []


@pytest.mark.soak
def test_no_disagreement_on_compiled_ways_at_length(compiled, tmp_path):
    assert disagreements(range(6_000, 7_000), tmp_path / "random.json", 8) == []


def test_bounds_and_plans_of_graphs_too_large_to_solve(compiled, monkeypatch, tmp_path):
    """The way of 100,000 tasks: its plan meets the bounds, and its lower bound is none too high."""
    monkeypatch.setattr(exact, "LARGEST_EXACT", 0)
    tight = 0
    for seed in range(700, 740):
        case, path = random_case(seed, 6), tmp_path / "random.json"
        try:
            asked = asked_of(case, path)
        except PlanError:
            continue
        if asked.failures == 1:
            found = solve(asked, time_limit=200.0, clock=CountingClock())
            least = cheapest(case, cuts_of(case, path))[0]
            assert asked.is_met(found.backups)
            assert found.lower <= least <= found.cost
            tight += found.cost == least
    assert tight >= 10


def test_the_packed_bound_of_a_large_graph_comes_near_the_optimum():
    asked = problem(layered(10, 40, heaviest=10), 20 * SECOND)
    core = max(reduce(asked).cores, key=lambda core: core.size)
    clock = CountingClock()
    bound = packed_bound(core, neighbours(core), np.array(LongPaths(core).excess), core.fixed != 0, clock, 400.0)
    # No plan costs less than 111, by the linear relaxation; one of 117 is known.
    assert 100 <= bound <= 117


@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_interpreted_ways_agree(seed, monkeypatch):
    """Either finds a way for the same tasks, and each way is too long and lighter than k."""
    (core,) = reduce(problem(layered(6, 12, heaviest=10, seed=seed), 25 * SECOND)).cores[:1]
    random = np.random.default_rng(seed)
    weight = np.where(random.random(core.size) < 0.5, 0.0, random.random(core.size) * 0.6)
    slow = LongPaths(core)
    monkeypatch.setattr(ways, "COMPILED", 1)
    fast = LongPaths(core)
    assert fast.near is not None
    assert slow.near is None
    found = fast.uncovered(weight.tolist())
    sums = sorted(round(float(weight[list(way)].sum()), 9) for way in slow.uncovered(weight.tolist()))
    assert sums == sorted(round(float(weight[list(way)].sum()), 9) for way in found)
    assert all(value < 1 for value in sums)


def test_a_search_that_is_cut_short_proves_nothing(monkeypatch):
    """Whenever the solver stops for want of time, the bound is one that every longer search keeps."""
    monkeypatch.setattr(exact, "SHARE", 0.01)
    asked = problem(layered(8, 25, heaviest=10, seed=1), 30 * SECOND)
    whole = solve(asked, time_limit=2_000.0, clock=CountingClock())
    run = CoveringLp.run
    for stop in (1, 2, 5, 12, 20, 40):
        left = iter([True] * stop)
        monkeypatch.setattr(CoveringLp, "run", lambda *rest, left=left: next(left, False) and run(*rest))
        found = solve(asked, time_limit=2_000.0, clock=CountingClock())
        assert asked.is_met(found.backups)
        assert found.lower <= whole.cost <= found.cost


def test_annealing_ends_and_never_gets_dearer():
    from riprap.planner.annealing import annealed, pruned
    from riprap.planner.neighbours import neighbours

    asked = problem(layered(8, 20, heaviest=10, seed=2), 25 * SECOND)
    core = max(reduce(asked).cores, key=lambda core: core.size)
    near = neighbours(core)
    among = (core.fixed != 0) & (np.diff(near.after_start) > 0)
    begun = pruned(core, near, among)
    found = annealed(core, near, [among], begun, 0, CountingClock(), 500.0)
    assert core.cost[found].sum() <= core.cost[begun].sum()
    weight = found.astype(float).tolist()
    assert LongPaths(core).uncovered(weight) == []


def test_a_time_limit_leaves_a_plan_and_a_gap():
    topology = layered(12, 20, most_inputs=4, heaviest=10)
    asked = problem(topology, 30 * SECOND)
    found = solve(asked, time_limit=0.0, clock=CountingClock())
    longer = solve(asked, time_limit=100.0, clock=CountingClock())
    assert asked.is_met(found.backups)
    assert 0 <= found.lower <= longer.cost <= found.cost
    assert 0 < found.gap <= 1
