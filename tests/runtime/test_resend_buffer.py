"""What a producer holds, against a list: nothing is missing, doubled or out of order, in memory or spilled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.messages import Message, MessageKind


class ListSpill:
    """A spill that says whether it was used, and whether it was closed."""

    made = 0

    def __init__(self):
        ListSpill.made += 1
        self.messages, self.closed = [], False

    def append(self, message):
        assert not self.closed
        self.messages.append(message)

    def since(self, number):
        return iter([m for m in self.messages if m.number + m.items > number])

    def close(self):
        self.closed = True


def mark(number: int) -> Message:
    return Message(MessageKind.PUNCTUATION, 1, number)  # one item, 200 bytes


events = st.lists(st.sampled_from(["add", "add", "add", "send", "send", "take", "reconnect", "crash"]), max_size=80)


@given(events, st.sampled_from([0, 300, 1000, 10**6]))
def test_the_consumer_gets_all_in_order_whatever_breaks(schedule, limit):
    """A consumer that takes what is sent, acknowledges it later, and may fall back to what it has acknowledged."""
    held = ResendBuffer(limit, ListSpill)
    added = arrived = taken = 0
    for event in [*schedule, *["send"] * 80, "take"]:
        if event == "add":
            held.add(mark(added))
            added += 1
        elif event == "send":
            message = held.next()
            if message is not None:
                assert message.number == arrived
                held.sent()
                arrived += 1
        elif event == "take":
            taken = arrived
            held.release(taken)
        else:  # the same consumer again, which has what it has; or another life of it
            arrived = taken
            held.rewind(taken)
    while (message := held.next()) is not None:
        assert message.number == arrived
        held.sent()
        arrived += 1
    assert arrived == added
    assert held.drained


def test_memory_is_used_again_when_the_spill_has_come_back():
    ListSpill.made = 0
    held = ResendBuffer(500, ListSpill)
    for number in range(10):
        held.add(mark(number))
    assert ListSpill.made == 1
    for number in range(10):
        assert held.next().number == number
        held.sent()
        held.release(number + 1)
    assert held.next() is None
    held.add(mark(10))
    assert ListSpill.made == 1
    assert held.next().number == 10


def test_what_waits_in_a_consumers_merge_does_not_stop_what_it_waits_for():
    held = ResendBuffer(0, ListSpill)
    for number in range(5):
        held.add(mark(number))
    sent = 0
    while held.next() is not None:  # nothing is acknowledged
        held.sent()
        sent += 1
    assert sent == 5


def marker(number: int, text: bytes) -> Message:
    return Message(MessageKind.MARKER, 1, number, header=text)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_markers_keep_their_place_between_items_and_come_again(limit):
    held = ResendBuffer(limit, ListSpill)
    for number in range(6):
        held.add(mark(number))
        if number % 2:
            held.add(marker(number + 1, b"m%d" % number))

    def sent() -> list:
        found = []
        while (message := held.next()) is not None:
            found.append(message.header or message.number)
            held.sent()
        return found

    assert sent() == [0, 1, b"m1", 2, 3, b"m3", 4, 5, b"m5"]
    assert held.drained
    held.release(2)
    held.rewind(2)  # whether the marker in front of item 2 had arrived is not known
    assert sent() == [b"m1", 2, 3, b"m3", 4, 5, b"m5"]
    held.release(5)
    held.rewind(5)
    assert sent() == [5, b"m5"]


def test_where_loss_was_chosen_what_was_sent_makes_room():
    made, held = ListSpill.made, ResendBuffer(1_000, ListSpill, lossy=True)
    for number in range(40):
        held.add(mark(number))
        assert held.next() == mark(number)
        held.sent()
    assert ListSpill.made == made
    left = [message.number for message in held.messages()]
    assert left == list(range(40 - len(left), 40))
    assert 4 <= len(left) <= 6
    for number in range(40, 60):  # nothing of it was sent: none of it may go
        held.add(mark(number))
    assert {*range(40, 60)} <= {message.number for message in held.messages()}
