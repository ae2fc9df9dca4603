"""How sure an order is, and one-sided errors, on numbers that were made up."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.test_verdict import summary

from riprap.faults import quality_metrics as metrics
from riprap.faults.campaign_settings import CampaignSettings, Target
from riprap.faults.ordering import orders, spread, unsteady

SETTINGS = CampaignSettings((Target(("A",)), Target(("B",))), (100, 200, 300), {"Out": "sum(x)"}, reps=4, golden=4)


def with_errors(target, errors):
    """A summary whose section t at offset i is off by errors[i][rep][t]."""
    faulty = [1.0 + np.array(each) for each in errors]
    golden = [np.ones_like(each) for each in faulty]
    found = []
    for f, g in zip(faulty, golden, strict=True):
        error = metrics.section_errors(f, g, signed=True).error
        until = metrics.recovery_time(error, SETTINGS.threshold, SETTINGS.percentile)
        found.append((until, metrics.quality_impact(error, SETTINGS.threshold, until)))
    R, I = max(f[0] for f in found), max(f[1] for f in found)  # noqa: E741
    return replace(summary(target, "Out", R=R, I=I), sections=list(zip(faulty, golden, strict=True)))


def test_an_order_that_chance_cannot_turn_is_certain():
    far = with_errors("A", [[[3.0, 2.0, 0.5]] * 4] * 3)
    near = with_errors("B", [[[0.5, 0.0, 0.0]] * 4] * 3)
    for order in orders(SETTINGS, [near, far], "Out").values():
        assert [place.target for place in order.places] == ["A", "B"]
        assert order.places[0].above_next == order.whole == 1.0
        assert order.places[0].low <= order.places[0].value <= order.places[0].high


def test_two_operators_that_differ_by_noise_are_not_told_apart():
    chance = np.random.default_rng(1)

    def errors():
        return 1.0 + 0.3 * chance.normal(size=(3, 4, 5))

    order = orders(SETTINGS, [with_errors("A", errors()), with_errors("B", errors())], "Out")["I"]
    assert 0.02 < order.places[0].above_next < 0.98


def test_underestimates_can_be_left_out():
    error = np.array([-1.0, -1.0, 0.5, -0.2, 0.1])
    assert metrics.recovery_time(metrics.counted(error, "absolute"), 0.03, 1.0) == 5
    over = metrics.counted(error, "over")
    assert metrics.recovery_time(over, 0.03, 1.0) == 5
    assert metrics.quality_impact(over, 0.03, 5) == pytest.approx(0.25 + 0.01)
    silent = metrics.counted(np.array([-1.0, -1.0, 0.0]), "over")
    assert metrics.recovery_time(silent, 0.03, 0.9) == 0, "an outage that only silences the output costs nothing"


@pytest.mark.parametrize(("noise", "believed"), [(0.001, True), (0.2, False)])
def test_a_score_that_jitter_moves_is_not_believed(noise, believed):
    chance = np.random.default_rng(2)
    runs = [
        {"sink": "Out", "run": run, "sections": (100 * (1 + noise * chance.normal(size=40))).tolist()}
        for run in range(20)
    ]
    found = spread(pa.Table.from_pylist(runs))
    assert found["Out"] == pytest.approx(noise, rel=0.3)
    assert bool(unsteady(SETTINGS, found)) is not believed
