"""The published algorithms: their worked examples, their guarantees, and where they are optimal."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planner.covers import covers
from tests.planner.strategies import bounded

from riprap.base.errors import UsageError
from riprap.planner.exact import solve
from riprap.planner.failure_effect import effect
from riprap.planner.problem import problem
from riprap.planner.published_dag import candidates, dag
from riprap.planner.published_heuristic import HeuristicState
from riprap.planner.published_line import line
from riprap.planner.published_share import share, shares
from riprap.planner.published_tree import tree
from riprap.planner.topology import topology
from riprap_papers.published.topologies import SECOND


def seconds(**latency):
    return {task: value * SECOND for task, value in latency.items()}


def latencies(asked, found):
    reached = effect(asked.topology, found.backups).latency // SECOND
    return dict(zip(asked.topology.tasks, reached.tolist(), strict=True))


def kept(asked, found):
    return {task for task, backup in zip(asked.topology.tasks, found.backups, strict=True) if backup}


def test_figure_2_cover_sets():
    edges = [("a", "b"), ("b", "c"), ("a", "d"), ("a", "e"), ("c", "f"), ("d", "f"), ("f", "h"), ("e", "h")]
    graph = topology("figure 2", seconds(**dict.fromkeys("abcdefh", 1)), edges)
    backups = np.array([task in "acde" for task in graph.tasks])
    sets = covers(graph, backups)

    def named(tasks):
        return {graph.tasks[task] for task in tasks}

    assert named(sets.forward[graph.index("a")]) == {"b", "c", "d", "e"}
    assert named(sets.backward[graph.index("c")]) == {"a", "b"}
    assert named(sets.upstream[graph.index("e")]) == {"a"}
    assert named(sets.upstream[graph.index("f")]) == {"c", "d"}
    assert named(sets.upstream[graph.index("h")]) == {"c", "d", "e"}
    assert effect(graph, backups).worst == 2 * SECOND


def test_figure_3_three_lines_of_five_and_a_sink():
    names = [str(16 - i) for i in range(16)]
    edges = [(str(i), str(max(1, i - 3))) for i in range(16, 1, -1)]
    asked = problem(topology("figure 3", dict.fromkeys(names, SECOND), edges), 2 * SECOND)
    found = line(asked)
    # Every line of five tasks and the sink: a backup at the second and at the fourth task.
    assert kept(asked, found) == {"13", "12", "11", "7", "6", "5"}
    assert found.cost == solve(asked).cost


@pytest.mark.parametrize("algorithm", [line, tree, dag])
def test_figure_4a_line(algorithm):
    graph = topology("4a", seconds(a=2, b=1, c=4, d=3, e=3), [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")])
    asked = problem(graph, 7 * SECOND)
    found = algorithm(asked)
    assert kept(asked, found) == {"c"}
    assert latencies(asked, found) == {"a": 2, "b": 3, "c": 7, "d": 3, "e": 6}


@pytest.mark.parametrize("algorithm", [line, tree, dag])
def test_figure_4b_two_lines(algorithm):
    latency = seconds(a1=3, a2=1, a3=3, a4=2, b1=3, b2=5, b3=1, sink=1)
    edges = [("a1", "a2"), ("a2", "a3"), ("a3", "a4"), ("a4", "sink"), ("b1", "b2"), ("b2", "b3"), ("b3", "sink")]
    asked = problem(topology("4b", latency, edges), 8 * SECOND)
    found = algorithm(asked)
    assert kept(asked, found) == {"a3", "b2"}
    assert latencies(asked, found) == {"a1": 3, "a2": 4, "a3": 7, "a4": 2, "b1": 3, "b2": 8, "b3": 1, "sink": 3}


@pytest.mark.parametrize("algorithm", [tree, dag])
def test_a_tree_in_the_manner_of_figure_4c(algorithm):
    """Eleven tasks, R = 5: two branches share the backup at their join."""
    latency = seconds(a=1, b=2, c=1, d=2, e=2, f=1, g=2, h=1, i=3, j=2, sink=2)
    edges = [
        ("a", "c"), ("b", "c"), ("c", "f"), ("d", "e"), ("e", "f"), ("f", "h"), ("g", "h"), ("h", "j"), ("i", "j"),
        ("j", "sink"),
    ]  # fmt: skip
    asked = problem(topology("4c", latency, edges), 5 * SECOND)
    found = algorithm(asked)
    assert found.cost == solve(asked).cost
    assert max(latencies(asked, found).values()) <= 5
    assert "f" in kept(asked, found)


def test_figure_6_percentages_and_workloads():
    """The source splits evenly between a and b; a feeds c, b feeds c and d; R reaches up to c and d."""
    edges = [("s", "a"), ("s", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "e"), ("d", "e")]
    graph = topology("figure 6", seconds(s=1, a=2, b=1, c=1, d=2, e=4), edges)
    found = candidates(HeuristicState(problem(graph, 4 * SECOND), "dag"), 0)
    share_of = {graph.tasks[task]: value for task, value in found.percentage.items()}
    work = {graph.tasks[task]: value / SECOND for task, value in found.workload.items()}
    assert share_of == {"s": 1, "a": 0.5, "b": 0.5, "c": 0.75, "d": 0.25}
    # B(a) = (1 + 2)/2, B(b) = (1 + 1)/2, B(c) = (1.5 + 1)/1 + (1 + 1)/2, B(d) = (1 + 2)/2
    assert work == {"s": 1, "a": 1.5, "b": 1, "c": 3.5, "d": 1.5}
    assert {graph.tasks[task] for task in found.rim} == {"c", "d"}


@settings(max_examples=300)
@given(bounded())
def test_heuristics_meet_the_bound_and_are_no_better_than_exact(case):
    graph, bound = case
    asked = problem(graph, bound * SECOND)
    best = solve(asked).cost
    for algorithm in (dag, share):
        found = algorithm(asked)
        assert asked.is_met(found.backups)
        assert found.cost >= best


@settings(max_examples=200)
@given(bounded(kinds=("tree", "line"), most=12))
def test_the_tree_algorithm_is_optimal(case):
    graph, bound = case
    asked = problem(graph, bound * SECOND)
    assert tree(asked).cost == solve(asked).cost


@settings(max_examples=200)
@given(bounded(kinds=("line",), most=12))
def test_the_line_algorithm_is_optimal(case):
    graph, bound = case
    asked = problem(graph, bound * SECOND)
    assert line(asked).cost == solve(asked).cost


def test_shares_in_series_and_in_parallel():
    series = topology("series", seconds(a=1, b=4), [("a", "b")])
    assert shares(series) == pytest.approx([1 / 3, 2 / 3], abs=1e-3)  # ∝ √T
    parallel = topology("parallel", seconds(a=1, b=4, c=1), [])
    assert shares(parallel) == pytest.approx([1 / 6, 4 / 6, 1 / 6], abs=0.02)  # ∝ T


def test_an_algorithm_refuses_what_it_does_not_know():
    fork = topology("fork", seconds(a=1, b=1, c=1), [("a", "b"), ("a", "c")])
    with pytest.raises(UsageError, match="a feeds 2 tasks"):
        tree(problem(fork, 2 * SECOND))
    with pytest.raises(UsageError, match="does not consist of lines, because of a"):
        line(problem(fork, 2 * SECOND))
    with pytest.raises(UsageError, match="one bound, equal costs"):
        dag(problem(fork, 2 * SECOND, must=["b"]))
