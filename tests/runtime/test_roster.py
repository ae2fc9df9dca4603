"""What the roster measures of recoveries."""

import pytest

from riprap.runtime.coordination.roster import Roster
from riprap.runtime.coordination.states import WorkerState


@pytest.fixture
def roster():
    made = Roster(["A"], {})
    made.register("A", 0, "h", 1, 2, 10.0, 0)
    made.status("A", 1, WorkerState.RESTORING, 10.0, 0)
    made.status("A", 1, WorkerState.RUNNING, 10.0, 0)
    return made


def detected(roster):
    return [recovery.detect for recovery in roster.one("A", 99.0).recoveries]


def test_detection_counts_from_the_kill(roster):
    roster.killed("A", 12.0)
    roster.lost("A", 1, 12.5, 0)
    assert detected(roster) == [0.5]


def test_time_that_the_coordinator_slept_does_not_make_detection_negative(roster):
    roster.excuse(5.0)
    roster.lost("A", 1, 12.0, 0)
    assert detected(roster) == [0.0]


def test_a_kill_of_what_hung_does_not_count_for_the_life_after(roster):
    assert roster.silent_for(3.0, 14.0, 0)
    roster.killed("A", 15.0)
    roster.lost("A", 1, 15.5, 0)
    roster.register("A", 1, "h", 2, 2, 16.0, 0)
    roster.status("A", 2, WorkerState.RESTORING, 16.0, 0)
    roster.lost("A", 2, 30.0, 0)
    assert detected(roster) == [4.0, 14.0]


def test_the_first_failure_and_its_exit_code_are_the_runs(roster):
    roster.fail("A", "the input is not sorted", 0, 2)
    assert (roster.error, roster.error_code) == ("A: the input is not sorted", 2)
