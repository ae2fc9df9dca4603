"""How far operators have come on a channel, against the plain list of items with their keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.operators.columns import Keys
from riprap.runtime.element.cursor import InputCursor, MergedCursor

ONE = np.zeros(1, np.int64)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 5), st.integers(0, 3)),  # rows, and items missing before them
        st.tuples(st.just("news"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("reach"), st.integers(0, 6), st.just(0)),
    ),
    max_size=30,
)


@given(steps, st.integers(0, 5))
def test_items_pass_by_key_and_the_first_that_waits_is_next(schedule, first):
    intake = MergedCursor(first, 100)
    items: list[tuple[int, int]] = []  # number, time
    positions: dict[int, int] = {}  # where the message of an item begins
    number, now, position, reached, had = first, 0, 100, -1, set()
    for kind, count, missing in schedule:
        if kind == "reach":
            reached = min(reached + count, now)
        else:
            number += missing
            new = [(number + j, now + j + 1) for j in range(count)]
            keys = Keys(np.array([at for _, at in new]), ONE, np.arange(count), ONE) if new else None
            items += new
            positions |= {item: position for item, _ in new}
            number, now, position = number + count, now + count, position + 1
            intake.arrived(number - count, keys, number, position)
        passed = intake.pass_up_to(OrderKey(reached, 2**31, 0))
        for numbers in passed:
            assert not had & set(range(*numbers[:2]))
            had |= set(range(*numbers[:2]))
        waiting = [item for item, at in items if at > reached]
        assert had == {item for item, at in items if at <= reached}
        assert intake.waits == bool(waiting)
        assert intake.next == (waiting[0] if waiting else number)
        assert intake.position == (positions[waiting[0]] if waiting else position)


def test_before_anything_came():
    intake = MergedCursor(7, -1)
    assert intake.pass_up_to(START_KEY) == intake.pass_up_to(END_KEY) == []
    assert (intake.next, intake.position, intake.waits) == (7, -1, False)


def test_where_nothing_is_merged_what_came_has_passed():
    cursor = InputCursor(7, 3)
    cursor.arrived(7, None, 12, 4)
    assert (cursor.next, cursor.position, cursor.waits) == (12, 4, False)
    assert cursor.cut() == (12, 12, 4, 4, False, 0)
