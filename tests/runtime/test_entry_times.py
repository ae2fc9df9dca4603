"""When tuples entered the app: against the plain list, and bounded however long a run is."""

from hypothesis import given
from hypothesis import strategies as st

from riprap.graph.order_keys import OrderKey
from riprap.runtime.element.entry_times import EntryTimes


def key(ts: int) -> OrderKey:
    return OrderKey(ts, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=60), st.data())
def test_a_tuple_entered_with_the_first_message_that_reached_its_key(messages, data):
    times, plain, at, forgotten = EntryTimes(), [], 0, -1
    for step, entered in messages:
        at += step
        if not plain or at > plain[-1][0]:
            plain.append((at, entered))
        times.note(key(at), entered)
        asked = data.draw(st.integers(forgotten + 1, at + 2))
        assert times.of(key(asked)) == next((e for ts, e in plain if ts >= asked), 0)
        if data.draw(st.booleans()):
            forgotten = data.draw(st.integers(forgotten, asked - 1))
            times.forget(key(forgotten))


def test_it_stays_small_in_a_long_run():
    times = EntryTimes()
    for at in range(100_000):
        times.note(key(at), at)
        times.forget(key(at - 3))
        assert times.of(key(max(at - 1, 0))) == max(at - 1, 0)
    assert len(times) < 1_000
    for at in range(100_000, 200_000):  # nothing comes out any more
        times.note(key(at), at)
    assert len(times) < 20_000
    assert times.of(key(199_999)) == 199_999
