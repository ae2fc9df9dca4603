"""The four metrics, on numbers worked out by hand and in their degenerate cases."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from riprap.faults import quality_metrics as metrics


def test_outage_impact_is_the_mean_rank_correlation():
    lost = np.array([[1, 2, 3, 4]] * 2)
    falling_and_mixed = np.array([[0.9, 0.5, 0.2, 0.0], [0.9, 0.5, 0.6, 0.0]])
    assert metrics.outage_impact(lost, falling_and_mixed) == pytest.approx((-1.0 - 0.8) / 2)


def test_a_constant_quality_score_has_no_correlation():
    assert metrics.outage_impact(np.array([[1, 2, 3]]), np.ones((1, 3))) == 0.0


def test_data_dependency_takes_the_sample_deviation_of_the_means():
    sigma, _ = metrics.data_dependency(np.array([[1.0, 3.0], [4.0, 4.0]]))
    assert sigma == pytest.approx(np.sqrt(2.0))


@given(st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=2, max_size=5))
def test_variance_analysis_agrees_with_scipy(groups):
    table = np.array(groups)
    if np.ptp(table, axis=1).max() < 1e-3:
        return  # no variation within: not defined there
    expected = stats.f_oneway(*table).pvalue
    if abs(expected - metrics.ALPHA) > 1e-6:
        assert metrics.data_dependency(table)[1] == ("R" if expected < metrics.ALPHA else "A")


def test_degenerate_groups():
    assert metrics.data_dependency(np.zeros((5, 5))) == (0.0, "A")
    assert metrics.data_dependency(np.array([[1.0, 1.0], [2.0, 2.0]]))[1] == "R"
    assert metrics.data_dependency(np.array([[1.0], [2.0]]))[1] == "A"


def test_recovery_and_impact_by_hand():
    error = np.array([1.0, 0.01, 0.5, 0.2, 0.0, 0.1, 0.04])  # wrong beyond 3 %: 1, 3, 4, 6, 7
    assert metrics.recovery_time(error, 0.03, 0.9) == 7
    assert metrics.recovery_time(error, 0.03, 0.8) == 6
    assert metrics.quality_impact(error, 0.03, 6) == pytest.approx(1 + 0.25 + 0.04 + 0.01)
    assert metrics.recovery_time(np.ones(10), 0.03, 0.9) == 9


def test_signed_impact_lets_underestimates_count_against():
    error = np.array([-1.0, 0.5])
    assert metrics.quality_impact(error, 0.03, 2, signed=True) == pytest.approx(-0.75)
    assert metrics.quality_impact(error, 0.03, 2) == pytest.approx(1.25)


def test_nothing_wrong():
    assert metrics.recovery_time(np.zeros(4), 0.03, 0.9) == 0
    assert metrics.quality_impact(np.zeros(4), 0.03, 0) == 0.0
    assert metrics.recovery_time(np.empty(0), 0.03, 0.9) == 0


def test_errors_where_golden_is_nothing():
    errors = metrics.section_errors(np.array([[0.0, 3.0, -2.0, 1.0]]), np.array([[0.0, 0.0, 0.0, -4.0]]))
    assert errors.error.tolist() == [0.0, 1.0, 1.0, 1.25]
    assert errors.flagged.tolist() == [False, True, True, False]


def test_runs_are_averaged_before_the_error_is_taken():
    errors = metrics.section_errors(np.array([[8.0], [12.0]]), np.array([[10.0], [10.0]]))
    assert errors.error.tolist() == [0.0]


def test_quality_scores_of_nothing():
    assert metrics.quality_scores(np.array([0.0, 2.0, 3.0]), np.array([0.0, 0.0, 2.0])).tolist() == [1.0, np.inf, 1.5]


def test_sensitivity():
    golden = np.linspace(9.9, 10.1, 50)
    assert metrics.sensitive(golden, np.full(5, 20.0))
    assert not metrics.sensitive(golden, golden[::10])
    assert not metrics.sensitive(np.zeros(50), np.zeros(5))


def test_interval_needs_two_samples():
    assert metrics.interval(np.array([1.0])) is None
    low, high = metrics.interval(np.array([1.0, 2.0, 3.0]))
    assert low == pytest.approx(2 - 2.4841377, abs=1e-6)
    assert high == pytest.approx(2 + 2.4841377, abs=1e-6)


@pytest.mark.parametrize("worse", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_has_an_error_without_size(worse):
    """A flipped bit of an exponent does that; nothing may be warned of, and nothing may look right."""
    golden = np.array([[2.0, 2.0, 2.0]] * 3)
    faulty = np.array([[2.0, worse, 3.0], [2.0, 2.0, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = metrics.section_errors(faulty, golden)
        quality = metrics.quality_scores(np.array([[1.0, worse]]), np.array([[1.0, 1.0]]))
        assert metrics.data_dependency(quality) == (np.inf, "R")
        assert metrics.sensitive(np.full(40, 2.0), np.full(40, worse))
    assert errors.error.tolist() == [0.0, 1.0, 0.5]
    assert errors.flagged.tolist() == [False, True, False]
    assert metrics.recovery_time(errors.error, 0.03, 0.9) == 3
    assert quality.tolist() == [[1.0, np.inf]]


@pytest.mark.parametrize("golden", [2, 3, 4, 8, 20])
@pytest.mark.parametrize("faulty", [1, 2, 4])
def test_runs_are_enough_if_the_clearest_difference_is_one(golden, faulty):
    clear = stats.ks_2samp(np.arange(golden), np.arange(100, 100 + faulty)).pvalue < metrics.ALPHA
    assert metrics.can_tell(golden, faulty) == clear
