"""The inbox: order, room per channel, waking."""

from threading import Thread

from wiring import BUFFER, GAP, eventually, rows

from riprap.runtime.inbox import Arrival, ConsumerDown, Inbox, ProducerGone, weight


def test_everything_comes_out_in_the_order_it_went_in():
    inbox = Inbox(1 << 20)
    events = [Arrival(GAP, rows(0, 1)), ProducerGone(GAP, 1), Arrival(BUFFER, rows(0, 2)), ConsumerDown(BUFFER)]
    for event in events:
        if isinstance(event, Arrival):
            assert inbox.put(event)
        else:
            inbox.post(event)
    assert inbox.take(0.0) == events
    assert inbox.take(0.0) == []


def test_a_full_channel_waits_and_the_others_do_not():
    inbox = Inbox(weight(rows(0, 10)))
    done = []

    def fill():
        for number in range(0, 50, 10):
            inbox.put(Arrival(GAP, rows(number, 10)))
            done.append(number)

    thread = Thread(target=fill)
    thread.start()
    eventually(lambda: len(done) == 2)  # up to the limit, and one beyond
    assert inbox.put(Arrival(BUFFER, rows(0, 10)))
    inbox.post(ProducerGone(GAP, 1))
    assert len(done) == 2
    taken = inbox.take(0.0)
    assert [event.message.number for event in taken if isinstance(event, Arrival) and event.channel == GAP] == [0, 10]
    eventually(lambda: len(done) == 4)
    inbox.take(0.0)
    thread.join(20)
    assert [event.message.number for event in inbox.take(0.0)] == [40]


def test_waking_and_closing_let_go():
    inbox = Inbox(0)
    inbox.wake()
    assert inbox.take(20.0) == []
    assert inbox.put(Arrival(GAP, rows(0, 1)))
    refused = []
    thread = Thread(target=lambda: refused.append(inbox.put(Arrival(GAP, rows(1, 1)))))
    thread.start()
    inbox.close()
    thread.join(20)
    assert refused == [False]
    assert [event.message.number for event in inbox.take(0.0)] == [0]
    assert inbox.take(20.0) == []


def test_a_shared_dictionary_weighs_nothing():
    assert weight(rows(0, 1, encoded=True)) < weight(rows(0, 1)) + 8
