"""Channels between real processes: order, numbers, back pressure, reconnection, strangers, parking, other threads."""

import gc
import logging
import os
import signal
import threading
import time

import pytest
from wiring import (
    BUFFER,
    GAP,
    LAYOUT,
    PATIENCE,
    SCHEMA,
    Consumer,
    Peer,
    Producer,
    dialled,
    eventually,
    fork_server,
    opening_frame,
    rows,
    run_in,
)

from riprap.base.randomness import generator
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, ProducerGone
from riprap.runtime.host import Arrival
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.codec import Encoder
from riprap.runtime.transport.transport import ALL


@pytest.fixture(autouse=True)
def nothing_is_left():
    fork_server()
    gc.collect()
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    yield
    eventually(lambda: set(threading.enumerate()) <= threads, "the end of all threads")
    gc.collect()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= files, "the end of all sockets")


def collect(peer, items, start=0, producer=None):
    """Arrivals until so many items have come, in order and without a hole."""
    stop = threading.Event()
    polling = threading.Thread(target=lambda: [producer.poll(0.01) for _ in iter(stop.is_set, True)])
    if producer is not None:
        polling.start()
    try:
        following, messages = start, 0
        while following < start + items:
            kind, number, count, fine, _ = peer.hear()
            assert (kind, number, fine) == ("ROWS", following, True)
            following += count
            messages += 1
        return messages
    finally:
        stop.set()
        if producer is not None:
            polling.join()


def test_everything_comes_once_in_order_and_is_acknowledged(tmp_path):
    run = run_in(tmp_path)
    with Peer(run, "consumer", channel="gap", epoch=3, next=0) as peer, Producer(run) as producer:
        producer.at(peer.hear(), 3)
        assert producer.next(ConsumerUp) == ConsumerUp(GAP, 3, 0)
        for number in range(0, 5_000, 10):
            producer.send(rows(number, 10, encoded=number % 3 == 0))
        assert collect(peer, 5_000, producer=producer) <= 500
        while producer.next(Acknowledged).next < 5_000:
            pass
        key = OrderKey(7, 0, 9)
        producer.send(Message(MessageKind.PUNCTUATION, 1, 5_000, punctuation=key, watermark=key))
        producer.send(Message(MessageKind.MARKER, 1, 5_001, header=b"round 1"))
        producer.send(Message(MessageKind.END, 1, 5_001, watermark=END_KEY))
        assert peer.hear()[:3] == ["PUNCTUATION", 5_000, 1]
        assert peer.hear()[:3] == ["MARKER", 5_001, 0]
        assert peer.hear()[:3] == ["END", 5_001, 0]
        peer.say("first")
        peer.say("second")
        producer.next(ConsumerDown)  # the goodbye
        assert peer.hear() == "closed"


def test_a_waiting_consumer_bounds_the_producer(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Peer(run, "consumer", channel="gap", epoch=1, next=0, held=True) as peer, Producer(run) as producer:
        producer.at(peer.hear())
        producer.book.addresses["G"] = producer.book.addresses[producer.consumer]
        peer.say("go")
        producer.next(ConsumerUp)
        os.kill(peer.pid, signal.SIGSTOP)
        number = producer.fill()
        assert producer.transport.pending(GAP) > 0
        os.kill(peer.pid, signal.SIGCONT)
        collect(peer, number, producer=producer)
        producer.send(rows(number, 5))
        collect(peer, 5, number)


def test_what_waits_for_room_is_joined(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run) as producer:
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        number = 0
        while not producer.transport.pending(GAP):
            producer.send(rows(number, 5_000))
            number += 5_000
        sent = 0
        while producer.offer(rows(number, 10, header=b"h" if sent == 100 else b"")):
            number += 10
            sent += 1
            assert sent < 100_000
        assert sent > 100, "small messages wait beside the kernel's buffer"
        arrivals = []
        while not arrivals or arrivals[-1].number + arrivals[-1].items < number:
            producer.poll()
            arrivals += [event.message for event in consumer.take(Arrival, of=producer)]
        small = [message for message in arrivals if message.items != 5_000]
        assert len(small) < sent / 10
        assert [message.items for message in small if message.header == b"h"] == [10], "a header is never joined"
        following = 0
        for message in arrivals:
            assert message.number == following
            assert message.batch.column("x").values.tolist() == list(range(following, following + message.items))
            following += message.items


def test_what_one_turn_brings_is_joined_but_not_across_the_number_of_a_marker_sent_ahead(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run) as producer:
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        for message in (rows(0, 2), *(rows(number, 1) for number in range(2, 6))):
            assert producer.transport.send(GAP, message)
        assert producer.transport.send(GAP, Message(MessageKind.MARKER, 1, 8, header=b"m"))
        for number in range(6, 10):
            assert producer.transport.send(GAP, rows(number, 1))
        producer.poll()
        arrivals = []
        while sum(message.items for message in arrivals) < 10:
            arrivals += [event.message for event in consumer.take(Arrival)]
        assert [(message.kind, message.number, message.items) for message in arrivals] == [
            (MessageKind.ROWS, 0, 2), (MessageKind.ROWS, 2, 4), (MessageKind.MARKER, 8, 0), (MessageKind.ROWS, 6, 2),
            (MessageKind.ROWS, 8, 2),
        ]  # fmt: skip


def test_nobody_waits_for_room_that_is_there(tmp_path, monkeypatch):
    run = run_in(tmp_path, buffer_bytes=1 << 16)
    with Consumer(run) as consumer, Producer(run) as producer:
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        number = 0
        while producer.transport.send(GAP, rows(number, 100)):  # in one turn: all but the first wait for its end
            number += 100
        waited, turn = [], producer.transport._loop.turn
        monkeypatch.setattr(producer.transport._loop, "turn", lambda timeout: (waited.append(timeout), turn(0.0)))
        producer.poll(PATIENCE)
        assert waited == [0.0], "the kernel took everything, and no event will tell of it"
        producer.send(rows(number, 100))
        producer.poll(PATIENCE)
        assert waited[-1] > 0


def test_draining_waits_until_the_consumer_has_everything(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Peer(run, "consumer", channel="gap", epoch=1, next=0) as peer, Producer(run) as producer:
        producer.at(peer.hear())
        producer.next(ConsumerUp)
        os.kill(peer.pid, signal.SIGSTOP)
        number = producer.fill(0.1)
        closing = threading.Thread(target=producer.transport.close, args=(True,))
        closing.start()
        closing.join(0.3)
        assert closing.is_alive()
        os.kill(peer.pid, signal.SIGCONT)
        collect(peer, number)
        closing.join(PATIENCE)
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
            assert not producer.offer(rows(100, 10))
        with Peer(run, "consumer", channel=name, epoch=2, next=60) as second:
            producer.at(second.hear(), 2)
            assert producer.next(ConsumerUp) == ConsumerUp(channel, 2, 60)
            if channel == BUFFER:
                assert not producer.offer(rows(110, 10))  # 60 to 109 would be missing
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
        number = producer.fill(0.1)
        with Peer(run, "consumer", channel="gap", epoch=2, next=0) as second:
            producer.at(second.hear(), 2)
            producer.next(ConsumerDown)
            assert not producer.offer(rows(number, 1))
            assert producer.next(ConsumerUp).epoch == 2
            producer.send(rows(number, 7))
            collect(second, 7, number)


def test_what_a_killed_producer_had_sent_comes_before_the_news(tmp_path):
    """Also where the consumer was not reading, and where answers to the dead one fail."""
    run = run_in(tmp_path)
    for parked in (False, True):
        with Consumer(run) as consumer:
            plain, challenge = dialled(consumer)
            plain.sendall(opening_frame(challenge, consumer.location))
            eventually(lambda c=consumer: c.poll(0.01) or c.transport._inlets.connected, "the hello")
            encoder = Encoder(SCHEMA)
            for number in range(0, 50_000, 1_000):
                plain.sendall(b"".join(encoder.encode(rows(number, 1_000))))
                while not parked and len(consumer.events) <= number // 1_000:
                    consumer.poll(0.01)
                if number == 10_000:
                    break
            plain.sendall(b"".join(encoder.encode(rows(11_000, 1_000)))[:5_000])  # and dies within a message
            if parked:
                plain.recv(1_000)
            plain.close()  # with the hello unread the kernel sends a reset, and drops what it has not sent
            if parked:
                consumer.poll(0.0, parked=ALL)
                assert not consumer.events
            else:
                consumer.transport.acknowledge(GAP, 5)  # fails; what came is read all the same
            eventually(lambda c=consumer: c.poll(0.005) or (c.events and isinstance(c.events[-1], ProducerGone)))
            *arrivals, gone = consumer.events
            assert gone == ProducerGone(GAP, 1)
            assert [event.message.number for event in arrivals] == list(range(0, 11_000, 1_000))


def test_a_producer_that_comes_back_takes_over_and_an_older_one_is_refused(tmp_path, caplog):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run, epoch=1) as older, Producer(run, epoch=2) as newer:
        older.at(consumer.location)
        older.next(ConsumerUp, of=consumer)
        older.send(rows(0, 10))
        assert consumer.take(Arrival)[0].message.items == 10
        newer.at(consumer.location)
        assert newer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 10)
        assert consumer.take(ProducerGone) == [ProducerGone(GAP, 1)]
        older.offer(rows(10, 5))
        older.next(ConsumerDown, of=consumer)
        eventually(lambda: older.poll(0.01) or consumer.poll() or "was replaced by epoch 2" in caplog.text)
        newer.send(rows(10, 1, epoch=2))
        assert [event.message.epoch for event in consumer.take(Arrival, of=older)] == [2]


def test_who_takes_over_waits_for_what_its_predecessor_had_sent(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run, epoch=1) as older, Producer(run, epoch=2) as newer:
        older.at(consumer.location)
        older.next(ConsumerUp, of=consumer)
        consumer.poll(parked={GAP})
        for number in range(0, 5_000, 500):  # the kernel takes it all, however little it holds
            older.send(rows(number, 500))
        newer.at(consumer.location)
        for _ in range(20):
            newer.poll(0.005)
            consumer.poll(parked={GAP})
        assert not consumer.events
        assert not newer.events, "it is not its turn"
        assert newer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 5_000)
        kinds = [type(event) for event in consumer.events]
        assert kinds == [Arrival] * 10 + [ProducerGone]


def test_a_parked_channel_is_not_read_and_the_others_are(tmp_path):
    run = run_in(tmp_path, buffer_bytes=1 << 20)
    with Consumer(run, (GAP, BUFFER)) as consumer, Producer(run) as parked, Producer(run, BUFFER) as read:
        for producer in (parked, read):
            producer.at(consumer.location)
            producer.next(ConsumerUp, of=consumer)
        number = 0
        while parked.offer(rows(number, 20_000)):
            number += 20_000
            consumer.poll(parked={GAP})
        read.send(rows(0, 10))
        eventually(lambda: consumer.poll(0.01, parked={GAP}) or consumer.events)
        assert [event.channel for event in consumer.events] == [BUFFER]
        received = 0
        while received < number:
            received += sum(event.message.items for event in consumer.take(Arrival, of=parked) if event.channel == GAP)
        assert received == number


def test_another_life_in_the_same_process_is_asked_again(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run) as producer:
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        producer.send(rows(0, 10))
        consumer.take(Arrival)
        consumer.transport.renew(5)
        producer.next(ConsumerDown, of=consumer)
        producer.at(consumer.location, 5)
        assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 5, 0), "what the old life had is forgotten"
        producer.transport.renew(3)
        producer.next(ConsumerUp, of=consumer)
        producer.send(rows(0, 10, epoch=3))
        assert [event.message.number for event in consumer.take(Arrival)] == [0]


def test_elements_of_different_lines_wait_for_each_other(tmp_path, caplog):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run) as producer:
        producer.transport.renew(2, line=4)
        producer.at(consumer.location)
        eventually(lambda: producer.poll(0.01) or consumer.poll() or "works under line 4" in caplog.text)
        assert producer.events == consumer.events == []
        consumer.transport.live_under(4)
        assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 0)
        assert consumer.events == []


def test_strangers_are_refused_and_logged(tmp_path, caplog):
    run = run_in(tmp_path)
    caplog.set_level(logging.WARNING)
    with Consumer(run) as consumer, Producer(run_in(tmp_path, token="guessed")) as stranger:
        stranger.at(consumer.location)
        eventually(
            lambda: stranger.poll(0.01) or consumer.poll() or "a stranger: it carried a wrong proof" in caplog.text
        )
        assert stranger.events == []
        assert consumer.events == []


@pytest.mark.parametrize("what", ["http", "noise", "message", "silence", "endless"])
def test_whatever_a_stranger_says_is_survived(tmp_path, caplog, what):
    run = run_in(tmp_path)
    random = generator(3, what)
    said = {
        "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(200),
        "noise": random.bytes(5_000),
        "message": b"".join(Encoder(SCHEMA).encode(rows(0, 10))),
        "silence": b"",
        "endless": opening_frame(bytes(128), "")[:128] * 10_000,
    }[what]
    with Consumer(run) as consumer, Producer(run) as producer:
        stranger, _ = dialled(consumer)
        with stranger:
            stranger.setblocking(False)
            sent = 0
            for _ in range(50):
                try:
                    sent += stranger.send(said[sent:]) if said[sent:] else 0
                except OSError:
                    break
                consumer.poll(0.001)
            if said:
                eventually(lambda: consumer.poll(0.001) or "refused a process of this machine" in caplog.text)
            producer.at(consumer.location)
            assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 0)
            assert consumer.events == []


def test_frames_that_cannot_be_end_the_connection_and_nothing_else(tmp_path, caplog):
    run = run_in(tmp_path)
    with Consumer(run, (GAP, BUFFER)) as consumer, Producer(run, BUFFER) as other:
        other.at(consumer.location)
        other.next(ConsumerUp, of=consumer)
        plain, challenge = dialled(consumer)
        with plain:
            plain.sendall(opening_frame(challenge, consumer.location))
            eventually(lambda: consumer.poll(0.01) or consumer.transport._inlets._inlets[GAP].connection)
            plain.sendall(b"".join(Encoder(SCHEMA).encode(rows(0, 10))) + bytes(500))
            eventually(lambda: consumer.poll(0.01) or len(consumer.events) == 2)
        (first, second), consumer.events = consumer.events, []
        assert first.message.items == 10, "what was whole counts"
        assert second == ProducerGone(GAP, 1)
        assert "not a frame of a channel" in caplog.text
        other.send(rows(0, 3))
        assert consumer.take(Arrival)[0].channel == BUFFER


def test_channels_and_columns_of_others_are_refused_and_logged(tmp_path, caplog):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run, BUFFER) as lost:
        lost.at(consumer.location)
        eventually(lambda: lost.poll(0.01) or consumer.poll() or "ends at B, not here" in caplog.text)
        assert lost.events == []
    with Consumer(run) as consumer, Producer(run, schema=LAYOUT.graph.physical("G", 0)) as other:
        other.at(consumer.location)
        eventually(lambda: other.poll(0.01) or consumer.poll() or "differ from those of the stream" in caplog.text)
        assert other.events == []


def test_an_end_is_no_loss_and_a_break_is(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer:
        with Producer(run) as producer:
            producer.at(consumer.location)
            producer.next(ConsumerUp, of=consumer)
            producer.send(rows(0, 1))
            consumer.take(Arrival)
        assert consumer.take(ProducerGone) == [ProducerGone(GAP, 1)]
        with Producer(run) as producer:
            producer.at(consumer.location)
            assert producer.next(ConsumerUp, of=consumer).next == 1
            producer.send(Message(MessageKind.END, 1, 1, watermark=END_KEY))
            closing = threading.Thread(target=producer.transport.close, args=(True,))
            closing.start()
            assert [event.message.kind for event in consumer.take(Arrival)] == [MessageKind.END]
            while closing.is_alive():
                consumer.poll(0.01)
            closing.join()
        assert consumer.events == []


def test_other_threads_wait_for_room_ring_and_are_let_go(tmp_path):
    run = run_in(tmp_path, buffer_bytes=100)
    done = []
    with Consumer(run) as consumer:

        def follow():
            for number in range(0, 50, 10):
                if not consumer.transport.put(Arrival(BUFFER, rows(number, 10))):
                    done.append("closed")
                    return
                done.append(number)

        thread = threading.Thread(target=follow)
        thread.start()
        eventually(lambda: len(done) == 1)
        consumer.transport.post(ConsumerDown(GAP))
        consumer.poll(PATIENCE, parked=ALL)
        assert consumer.events == [ConsumerDown(GAP)], "arrivals stay while parked"
        consumer.poll(PATIENCE, parked=set())
        assert [event.message.number for event in consumer.events[1:]] == [0]
        eventually(lambda: len(done) == 2)
        started = time.monotonic()
        consumer.transport.wake()
        while not consumer.transport._mailbox.filled:
            time.sleep(0.001)
        consumer.poll(PATIENCE)
        assert time.monotonic() - started < PATIENCE / 2, "the bell ends the wait"
    thread.join(PATIENCE)
    assert done[-1] == "closed"
