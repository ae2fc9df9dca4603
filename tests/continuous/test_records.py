"""Records as bytes, the schedule of shots, and what recovery refuses."""

from random import Random

import numpy as np
import pytest
from tests.continuous.lives import SCHEMA, Life, Written, any_graph, any_items, go_on

from riprap.base.errors import DataError
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count
from riprap.records.check_schedule import CheckPace, Schedule
from riprap.records.goal import Goal
from riprap.records.record import decode, encode
from riprap.records.recorder import Recorder
from riprap.records.recovery import recover


def some_records(seed: int, graph=None) -> Written:
    random = Random(seed)
    graph = graph or any_graph(random)
    items = any_items(random, len(graph.inputs("Op")))
    life, written = Life(graph, items, random), Written()
    go_on(life, Recorder(life.operator, CheckPace(5, 5, 2)), written, random, len(items), [])
    return written


@pytest.mark.parametrize("seed", range(12))
def test_records_come_back_as_they_were(seed):
    for data in some_records(seed).records:
        assert encode(decode(data)) == data


def test_what_is_not_a_record_is_refused_with_a_sentence():
    data = max((r for seed in range(4) for r in some_records(seed).records), key=len)
    for size in range(0, len(data), 7):
        with pytest.raises(DataError, match="not a record of a continuous checkpoint"):
            decode(data[:size])
    with pytest.raises(DataError, match="not a record"):
        decode(b"x" * 200)


def test_a_log_that_begins_too_late_is_told():
    app = App("windows")
    app.source("S", "k string, x long").aggregate("sum(x) AS t", window=count(1000), by="k", name="Op").sink("Sink")
    written = some_records(3, app.build())
    kept = [data for data in written.records if decode(data).totals.open > 1][-1:]
    kept = [data for data in kept if not decode(data).whole.any() and not len(decode(data).opened)] or kept
    with pytest.raises(DataError, match="end before all"):
        recover(kept)


def test_windows_that_give_nothing_out_are_checked_as_time_passes():
    """A window that takes long to fill: nothing opens, closes or leaves between its first rows and its last."""
    app = App("windows")
    app.source("S", SCHEMA).aggregate("sum(x) AS t", window=count(1000), by="k", name="Op").sink("Sink")
    items = [(0, OrderKey(ts, 0, ts, 0), "a", 1) for ts in range(200)]
    life = Life(app.build(), items, Random(1))
    recorder = Recorder(life.operator, CheckPace(20, 20, 10))
    checked = 0
    while life.at < len(items):
        assert life.step(life.at + 1) == []
        if recorder.due():
            checked += len(recorder.record(OrderKey(0, 0, 0, 0), {}).whole)
    assert checked in range(7, 10)  # every 20 µs, from the 20th on


def test_no_record_no_recovery():
    assert recover([]) is None


def test_every_slow_window_is_looked_at_once_in_t():
    """1,000 slow windows, M = 50, T = 1,000 µs: twenty shots, one every 50 µs, each window once."""
    schedule = Schedule(CheckPace(1_000, 10, 50))
    number, since = np.arange(1_000), np.arange(1_000)
    schedule.opened(np.stack([number, number]))
    schedule.age(5_000, number, since)
    assert schedule.slow == 1_000
    looked: list[int] = []
    shots = 0
    for now in range(5_000, 6_000, 10):
        if schedule.due(now, since):
            shots += 1
            found = schedule.shoot(now, number)
            assert len(found) <= 50
            looked += found.tolist()
    assert shots == 20
    assert sorted(looked) == list(range(1_000))


def test_windows_join_the_slow_ones_in_their_order_and_leave_when_they_close():
    schedule = Schedule(CheckPace(1_000, 100, 1_000))
    number, since = np.arange(10), np.arange(0, 1_000, 100)
    schedule.opened(np.stack([number, number]))
    schedule.age(501, number, since)
    assert schedule.slow == 5  # opened at 0, 100, … 400: longer ago than 100
    number[2] = 77  # the group closed, and opened again
    assert schedule.shoot(501, number).tolist() == [0, 1, 3, 4]
    schedule.age(10_000, number, since)
    assert schedule.shoot(10_000, number).tolist() == [5, 6, 7, 8, 9]
    assert schedule.shoot(11_000, number).tolist() == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_a_window_that_opens_and_closes_within_an_append_leaves_a_count():
    app = App("windows")
    app.source("S", "k string, x long").aggregate("sum(x) AS t", window=count(1), by="k", name="Op").sink("Sink")
    written = some_records(5, app.build())
    totals = decode(written.records[-1]).totals
    assert totals.opened == totals.closed == totals.checked == totals.open == 0
    rows = [row for outputs in written.outputs for row in outputs if not isinstance(row[0], int)]  # no punctuations
    assert totals.within == len(rows) > 0


def test_the_goal_chooses_what_reaches_it():
    goal = Goal(0.5, CheckPace(100, 100, 1024), None, None, None)
    assert goal.choose() == CheckPace(100, 100, 1024)  # nothing is known yet
    goal.worked(event_time=10_000_000, rows=100_000, seconds=1.0)  # ten times as fast as it comes
    goal.checked(1_000, 0.01)
    assert goal.choose() == CheckPace(
        2_500_000, 2_500_000, 100
    )  # a quarter of a second of work; a shot of a millisecond
    assert goal.missed(1_000) == ""
    told = "recovery in 500 ms cannot be reached with 1,000,000 slow windows: the shortest reachable goal is 100000 ms"
    assert goal.missed(1_000_000) == told
    assert Goal(0.5, CheckPace(7, 8, 9), 7, 8, 9).choose() == CheckPace(7, 8, 9)


def test_the_goal_counts_what_coming_back_took():
    goal = Goal(0.5, CheckPace(100, 100, 1024), None, None, None)
    goal.worked(event_time=10_000_000, rows=100_000, seconds=1.0)
    goal.checked(1_000, 0.01)
    goal.measure_recovery(reading=0.1, rows=3, seconds=0.001)  # too little was repeated to say how fast that is
    assert goal.choose().every == 2_000_000  # half of 0.4 s
    goal.measure_recovery(reading=0.1, rows=40_000, seconds=0.2)
    assert goal.choose()[:2] == (4_000_000, 4_000_000)  # twice as many rows in a second as when it works
    goal.measure_recovery(reading=0.1, rows=10_000, seconds=0.2)
    assert goal.choose()[:2] == (1_000_000, 1_000_000)  # half as many
    assert goal.missed(1_000) == ""  # 0.3 s can be reached
    assert (
        goal.missed(4_000)
        == "recovery in 500 ms cannot be reached with 4,000 slow windows: the shortest reachable goal is 900 ms"
    )
    goal.measure_recovery(reading=0.7, rows=10_000, seconds=0.2)
    assert goal.choose()[:2] == (1, 1)  # as often as it can
    assert "goal is 700 ms" in goal.missed(0)
