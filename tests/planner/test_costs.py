"""Measured costs of techniques: what a profile says of them, and plans for a budget that go by it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.test_plan import run

from riprap.api.cost_profile import by_operator, with_technique
from riprap.api.plan import plan_budget
from riprap.apps.catalogue import load_app
from riprap.base.errors import DataError, PlanError, RiprapError
from riprap.graph.builder import App
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.costs import TECHNIQUES, Cost, OperatorCosts, read_costs, write_costs
from riprap.planner.protection import Resources, backup_resources, options
from riprap.runtime.layout import arrange

SECOND = 1_000_000
APP = "bargain-discovery"
number = st.floats(0, 1e12, allow_nan=False)
cost = st.builds(Cost, number, number, number, number)
operators = st.dictionaries(
    st.text("abcÄ .\"'#→", min_size=1, max_size=6),
    st.builds(OperatorCosts, cost, st.dictionaries(st.sampled_from(TECHNIQUES), cost), st.just(2 * SECOND)),
    min_size=1,
)


@given(operators)
def test_a_profile_says_what_was_measured(tmp_path_factory, costs):
    path = tmp_path_factory.mktemp("p") / "profile.toml"
    path.write_text(write_costs(costs, seconds=5.0, rate=20_000.0))
    assert read_costs(path) == costs


def test_plans_go_by_what_was_measured():
    measured = {
        "checkpoint": Cost(0.2, 10.0, 300.0, 4.0),
        "backup": Cost(0.3, 20.0, 500.0, 7.0),
        "ha_group": Cost(0.5, 9.0, 1.0, 6.0),
    }
    impact = OperatorImpact(
        1.0, {0: ((SECOND, 1.0),), LOST: ((SECOND, 2.0),)}, cpu=9.0, memory=9.0, state=9.0, output=9.0
    )
    settings = RecoveryTimes(intervals=(SECOND, 4 * SECOND), replicas=3)
    asked = AssessedApp("app", {"a": impact}, settings, {"a": OperatorCosts(Cost(), measured, 2 * SECOND)})
    restart, *checkpoints, group = options(asked, "a")
    assert restart.resources == Resources()
    assert [option.resources for option in checkpoints] == [
        Resources(0.1, 10.0, 150.0, 2.0),  # every 4 s, half as often as measured
        Resources(0.4, 10.0, 600.0, 8.0),
    ]
    assert group.resources == Resources(1.0, 18.0, 2.0, 12.0)  # two more replicas
    assert backup_resources(asked, "a") == Resources(0.3, 20.0, 500.0, 7.0)
    not_measured = AssessedApp("app", {"a": impact}, settings)
    assert [option.technique for option in options(not_measured, "a")] == ["restart"]
    assert backup_resources(not_measured, "a") is None


@pytest.fixture
def assessed(tmp_path):
    """Where only the loss of the Aggregator hurts. (Without storage nothing that it missed can be replayed.)"""
    entries = {
        spec.name: {
            "failures_per_day": 1, "cpu": 0.1, "memory": 1000, "state": 0, "output": 10,
            "impact": [{"outage": "1s", "state_age": "0s", "impact": 9.0 if spec.name == "Aggregator" else 0.0}],
        }
        for spec in load_app(APP)
    }  # fmt: skip
    path = tmp_path / "assessment.json"
    path.write_text(json.dumps({"app": APP, "operators": entries}))
    return tmp_path


def test_a_budget_buys_what_was_measured_to_fit(assessed):
    def chosen(*more: str) -> str:
        arguments = ("plan", APP, "--from-assessment", str(assessed), "--budget", "cpu=0.5,storage=0", *more, "--json")
        return json.loads(run(*arguments))["steps"][-1]["operators"]["Aggregator"]

    with pytest.raises(PlanError, match="measure it with `riprap profile bargain-discovery --costs --out profile"):
        chosen()
    profile = assessed / "profile.toml"
    none = {spec.name: OperatorCosts(Cost(), {}, SECOND) for spec in load_app(APP)}
    for cores, bought in ((0.4, "HA group"), (0.6, "restart")):
        technique = {"ha_group": Cost(cores, 0.0, 0.0, 1e6), "backup": Cost(9.0)}
        costs = none | {"Aggregator": OperatorCosts(Cost(), technique, SECOND)}
        profile.write_text(write_costs(costs, seconds=5.0, rate=1.0))
        assert chosen("--profile", str(profile)) == bought
        found = plan_budget(load_app(APP), [assessed], "cpu=0.5,storage=0", profile=profile)  # the same
        assert found.curve.steps[-1].protection.chosen["Aggregator"].describe() == bought
        assert ("Aggregator" in found.plan.operators) == (bought == "HA group")
    dear = plan_budget(load_app(APP), [assessed], "network=0.5MB,storage=0", profile=profile)
    assert dear.curve.steps[-1].protection.chosen["Aggregator"].describe() == "restart"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "lacks the costs of protection: measure it with"),
        ("[costs]\nevery = 1.0\n[costs.operators.Nobody]\nrunning = {cores=1,memory=1,written=1,sent=1}\n", "Nobody"),
        ("[costs]\nevery = 0\n[costs.operators]\n", "longer than 0 s"),
        ("[costs]\n[costs.operators.VWAP]\n", "every"),
        ("[costs]\nevery = 1\n[costs.operators.VWAP]\n", "running, the cost without protection, is missing"),
        ("[costs]\nevery = 1\n[costs.operators.VWAP]\nrunning = {cores = -1}\n", "a number from 0 to"),
        ("[costs]\nevery = 1\n[costs.operators.VWAP]\nrunning = {cores = 1}\n", "memory"),
        ("costs = 3\n", "expected"),
        (
            "[costs]\nevery = 1\n[costs.operators.VWAP]\nrunning = {cores=1,memory=1,written=1,sent=1}\n",
            "lacks the costs of protection of Source, TradeQuote, .*: measure",
        ),
    ],
)
def test_costs_that_are_none(assessed, text, why):
    profile = assessed / "profile.toml"
    profile.write_text(text)
    with pytest.raises((DataError, PlanError), match=why):
        plan_budget(load_app(APP), [assessed], "cpu=0.5", profile=profile)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_technique_can_be_measured(technique):
    graph = with_technique(load_app(APP), technique)
    layout = arrange(graph, "none")
    took = {pe.id: {"cores": 1.0, "memory": 2.0, "written": 3.0, "sent": 4.0} for pe in layout.pes}
    lives = {"ha_group": 2, "copies": 2}.get(technique, 1)
    assert by_operator(graph, took)["Aggregator"] == Cost(*(lives * part for part in (1.0, 2.0, 3.0, 4.0)))
    assert by_operator(graph, took)["Sink"] == Cost(1.0, 2.0, 3.0, 4.0)


def test_what_no_operator_can_have_is_said():
    app = App("x")
    app.source("S", "x long").filter("x > 1", name="F").sink("Out")
    with pytest.raises(RiprapError, match="no operator of x can have it"):
        with_technique(app.build(), "checkpoint")
