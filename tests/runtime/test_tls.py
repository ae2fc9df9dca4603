"""Channels and the coordinator with TLS on."""

import pytest
from pyarrow import flight
from wiring import GAP, LAYOUT, SCHEMA, rows, run_in

from riprap.base.clock import SYSTEM_CLOCK
from riprap.protocols.events import ConsumerUp
from riprap.runtime.client import Client, CoordinatorLost
from riprap.runtime.coordinator import Coordinator
from riprap.runtime.endpoint import Endpoint
from riprap.runtime.hosting import Arrival
from riprap.runtime.inbox import Inbox
from riprap.runtime.sender import Sender
from riprap.runtime.tls import generate_tls
from riprap.runtime.wire import call_options


@pytest.fixture(scope="module")
def tls():
    return generate_tls(["127.0.0.1", "::1", "some.host"])


def test_everything_works_and_only_under_the_certificate_of_the_run(tls, tmp_path):
    coordinator = Coordinator(tmp_path, LAYOUT, "secret", tls, "127.0.0.1", SYSTEM_CLOCK)
    coordinator.start()
    assert coordinator.location.startswith("grpc+tls://127.0.0.1:")
    run = run_in(tmp_path, coordinator=coordinator.location, tls=tls)
    consumer, producer = Client(run, "F", 0, 1), Client(run, "S", 0, 1)
    inbox, outbox = Inbox(run.buffer_bytes), Inbox(run.buffer_bytes)
    endpoint = Endpoint("F", consumer.register().epoch, {GAP: SCHEMA}, lambda _: 0, inbox, run)
    consumer.announce(endpoint.location)
    sender = Sender(GAP, SCHEMA, producer.register().epoch, producer.find, "F", outbox, run)
    assert outbox.take(20.0) == [ConsumerUp(GAP, 1, 0)]
    sent = rows(0, 100)
    assert sender.offer(sent, 1.0)
    (arrival,) = inbox.take(20.0)
    assert isinstance(arrival, Arrival)
    assert arrival.message.batch.to_pydict() == sent.batch.to_pydict()

    with pytest.raises(CoordinatorLost):
        Client(run_in(tmp_path, coordinator=coordinator.location, tls=generate_tls([])), "G", 0, 1).register()
    plain = flight.FlightClient(endpoint.location.replace("grpc+tls", "grpc"))
    with pytest.raises(flight.FlightUnavailableError):
        list(plain.list_flights(options=call_options("secret")))
    plain.close()

    sender.close(drain=True)
    inbox.close()
    endpoint.close()
    producer.close()
    consumer.close()
    coordinator.close()
