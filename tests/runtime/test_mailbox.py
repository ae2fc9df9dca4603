"""The mailbox: order, room per channel, parked channels, letting go; and what messages weigh."""

from threading import Thread

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from wiring import BUFFER, GAP, eventually, rows

from riprap.operators.views import Views
from riprap.protocols.events import ConsumerDown, ProducerGone
from riprap.runtime.host import Arrival
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.mailbox import Mailbox
from riprap.runtime.transport.weight import OVERHEAD_BYTES, weight_of


def test_everything_comes_out_in_the_order_it_went_in_and_rings():
    rung = []
    mailbox = Mailbox(1 << 20, lambda: rung.append(1))
    events = [Arrival(GAP, rows(0, 1)), ProducerGone(GAP, 1), Arrival(BUFFER, rows(0, 2)), ConsumerDown(BUFFER)]
    for event in events:
        if isinstance(event, Arrival):
            assert mailbox.put(event)
        else:
            mailbox.post(event)
    assert len(rung) == 4
    assert mailbox.take(lambda channel: channel == GAP) == events[1:]
    assert mailbox.filled
    assert mailbox.take() == events[:1]
    assert mailbox.take() == []


def test_a_full_channel_waits_and_the_others_do_not():
    mailbox = Mailbox(weight_of(rows(0, 10)), lambda: None)
    done = []

    def fill():
        for number in range(0, 50, 10):
            mailbox.put(Arrival(GAP, rows(number, 10)))
            done.append(number)

    thread = Thread(target=fill)
    thread.start()
    eventually(lambda: len(done) == 2)  # up to the limit, and one beyond
    assert mailbox.put(Arrival(BUFFER, rows(0, 10)))
    mailbox.post(ProducerGone(GAP, 1))
    assert len(done) == 2
    taken = mailbox.take()
    assert [event.message.number for event in taken if isinstance(event, Arrival) and event.channel == GAP] == [0, 10]
    eventually(lambda: len(done) == 4)
    mailbox.take(lambda channel: channel == GAP)
    assert len(done) == 4, "what is parked keeps its room"
    mailbox.take()
    thread.join(300)
    assert [event.message.number for event in mailbox.take()] == [40]


def test_closing_lets_go():
    mailbox = Mailbox(0, lambda: None)
    assert mailbox.put(Arrival(GAP, rows(0, 1)))
    refused = []
    thread = Thread(target=lambda: refused.append(mailbox.put(Arrival(GAP, rows(1, 1)))))
    thread.start()
    mailbox.close()
    thread.join(300)
    assert refused == [False]
    assert [event.message.number for event in mailbox.take()] == [0]


@given(st.lists(st.text(max_size=20) | st.none(), min_size=1, max_size=30), st.data())
def test_a_message_weighs_what_its_rows_hold(texts, data):
    start = data.draw(st.integers(0, len(texts) - 1))
    for type_ in (pa.string(), pa.large_string()):
        columns = [pa.array(texts, type_), pa.array(range(len(texts)), pa.int32())]
        batch = pa.RecordBatch.from_arrays(columns, names=["k", "i"]).slice(start)
        nulls = len(texts) - start if None in texts[start:] else 0  # a byte each that says so
        weight = weight_of(Message(MessageKind.ROWS, 1, 0, Views.of(batch)))
        assert weight == OVERHEAD_BYTES + 8 * batch.num_rows + nulls


def test_a_shared_dictionary_weighs_nothing():
    encoded = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["long " * 1_000]))
    batch = pa.RecordBatch.from_arrays([encoded], names=["k"])
    assert weight_of(Message(MessageKind.ROWS, 1, 0, Views.of(batch))) == OVERHEAD_BYTES + 4
