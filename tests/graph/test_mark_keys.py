"""What the key of a punctuation means, said once."""

import pytest

from riprap.graph.mark_keys import (
    before_tuple,
    behind_boundary,
    behind_trigger,
    caused_shape,
    marked_alike,
    own_marks,
    promised,
    still_open,
    watermark_of_row,
)
from riprap.graph.order_keys import END_KEY, START_KEY, TIMER, KeyShape, OrderKey

ROW = OrderKey(100, 0, 7, 0)
THIRD = OrderKey(100, 0, 7, 2)  # the third thing that one trigger caused


def test_a_mark_before_a_tuple_lies_behind_all_that_the_one_before_it_caused():
    assert OrderKey(100, 0, 6, 2**62) < before_tuple(ROW) < ROW
    assert OrderKey(100, 0, 7, 1) <= before_tuple(THIRD) < THIRD


@pytest.mark.parametrize("key", [ROW, THIRD])
def test_a_row_says_nothing_of_a_mark_with_its_key(key):
    assert watermark_of_row(key) < key
    assert promised(key) < key
    assert still_open(key) < key._replace(n=0)


@pytest.mark.parametrize("key", [START_KEY, END_KEY, still_open(ROW), behind_trigger(ROW)])
def test_what_is_no_tuples_is_promised_as_it_is(key):
    assert promised(key) == key


def test_behind_a_trigger_is_all_that_it_causes_and_nothing_else():
    assert THIRD < behind_trigger(ROW) < OrderKey(100, 0, 8, 0)
    assert behind_trigger(THIRD) == behind_trigger(ROW)


def test_a_mark_of_a_boundary_passes_behind_what_the_same_boundary_gives_out_here():
    mark = OrderKey(600, TIMER, 2, 5)  # upstream counts by 300, here by 100
    assert behind_boundary(mark, 6, 9) == OrderKey(600, TIMER, 6, 9)
    assert behind_boundary(mark, 1, 9) == mark
    assert behind_boundary(ROW, 6, 9) == ROW


def test_marks_of_another_rank_than_the_tuples_make_the_rank_a_column():
    alike = KeyShape(src=3, n=False, origins=frozenset((3,)), marks=frozenset((3,)))
    other = KeyShape(src=TIMER, n=False, origins=frozenset((TIMER,)), marks=frozenset((3,)))
    assert marked_alike(alike)
    assert not marked_alike(other)
    assert caused_shape(alike).src == 3
    assert caused_shape(other).src is None
    assert caused_shape(other).origins == {TIMER, 3}
    assert own_marks(alike) == {3}
    assert own_marks(caused_shape(other)) == {TIMER, 3, None}
