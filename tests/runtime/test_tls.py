"""Channels and the coordinator with TLS on: the same, and only under the certificate of the run."""

import logging
import os
import socket

import pytest
from wiring import GAP, LAYOUT, Consumer, Producer, eventually, opening_frame, rows, run_in

from riprap.base.clock import SYSTEM_CLOCK
from riprap.protocols.events import ConsumerDown, ConsumerUp, ProducerGone
from riprap.runtime.coordination.client import Client, CoordinatorLost
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.host import Arrival
from riprap.runtime.tls import generate_tls
from riprap.runtime.transport.transport import ALL


@pytest.fixture(scope="module")
def tls():
    return generate_tls(["127.0.0.1", "::1", "some.host"])


def test_long_messages_back_pressure_and_breaks(tls, tmp_path):
    run = run_in(tmp_path, tls=tls)
    with Consumer(run) as consumer:
        with Producer(run) as producer:
            assert consumer.location.startswith("tls://127.0.0.1:")
            producer.at(consumer.location)
            assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 0)
            number = 0
            while producer.offer(rows(number, 20_000)):
                number += 20_000
                consumer.poll(parked=ALL)
                assert number < 2_000_000
            assert consumer.events == []
            taken = 0
            while taken < number:
                for event in consumer.take(Arrival, of=producer):
                    message = event.message
                    assert message.number == taken
                    assert message.batch.column("x").values.tolist() == list(range(taken, taken + message.items))
                    taken += message.items
        assert consumer.take(ProducerGone) == [ProducerGone(GAP, 1)]
        with Producer(run) as again:
            again.at(consumer.location)
            assert again.next(ConsumerUp, of=consumer).next == taken
            consumer.transport.close()
            again.next(ConsumerDown)


def test_who_lacks_the_certificate_gets_nowhere(tls, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    run = run_in(tmp_path, tls=tls)
    with Consumer(run) as consumer:
        with Producer(run_in(tmp_path, tls=generate_tls([]))) as other:
            other.at(consumer.location)
            eventually(lambda: other.poll(0.01) or consumer.poll() or "CERTIFICATE_VERIFY_FAILED" in caplog.text)
            assert other.events == []
        address = consumer.transport._listening.getsockname()
        with socket.create_connection(address) as plain:
            plain.sendall(opening_frame(bytes(128), consumer.location))
            eventually(lambda: consumer.poll(0.01) or "no connection of this run" in caplog.text)
        assert consumer.events == []
        with Producer(run) as producer:
            producer.at(consumer.location)
            producer.next(ConsumerUp, of=consumer)


def test_the_key_is_on_no_disk_afterwards(tls, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Consumer(run_in(tmp_path / "run", tls=tls)):
        assert os.listdir(tmp_path) == []


def test_the_coordinator_speaks_under_the_same_certificate(tls, tmp_path):
    coordinator = Coordinator(tmp_path, LAYOUT, "secret", tls, "127.0.0.1", SYSTEM_CLOCK)
    coordinator.start()
    assert coordinator.location.startswith("grpc+tls://127.0.0.1:")
    run = run_in(tmp_path, coordinator=coordinator.location, tls=tls)
    client = Client(run, "F", 0, 1)
    assert client.register().epoch == 1
    client.announce("tls://127.0.0.1:1")
    with pytest.raises(CoordinatorLost):
        Client(run_in(tmp_path, coordinator=coordinator.location, tls=generate_tls([])), "G", 0, 1).register()
    client.close()
    coordinator.close()
