"""The published join experiments: shapes of the data, matches as published, and a short run that comes to an end."""

import numpy as np
import pyarrow as pa
import pytest
from tests.report.test_reports import words

from riprap.apps.join_checkpoints import CASES, PER_GROUP, SINGLE, Outcome, confidence, graph_of, measure
from riprap.report.joins_report import joins_report


def test_tuples_are_as_wide_as_published():
    left, right = (graph_of(SINGLE[0])[name].schema for name in ("S1", "S2"))
    assert [left.field(name).type for name in ("g", "x", "text")] == [pa.int64(), pa.int64(), pa.string()]
    assert [right.field(name).type for name in ("g", "short")] == [pa.int64(), pa.string()]


def test_a_short_run_measures_and_matches_as_published():
    case = SINGLE[0]
    found = measure(case, 1, 0.0, block=0.05)
    assert found.pairs == 3
    assert found.low <= found.ratio <= found.high
    assert found.missed <= 3
    taken, given = case.published
    assert found.output_rate / found.input_rate == pytest.approx(given / taken, rel=0.1), "matches to a tuple"
    grouped = 1_024 * PER_GROUP.keys[0] / PER_GROUP.keys[1] / 2
    assert grouped == pytest.approx(PER_GROUP.published[1] / PER_GROUP.published[0], rel=0.15)


def test_the_interval_is_that_of_logarithms():
    ratios = [0.9, 1.0, 1.1, 0.95]
    low, mean, high = confidence(ratios)
    logs = np.log(ratios)
    assert mean == pytest.approx(np.exp(logs.mean()))
    assert high / mean == pytest.approx(mean / low)
    assert np.log(high / mean) == pytest.approx(3.1824 * logs.std(ddof=1) / 2, rel=1e-4)


def outcome(case, interval, ratio, half):
    return Outcome(
        case.name, interval, 1e5, 2e5, ratio, ratio - half, ratio + half, ratio, ratio, 9, float(interval), 1e6, 0
    )


@pytest.mark.parametrize(
    ("ratio", "half", "decided"), [(0.99, 0.004, True), (0.99, 0.02, False), (0.95, 0.02, True), (1.03, 0.02, True)]
)
def test_when_an_interval_says_enough(ratio, half, decided):
    assert outcome(SINGLE[0], 1, ratio, half).decided is decided


def test_the_report_shows_all_figures():
    found = [outcome(case, interval, 0.99, 0.01) for case in CASES for interval in (1, 10)]
    text = words(joins_report(found))
    for part in ("Table 3.1", "Figure 3.11", "Figure 3.12", "Figure 3.13", "25,451", "10.09 to 10.5 s"):
        assert part in text
