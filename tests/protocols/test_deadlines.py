"""Deadlines at the multiples of an interval, and those that are missed."""

from riprap.protocols.deadlines import Deadlines


def test_they_are_multiples_of_the_interval():
    deadlines = Deadlines(30)
    assert [deadlines.due(now) for now in (1005, 1019, 1020, 1028, 1049, 1050)] == [None, None, 1020, None, None, 1050]
    assert deadlines.missed == 0


def test_one_that_is_a_whole_interval_late_has_missed_others():
    deadlines = Deadlines(30)
    deadlines.due(0)
    assert deadlines.due(95) == 30  # those of 60 and 90 are gone
    assert deadlines.missed == 2
    assert deadlines.due(119) is None
    assert deadlines.due(120) == 120


def test_one_while_the_checkpoint_before_is_being_written_is_missed():
    deadlines = Deadlines(30)
    deadlines.due(0)
    assert deadlines.due(30) == 30
    deadlines.unwritten += 1
    assert deadlines.due(59) is None
    assert deadlines.due(60) is None
    assert deadlines.missed == 1
    deadlines.unwritten -= 1
    assert deadlines.due(90) == 90
