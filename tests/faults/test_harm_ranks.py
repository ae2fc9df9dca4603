"""Ranks with intervals, against samples whose order is known; metrics against hand-made scores."""

import numpy as np
import pytest

from riprap.faults.harm_ranks import SECTIONS, HarmTrial, RankInterval, harm_metrics, ranked


def mean(drawn: np.ndarray) -> np.ndarray:
    return drawn.mean(axis=1)


def test_operators_far_apart_have_a_certain_rank():
    samples = np.array([[1, 2, 3], [7, 8, 9], [4, 5, 6]], float)
    assert ranked(samples, mean, "") == [RankInterval(3, 3, 3), RankInterval(1, 1, 1), RankInterval(2, 2, 2)]


def test_operators_that_take_turns_may_have_either_rank():
    samples = np.array([[0, 9, 0, 9, 1], [9, 0, 9, 0, 0], [-1] * 5], float)
    assert ranked(samples, mean, "") == [RankInterval(1, 1, 2), RankInterval(2, 1, 2), RankInterval(3, 3, 3)]
    assert str(RankInterval(1, 1, 2)) == "1 (1–2)"


def test_operators_without_a_difference_share_a_rank():
    assert ranked(np.ones((3, 4)), mean, "") == [RankInterval(1, 1, 1)] * 3


def trial(lost: int, missing: float, sections: int) -> HarmTrial:
    """Each of the first `sections` lacks a share of its score."""
    golden = np.full(SECTIONS, 10.0)
    faulty = golden.copy()
    faulty[:sections] *= 1 - missing
    return HarmTrial(lost, faulty.sum(), golden.sum(), faulty, golden)


def test_metrics():
    trials = {
        ("A", "Out"): [[trial(10, 0.5, 1), trial(20, 0.5, 4)], [trial(10, 0.5, 2), trial(20, 0.5, 4)]],
        ("B", "Out"): [[trial(10, 0.0, 0), trial(20, 0.2, 2)], [trial(10, 0.0, 0), trial(20, 0.2, 4)]],
    }
    first, second = harm_metrics(trials, {"Out": 20_000_000})
    assert (first.operator, first.sink, first.rank) == ("A", "Out", RankInterval(1, 1, 1))
    assert (pytest.approx(-1.0), 0.0) == (first.C, first.D)  # the more is lost, the less is left; at any offset
    assert (4_000_000, pytest.approx(4 * 0.25)) == (first.R, first.I)
    assert second.rank == RankInterval(2, 2, 2)
    assert pytest.approx(np.std([0.98, 0.96], ddof=1)) == second.D
    assert (4_000_000, pytest.approx(4 * 0.04)) == (second.R, second.I)
