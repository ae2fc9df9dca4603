"""The page of the published assessment: of the published numbers every statement holds, and it is whole."""

from dataclasses import replace

import numpy as np
from tests.faults.test_verdict import summary
from tests.report.test_reports import words

from riprap.apps import bargain_discovery
from riprap.base.quantities import Duration
from riprap.faults.campaign_settings import CampaignSettings, Target
from riprap.faults.campaign_summary import Metrics, OutageSummary
from riprap.faults.ordering import orders
from riprap.faults.targets import placements
from riprap.graph.plan_file import parse_plan
from riprap.report.assess import AssessmentReport
from riprap_papers.published.assessment_tables import PLAN, REDEPLOYED, TABLE, rows, statements
from riprap_papers.report.assess_reproduction import reproduction_page

GRAPH = bargain_discovery.build()
SETTINGS = CampaignSettings(
    tuple(Target((name,)) for name in TABLE), (1_500_000, 3_500_000), {"Sink": "sum(gain)"}, reps=2, golden=2
)


def published(name):
    """A summary with the published R and I: a section is off by the root of I, another, R sections on, by a little."""
    C, D, R, I = TABLE[name]  # noqa: E741
    errors = np.zeros(400)
    errors[0], errors[R - 1] = np.sqrt(I), 0.04
    quality = {"Source": (1.2, 0.6), "QuoteFilter": (0.5, 0.0)}.get(name, (1.1, 2.0))
    outages = [
        OutageSummary(
            Duration(seconds * 1_000_000), "peak", 1_000 * seconds, np.full(2, score), np.full((2, 2), score), R, I,
            [errors] * 2, [R] * 2, [I] * 2,
        )
        for seconds, score in zip((2, 8, 16), (quality[0], 1.0, quality[1]), strict=True)
    ]  # fmt: skip
    scores = (1.0 + np.array([errors] * 2), np.ones((2, 400)))
    return replace(
        summary(name, "Sink", R=R, I=I), paired=Metrics(C, D, R, I), outages=outages, errors=[errors] * 2,
        recovery=[R] * 2, impact=[I] * 2, sections=[scores] * 2,
    )  # fmt: skip


def test_the_published_numbers_meet_the_published_statements():
    summaries = [published(name) for name in TABLE]
    protected = {name: summary(name, "Sink", R=after[0], I=after[1]) for name, (_, after) in REDEPLOYED.items()}
    order = orders(SETTINGS, summaries, "Sink")
    told = rows(summaries, protected, order)
    assert [row.case for row in told if row.metric == "holds" and row.ours != 1.0] == []
    for row in told:
        if row.table == "table 4.2":
            assert row.published == row.ours
    placed = placements(GRAPH, "loss", ["Sink"])
    content = AssessmentReport(
        GRAPH, SETTINGS, placed, summaries, [], {}, protected, {}, {}, {}, [], "", {"Sink": order}
    )
    text = words(reproduction_page(content, told))
    for figure in ("Table 4.2", "Figure 4.11", "Figure 4.12", "Figure 4.14", "Figure 4.15", "340 → 39"):
        assert figure in text


def test_a_wrong_order_is_told():
    summaries = [published(name) for name in TABLE]
    turned = [replace(s, paired=replace(s.paired, I=100.0)) if s.target == "QuoteFilter" else s for s in summaries]
    told = {row.case: row.ours for row in rows(turned, {}, orders(SETTINGS, turned, "Sink")) if row.metric == "holds"}
    assert told["the order of operators by I is that of table 4.2"] == 0.0
    assert told["Source and TradeFilter have the greatest R, then VWAP and BargainIndex, then QuoteFilter"] == 1.0


def test_equal_recovery_where_the_text_names_none_is_no_wrong_order():
    summaries = {name: published(name) for name in TABLE}
    by_recovery = "Source and TradeFilter have the greatest R, then VWAP and BargainIndex, then QuoteFilter"
    for name, R, holds in (("VWAP", 43, True), ("VWAP", 340, False), ("QuoteFilter", 43, False)):
        changed = summaries | {name: replace(summaries[name], paired=replace(summaries[name].paired, R=R))}
        assert statements([*changed.values()], {})[by_recovery] is holds


def test_the_published_plan_has_two_groups():
    groups = {spec.name: spec.annotations.ha_group for spec in parse_plan(PLAN).apply(GRAPH)}
    assert {name for name, group in groups.items() if group is not None} == set(REDEPLOYED)
    assert len({group.name for group in groups.values() if group is not None}) == 2
