"""What the roster measures of recoveries."""

import pytest

from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.roster import Roster


@pytest.fixture
def roster():
    made = Roster(["A"], {})
    made.register("A", 0, "h", 1, 2, 10.0, 0)
    made.status("A", 1, WorkerState.RESTORING, 10.0, 0)
    made.status("A", 1, WorkerState.RUNNING, 10.0, 0)
    return made


def detected(roster):
    return [recovery.detect for recovery in roster.element_status("A", 99.0).recoveries]


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


def test_who_is_ended_for_silence_before_it_ran_has_longer_next_time(roster):
    """Else one that is slow to begin would begin for ever."""

    def lives(epoch, at, states):
        roster.lost("A", epoch - 1, at, 0)
        roster.register("A", epoch, "h", epoch, epoch, at, 0)
        for state in states:
            roster.status("A", epoch, state, at, 0)

    def silent_after(at):
        return next(seconds for seconds in range(1, 99) if roster.silent_for(3.0, at + seconds, 0))

    catching_up = [WorkerState.RESTORING, WorkerState.CATCHING_UP]
    lives(2, 100.0, catching_up)
    assert silent_after(100.0) == 4
    lives(3, 200.0, catching_up)
    assert silent_after(200.0) == 7
    lives(4, 300.0, catching_up)
    assert silent_after(300.0) == 13
    lives(5, 400.0, [*catching_up, WorkerState.RUNNING])
    assert silent_after(400.0) == 4  # what ran is held to what all are held to, and so is its next life
    lives(6, 500.0, catching_up)
    assert silent_after(500.0) == 4


def test_the_first_failure_and_its_exit_code_are_the_runs(roster):
    roster.fail("A", "the input is not sorted", 0, 2)
    assert (roster.error, roster.error_code) == ("A: the input is not sorted", 2)


def absent_after(roster, at, start=30.0):
    return next(seconds for seconds in range(1, 999) if roster.absent_for(start, at + seconds))


def test_an_element_whose_process_never_registers_is_started_again_and_again():
    """At the beginning of a run, after a death, and each time with twice the time."""
    roster = Roster(["A"], {})
    assert roster.absent_for(30.0, 100.0) == []
    assert absent_after(roster, 100.0) == 31
    assert absent_after(roster, 131.0) == 61
    roster.register("A", 2, "h", 1, 2, 300.0, 0)
    assert roster.first("A")
    assert roster.absent_for(30.0, 900.0) == []
    roster.status("A", 1, WorkerState.RUNNING, 900.0, 0)
    roster.lost("A", 1, 1_000.0, 0)
    assert absent_after(roster, 1_000.0) == 31  # what ran has its patience again
    roster.register("A", 3, "h", 1, 2, 1_100.0, 0)
    assert not roster.first("A")


def test_time_that_the_coordinator_slept_is_no_absence():
    roster = Roster(["A"], {})
    roster.absent_for(30.0, 100.0)
    roster.excuse(50.0)
    assert absent_after(roster, 100.0) == 81


@pytest.mark.parametrize("stage", ["registered", WorkerState.RESTORING, WorkerState.CATCHING_UP, WorkerState.RUNNING])
def test_one_that_is_stopped_is_to_be_ended_until_it_is_gone(stage):
    """Whoever ends it may fail to, as where Spark has not heard of the task yet: it is tried again."""
    roster = Roster(["A"], {})
    roster.register("A", 0, "h", 1, 2, 10.0, 0)
    if stage != "registered":
        roster.status("A", 1, stage, 10.0, 0)
    assert [status.pe for status in roster.silent_for(3.0, 14.0, 0)] == ["A"]
    assert roster.still_there(3.0, 15.0) == []
    assert [status.pe for status in roster.still_there(3.0, 21.0)] == ["A"]
    assert roster.still_there(3.0, 22.0) == []
    assert [status.pe for status in roster.still_there(3.0, 28.0)] == ["A"]
    roster.lost("A", 1, 29.0, 0)
    assert roster.still_there(3.0, 99.0) == []


def test_one_that_is_stopped_when_it_has_ended_is_to_be_ended_too():
    """A consumer that comes back asks it for its end."""
    roster = Roster(["A", "B"], {})
    roster.register("A", 0, "h", 1, 2, 10.0, 0)
    roster.status("A", 1, WorkerState.ENDED, 10.0, 0)
    assert roster.still_there(3.0, 12.0) == []
    assert [status.pe for status in roster.still_there(3.0, 14.0)] == ["A"]
    assert roster.element_status("A", 14.0).state is WorkerState.ENDED
    roster.lost("A", 1, 15.0, 0)
    assert absent_after(roster, 15.0) == 31


def test_nobody_is_ended_when_the_run_is_over():
    roster = Roster(["A"], {})
    roster.register("A", 0, "h", 1, 2, 10.0, 0)
    roster.status("A", 1, WorkerState.ENDED, 10.0, 0)
    assert roster.final
    assert roster.still_there(3.0, 99.0) == roster.absent_for(3.0, 99.0) == []
