"""Channels between real processes: order, numbers, back pressure, reconnection, strangers, TLS."""

import logging
import os
import signal
import threading

import pytest
from wiring import BUFFER, GAP, SCHEMA, Book, Peer, eventually, rows, run_in

from riprap.graph.keys import END_KEY, OrderKey
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, ProducerGone
from riprap.runtime.endpoint import Endpoint
from riprap.runtime.hosting import Arrival
from riprap.runtime.inbox import Inbox
from riprap.runtime.messages import Kind, Message
from riprap.runtime.sender import Sender
from riprap.runtime.wire import Address


class Producer:
    """A sender in this process, with what it told its element."""

    def __init__(self, run, channel=GAP, epoch=1, book=None):
        self.book = book or Book()
        self.channel = channel
        self.consumer = run.layout.consumer(channel)
        self.inbox = Inbox(run.buffer_bytes)
        self.events = []
        self.sender = Sender(channel, SCHEMA, epoch, self.book.find, self.consumer, self.inbox, run)

    def at(self, location, epoch=1):
        self.book.addresses[self.consumer] = Address(location, epoch)

    def next(self, kind):
        """The next event of this kind that was not asked for before."""

        def look():
            self.events += self.inbox.take(0.0)
            for index, event in enumerate(self.events):
                if isinstance(event, kind):
                    del self.events[: index + 1]
                    return event
            return None

        return eventually(look, kind.__name__)

    def send(self, message):
        eventually(lambda: self.sender.offer(message, 1.0), "taking a message")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sender.close(drain=False)


def take(inbox, kind=Arrival):
    return eventually(lambda: [event for event in inbox.take(0.1) if isinstance(event, kind)] or None, kind.__name__)


def threads():
    """Ours. Flight's own threads, once they have logged something, are listed as dummies for good."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threads()
    yield
    eventually(lambda: threads() <= before, "the end of all threads")


def collect(peer, items, start=0):
    """Arrivals until so many items have come, in order and without a hole."""
    following, messages = start, 0
    while following < start + items:
        kind, number, count, fine, _ = peer.hear()
        assert (kind, number, fine) == ("ROWS", following, True)
        following += count
        messages += 1
    return messages


def test_everything_comes_once_in_order_and_is_acknowledged(tmp_path):
    run = run_in(tmp_path)
    with Peer(run, "consumer", channel="gap", epoch=3, next=0) as peer, Producer(run) as producer:
        producer.at(peer.hear(), 3)
        assert producer.next(ConsumerUp) == ConsumerUp(GAP, 3, 0)
        for number in range(0, 5_000, 10):
            producer.send(rows(number, 10, encoded=number % 3 == 0))
        messages = collect(peer, 5_000)
        assert messages <= 500
        while producer.next(Acknowledged).next < 5_000:
            pass
        key = OrderKey(7, 0, 9)
        producer.send(Message(Kind.PUNCTUATION, 1, 5_000, punctuation=key, progress=key))
        producer.send(Message(Kind.END, 1, 5_001, progress=END_KEY))
        assert peer.hear()[:3] == ["PUNCTUATION", 5_000, 1]
        assert peer.hear()[:3] == ["END", 5_001, 0]
        peer.say("first")
        peer.say("second")
        assert peer.hear() == "closed"  # the goodbye made the sender hang up, so that the server could stop
        producer.next(ConsumerDown)


def test_a_waiting_consumer_bounds_the_producer(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Peer(run, "consumer", channel="gap", epoch=1, next=0, held=True) as peer, Producer(run) as producer:
        producer.at(peer.hear())
        producer.next(ConsumerUp)
        number = 0
        while producer.sender.offer(rows(number, 20_000), 0.5):
            number += 20_000
            assert number < 2_000_000, "80 MB are in flight, and nothing stopped the producer"
        assert producer.sender.pending() > 0
        peer.say("go")
        collect(peer, number)
        producer.send(rows(number, 5))
        collect(peer, 5, number)


def test_draining_waits_until_the_consumer_has_everything(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Peer(run, "consumer", channel="gap", epoch=1, next=0, held=True) as peer, Producer(run) as producer:
        producer.at(peer.hear())
        producer.next(ConsumerUp)
        number = 0
        while producer.sender.offer(rows(number, 20_000), 0.2):
            number += 20_000
        closing = threading.Thread(target=producer.sender.close, args=(True,))
        closing.start()
        closing.join(0.3)
        assert closing.is_alive()
        peer.say("go")
        collect(peer, number)
        closing.join(20)
        assert not closing.is_alive()


@pytest.mark.parametrize("channel", [GAP, BUFFER])
def test_a_killed_consumer_is_replaced(tmp_path, channel):
    run = run_in(tmp_path)
    name = "gap" if channel == GAP else "buffer"
    with Producer(run, channel) as producer:
        with Peer(run, "consumer", channel=name, epoch=1, next=0) as first:
            producer.at(first.hear())
            producer.next(ConsumerUp)
            producer.send(rows(0, 100))
            collect(first, 100)
            os.kill(first.pid, signal.SIGKILL)
            producer.next(ConsumerDown)
            assert not producer.sender.offer(rows(100, 10), 0.0)
        with Peer(run, "consumer", channel=name, epoch=2, next=60) as second:
            producer.at(second.hear(), 2)
            assert producer.next(ConsumerUp) == ConsumerUp(channel, 2, 60)
            if channel == BUFFER:
                assert not producer.sender.offer(rows(110, 10), 0.0)  # 60 to 109 would be missing
                producer.send(rows(60, 50))
                collect(second, 50, 60)
            producer.send(rows(110, 10))
            collect(second, 10, 110)


def test_a_consumer_that_hangs_is_left_when_it_is_replaced(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Producer(run) as producer, Peer(run, "consumer", channel="gap", epoch=1, next=0) as first:
        producer.at(first.hear())
        producer.next(ConsumerUp)
        os.kill(first.pid, signal.SIGSTOP)
        number = 0
        while producer.sender.offer(rows(number, 20_000), 0.2):
            number += 20_000
        with Peer(run, "consumer", channel="gap", epoch=2, next=0) as second:
            producer.at(second.hear(), 2)
            assert not producer.sender.offer(rows(number, 1), 0.0)
            assert producer.next(ConsumerUp).epoch == 2
            producer.send(rows(number, 7))
            collect(second, 7, number)
            first.process.kill()  # ends the connection that was left to itself


@pytest.fixture
def endpoint(tmp_path):
    run = run_in(tmp_path)
    inbox = Inbox(run.buffer_bytes)
    made = Endpoint("F", 1, {GAP: SCHEMA}, lambda _: 0, inbox, run)
    yield run, inbox, made
    inbox.close()
    made.close()


def test_a_producer_that_comes_back_takes_over_and_an_older_one_is_refused(endpoint, caplog):
    run, inbox, server = endpoint
    with Producer(run, epoch=1) as older, Producer(run, epoch=2) as newer:
        older.at(server.location)
        older.next(ConsumerUp)
        older.send(rows(0, 10))
        assert take(inbox)[0].message.items == 10
        newer.at(server.location)
        assert newer.next(ConsumerUp) == ConsumerUp(GAP, 1, 10)
        assert take(inbox, ProducerGone) == [ProducerGone(GAP, 1)]
        older.sender.offer(rows(10, 5), 0.0)
        older.next(ConsumerDown)
        eventually(lambda: "was replaced by epoch 2" in caplog.text, "the refusal")
        newer.send(rows(10, 1, epoch=2))
        assert [event.message.epoch for event in take(inbox)] == [2]


def test_strangers_are_refused_and_logged(endpoint, caplog):
    run, _, server = endpoint
    caplog.set_level(logging.WARNING)
    with Producer(run_in(run.directory, token="guessed")) as stranger:
        stranger.at(server.location)
        eventually(lambda: "refused a stranger's DO_EXCHANGE call: it carried a wrong token" in caplog.text)
        assert stranger.inbox.take(0.0) == []


def test_a_channel_of_another_element_is_refused_and_logged(endpoint, caplog):
    run, _, server = endpoint
    with Producer(run, BUFFER) as lost:
        lost.at(server.location)
        eventually(lambda: "ends at B, not here" in caplog.text)
        assert lost.inbox.take(0.0) == []


def test_an_end_is_no_loss_and_a_break_is(endpoint):
    run, inbox, server = endpoint
    with Producer(run) as producer:
        producer.at(server.location)
        producer.next(ConsumerUp)
        producer.send(rows(0, 1))
        take(inbox)
    assert take(inbox, ProducerGone) == [ProducerGone(GAP, 1)]
    with Producer(run) as producer:
        producer.at(server.location)
        assert producer.next(ConsumerUp).next == 1
        producer.send(Message(Kind.END, 1, 1, progress=END_KEY))
        producer.sender.close(drain=True)
        assert [event.message.kind for event in take(inbox)] == [Kind.END]
    assert inbox.take(0.0) == []
