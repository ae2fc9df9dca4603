"""Thousands of schedules. A failure names the check and the seed that repeat it."""

import pytest
from tests.simulation import (
    test_changed_shards,
    test_continuous,
    test_counts,
    test_cycles,
    test_fault_free,
    test_gaps,
    test_inner_logs,
    test_pairs,
    test_power,
    test_replay,
    test_seam,
    test_sources,
)
from tests.simulation.shares import share_of, soak
from tests.simulation.taps import watch_progress

from riprap.base.errors import UsageError

CHECKS = {
    "counts": (test_counts.check, 8000),
    "buffers": (test_counts.check_buffers, 2000),
    "gaps": (test_gaps.check, 3500),
    "everything at once": (test_gaps.check_everything_at_once, 1000),
    "replay": (test_replay.check, 3000),
    "continuous": (test_continuous.check, 5000),
    "changed shards": (test_changed_shards.check, 2000),
    "power": (test_power.check, 2000),
    "fault-free": (test_fault_free.check, 1000),
    "pairs": (test_pairs.check, 1500),
    "going back": (test_seam.check, 1500),
    "sources": (test_sources.check, 3000),
    "cycles": (test_cycles.check, 2000),
    "cycles over several elements": (test_cycles.check_spread, 2100),
    "inner logs": (test_inner_logs.check, 2000),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", CHECKS)
def test_thousands_of_schedules(name, monkeypatch):
    watch_progress(monkeypatch)
    check, schedules = CHECKS[name]
    soak(1000, 1000 + schedules, check)


def test_shares_are_all_of_it_once():
    seeds = range(1000, 1103)
    assert sorted(seed for number in range(1, 8) for seed in share_of(seeds, f"{number}/7")) == list(seeds)
    assert share_of(seeds, "") == seeds
    for wrong in ("0/7", "8/7", "7", "a/b", "-1/7"):
        with pytest.raises(UsageError, match="is no share"):
            share_of(seeds, wrong)


def test_a_failure_carries_its_seed():
    def check(seed):
        assert seed != 5

    with pytest.raises(AssertionError) as failure:
        soak(0, 10, check)
    assert failure.value.__notes__ == ["the schedule of seed 5"]
