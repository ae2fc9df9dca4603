"""Yield prediction under real kills: when they come, and what their errors are."""

import pyarrow as pa
import pytest

from riprap.api.yield_kills import LOTS, SPEED, kill_times, prediction_errors, scenario_graph, yield_kills
from riprap.apps import fab
from riprap.apps.yield_prediction import MODEL
from riprap.base.errors import UsageError


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


@pytest.mark.soak
def test_a_checkpoint_makes_errors_smaller(tmp_path):
    found = yield_kills(tmp_path / "kills", kills=4)
    assert found["S2"].kills == found["S3"].kills == 4
    assert found["S2"].rmse < found["S3"].rmse
