"""Phases follow one another, and together are all the time there was."""

import time

from riprap.base.phases import Phases, process_started


class Clock:
    at = 10.0

    def monotonic(self):
        return self.at


def test_phases_add_up():
    clock = Clock()
    phases = Phases(clock, since=8.0)
    for name, seconds in (("imports", 1.0), ("jvm", 0.0), ("work", 4.0), ("jvm", 2.0)):
        clock.at += seconds
        phases.done(name)
    assert phases.seconds == {"imports": 3.0, "jvm": 2.0, "work": 4.0}


def test_a_process_knows_when_it_began():
    began = process_started()
    assert 0 <= time.monotonic() - began < 24 * 3600
