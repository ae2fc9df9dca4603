"""The machine of partial fault tolerance against sets of item numbers."""

from hypothesis import given
from hypothesis import strategies as st

from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, ProducerGone
from riprap.protocols.partial import (
    Announce,
    Arrived,
    Await,
    Deliver,
    Discard,
    Emitted,
    Hold,
    Inlet,
    Keep,
    Outlet,
    Partial,
    Release,
    Resend,
    Send,
)

CHANNEL = ChannelId("A→B")
arrivals = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(0, 5)), max_size=40)


def taker(recovery="gap", next_=0):
    return Partial({CHANNEL: Inlet(recovery, next_)}, {})


def giver(recovery, up=None):
    return Partial({}, {CHANNEL: Outlet(recovery, 0, up)})


@given(arrivals, st.integers(0, 10))
def test_an_item_is_delivered_once_in_order_and_never_from_a_replaced_life(messages, first):
    machine = taker(next_=first)
    had: set[int] = set()
    newest, expected = -1, first
    for epoch, number, items in messages:
        delivered = [c for c in machine.handle(Arrived(CHANNEL, epoch, number, items)) if isinstance(c, Deliver)]
        if epoch < newest:
            assert not delivered
            continue
        newest = epoch
        new = {item for item in range(number, number + items) if item >= expected}
        # What says nothing of the future is not delivered at all; what does is, even without a new item.
        assert bool(delivered) == (number + items >= expected)
        for command in delivered:
            assert set(range(number + command.skip, number + items)) == new
            assert not new & had
        had |= new
        expected = max(expected, number + items)
        assert machine.inlets[CHANNEL].next == expected


@given(
    st.sampled_from(["gap", "buffer", "replay"]),
    st.lists(st.one_of(st.integers(1, 4), st.sampled_from(["up", "down", "acknowledge"])), max_size=40),
    st.data(),
)
def test_what_is_emitted_goes_where_its_recovery_says(recovery, events, data):
    machine = giver(recovery)
    number, up = 0, None
    for event in events:
        if event == "up":
            wanted = data.draw(st.integers(0, number))
            commands = machine.handle(ConsumerUp(CHANNEL, 1, wanted))
            again = [Release(CHANNEL, wanted), Resend(CHANNEL, wanted)] if recovery == "buffer" else []
            assert commands == [*again, Announce(CHANNEL, number)]
            up = True
        elif event == "down":
            assert machine.handle(ConsumerDown(CHANNEL)) == []
            up = False
        elif event == "acknowledge":
            released = [Release(CHANNEL, number)] if recovery == "buffer" else []
            assert machine.handle(Acknowledged(CHANNEL, number)) == released
        else:
            (command,) = machine.handle(Emitted(CHANNEL, event))
            if recovery == "replay":
                assert command == Keep(CHANNEL, number)
            elif up is not False:  # until it is known that nobody is there, what is sent waits
                assert command == Send(CHANNEL, number, recovery == "buffer")
            else:
                assert command == (Hold(CHANNEL, number) if recovery == "buffer" else Discard(CHANNEL, event))
            number += event


def test_a_producer_that_is_down_is_not_waited_for_until_it_speaks():
    machine = taker()
    machine.handle(Arrived(CHANNEL, 1, 0, 3))
    assert machine.handle(ProducerGone(CHANNEL, 1)) == [Await(CHANNEL, False)]
    assert machine.handle(ProducerGone(CHANNEL, 1)) == []
    assert machine.handle(Arrived(CHANNEL, 2, 3, 0)) == [Await(CHANNEL, True), Deliver(CHANNEL, 0)]
    assert machine.handle(ProducerGone(CHANNEL, 1)) == [], "the news is old: another life speaks"
    assert machine.handle(Arrived(CHANNEL, 1, 3, 2)) == [], "so is this message"


def test_a_persistent_stream_is_always_waited_for():
    assert taker("replay").handle(ProducerGone(CHANNEL, 1)) == []
