"""The failure-effect model against its definition, and what is done about cycles."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.reference import recovery
from tests.planner.strategies import topologies

from riprap.base.errors import GraphError, PlanError
from riprap.planner.exact import solve
from riprap.planner.failure_effect import effect
from riprap.planner.problem import problem
from riprap.planner.topology import topology
from riprap_papers.published.topologies import SECOND


@settings(max_examples=200)
@given(topologies(), st.data())
def test_latencies_are_the_definition(graph, data):
    backups = np.array(data.draw(st.lists(st.booleans(), min_size=graph.size, max_size=graph.size)))
    found = effect(graph, backups)
    kept = set(np.flatnonzero(backups).tolist())
    expected = recovery(graph.size, graph.edges.tolist(), graph.latency.tolist(), kept)
    assert found.latency.tolist() == expected
    assert found.worst == max(expected)
    # The critical path causes the worst latency: it has no backup before its end, and its T sum to it.
    assert sum(graph.latency[list(found.critical)]) == found.worst
    assert not kept & set(found.critical[:-1])
    edges = set(map(tuple, graph.edges.tolist()))
    assert all(pair in edges for pair in zip(found.critical, found.critical[1:], strict=False))


def loop(feedback):
    latency = {"in": SECOND, "a": SECOND, "b": SECOND, "out": SECOND}
    edges = [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]
    return topology("loop", latency, edges, feedback=feedback)


@pytest.mark.parametrize("feedback", [[], [("b", "a")]])
def test_a_cycle_is_cut_by_a_backup_at_the_source_of_the_stream_that_leads_back(feedback):
    graph = loop(feedback)
    found = solve(problem(graph, 10 * SECOND))
    assert [graph.tasks[task] for task in np.flatnonzero(found.backups)] == ["b"]
    assert found.optimal
    assert effect(graph, np.zeros(4, bool)).missing_cuts == (graph.index("b"),)
    with pytest.raises(PlanError, match="b must not be a backup, but it feeds back into a cycle"):
        problem(graph, 10 * SECOND, must_not=["b"])


@given(st.integers(2, 7), st.data())
def test_cuts_leave_no_cycle(size, data):
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    edges = data.draw(st.lists(ends, unique=True, max_size=20))
    graph = topology("any", {str(i): SECOND for i in range(size)}, [(str(a), str(b)) for a, b in edges])
    assert all(graph.levels[a] < graph.levels[b] for a, b in graph.forward.tolist())
    asked = problem(graph, 2 * SECOND)
    assert asked.is_met(solve(asked).backups)


@pytest.mark.parametrize(
    ("latency", "edges", "message"),
    [
        ({}, [], "has no tasks"),
        ({"a": -1}, [], "negative latency"),
        ({"a": 1}, [("a", "b")], "an edge with b, which is not a task"),
        ({"a": 1, "b": 1}, [("a", "b"), ("a", "b")], "a → b twice"),
    ],
)
def test_bad_topologies_get_a_sentence(latency, edges, message):
    with pytest.raises(GraphError, match=message):
        topology("bad", latency, edges)


def test_planning_needs_no_spark():
    script = (
        "import sys; from riprap.planner.exact import solve; from riprap.planner.problem import problem; "
        "from riprap_papers.published.topologies import line; solve(problem(line(2, 4), 2_000_000)); "
        "import riprap.planner.algorithms, riprap.planner.tradeoff, riprap.planner.from_graph; "
        "import riprap.planner.topology_files; "
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
