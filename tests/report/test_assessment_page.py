"""The report of an assessment whose faults strike single tuples."""

from dataclasses import replace

import numpy as np
from tests.report.test_assess_reproduction import GRAPH, SETTINGS, published
from tests.report.test_reports import words

from riprap.base.quantities import Duration
from riprap.faults.models import ALTERS
from riprap.faults.operator_advice import verdicts
from riprap.faults.ordering import orders
from riprap.faults.targets import placements
from riprap.report.assess import AssessmentReport, report
from riprap_papers.published.assessment_tables import TABLE


def page(fault, quality):
    """TradeFilter has these quality scores by offset under its decisive outage."""
    summaries = [published(name) for name in TABLE]
    struck = [
        replace(s, outages=[*s.outages[:-1], replace(s.outages[-1], quality=np.array(quality))])
        if s.target == "TradeFilter"
        else s
        for s in summaries
    ]
    settings, placed = replace(SETTINGS, fault=fault), placements(GRAPH, fault, ["Sink"])
    told = verdicts(GRAPH, placed, struck, Duration(2_000_000), altered=fault in ALTERS)
    order = {"Sink": orders(settings, struck, "Sink")}
    return report(AssessmentReport(GRAPH, settings, placed, struck, (), told, {}, {}, {}, {}, [], "", order))


def test_a_score_without_bound_is_told_and_not_drawn():
    shown = page("sdc", [np.inf, 7.25])
    assert "QS 7.250" in shown
    assert "QS inf" not in shown
    assert "inf, and not drawn, where the golden run has no output" in words(shown)


def test_wrong_bits_lose_no_tuples_and_the_worst_is_shown():
    shown, lost = words(page("sdc", [1.0, 1.0])), words(page("loss", [1.0, 1.0]))
    assert "under the most harmful bit flip" in shown
    assert "tuples lost" not in shown
    assert "under the longest outage" in lost
    assert "tuples lost" in lost
