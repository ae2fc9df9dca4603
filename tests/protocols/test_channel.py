"""The two ends of a channel, against sets of numbers and keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import NOTHING, ReceivingEnd, SendingEnd

arrivals = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(0, 5)), max_size=40)


def keys(values: list[int]) -> Keys:
    ts, one = np.array(sorted(values), np.int64), np.zeros(1, np.int64)
    return Keys(ts, one, np.zeros(len(values), np.int64), one)


@given(arrivals)
def test_no_item_is_taken_twice_and_none_of_a_replaced_life(messages):
    inlet, had, newest = ReceivingEnd("hold", 0), set(), 0
    for epoch, number, items in messages:
        skip = inlet.fresh(epoch, number, items)
        taken = set() if skip == NOTHING else set(range(number + skip, number + items))
        if skip != NOTHING:
            inlet.next = number + items
        assert not taken & had
        assert epoch >= newest or not taken
        newest = max(newest, epoch)
        had |= taken
        assert all(item < inlet.next for item in had)
    assert inlet.epoch == (newest or -1)


def test_a_producer_is_gone_once_and_back_once():
    inlet = ReceivingEnd("discard", 0)
    inlet.fresh(1, 0, 3)
    inlet.next = 3
    assert not inlet.back(1, 3)
    assert inlet.back(1, 4), "an item was left out"
    assert inlet.lost_producer(1)
    assert not inlet.lost_producer(1)
    assert inlet.back(1, 3)
    inlet.fresh(2, 3, 1)
    assert not inlet.lost_producer(1), "its next life is here already"


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(-1, 21))
def test_what_is_late_and_what_was_promised(values, at):
    reached, below = OrderKey(at, 0, 0), sum(value <= at for value in values)
    inlet, outlet = ReceivingEnd("discard", 0, doubtful=True), SendingEnd("discard", 0, reached, guarded=True)
    assert inlet.late(keys(values), reached) == outlet.broken(keys(values)) == below
    assert inlet.doubtful == outlet.guarded == (below == len(values))


def test_what_a_producer_that_is_gone_had_sent_stays_doubtful():
    inlet = ReceivingEnd("discard", 0, doubtful=True)
    inlet.lost_producer(0)
    assert inlet.late(keys([5]), OrderKey(1, 0, 0)) == 0
    assert inlet.late(keys([6, 9]), OrderKey(7, 0, 0)) == 1, "others do not wait for it"
    inlet.fresh(0, 0, 1)
    assert inlet.late(keys([10]), OrderKey(7, 0, 0)) == 0
    assert not inlet.doubtful


def test_promises_only_rise():
    outlet = SendingEnd("log", 5)
    assert outlet.numbered(3) == 5
    assert (outlet.number, outlet.promised) == (8, START_KEY)
    assert outlet.promise(OrderKey(3, 0, 0))
    assert not outlet.promise(OrderKey(2, 0, 0))
