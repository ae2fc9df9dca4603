"""What a producer holds, against a list: nothing is missing, doubled or out of order, in memory or spilled."""

from hypothesis import given
from hypothesis import strategies as st

from riprap.runtime.held import Held
from riprap.runtime.messages import Kind, Message


class ListSpill:
    """A spill that says whether it was used, and whether it was closed."""

    made = 0

    def __init__(self):
        ListSpill.made += 1
        self.messages, self.closed = [], False

    def keep(self, message):
        assert not self.closed
        self.messages.append(message)

    def since(self, number):
        return iter([m for m in self.messages if m.number + m.items > number])

    def close(self):
        self.closed = True


def mark(number: int) -> Message:
    return Message(Kind.PUNCTUATION, 1, number)  # one item, 200 bytes


events = st.lists(st.sampled_from(["add", "add", "add", "send", "send", "take", "reconnect", "crash"]), max_size=80)


@given(events, st.sampled_from([0, 300, 1000, 10**6]))
def test_the_consumer_gets_all_in_order_whatever_breaks(schedule, limit):
    """A consumer that takes what is sent, acknowledges it later, and may fall back to what it has acknowledged."""
    held = Held(limit, ListSpill)
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
    held = Held(500, ListSpill)
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
    held = Held(0, ListSpill)
    for number in range(5):
        held.add(mark(number))
    sent = 0
    while held.next() is not None:  # nothing is acknowledged
        held.sent()
        sent += 1
    assert sent == 5
