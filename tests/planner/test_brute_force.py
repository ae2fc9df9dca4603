"""The planner against trying everything: random graphs with cycles, costs up to 1e9, sinks, k, earlier plans.

A fixed share runs in every test run, the rest at length; the same seeds are the same graphs.
"""

import json

import numpy as np
import pytest
from tests.planner.brute_force import bounds, cheapest, is_met, is_sound_cut, latencies, random_case

from riprap.base.errors import PlanError, UsageError
from riprap.planner.algorithms import ALGORITHMS
from riprap.planner.backup_plan import given_backups, plan_backups
from riprap.planner.failure_effect import NEVER
from riprap.planner.problem import problem
from riprap.planner.topology_files import read_topology
from riprap_papers.published.topologies import SECOND


def asked_of(case, path):
    path.write_text(json.dumps(case.file()))
    return problem(
        read_topology(path),
        case.recovery * SECOND,
        sinks={sink: bound * SECOND for sink, bound in case.sinks.items()},
        must=case.must,
        must_not=case.must_not,
        failures=case.failures,
    )


def cuts_of(case, path):
    path.write_text(json.dumps(case.file()))
    topology = read_topology(path)
    return {(topology.tasks[a], topology.tasks[b]) for a, b in topology.edges[topology.cuts].tolist()}


def disagreement(case, path):
    """What the planner says that is not so, in words; None if all is well."""
    cuts = cuts_of(case, path)
    if not is_sound_cut(case, cuts):
        return f"cuts {cuts}"
    best = cheapest(case, cuts)
    try:
        asked = asked_of(case, path)
    except PlanError as error:
        return f"refused ({error}), but {best} is possible" if best is not None else None
    if best is None:
        return "took a problem that no plan solves"
    plan = plan_backups(asked, existing=None if case.previous is None else tuple(case.previous))
    found = frozenset(plan.names)
    if not is_met(case, found, cuts):
        return f"{set(found)} does not meet the bounds {bounds(case)}: {latencies(case, found)}"
    if not plan.solution.optimal or (plan.solution.cost, plan.solution.lower) != (best[0], best[0]):
        return f"cost {plan.solution.cost}, lower {plan.solution.lower}; the least is {best[0]}"
    if case.cost_of(found) != plan.solution.cost or plan.shortfall is not None:
        return f"cost {plan.solution.cost} told for {set(found)}, shortfall {plan.shortfall}"
    if case.previous is not None and len(found ^ case.previous) != best[1]:
        return f"{len(found ^ case.previous)} changes; {best[1]} would do"
    return disagreement_of_others(case, asked, cuts, best) or disagreement_when_given(case, asked, cuts)


def disagreement_of_others(case, asked, cuts, best):
    for name, algorithm in ALGORITHMS.items():
        try:
            found = algorithm(asked)
        except UsageError:
            continue  # it does not know this kind of problem, and says so
        backups = frozenset(asked.topology.tasks[task] for task in np.flatnonzero(found.backups))
        if not is_met(case, backups, cuts):
            return f"{name}: {set(backups)} does not meet the bounds"
        if found.cost < best[0] or (name in ("line", "tree", "exhaust") and found.cost > best[0]):
            return f"{name}: cost {found.cost}, the least is {best[0]}"
    return None


def disagreement_when_given(case, asked, cuts):
    """`--check` of a plan that need not be any good."""
    some = frozenset(sorted(case.latency)[:: 2 + case.recovery % 2])
    plan = given_backups(asked, some)
    expected = latencies(case, some)
    told = dict(zip(asked.topology.tasks, plan.effect.latency.tolist(), strict=True))
    for task, late in expected.items():
        if told[task] != (NEVER if late == float("inf") else late * SECOND):
            return f"given {set(some)}: L({task}) is {late}, told {told[task]}"
    if (plan.shortfall is None) != is_met(case, some, cuts):
        return f"given {set(some)}: {plan.shortfall}"
    worst = max(expected.values())
    if worst < float("inf"):
        way = plan.critical
        if sum(case.latency[task] for task in way) != worst or len(some & set(way[:-1])) >= case.failures:
            return f"given {set(some)}: critical way {way}"
        limit = bounds(case)
        most = max(expected[task] - limit[task] for task in expected)
        if most > 0 and expected[plan.shortfall.split()[0]] - limit[plan.shortfall.split()[0]] != most:
            return f"given {set(some)}: named the wrong task: {plan.shortfall}"
    return None


def disagreements(seeds, path, largest):
    found = ((seed, disagreement(random_case(seed, largest), path)) for seed in seeds)
    return [(seed, words) for seed, words in found if words is not None]


@pytest.mark.parametrize("part", range(4))
def test_no_disagreement(part, tmp_path):
    assert disagreements(range(part * 250, part * 250 + 250), tmp_path / "random.json", 6) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_no_disagreement_at_length(part, tmp_path):
    assert disagreements(range(1_000 + part * 200, 1_200 + part * 200), tmp_path / "random.json", 8) == []
