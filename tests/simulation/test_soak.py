"""Thousands of schedules. A failure names the check and the seed that repeat it."""

import pytest
from tests.simulation import (
    test_continuous,
    test_counts,
    test_fault_free,
    test_gaps,
    test_pairs,
    test_power,
    test_replay,
    test_seam,
    test_sources,
)
from tests.simulation.taps import watch_progress

CHECKS = {
    "counts": (test_counts.check, 8000),
    "buffers": (test_counts.check_buffers, 2000),
    "gaps": (test_gaps.check, 3500),
    "everything at once": (test_gaps.check_everything_at_once, 1000),
    "replay": (test_replay.check, 3000),
    "continuous": (test_continuous.check, 5000),
    "power": (test_power.check, 2000),
    "fault-free": (test_fault_free.check, 1000),
    "pairs": (test_pairs.check, 1500),
    "going back": (test_seam.check, 1500),
    "sources": (test_sources.check, 3000),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", CHECKS)
def test_thousands_of_schedules(name, monkeypatch):
    watch_progress(monkeypatch)
    check, schedules = CHECKS[name]
    for seed in range(1000, 1000 + schedules):
        check(seed)
