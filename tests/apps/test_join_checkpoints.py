"""The published join experiments: shapes of the data, matches as published, and a short run that comes to an end."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.test_reports import words

from riprap_papers.cli import reproduce_joins
from riprap_papers.experiments import join_checkpoints
from riprap_papers.experiments.join_checkpoints import (
    CASES,
    PER_GROUP,
    SINGLE,
    JoinOutcome,
    confidence,
    cost,
    graph_of,
    measure,
    relative,
)
from riprap_papers.report.joins_report import joins_report


def test_tuples_are_as_wide_as_published():
    left, right = (graph_of(SINGLE[0])[name].schema for name in ("S1", "S2"))
    assert [left.field(name).type for name in ("g", "x", "text")] == [pa.int64(), pa.int64(), pa.string()]
    assert [right.field(name).type for name in ("g", "short")] == [pa.int64(), pa.string()]


def test_a_short_run_measures_and_matches_as_published():
    case = SINGLE[0]
    found = measure(case, 1, 0.0, block=0.05)
    assert found.pairs >= 5
    assert found.low <= found.ratio <= found.high
    taken, given = case.published
    assert found.output_rate / found.input_rate == pytest.approx(given / taken, rel=0.1), "matches to a tuple"
    grouped = 1_024 * PER_GROUP.keys[0] / PER_GROUP.keys[1] / 2
    assert grouped == pytest.approx(PER_GROUP.published[1] / PER_GROUP.published[0], rel=0.15)


def test_the_ratio_falls_with_the_cost_whatever_that_is():
    found = [relative(2, lost) for lost in (-9.0, -2.0, -1.0, 0.0, 2.0)]
    assert found == [1_000.0, 1_000.0, 2.0, 1.0, 0.5]


def test_the_interval_is_students():
    values = [0.9, 1.0, 1.1, 0.95]
    low, mean, high = confidence(values)
    assert mean == pytest.approx(np.mean(values))
    assert high - mean == pytest.approx(mean - low)
    assert high - mean == pytest.approx(3.1824 * np.std(values, ddof=1) / 2, rel=1e-4)


@given(
    usual=st.floats(0.001, 0.02),
    extra=st.floats(0.0, 0.3),
    written=st.integers(0, 8),
    slope=st.floats(-0.0001, 0.0001),
)
def test_a_cost_is_found_whatever_the_speed_and_its_drift(usual, extra, written, slope):
    """100 batches, the 50th waits for the capture, the next few share the machine with the writer."""
    times = usual * (1 + slope * np.arange(100))
    times[50] += extra / 2
    times[51 : 51 + written] += extra / 2 / max(1, written)
    lost = extra if written else extra / 2
    ends = np.cumsum(times)
    found = cost(ends, ends[49], ends[50 + written], 0.0)
    assert found == pytest.approx(lost, abs=usual * 0.02 * (written + 2))


def test_no_cost_without_a_checkpoint_or_a_neighbour():
    ends = np.arange(1.0, 11.0)
    assert cost(ends, np.inf, np.inf, 0.0) is None
    assert cost(ends, 0.0, np.inf, 0.0) is None
    assert cost(ends, 5.0, np.inf, 0.0) == pytest.approx(0.0), "not durable at the end of its block"


def outcome(case, interval, ratio, half):
    return JoinOutcome(
        case.name,
        interval,
        1e5,
        2e5,
        ratio,
        ratio - half,
        ratio + half,
        ratio,
        ratio,
        ratio,
        9,
        float(interval),
        1e6,
        0,
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


def test_the_terminal_has_what_is_published_beside_ours(monkeypatch, capsys):
    monkeypatch.setattr(
        join_checkpoints, "measure", lambda case, interval, seconds: outcome(case, interval, 0.97, 0.01)
    )
    reproduce_joins.command(1.0, "1,10", None, json=False)
    shown = capsys.readouterr().out
    for part in ("Table 3.1", "25,451", "0.970", "below 0.95", "10.09"):
        assert part in shown
