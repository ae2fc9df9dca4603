"""Cases that once went wrong, each by name: bounds of sinks over feedback, costs, cycles with several failures."""

from dataclasses import replace

import numpy as np
import pytest
from tests.planner.clocks import CountingClock

from riprap.base.errors import GraphError, PlanError, UsageError
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.backup_plan import given_backups, plan_backups
from riprap.planner.budget import budget_problem, evaluate
from riprap.planner.exact import solve
from riprap.planner.failure_effect import NEVER
from riprap.planner.problem import problem
from riprap.planner.published_line import line
from riprap.planner.topology import topology
from riprap_papers.published.topologies import SECOND, layered


def seconds(**latency):
    return {task: value * SECOND for task, value in latency.items()}


def loop():
    """a → b → c, and b → d → b."""
    edges = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "b")]
    return topology("loop", seconds(a=3, b=3, c=1, d=3), edges, feedback=[("d", "b")])


def test_a_task_whose_only_way_on_leads_back_keeps_its_bound():
    asked = problem(loop(), 7 * SECOND, sinks={"c": 7 * SECOND})
    assert asked.bound.tolist() == [7 * SECOND] * 4
    plan = plan_backups(asked)
    assert len(plan.names) == 2
    assert plan.effect.worst <= 7 * SECOND
    assert given_backups(asked, ["d"]).shortfall == "d takes 9s of 7s"


def test_the_bound_of_a_sink_reaches_back_over_feedback():
    assert problem(loop(), 9 * SECOND, sinks={"c": 4 * SECOND}).bound.tolist() == [4 * SECOND] * 4


def test_the_bound_of_a_sink_is_no_looser_than_that_of_all():
    with pytest.raises(UsageError, match="the bound of sink c must be longer than 0s and at most 7s"):
        problem(loop(), 7 * SECOND, sinks={"c": 8 * SECOND})


def test_two_failures_on_a_cycle_take_two_backups_on_it():
    graph = topology(
        "ring", seconds(a=1, b=1, c=1, out=1), [("a", "b"), ("b", "c"), ("c", "a"), ("c", "out")],
        feedback=[("c", "a")],
    )  # fmt: skip
    asked = problem(graph, 100 * SECOND, failures=2)
    plan = plan_backups(asked)
    assert plan.solution.optimal
    assert len(plan.names) == 2
    assert "c" in plan.names
    alone = given_backups(asked, ["c"])
    assert alone.effect.latency.tolist() == [NEVER] * 4
    assert "never recovers: the cycle" in alone.shortfall
    assert alone.to_json()["worst"] is None


def test_a_cycle_too_short_for_that_many_failures_is_refused():
    graph = topology("self", seconds(a=1, b=1), [("a", "a"), ("a", "b")])
    with pytest.raises(PlanError, match="no plan tolerates 2 simultaneous failures: the cycle a → a needs 2 backups"):
        problem(graph, 9 * SECOND, failures=2)


def test_a_line_past_a_cut_takes_no_backup_too_many():
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("c", "b")]
    graph = topology("line", seconds(a=1, b=1, c=1, d=1, e=1), edges, feedback=[("c", "b")])
    for bound in (2, 3, 4):
        asked = problem(graph, bound * SECOND)
        assert line(asked).cost == solve(asked).cost


def test_a_check_for_two_failures_names_the_task_that_is_late_then():
    """With one failure c is slowest (5 s); with two, when the backup of b is lost too, e is."""
    edges = [("a", "b"), ("b", "e"), ("c", "f")]
    graph = topology("two", seconds(a=3, b=3, e=3, c=5, f=1), edges)
    asked = replace(problem(graph, 8 * SECOND), failures=2)
    plan = given_backups(asked, ["b"])
    assert plan.shortfall == "e takes 9s of 8s"
    assert plan.critical == ("a", "b", "e")


@pytest.mark.parametrize("costs", [(10**9, 999_999_999, 1), (10**9, 1, 0), (123_456_789, 987_654_321, 2)])
def test_costs_a_billion_apart_are_proven(costs):
    graph = layered(5, 5, heaviest=10, seed=5)
    cost = np.array([costs[i % 3] + i * (costs[2] > 0) for i in range(graph.size)], np.int64)
    asked = problem(replace(graph, cost=cost), 20 * SECOND)
    found = solve(asked)
    assert found.optimal
    # One unit of cost more or less anywhere is told apart.
    dearer = replace(asked, topology=replace(graph, cost=cost + found.backups))
    assert found.cost < solve(dearer).cost <= found.cost + found.backups.sum()


def test_backups_that_cost_nothing_stay():
    graph = topology("free", seconds(a=1, b=1, c=1), [("a", "b"), ("b", "c")], cost={"a": 0, "b": 0, "c": 0})
    plan = plan_backups(problem(graph, 2 * SECOND), existing=("a", "c"))
    assert plan.names == ("a", "c")
    assert (plan.change.added, plan.change.removed) == ((), ())


def test_several_failures_in_a_large_core_meet_the_bound():
    asked = problem(layered(10, 24, most_inputs=2, heaviest=3), 15 * SECOND, failures=2)
    assert asked.is_met(solve(asked, time_limit=100.0, clock=CountingClock()).backups)


def test_a_stateless_source_loses_nothing():
    rows = {0: ((SECOND, 2.0),), LOST: ((SECOND, 9.0),)}
    operators = {"In": OperatorImpact(1.0, rows), "Sum": OperatorImpact(1.0, rows, state=10.0)}
    asked = budget_problem(AssessedApp("app", operators, RecoveryTimes(intervals=())), [("In", "Sum")], [])
    restart = {name: asked.options[name][0] for name in operators}
    assert evaluate(asked, restart, frozenset()).loss == 9.0
    assert evaluate(asked, restart, frozenset({"In"})).loss == 9.0
    only_lost = {"In": OperatorImpact(1.0, {LOST: ((SECOND, 9.0),)})}
    asked = budget_problem(AssessedApp("app", only_lost, RecoveryTimes(intervals=())), [], [])
    assert evaluate(asked, {"In": asked.options["In"][0]}, frozenset()).loss == 0.0


def test_latencies_beyond_all_numbers_are_refused():
    with pytest.raises(GraphError, match="add up to more than"):
        topology("old", {f"t{i}": 2**50 for i in range(2_000)}, [])
