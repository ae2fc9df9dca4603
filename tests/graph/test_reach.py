"""Which output may be wrong, by how long each kind of operator remembers."""

import pytest

from riprap.graph.builder import App
from riprap.graph.reach import BEGINNING, END, Span, joined_spans, reach
from riprap.graph.windows import count, punctuated, session_window, time, zero

DAMAGE = Span(1_000_000, 2_000_000)


def app():
    made = App("reached")
    return made, made.source("In", "k string, x long")


def out(made, stream):
    stream.sink("Out")
    return reach(made.build(), {"Op": DAMAGE})["Out"]


@pytest.mark.parametrize(
    ("window", "every", "until"),
    [
        (time("5s"), None, 7_000_000),
        (time("5s"), time("1s"), 7_000_000),
        (time("5s"), count(1), 7_000_000),
        (time("5s"), count(2), END),
        (count(1), count(1), 2_000_000),
        (count(1), time("3s"), 5_000_000),
        (count(5), count(1), END),
        (count(5), time("3s"), END),
        (session_window("1s"), None, END),
        (punctuated(), None, END),
    ],
    ids=str,
)
def test_an_aggregate_is_wrong_for_as_long_as_its_window_remembers(window, every, until):
    made, stream = app()
    summed = stream.aggregate("sum(x) AS x", window=window, every=every, by="k", name="Op")
    assert out(made, summed) == Span(1_000_000, until)


@pytest.mark.parametrize(
    ("left", "right", "until"),
    [(time("1s"), time("4s"), 6_000_000), (zero(), time("4s"), 6_000_000), (count(1), time("4s"), END)],
    ids=str,
)
def test_a_join_is_wrong_for_its_longest_window(left, right, until):
    made, stream = app()
    other = stream.select("k", "x AS y", name="Other")
    assert out(made, stream.join(other, on="k", left_window=left, right_window=right, name="Op")).until == until


def test_what_remembers_nothing_passes_damage_on_and_a_delay_moves_it():
    made, stream = app()
    passed = stream.filter("x > 0", name="Op").delay("2s", name="Later")
    assert out(made, passed) == Span(3_000_000, 4_000_000)


def test_memories_add_up_and_other_branches_stay_whole():
    made, stream = app()
    twice = stream.aggregate("sum(x) AS x", window=time("5s"), by="k", name="Op").aggregate(
        "max(x) AS x", window=time("3s"), name="Most"
    )
    stream.filter("x > 0", name="Beside").sink("Whole")
    twice.sink("Out")
    found = reach(made.build(), {"Op": DAMAGE})
    assert found["Out"] == Span(1_000_000, 10_000_000)
    assert "Whole" not in found


def test_a_sort_may_speak_under_an_earlier_key_at_the_end():
    made, stream = app()
    assert out(made, stream.sort("x", window=time("1s"), name="Op")) == Span(0, 3_000_000)
    made, stream = app()
    assert out(made, stream.sort("x", window=count(3), name="Op")) == Span(BEGINNING, END)


def test_damage_that_comes_into_a_cycle_stays():
    made, stream = app()
    back = made.feedback("back", "k string, x long", delay="1s")
    both = stream.union(back, name="Both")
    both.select("k", "x - 1 AS x", where="x > 0", name="Op").feed("back")
    both.sink("Out")
    stream.sink("Whole")
    found = reach(made.build(), {"Op": DAMAGE})
    assert found["Out"] == found["Both"] == Span(2_000_000, END)
    assert "Whole" not in found


def test_a_barrier_never_heals():
    made, stream = app()
    assert out(made, stream.barrier(stream.select("x AS y", name="Other"), name="Op")).until == END


def test_spans_that_touch_are_one():
    assert joined_spans([Span(5, 9), Span(1, 2), Span(2, 4), Span(8, 12)]) == (Span(1, 4), Span(5, 12))
