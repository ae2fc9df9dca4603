"""Yield prediction under real kills: when they come, and what their errors are."""

import numpy as np
import pyarrow as pa
import pytest

from riprap.apps import fab
from riprap.apps.yield_prediction import MODEL
from riprap.base.errors import UsageError
from riprap_papers.experiments.yield_kills import (
    LOTS,
    SPEED,
    Killed,
    kill_times,
    prediction_errors,
    scenario_graph,
    yield_kills,
)
from riprap_papers.report.yield_report import kills_report


def test_kills_are_ten_lots_apart():
    times = kill_times(40, 1)
    lot = fab.WAFERS_PER_LOT * fab.WAFER_US / 1e6 / SPEED
    assert len(times) == 40
    assert all(LOTS * (1 + n) <= at / lot + 0.001 <= LOTS * (1 + n) + 3.002 for n, at in enumerate(times))
    assert times == kill_times(40, 1) != kill_times(40, 2)
    with pytest.raises(UsageError, match="at least 1"):
        kill_times(0, 1)


def test_only_one_scenario_has_checkpoints():
    with_it, without = (scenario_graph(name)[MODEL].annotations for name in ("S2", "S3"))
    assert with_it.checkpoint_every == 1_000_000 // SPEED
    assert without.checkpoint_every is None


def test_errors_of_wafers_after_the_first_kill():
    def table(wafers, qm):
        return pa.table({"wafer": pa.array(wafers, pa.int64()), "qm": pa.array(qm, pa.float64())})

    golden = table([3, 1, 2, 0, 4], [30.0, 10.0, 20.0, 0.0, 40.0])
    found = table([0, 4, 3, 1], [9.0, 41.5, 28.0, 10.0])
    first = 1.5 * fab.WAFER_US / 1e6 / SPEED  # wafer 2 is the first that enters after it
    errors, missing = prediction_errors(golden, found, first)
    assert errors.tolist() == [-2.0, 1.5]
    assert missing == 1


def test_the_page_has_both_scenarios_beside_what_is_published():
    errors = {"S2": np.array([0.1, -0.2, 0.0]), "S3": np.array([3.0, -4.0])}
    killed = {name: Killed(2, 17, each, 1, 30, 0.25) for name, each in errors.items()}
    page = kills_report({name: one.as_json() for name, one in killed.items()}, errors, command="riprap …")
    for words in ("0.129", "4.80", "3.54", "7.79", "0.25 s", "S2: 66.7% within 0.1 points", "S3, from scratch"):
        assert words in page
    nobody = {name: Killed(0, 17, np.empty(0), 9, 0, 0.0) for name in errors}
    assert "0.00" in kills_report({n: k.as_json() for n, k in nobody.items()}, {n: k.errors for n, k in nobody.items()})


@pytest.mark.soak
def test_a_checkpoint_makes_errors_smaller(tmp_path):
    found = yield_kills(tmp_path / "kills", kills=4)
    assert found["S2"].kills == found["S3"].kills == 4
    assert found["S2"].rmse < found["S3"].rmse
