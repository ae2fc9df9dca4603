"""Protection under a budget: the program finds what trying every combination finds, and the curve is what it says."""

import json
from itertools import chain, combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.measured_costs import measured_costs

from riprap.base.errors import DataError, PlanError, UsageError
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes, read_assessment
from riprap.planner.budget import (
    Budget,
    best_protection,
    budget_problem,
    evaluate,
    fits,
    lost_over,
    parse_budget,
)
from riprap.planner.tradeoff import knee, share_of, tradeoff

SECOND = 1_000_000
GRAPHS = [
    (["a"], []),
    (["a", "b"], [("a", "b")]),
    (["a", "b", "c"], [("a", "b"), ("b", "c")]),
    (["a", "b", "c"], [("a", "b"), ("a", "c")]),
    (["a", "b", "c"], [("a", "c"), ("b", "c")]),
]
number = st.sampled_from([0.0, 1.0, 2.0, 5.0])


@st.composite
def problems(draw):
    names, edges = draw(st.sampled_from(GRAPHS))
    operators = {}
    for name in names:
        kept = sorted(draw(st.lists(st.integers(1, 20), min_size=2, max_size=2)))
        operators[name] = OperatorImpact(
            draw(st.sampled_from([0.5, 1.0, 3.0])),
            {0: ((SECOND, kept[0]), (4 * SECOND, kept[1])), LOST: ((SECOND, kept[1] + draw(number)),)},
            cpu=draw(number), memory=draw(number), state=draw(st.sampled_from([0.0, 10.0, 40.0])), output=draw(number),
            failed_over=draw(st.sampled_from([(), ((SECOND, 3.0),), ((SECOND, 40.0),)])),
        )  # fmt: skip
    machinery = RecoveryTimes(SECOND, SECOND // 10, 100.0, (SECOND, 4 * SECOND), 2)
    together = draw(st.sampled_from([None, "all", "some"]))
    groups = None if together is None else {names[0]: frozenset(names[:2])} if together == "some" else {}
    if together == "all":
        groups = {name: frozenset([name]) for name in names}
    feedback = [(names[-1], names[0])] if draw(st.booleans()) else []
    sinks = frozenset(draw(st.lists(st.sampled_from(names))))
    assessment = AssessedApp("app", operators, machinery, measured_costs(operators, 20.0))
    asked = budget_problem(assessment, edges, feedback, together=groups, sinks=sinks)
    limit = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 3.0, 8.0]))
    recovery = st.one_of(st.none(), st.integers(1, 6).map(lambda s: s * SECOND))
    return asked, Budget(draw(limit), draw(limit), draw(limit), draw(recovery))


def every_protection(asked):
    names = asked.order
    for options in product(*(asked.options[name] for name in names)):
        for backups in chain.from_iterable(combinations(names, count) for count in range(len(names) + 1)):
            if runs(asked, [v for v, one in zip(names, options, strict=True) if one.technique == "ha_group"], backups):
                yield evaluate(asked, dict(zip(names, options, strict=True)), frozenset(backups))


def test_a_group_fails_over_at_its_edge():
    """What its members send each other is not lost: replicas have it."""
    rows = {0: ((SECOND, 5.0),), LOST: ((SECOND, 50.0),)}
    inner = OperatorImpact(1.0, rows, state=10.0, failed_over=((SECOND, 80.0),))
    edge = OperatorImpact(1.0, rows, state=10.0, failed_over=((SECOND, 2.0),))
    operators, machinery = (
        {"In": inner, "Inner": inner, "Edge": edge, "Out": edge},
        RecoveryTimes(SECOND, SECOND, 100.0, ()),
    )
    asked = budget_problem(
        AssessedApp("app", operators, machinery, measured_costs(operators)),
        [("In", "Inner"), ("Inner", "Edge"), ("Edge", "Out")], [],
    )  # fmt: skip
    technique = {name: {o.technique: o for o in choices} for name, choices in asked.options.items()}
    restart = {name: own["restart"] for name, own in technique.items()}
    alone = evaluate(asked, restart | {"Inner": technique["Inner"]["ha_group"]}, frozenset())
    group = {name: technique[name]["ha_group"] for name in ("Inner", "Edge")}
    assert lost_over(asked, restart | group) == {"Inner": 2.0, "Edge": 2.0}
    assert (alone.loss, evaluate(asked, restart | group, frozenset()).loss) == (50 + 80 + 50 + 50, 50 + 2 + 2 + 50)


def runs(asked, replicated, backups):
    """Whoever is replicated takes along whom it has to; replicas write no stream for others; cycles come back."""
    for name in replicated:
        if asked.together is not None and not (name in asked.together and asked.together[name] <= set(replicated)):
            return False
        fed = [target for source, target in asked.edges if source == name]
        if name in backups and (name in asked.sinks or set(fed) - set(replicated)):
            return False
    return all(name in backups or name in replicated for name in asked.must)


@settings(max_examples=60)
@given(problems())
def test_equals_trying_everything(case):
    asked, budget = case
    possible = [found.loss for found in every_protection(asked) if fits(found, budget)]
    if not possible:
        with pytest.raises(PlanError, match="no protection"):
            best_protection(asked, budget)
        return
    found = best_protection(asked, budget)
    assert fits(found, budget)
    assert found.loss == pytest.approx(min(possible), abs=1e-6)


@settings(max_examples=25)
@given(problems())
def test_the_curve_is_the_whole_frontier(case):
    asked, budget = case
    everything = [found for found in every_protection(asked) if fits(found, budget)]
    if not everything:
        return
    curve = tradeoff(asked, budget)
    shares = [step.share for step in curve.steps]
    losses = [step.protection.loss for step in curve.steps]
    assert shares == sorted(shares)
    assert all(a > b for a, b in pairwise(losses))
    for step in curve.steps:
        allowed = [other.loss for other in everything if share_of(other, curve.budget) <= step.share + 1e-9]
        assert step.protection.loss == pytest.approx(min(allowed), abs=1e-5)
        assert fits(step.protection, curve.budget)


def test_impact_is_interpolated_in_outage_and_age():
    impact = OperatorImpact(
        1.0, {0: ((2 * SECOND, 4.0), (4 * SECOND, 8.0)), 2 * SECOND: ((2 * SECOND, 6.0),), LOST: ((SECOND, 50.0),)}
    )
    assert impact.quality_impact(0, 0) == 0
    assert impact.quality_impact(SECOND, 0) == 2
    assert impact.quality_impact(3 * SECOND, 0) == 6
    assert impact.quality_impact(99 * SECOND, 0) == 8
    assert impact.quality_impact(2 * SECOND, SECOND) == 5
    assert impact.quality_impact(2 * SECOND, 9 * SECOND) == 6
    assert impact.quality_impact(0, LOST) == 50


def test_knee_is_where_more_budget_buys_little():
    assert knee([(0, 100), (0.1, 20), (0.5, 15), (1, 10)]) == 1
    assert knee([(0, 5)]) == 0


def test_steps_say_what_they_buy():
    rows = {0: ((SECOND, 2.0),), LOST: ((SECOND, 9.0),)}
    operator = OperatorImpact(1.0, rows, cpu=1.0, memory=100.0, state=10.0, output=5.0)
    operators = {"Sum": operator}
    settings = RecoveryTimes(SECOND, 0, 100.0, (SECOND,))
    asked = budget_problem(AssessedApp("app", operators, settings, measured_costs(operators)), [], [])
    words = [step.buys for step in tradeoff(asked, Budget(memory=100.0)).steps]
    assert (
        words[0] == "Sum: checkpoint every 1s: an expected loss of 0 a day"
    )  # a source's input is kept: no loss is left
    first = OperatorImpact(2.0, rows, cpu=1.0, memory=100.0, state=10.0, output=5.0)
    operators, settings = {"In": first, "Sum": operator}, RecoveryTimes(SECOND, 0, 100.0, ())
    asked = budget_problem(AssessedApp("app", operators, settings, measured_costs(operators)), [("In", "Sum")], [])
    words = [step.buys for step in tradeoff(asked, Budget(memory=200.0)).steps]
    assert words == [
        "every operator restarts without state: an expected loss of 27 a day",
        "In: HA group: the expected loss falls from 27 to 9 a day",
        "Sum: HA group: the expected loss falls from 9 to 0 a day",
    ]


def test_an_assessment_is_read_from_its_directory(tmp_path):
    entry = {
        "failures_per_day": 0.2,
        "impact": [
            {"outage": "1s", "state_age": "0s", "impact": 3},
            {"outage": "1s", "state_age": "lost", "impact": 9},
        ],
        "cpu": 0.5,
    }
    content = {"app": "x", "operators": {"A": entry}, "settings": {"restart": "2s", "intervals": ["1s"]}}
    (tmp_path / "assessment.json").write_text(json.dumps(content))
    found = read_assessment(tmp_path)
    assert found.operators["A"].impact == {0: ((SECOND, 3.0),), LOST: ((SECOND, 9.0),)}
    assert found.settings.restart == 2 * SECOND
    assert found.settings.intervals == (SECOND,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failures_per_day": -1}, "failures_per_day: expected a number from 0 to"),
        ({"impact": []}, "at least one outage"),
        ({"impact": [{"outage": 1, "impact": 2}]}, "expected a duration"),
        ({"cpus": 1}, r"unknown key cpus; known are .*did you mean cpu"),
    ],
)
def test_bad_assessments_get_a_sentence(tmp_path, change, message):
    entry = {"failures_per_day": 1, "impact": [{"outage": "1s", "impact": 3}]} | change
    (tmp_path / "assessment.json").write_text(json.dumps({"app": "x", "operators": {"A": entry}}))
    with pytest.raises(DataError, match=message):
        read_assessment(tmp_path)


def test_a_missing_assessment_is_named(tmp_path):
    with pytest.raises(DataError, match="no assessment at"):
        read_assessment(tmp_path)


def test_budgets_are_parsed():
    assert parse_budget("cpu=0.5, memory=1GiB,storage=10MB", None) == Budget(0.5, 2**30, 1e7)
    for text in ("cpu", "disk=1", "cpu=x", "cpu=1,cpu=2"):
        with pytest.raises(UsageError):
            parse_budget(text, None)
