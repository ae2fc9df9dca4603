"""The problem of an app: which failures each technique leaves harmless, at which price."""

import pytest

from riprap.base.quantities import Duration
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan
from riprap.graph.windows import count
from riprap.planner.assessment_file import LOST
from riprap.planner.cheapest import cheapest
from riprap.planner.cost_model import CostRun, calibrated, saves
from riprap.planner.costs import Cost
from riprap.planner.measured import Measured, MeasuredOperator, Quantiles
from riprap.planner.protection_problem import Line
from riprap.planner.sink_effects import CURRENT, AssessedEffects, SinkEffect
from riprap.planner.slo import Slo
from riprap.planner.technique_options import late_consumers, technique_problem, uniform

TIMES = Quantiles(0.2, 0.5, 1.0)
SECOND = Duration(1_000_000)


def shop() -> Graph:
    app = App("shop")
    clean = app.source("Clicks", "user long not null, amount long not null").filter("amount > 0", name="Clean")
    clean.aggregate("sum(amount) AS total", window=count(9), every=count(1), by="user", name="Totals").sink("Out")
    return app.build()


def measured(graph: Graph) -> Measured:
    operators = {}
    for spec in graph:
        costs = {"backup": Cost(0.1, 1e6, 1e4, 0.0)} if spec.kind != "sink" else {}
        if any(spec.stateful):
            costs["checkpoint"] = Cost(0.02, 1e6, 1e4, 0.0)
        operators[spec.name] = MeasuredOperator(100.0, 1.0, 1e5, TIMES, 1e8, 1e5, TIMES, Cost(0.1), costs)
    return Measured("shop", 60.0, 1.0, TIMES, TIMES, TIMES, operators)


def effects() -> AssessedEffects:
    def levels(*wrong: int):
        return tuple(SinkEffect(each, each, 1_000_000 - each) for each in wrong)

    kept = [(SECOND, {"Out": levels(100, 200, 400)})]
    lost = [(SECOND, {"Out": levels(100_000, 200_000, 400_000)})]
    old = [(SECOND, {"Out": levels(5_000, 10_000, 20_000)})]
    totals = {CURRENT: kept, LOST: lost, SECOND: old}
    return AssessedEffects("shop", {"Clicks": {CURRENT: kept}, "Clean": {CURRENT: kept}, "Totals": totals})


def solved(slo: Slo):
    graph = shop()
    problem = technique_problem(graph, measured(graph), effects(), slo, intervals=[SECOND])
    found = cheapest(problem)
    assert found is not None
    return found, {name: (own.option.technique, own.backup) for name, own in found.chosen.items()}


def test_nothing_is_bought_that_no_line_needs():
    found, chosen = solved(Slo(recovery="1h"))
    assert found.price == 0
    assert set(chosen.values()) == {("none", False)}


def test_a_checkpoint_keeps_state_where_its_loss_would_be_too_much():
    _, chosen = solved(Slo(wrong="10%"))
    assert chosen == {
        "Clicks": ("none", False), "Clean": ("none", False), "Totals": ("checkpoint", False), "Out": ("none", False)
    }  # fmt: skip


def test_exactly_once_needs_every_operator_behind_a_log():
    found, chosen = solved(Slo(exactly_once=True))
    assert chosen == {
        "Clicks": ("none", True), "Clean": ("none", True), "Totals": ("checkpoint", True), "Out": ("none", False)
    }  # fmt: skip
    assert found.values[Line("Out", "exactly_once")][0] == 1


def test_the_worst_case_can_be_guaranteed_too():
    """A bound between the 95th percentile and the worst case can be met only for the former."""
    graph = shop()
    usual, worst = (
        technique_problem(graph, measured(graph), effects(), Slo(wrong="10%"), intervals=[SECOND], worst=each)
        for each in (False, True)
    )
    recoveries = [
        [case.recovery for option in problem.operators["Totals"].options for case in option.cases.values()]
        for problem in (usual, worst)
    ]
    assert all(high < most for high, most in zip(*recoveries, strict=True))
    bound = Duration((min(recoveries[0]) + min(recoveries[1])) // 2)
    slo = Slo(recovery=f"{bound}us")
    assert cheapest(technique_problem(graph, measured(graph), effects(), slo, intervals=[SECOND])) is not None
    assert cheapest(technique_problem(graph, measured(graph), effects(), slo, intervals=[SECOND], worst=True)) is None


def test_a_uniform_plan_costs_at_least_as_much():
    graph = shop()
    problem = technique_problem(
        graph, measured(graph), effects(), Slo(wrong="10%"), intervals=[SECOND, Duration(2 * SECOND)]
    )
    best = cheapest(problem)
    prices = [found.price for alike in uniform(problem).values() if (found := cheapest(alike)) is not None]
    assert best is not None
    assert prices
    assert min(prices) >= best.price


def test_a_source_is_late_only_for_those_who_merge_it_with_others():
    app = App("two")
    left = app.source("L", "k long not null").filter("k > 0", name="A")
    right = app.source("R", "k long not null").filter("k > 0", name="B")
    left.union(right, name="U").sink("Out")
    graph = app.build()
    assert late_consumers(graph, "L")
    assert late_consumers(graph, "A")
    assert not late_consumers(graph, "U")
    assert not late_consumers(shop(), "Clicks")


def test_costs_are_calibrated_over_all_operators():
    graph = shop()
    from riprap.graph.annotations import Annotations

    def plan(saved: bool, *logged: str) -> Plan:
        own = {
            name: Annotations(SECOND if saved and name == "Totals" else None, backup=name in logged)
            for name in graph.order
        }
        return Plan("shop", own)

    def costs(planned: Plan) -> dict[str, Cost]:
        """As the model assumes: 0.02 cores to log, 0.01 to read a log, 0.03 for a checkpoint each second."""
        found = {}
        for name in graph.order:
            logs, saved = planned.operators[name].backup, saves(graph, name, planned)
            reads = sum(planned.operators[other].backup for other in graph.upstream(name))
            cores = 0.1 + 0.02 * logs + 0.01 * reads + 0.03 * saved
            found[name] = Cost(cores, 4e7, 1e5 * logs + 1e4 * saved, 0.0)
        return found

    plans = [plan(True), plan(True, "Clicks", "Clean", "Totals"), plan(True, "Clicks"), plan(False, "Clean", "Totals")]
    running = {name: Cost(0.1, 4e7) for name in graph.order}
    model = calibrated(graph, running, [CostRun(each, costs(each)) for each in plans], {})
    unseen = plan(True, "Clicks", "Totals")
    expected = sum(cost.cores - 0.1 for cost in costs(unseen).values())
    assert model.of_plan(unseen).cores == pytest.approx(expected, rel=0.05)
    assert model.techniques(2.0)["Totals"]["checkpoint"].cores == pytest.approx(0.015, rel=0.1)
    assert model.techniques(1.0)["Clicks"]["backup"].written == pytest.approx(1.2e5, rel=0.1)
