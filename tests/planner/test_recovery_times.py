"""How long recoveries take, against closed forms and simulated samples."""

import numpy as np
import pytest

from riprap.base.quantities import LONGEST, Duration
from riprap.planner.costs import Cost
from riprap.planner.measured import Measured, MeasuredOperator, Quantiles
from riprap.planner.recovery_times import fitted, recovery_time

RESTART = Quantiles(0.5, 1.0, 2.0)
NONE = Quantiles(1e-6, 1e-6, 1e-6)


def measured(*, rate=1_000.0, replay=100_000.0, state=0.0, restart=RESTART):
    one = MeasuredOperator(rate, 1.0, state, restart, 1e6, replay, NONE, Cost())
    return Measured("app", 60.0, 1.0, NONE, NONE, NONE, {"a": one})


def test_a_restart_alone_keeps_its_percentiles():
    found = recovery_time(measured(), "a", None, replayed=False)
    assert [each / 1e6 for each in found.levels] == pytest.approx([0.5, 1.0, 2.0], rel=0.06)


def test_state_is_restored_at_its_speed():
    without = recovery_time(measured(), "a", Duration(1_000_000), replayed=False)
    found = recovery_time(measured(state=3e6), "a", Duration(1_000_000), replayed=False)
    assert found.middle - without.middle == pytest.approx(3e6, rel=1e-6)


def test_replay_is_uniform_over_the_interval_and_catches_up_behind_new_input():
    # With nothing else, the time is age · rate / (replay − rate), and age is uniform over the interval.
    quick = measured(rate=1_000.0, replay=5_000.0, restart=NONE)
    found = recovery_time(quick, "a", Duration(8_000_000), replayed=True)
    assert [each / 1e6 for each in found.levels] == pytest.approx([0.1, 1.0, 1.9], abs=0.06)


def test_the_worst_case_is_every_part_at_its_slowest_just_before_a_checkpoint():
    quick = measured(rate=1_000.0, replay=5_000.0, state=3e6)
    found = recovery_time(quick, "a", Duration(8_000_000), replayed=True)
    before = 2.0 + 3.0  # restart and restore
    assert found.worst / 1e6 == pytest.approx(before + (8.0 + before) / 4, rel=1e-4)
    assert found.worst > found.high


def test_what_cannot_keep_up_never_catches_up():
    assert recovery_time(measured(rate=10.0, replay=10.0), "a", Duration(1), replayed=True).middle == LONGEST
    # Data that is replayed faster comes faster, too.
    assert recovery_time(measured(rate=10.0, replay=15.0), "a", Duration(1), replayed=True, speed=2).middle == LONGEST


@pytest.mark.parametrize("count", [4, 8, 30])
def test_the_interval_holds_nine_of_ten_next_values_however_few_were_seen(count):
    draws = np.random.Generator(np.random.Philox(count))
    inside = 0
    for _ in range(600):
        values = np.exp(draws.normal(0.0, 0.5, count + 1))
        low, _, high = fitted(values[:-1].tolist())
        inside += low <= values[-1] <= high
    assert 0.86 <= inside / 600 <= 0.95


def test_few_samples_of_one_operator_are_drawn_to_the_median_of_all():
    everything = [1.0] * 20 + [4.0]
    alone, many = fitted([4.0], everything), fitted([4.0] * 20, everything)
    assert 1.0 < alone.middle < 2.0 < many.middle < 4.0
