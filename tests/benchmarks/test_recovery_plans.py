"""The plans whose bounds are measured: the fewest backups meet each, and one fewer does not."""

import pytest
from benchmarks.recovery_plans import _page, cases, fewest, one_fewer

CASES = cases()


@pytest.mark.parametrize(("name", "bound"), [(name, bound) for name, case in CASES.items() for bound in case.bounds])
def test_one_backup_fewer_is_too_slow(name, bound):
    case = CASES[name]
    backups = fewest(case, bound)
    assert case.latencies(case.topology, backups).max() <= bound
    assert backups.any()
    left, slow = one_fewer(case, backups)
    late = case.latencies(case.topology, left)
    assert late.max() == late[case.topology.index(slow)] > bound


def test_the_page_has_a_point_for_each_kill():
    kill = {"target": "Sink", "kind": "kill", "latency": 2.0, "restart": 0.5, "caught_up": 1.5, "predicted": 1.75}
    row = {"app": "twitter-sentiment", "elements": 10, "fewer": False, "backups": [], "bound": 3.0, "kills": [kill]}
    page = _page([{**row, "worst": 2.0, "exactly_once": True, "held": True}])
    assert "twitter-sentiment Sink" in page
    assert "held" in page
