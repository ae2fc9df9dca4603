"""The arithmetic of the benchmark of protocols: whom a run is compared with, and how sure that is."""

import pytest
from benchmarks.bench_protocols import Pace, interleaved, ratios
from benchmarks.harness import confidence


def test_runs_are_interleaved_and_every_other_round_goes_the_other_way():
    asked = []

    def pace(settings):
        asked.append(settings.get("protocol", "none"))
        return Pace(len(asked), 1.0, 0)

    found, without = interleaved(2, {"a": {"protocol": "a"}, "b": {"protocol": "b"}}, pace)
    assert asked == ["none", "a", "b", "none", "b", "a", "none"]
    assert [one.rows for one in without] == [1, 4, 7]
    assert [one.rows for one in found["a"]] == [2, 6]


def test_a_run_is_held_to_those_around_its_round():
    without = [Pace(100.0, 1e-8, 0), Pace(120.0, 3e-8, 0), Pace(80.0, 1e-8, 0)]
    by_clock, by_processor = ratios([Pace(99.0, 4e-8, 1), Pace(100.0, 2e-8, 1)], without)
    assert by_clock == pytest.approx([0.9, 1.0])
    assert by_processor == pytest.approx([0.5, 1.0])


def test_a_confidence_interval_is_wide_where_rounds_differ():
    low, mean, high = confidence([0.9, 1.0, 1.1, 1.0])
    assert low < 0.95 < mean < 1.05 < high
    assert confidence([1.0, 1.0, 1.0]) == pytest.approx((1.0, 1.0, 1.0))
    assert confidence([0.9]) == (0.9, 0.9, 0.9)
    assert high / mean == pytest.approx(1.139, abs=0.01)  # Student's 3.182 of four
