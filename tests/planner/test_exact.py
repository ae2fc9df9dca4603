"""The exact solver finds what trying everything finds, whatever the shape, bounds, costs and constraints."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.reference import cheapest, recovery
from tests.planner.strategies import bounded

from riprap.base.errors import PlanError
from riprap.planner.exact import solve
from riprap.planner.exhaustive import exhaustive
from riprap.planner.problem import problem
from riprap_papers.published.topologies import SECOND, line, signal_guru, tree, twitter_sentiment


def reference(topology, bounds, **options):
    seconds = topology.latency // SECOND
    return cheapest(
        topology.size, topology.edges.tolist(), seconds.tolist(), bounds, topology.costs.tolist(), **options
    )


def check(topology, found, bounds, failures=1):
    backups = set(np.flatnonzero(found.backups).tolist())
    latency = (topology.latency // SECOND).tolist()
    late = recovery(topology.size, topology.edges.tolist(), latency, backups, failures)
    assert all(value <= bound for value, bound in zip(late, bounds, strict=True))
    assert found.cost == topology.costs[found.backups].sum()


@settings(max_examples=1000)
@given(bounded())
def test_equals_brute_force(case):
    check_against_brute_force(case)


@pytest.mark.soak
@settings(max_examples=30_000)
@given(bounded(most=11))
def test_equals_brute_force_at_length(case):
    check_against_brute_force(case)


def check_against_brute_force(case):
    topology, bound = case
    found = solve(problem(topology, bound * SECOND))
    assert found.optimal
    assert found.cost == reference(topology, [bound] * topology.size)
    check(topology, found, [bound] * topology.size)


@settings(max_examples=150)
@given(bounded(), st.data())
def test_with_costs_and_constraints(case, data):
    topology, bound = case
    number = st.integers(0, topology.size - 1)
    topology = replace(
        topology, cost=np.array(data.draw(st.lists(st.integers(0, 9), min_size=9, max_size=9)))[: topology.size]
    )
    must = data.draw(st.sets(number, max_size=2))
    must_not = data.draw(st.sets(number, max_size=2)) - must
    names = {"must": [f"t{i}" for i in must], "must_not": [f"t{i}" for i in must_not]}
    best = reference(topology, [bound] * topology.size, must=must, must_not=must_not)
    if best is None:
        with pytest.raises(PlanError, match="no plan recovers"):
            problem(topology, bound * SECOND, **names)
        return
    found = solve(problem(topology, bound * SECOND, **names))
    assert found.optimal
    assert found.cost == best
    assert all(found.backups[task] for task in must)
    assert not any(found.backups[task] for task in must_not)
    check(topology, found, [bound] * topology.size)


@settings(max_examples=150)
@given(bounded(most=8), st.integers(2, 3), st.sets(st.integers(0, 7), max_size=1))
def test_several_failures_at_once(case, failures, must):
    topology, bound = case
    must = {task for task in must if task < topology.size}
    best = reference(topology, [bound] * topology.size, failures=failures, must=must)
    names = [f"t{i}" for i in must]
    if best is None:
        with pytest.raises(PlanError, match="simultaneous failures"):
            problem(topology, bound * SECOND, failures=failures, must=names)
        return
    found = solve(problem(topology, bound * SECOND, failures=failures, must=names))
    assert found.optimal
    assert found.cost == best
    check(topology, found, [bound] * topology.size, failures)


@settings(max_examples=150)
@given(bounded(), st.data())
def test_bounds_of_single_sinks(case, data):
    topology, bound = case
    feeds = set(topology.edges[:, 0].tolist())
    sinks = {task: data.draw(st.integers(1, bound)) for task in range(topology.size) if task not in feeds}
    after = {task: {task} for task in range(topology.size)}
    for _ in range(topology.size):
        for source, target in topology.edges.tolist():
            after[source] |= after[target]
    bounds = [min([bound] + [sinks[sink] for sink in after[task] if sink in sinks]) for task in range(topology.size)]
    named = {f"t{sink}": value * SECOND for sink, value in sinks.items()}
    best = reference(topology, bounds)
    if best is None or any(topology.latency // SECOND > bounds):
        with pytest.raises(PlanError):
            problem(topology, bound * SECOND, sinks=named)
        return
    found = solve(problem(topology, bound * SECOND, sinks=named))
    assert found.cost == best
    check(topology, found, bounds)


@settings(max_examples=60)
@given(bounded(most=8))
def test_exhaustive_search_agrees(case):
    topology, bound = case
    asked = problem(topology, bound * SECOND)
    assert exhaustive(asked).cost == solve(asked).cost


@pytest.mark.parametrize("heaviest", [1, 10])
@pytest.mark.parametrize(
    "make", [lambda h: line(3, 5, heaviest=h), lambda h: tree(30, heaviest=h), lambda h: signal_guru(heaviest=h),
             lambda h: twitter_sentiment(50, 20, 20, heaviest=h), lambda h: twitter_sentiment(30, 30, 30, heaviest=h)]
)  # fmt: skip
def test_published_topologies_are_proven(make, heaviest):
    topology = make(heaviest)
    longest = int(problem(topology, 10**12).latency(np.zeros(topology.size, bool)).max())
    least = int(topology.latency.max())
    costs = []
    for bound in range(least, longest + SECOND, max(SECOND, (longest - least) // 12 // SECOND * SECOND)):
        found = solve(problem(topology, bound))
        assert found.optimal
        costs.append(found.cost)
    assert costs == sorted(costs, reverse=True)  # a looser bound never costs more
    assert solve(problem(topology, longest)).cost == 0


def test_twitter_sentiment_has_the_published_numbers_of_edges():
    assert len(twitter_sentiment(50, 20, 20).edges) == 560
    assert len(twitter_sentiment(30, 30, 30).edges) == 1_050
    assert signal_guru().size == 55
    assert signal_guru().levels.max() + 1 == 9


def test_a_bound_below_the_slowest_task_is_refused_by_name():
    topology = line(1, 3, heaviest=10, seed=2)
    slowest = topology.tasks[int(np.argmax(topology.latency))]
    with pytest.raises(PlanError, match=slowest):
        problem(topology, int(topology.latency.max()) - 1)
