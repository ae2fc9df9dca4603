"""Reports are complete pages that parse, escape what they are given, and need nothing from outside."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planner.measured_costs import measured_costs

from riprap.apps import fab
from riprap.apps.catalogue import load_app
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.backup_plan import plan_backups
from riprap.planner.budget import Budget, budget_problem
from riprap.planner.problem import problem
from riprap.planner.topology import topology
from riprap.planner.tradeoff import tradeoff
from riprap.report import page
from riprap.report.budget_report import budget_report
from riprap.report.chart import ChartPoint, Series, chart, decades, ticks
from riprap.report.plan_report import plan_report
from riprap.report.replicas import replicas
from riprap.report.run import run_report
from riprap_papers.experiments.yield_crashes import ModelCrash, Study, YieldOutcome, YieldQuality
from riprap_papers.published.topologies import SECOND, line, twitter_sentiment
from riprap_papers.report.yield_report import yield_report

VOID = {"meta", "br", "path", "circle"}


class Balanced(HTMLParser):
    """Fails on tags that do not match; collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.words.append(data)


def words(html):
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    assert not re.search(r"(src|href)=|url\(|@import", html), "a report fetches nothing"
    return " ".join(parser.words)


def test_a_plan_report_says_what_matters():
    plan = plan_backups(problem(twitter_sentiment(5, 4, 3), 3 * SECOND))
    shown = words(plan_report(plan, command="riprap plan x"))
    assert plan.verdict in shown
    assert "predictions" in shown
    for task in plan.problem.topology.tasks:
        assert task in shown
    assert " → ".join(plan.critical) in shown
    assert "riprap plan x" in shown


def test_a_large_plan_is_not_drawn():
    plan = plan_backups(problem(line(5, 100), 3 * SECOND))
    html = plan_report(plan)
    assert "<svg" not in html
    assert "501 tasks are too many to draw" in words(html)


def test_names_are_escaped():
    graph = topology("<b>&", {"<script>": SECOND, "x": SECOND}, [("<script>", "x")])
    html = plan_report(plan_backups(problem(graph, SECOND)))
    assert "<script>" not in html
    assert "<script>" in words(html)


def test_a_budget_report_has_the_curve_and_the_steps():
    graph = load_app("bargain-discovery")
    inner = [operator.name for operator in graph if operator.name != "Sink"]
    impact = OperatorImpact(
        1.0, {0: ((SECOND, 2.0),), LOST: ((SECOND, 9.0),)}, cpu=0.5, memory=1e6, state=1e5, output=1e4
    )
    edges = [(stream.source, stream.target) for stream in graph.streams if stream.target != "Sink"]
    operators, settings = dict.fromkeys(inner, impact), RecoveryTimes(intervals=(SECOND,))
    asked = budget_problem(AssessedApp(graph.name, operators, settings, measured_costs(operators)), edges, [])
    curve = tradeoff(asked, Budget(cpu=1.0, recovery=5 * SECOND))
    html = budget_report(graph, curve)
    shown = words(html)
    assert all(step.buys in shown for step in curve.steps)
    assert "knee" in shown
    assert html.count("<svg") == 2


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_enclose_and_are_few(low, span):
    found = ticks(low, low + span)
    assert found[0] <= low + 1e-6 * max(1, span)
    assert found[-1] >= low + span - 1e-6 * max(1, span)
    assert 2 <= len(found) <= 12
    assert found == sorted(set(found))


def test_a_chart_shows_every_point():
    svg = chart(
        [Series("a", [ChartPoint(0, 1), ChartPoint(2, 3, "here", "knee")]), Series("b", [ChartPoint(1, 1)])],
        x_label="x",
        y_label="y",
    )
    assert svg.count("<circle") == 4
    assert "<title>here</title>" in svg
    assert chart([], x_label="x", y_label="y") == ""


@given(st.floats(1e-9, 1e9), st.floats(1, 1e6))
def test_decades_enclose(low, ratio):
    found = decades(low, low * ratio)
    assert found[0] <= low * (1 + 1e-6)
    assert found[-1] >= low * ratio * (1 - 1e-6)
    assert len(found) == 2 or found[1] > low * (1 - 1e-6)  # none too many below
    assert all(b == pytest.approx(10 * a) for a, b in pairwise(found))


def test_a_logarithmic_axis_puts_equal_ratios_equally_far_apart():
    points = [ChartPoint(x, 1) for x in (0.01, 0.1, 1, 10)]
    svg = chart([Series("a", points)], x_label="x", y_label="y", log_x=True)
    places = [float(x) for x in re.findall(r'<circle class="p"[^>]* cx="([\d.]+)"', svg)]
    assert np.diff(places) == pytest.approx([places[1] - places[0]] * 3, abs=0.15)


def test_a_yield_report_says_what_matters():
    def outcomes(*errors):
        return tuple(YieldOutcome(np.array(one), 1) for one in errors)

    study = Study(
        YieldQuality(np.arange(3), np.zeros(3)), 6, (ModelCrash(fab.START_US + 1_500_000, 2_000_000),
        ModelCrash(fab.START_US, 1)),
        (2, 0), {"S2": outcomes([0.5, -0.5], [0.5]), "S3": outcomes([3.0, -4.0], [0.0])},
    )  # fmt: skip
    html = yield_report(study, command="riprap reproduce yield")
    shown = words(html)
    assert "differ by 0.500 percentage points (RMSE)" in shown
    assert "starts from scratch, by 2.89." in shown
    assert "5.0 of 6 tuples" in shown
    assert shown.index("0.0 s") < shown.index("1.5 s")  # crashes in the order of time
    assert "S3: 33.3% within 1 points" in shown


def test_tables_align_and_mark():
    html = page.table(["a", "b"], [["1", "<2>"], ["3", "4"]], numbers=(1,), hot=(1,))
    assert '<td class="num">&lt;2&gt;</td>' in html
    assert html.count("<tr class=hot>") == 1


@pytest.mark.parametrize("block", [page.text("<"), page.note("<"), page.code("<"), page.facts({"<": "<"})])
def test_blocks_escape(block):
    assert "&lt;" in page.page("t", [block], lead="<", footer="<")
    words(page.page("t", [page.section("s", block)], lead="<", footer="<"))


FAILOVERS = [
    {"at": 5_000_000, "lost": "<A>#1", "from": 1, "to": 2, "term": 2, "tainted": False, "seconds": 0.1, "dropped": 7,
     "doubled": 3, "from_kill": 0.25},
    {"at": 7_500_000, "lost": "B#2", "from": 2, "to": None, "term": 3, "tainted": False, "seconds": None, "dropped": 0,
     "doubled": 0, "from_kill": None},
]  # fmt: skip
GROUP = {
    "active": 2, "term": 3, "tainted": True, "deterministic": True, "failovers": FAILOVERS,
    "replicas": [{"elements": ["<A>#1", "B#1"], "state": "full"}, {"elements": ["<A>#2", "B#2"], "state": "refilling"}],
}  # fmt: skip
DIFFERENCE = {"stream": "A→B", "operator": "A", "from": 1_000_000, "to": 2_000_000, "copies": ["A#1"], "odd": ["A#3"]}
COPIED = {
    "copies": [{"element": "A#1", "state": "speaking"}, {"element": "A#3", "state": "waiting"}], "restored": 4,
    "tainted": 1, "differences": [DIFFERENCE, {**DIFFERENCE, "odd": []}],
}  # fmt: skip


def test_replicas_are_shown_with_their_fail_overs():
    shown = words("".join(replicas({"groups": {"g": GROUP}, "copies": {}})))
    for expected in ("active, tainted", "backup", "<A>#1, B#1", "replica 2", "0.250 s", "no replica", "active replica"):
        assert expected in shown, expected
    assert "differed" not in shown
    quiet = words("".join(replicas({"groups": {"g": {**GROUP, "failovers": []}}})))
    assert "No group failed over" in quiet
    assert replicas({"groups": {}, "copies": {}}) == []


def test_copies_are_shown_with_what_they_differed_in():
    shown = words("".join(replicas({"groups": {}, "copies": {"A": COPIED}})))
    for expected in ("A#1 speaking", "A#3 waiting", "A→B", "1.000 s to 2.000 s", "unknown"):
        assert re.search(expected.replace(" ", r"\s+"), shown), expected


def test_the_page_of_a_run_has_streams_elements_and_replicas():
    summary = {
        "app": "x", "tuples": 10, "throughput": 5.0, "seconds": 2.0, "latency": {"p50": None, "p99": None},
        "protocol": {"name": "partial"}, "warnings": ["beware of <this>"], "copies": {}, "groups": {"g": GROUP},
        "failures": [{"undone": {"A": 1_204}}],
        "pes": {"A#1": {"restarts": 2, "delivery": "with gaps"}, "B": {"restarts": 0, "delivery": "with gaps"}},
        "costs": {"A#1": {"cores": 0.5, "memory": 2e6, "written": 0.0, "sent": 1e3}},
        "streams": {"A→B": {"recovery": "failover", "sent": 9, "received": 8, "late": 0, "lost": 1, "repeated": 0}},
    }  # fmt: skip
    shown = words(run_report(summary, command="riprap run x"))
    for expected in ("Run of x", "Replicas", "A→B", "beware of <this>", "0.500", "1,204", "riprap run x"):
        assert expected in shown, expected
