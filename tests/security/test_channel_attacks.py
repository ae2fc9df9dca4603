"""Attacks on channels and on the coordinator, by somebody who does not know the token, and by an element gone wild.

The attackers here run as the same user, so that nothing but the proofs stands between them and the run: to another user
the Unix sockets are closed besides (`tests/runtime/test_sockets.py`).
"""

import contextlib
import socket

import pyarrow as pa
import pytest
import xxhash
from pyarrow import flight
from tests.runtime.wiring import (
    GAP,
    LAYOUT,
    SCHEMA,
    Consumer,
    Producer,
    dialled,
    eventually,
    opening_frame,
    rows,
    run_in,
)

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.randomness import generator
from riprap.protocols.events import ConsumerDown, ConsumerUp
from riprap.runtime.coordination.client import Client, CoordinatorLost
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.host import Arrival
from riprap.runtime.transport import inlets
from riprap.runtime.transport.codec import Encoder
from riprap.runtime.transport.opening import Handshake
from riprap.runtime.transport.wire_frame import HEADER_SIZE, FrameKind, WireHeader, credentials, pack


class Impostor:
    """Takes the place of an element that has died, and of nothing else."""

    def __init__(self, location):
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind("\0" + location.removeprefix("unix://"))
        self.listening.listen()
        self.listening.settimeout(0.01)
        self.taken = None

    def meets(self, producer, challenge=None):
        """The opening that a producer sends it, for this challenge."""
        came = b""

        def look():
            nonlocal came
            producer.poll()
            with contextlib.suppress(TimeoutError):
                if self.taken is None:
                    self.taken, _ = self.listening.accept()
                    self.taken.settimeout(0.01)
                    self.taken.sendall(challenge or pack(WireHeader(FrameKind.CHALLENGE, 0), bytes(range(32))))
                came += self.taken.recv(8192)
            return len(came) > HEADER_SIZE

        eventually(look, "the opening")
        return came

    def says(self, producer, frame):
        """All that the producer sends behind it, until it hangs up or nothing more comes."""
        with contextlib.suppress(OSError):
            self.taken.sendall(frame)
        came = b""
        for _ in range(30):
            producer.offer(rows(0, 10))
            producer.poll(0.005)
            with contextlib.suppress(OSError):
                came += self.taken.recv(1 << 16)
        return came

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.close()
        if self.taken is not None:
            self.taken.close()


@pytest.fixture
def dead(tmp_path):
    """The location of an element that is no more."""
    with Consumer(run_in(tmp_path)) as consumer:
        return consumer.location


def refused(consumer, opening):
    """Send this as the answer to a new challenge; whether the consumer hangs up without admitting anybody."""
    plain, _ = dialled(consumer)
    with plain:
        plain.sendall(opening)
        plain.settimeout(0.005)
        answer = b""

        def over():
            nonlocal answer
            consumer.poll()
            try:
                part = plain.recv(8192)
                answer += part
                return not part
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(over, "the refusal")
    return not consumer.transport._inlets.connected and FrameKind.HELLO not in answer[6:7]


def test_whoever_takes_the_place_of_a_dead_element_learns_nothing_that_it_can_use(tmp_path, dead):
    run = run_in(tmp_path)
    with Impostor(dead) as impostor, Producer(run) as producer:
        producer.at(dead)
        opening = impostor.meets(producer)
        assert b"secret" not in opening
        with Consumer(run, epoch=2) as consumer:
            assert refused(consumer, opening)
    with Impostor(dead) as impostor, Producer(run) as producer:
        producer.at(dead)
        again = impostor.meets(producer)
    for one, other in zip(credentials(opening), credentials(again), strict=True):
        assert one != other, "something is the same in every opening"


def test_it_cannot_pass_on_the_challenge_of_another_element(tmp_path, dead):
    """The man in the middle: all frames are genuine, and between the wrong places."""
    run = run_in(tmp_path)
    with Consumer(run, epoch=2) as consumer, Impostor(dead) as impostor, Producer(run) as producer:
        plain, challenge = dialled(consumer)
        with plain:
            producer.at(dead)
            plain.sendall(impostor.meets(producer, challenge))
            eventually(lambda: consumer.poll(0.005) or not consumer.transport._inlets._unopened, "the refusal")
        assert not consumer.transport._inlets.connected


@pytest.mark.parametrize("kind", [FrameKind.HELLO, FrameKind.GOODBYE, FrameKind.ACKNOWLEDGEMENT])
@pytest.mark.parametrize("proof", ["none", "own", "reflected", "guessed"])
def test_it_is_not_believed_and_gets_no_row(tmp_path, dead, kind, proof):
    run = run_in(tmp_path)
    header = WireHeader(kind, 0, epoch=10**12)
    with Impostor(dead) as impostor, Producer(run) as producer:
        producer.at(dead)
        opening = impostor.meets(producer)
        guessed = Handshake("guessed", dead, bytes(range(32)))
        guessed.admits(opening[:HEADER_SIZE], memoryview(opening[HEADER_SIZE:]))
        answers = {
            "none": pack(header),
            "own": pack(header, bytes(32), bytes(32)),
            "reflected": pack(header, *credentials(opening)),
            "guessed": guessed.answer(header),
        }
        assert impostor.says(producer, answers[proof]) == b""
        assert producer.events == []
        with Consumer(run, epoch=2) as consumer:
            producer.at(consumer.location, 2)
            assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 2, 0), "it was not led away for good"


def test_an_opening_that_was_overheard_opens_nothing(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer:
        plain, challenge = dialled(consumer)
        with plain:
            genuine = opening_frame(challenge, consumer.location)
            plain.sendall(genuine)
            eventually(lambda: consumer.poll(0.005) or consumer.transport._inlets.connected, "the hello")
        eventually(lambda: consumer.poll(0.005) or not consumer.transport._inlets.connected, "its end")
        assert refused(consumer, genuine)


def test_no_byte_of_an_opening_can_be_changed(tmp_path):
    """Its checks are made to fit: an attacker would do that."""
    run = run_in(tmp_path)
    random = generator(5, "mutated openings")
    with Consumer(run) as consumer:
        for _ in range(60):
            plain, challenge = dialled(consumer)
            with plain:
                genuine = opening_frame(challenge, consumer.location)
                frame = bytearray(genuine)
                at = int(random.integers(len(frame)))
                frame[at] ^= 1 << int(random.integers(8))
                frame[HEADER_SIZE - 8 : HEADER_SIZE] = xxhash.xxh3_64_intdigest(frame[:120]).to_bytes(8, "little")
                if frame == genuine:
                    continue  # the check itself was hit, and made to fit again
                plain.sendall(frame)
                plain.shutdown(socket.SHUT_WR)  # a length that is too long never comes
                eventually(lambda: consumer.poll(0.002) or not consumer.transport._inlets._unopened, f"byte {at}")
            assert not consumer.transport._inlets.connected, f"byte {at}"
            assert consumer.events == []


def test_an_epoch_that_the_coordinator_has_not_issued_is_refused_and_stops_nobody(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(inlets, "_OPENING_TIMEOUT", 0.05)
    run, issued = run_in(tmp_path), {GAP: 1}
    with Consumer(run, issued=issued.__getitem__) as consumer, Producer(run, epoch=1) as producer:
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        with Producer(run, epoch=10**12) as wild:
            wild.at(consumer.location)
            eventually(lambda: wild.poll() or consumer.poll(0.005) or f"issued no epoch {10**12}" in caplog.text)
            assert wild.events == []
        producer.send(rows(0, 10))
        assert consumer.take(Arrival, of=producer)[0].message.items == 10
        assert not any(isinstance(event, ConsumerDown) for event in producer.events)


def test_an_epoch_whose_announcement_is_on_its_way_waits_for_it(tmp_path):
    run, issued = run_in(tmp_path), {GAP: 1}
    with Consumer(run, issued=issued.__getitem__) as consumer, Producer(run, epoch=2) as producer:
        producer.at(consumer.location)
        eventually(
            lambda: (
                producer.poll() or consumer.poll(0.005) or any(s.opening for s in consumer.transport._inlets._unopened)
            )
        )
        assert producer.events == []
        issued[GAP] = 2
        consumer.transport.wake()
        assert producer.next(ConsumerUp, of=consumer) == ConsumerUp(GAP, 1, 0)


@pytest.mark.parametrize("what", ["a message behind it", "another opening", "a message instead"])
def test_nothing_is_taken_before_the_proof(tmp_path, what, caplog):
    run = run_in(tmp_path)
    message = b"".join(Encoder(SCHEMA).encode(rows(0, 10)))
    with Consumer(run, issued=lambda _: 0) as consumer:  # so even a proved one has to wait
        plain, challenge = dialled(consumer)
        with plain:
            opening = opening_frame(challenge, consumer.location)
            why = "it carried no proof" if what == "a message instead" else "a frame before the hello"
            plain.sendall({"a message instead": message, "another opening": opening * 2}.get(what, opening + message))
            eventually(lambda: consumer.poll(0.005) or not consumer.transport._inlets._unopened, "the refusal")
        assert consumer.events == []
        assert why in caplog.text


def test_however_many_connect_and_say_nothing_few_stay(tmp_path):
    run = run_in(tmp_path)
    with Consumer(run) as consumer, Producer(run) as producer:
        idle = [dialled(consumer)[0] for _ in range(200)]
        assert len(consumer.transport._inlets._unopened) <= 64
        producer.at(consumer.location)
        producer.next(ConsumerUp, of=consumer)
        for one in idle:
            one.close()


# The coordinator ------------------------------------------------------------------------------------------------------


class Catcher(flight.ServerMiddlewareFactory):
    def __init__(self):
        super().__init__()
        self.caught = []

    def start_call(self, info, headers):
        self.caught += [value for name, values in headers.items() if name == "authorization" for value in values]


class FalseCoordinator(flight.FlightServerBase):
    """Says what the caller would like to hear."""

    def do_exchange(self, context, descriptor, reader, writer):
        with contextlib.suppress(pa.ArrowException, flight.FlightError):
            writer.write_metadata(b'{"registered": {"epoch": 9, "line": 0, "newest": true, "target": null}}')
            reader.read_chunk()


@pytest.fixture
def coordinator(tmp_path):
    one = Coordinator(tmp_path, LAYOUT, "secret", None, "127.0.0.1", SYSTEM_CLOCK)
    one.start()
    yield one
    one.close()


def test_whoever_takes_the_coordinators_port_is_not_believed_and_learns_no_token(tmp_path, coordinator):
    catcher = Catcher()
    with FalseCoordinator("grpc://127.0.0.1:0", middleware={"catcher": catcher}) as false:
        client = Client(run_in(tmp_path, coordinator=f"grpc://127.0.0.1:{false.port}"), "F", 0, 1)
        with pytest.raises(CoordinatorLost, match="does not prove that it belongs to this run"):
            client.register()
    assert catcher.caught
    assert "secret" not in catcher.caught[0]
    with pytest.raises(flight.FlightUnauthenticatedError):
        call(coordinator, catcher.caught[0])


def test_a_call_that_was_overheard_is_refused(tmp_path, coordinator, monkeypatch):
    run = run_in(tmp_path, coordinator=coordinator.location)
    said = []
    options = flight.FlightCallOptions
    monkeypatch.setattr(
        flight, "FlightCallOptions", lambda headers: said.append(headers[0][1]) or options(headers=headers)
    )
    client = Client(run, "F", 0, 1)
    assert client.register().epoch == 1
    monkeypatch.undo()
    with pytest.raises(flight.FlightUnauthenticatedError):
        call(coordinator, said[0].decode())
    client.close()


def call(coordinator, authorization):
    """A registration under these words."""
    with flight.connect(coordinator.location) as client:
        options = flight.FlightCallOptions(headers=[(b"authorization", authorization.encode())])
        descriptor = flight.FlightDescriptor.for_command(
            b'{"pe": "F", "attempt": 5, "host": "x", "pid": 1, "executor_pid": 1}'
        )
        _, reader = client.do_exchange(descriptor, options)
        reader.read_chunk()


def test_elements_hear_which_epochs_were_issued(tmp_path, coordinator):
    run = run_in(tmp_path, coordinator=coordinator.location)
    first, second = Client(run, "F", 0, 1), Client(run, "G", 0, 2)
    first.register()
    eventually(lambda: first.booked, "the address book")
    assert first.issued == {pe.id: int(pe.id == "F") for pe in LAYOUT.pes}
    second.register()
    eventually(lambda: first.issued["G"] == 1, "the news")
    second.close()
    again = Client(run, "G", 1, 3)
    again.register()
    eventually(lambda: first.issued["G"] == 2, "the news")
    for client in (again, first):
        client.close()
