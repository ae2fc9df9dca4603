"""A small app, its run, and a consumer as a process of its own, to be killed or stopped."""

import contextlib
import json
import multiprocessing
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.graph.builder import App
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.runtime.layout import arrange
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.run_context import Run
from riprap.runtime.transport.opening import Handshake, Opening, columns_of
from riprap.runtime.transport.outlets import Outlet
from riprap.runtime.transport.sockets import start_connecting
from riprap.runtime.transport.transport import Transport
from riprap.runtime.transport.wire_frame import HEADER_SIZE, credentials
from riprap.runtime.wire import Address

PRELOADED = ["riprap.runtime.process", "riprap.protocols.registry"]  # by the fork server; there is one
PATIENCE = 300.0  # seconds; only how long a test that fails takes


def layout():
    app = App("wire")
    source = app.source("S", "k string, x long")
    left, right = source.filter("x >= 0", name="F"), source.select("x AS y", name="G")
    left.barrier(right, name="B").sink("Sink")
    return arrange(app.build(), fuse="none")


LAYOUT = layout()
GAP = next(c for link in LAYOUT.links if link.target.name == "F" for c in link.channels())
BUFFER = next(c for link in LAYOUT.links if link.target.name == "B" for c in link.channels())
assert LAYOUT.link(GAP.stream).recovery == "gap"
assert LAYOUT.link(BUFFER.stream).recovery == "buffer"
SCHEMA = LAYOUT.graph.physical("S", 0)
OPENING = Opening(GAP, 1, columns_of(SCHEMA))


def run_in(directory: Path, **options) -> Run:
    settings = {"coordinator": "grpc://127.0.0.1:1", "token": "secret", "host": "127.0.0.1"} | options
    return Run(directory=directory, layout=LAYOUT, inputs={}, **settings)


def rows(number: int, count: int, *, encoded: bool = False, **fields) -> Message:
    """A message whose column x holds the numbers of its items."""
    numbers = np.arange(number, number + count)
    text = pa.array([f"k{n % 5}" for n in numbers.tolist()])
    batch = pa.RecordBatch.from_arrays(
        [
            text.dictionary_encode() if encoded else text,
            pa.array(numbers),
            pa.array(numbers).cast(SCHEMA.field("_ts").type),
            pa.array(numbers),
        ],
        names=SCHEMA.names,
    )
    return Message(MessageKind.ROWS, fields.pop("epoch", 1), number, Views.of(batch), **fields)


def eventually(condition: Callable[[], object], what: str = "it") -> object:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (result := condition()) is not None and result is not False:
            return result
        time.sleep(0.005)
    raise AssertionError(f"{what} did not happen within {PATIENCE} s")


def dialled(consumer) -> tuple[socket.socket, bytes]:
    """A bare connection to a consumer of this process, and the frame that it begins with."""
    plain = start_connecting(consumer.location)
    first = b""

    def challenged() -> bool:
        nonlocal first
        consumer.poll()
        with contextlib.suppress(BlockingIOError):
            first += plain.recv(HEADER_SIZE - len(first))
        return len(first) == HEADER_SIZE

    eventually(challenged, "the challenge")
    plain.setblocking(True)
    return plain, first


def opening_frame(challenge: bytes, location: str, opening: Opening | None = None, token: str = "secret") -> bytes:
    """What a producer answers to a challenge."""
    return Handshake(token, location, credentials(challenge)[0]).opening(opening or OPENING)


class Book:
    """An address book for senders."""

    def __init__(self) -> None:
        self.addresses: dict[str, Address] = {}

    def find(self, pe: str, newer_than: int, timeout: float) -> Address | None:
        deadline = time.monotonic() + timeout
        while True:
            address = self.addresses.get(pe)
            if address is not None and address.epoch > newer_than:
                return address
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.002)


class Producer:
    """A transport with one channel out, and what it told its element."""

    def __init__(self, run, channel=GAP, epoch=1, schema=SCHEMA):
        self.book = Book()
        self.channel = channel
        self.consumer = run.layout.consumer(channel)
        self.events = []
        outlet = Outlet(schema, self.consumer, run.layout.link(channel.stream).recovery == "buffer")
        self.transport = Transport("S", epoch, {}, {channel: outlet}, lambda _: 0, self.book.find, run)

    def at(self, location, epoch=1):
        self.book.addresses[self.consumer] = Address(location, epoch)
        self.transport.wake()

    def poll(self, timeout=0.0):
        self.events += self.transport.poll(timeout)

    def next(self, kind, of=None):
        """The next event of this kind that was not asked for before; `of` is polled meanwhile."""

        def look():
            self.poll(0.005)
            if of is not None:
                of.poll()
            for index, event in enumerate(self.events):
                if isinstance(event, kind):
                    del self.events[: index + 1]
                    return event
            return None

        return eventually(look, kind.__name__)

    def offer(self, message, seconds=0.0):
        deadline = time.monotonic() + seconds
        while not self.transport.send(self.channel, message):
            if time.monotonic() >= deadline:
                return False
            self.poll(0.01)
        self.poll()
        return True

    def send(self, message):
        assert self.offer(message, PATIENCE)

    def fill(self, seconds=0.3, most=2_000_000):
        """Send until it says no; gives the number of the next item."""
        number = 0
        while self.offer(rows(number, 20_000), seconds):
            number += 20_000
            assert number < most, "80 MB are in flight, and nothing stopped the producer"
        return number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.transport.close()


class Consumer:
    """A transport in this process with channels in."""

    def __init__(self, run, channels=(GAP,), epoch=1, expected=0, **options):
        self.transport = Transport(
            "F", epoch, dict.fromkeys(channels, SCHEMA), {}, lambda _: expected, lambda *_: None, run, **options
        )
        self.location = self.transport.location
        self.events = []

    def poll(self, timeout=0.0, **parked):
        self.events += self.transport.poll(timeout, **parked)

    def take(self, kind, of=None):
        """All of this kind, and at least one; what came before them in `events` is forgotten."""

        def look():
            self.poll(0.005)
            if of is not None:
                of.poll()
            found = [event for event in self.events if isinstance(event, kind)]
            if found:
                self.events = []
            return found or None

        return eventually(look, kind.__name__)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.transport.close()


def fork_server():
    """Where processes come from; it runs when this returns, so that no test finds its files left open."""
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    return fork


class Peer:
    """A process that plays a role of `peer.py` and speaks in lines of JSON. It comes from a fork server, which has
    imported what takes seconds to import."""

    def __init__(self, run: Run, role: str, **settings) -> None:
        fork = fork_server()
        hears, says = fork.Pipe(duplex=False)
        heard, said = fork.Pipe(duplex=False)
        self.process = fork.Process(target=_play, args=(role, pickle.dumps(run), settings, hears, said), daemon=True)
        self.process.start()
        hears.close()
        said.close()
        self.stdin, self.stdout = (os.fdopen(os.dup(pipe.fileno()), mode) for pipe, mode in ((says, "w"), (heard, "r")))
        says.close()
        heard.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> object:
        line = self.stdout.readline()
        if not line:
            raise AssertionError(f"the peer ended with {self.ended()}")
        return json.loads(line)

    def ended(self) -> int | None:
        """Its exit code, when it has ended by itself."""
        self.process.join(PATIENCE)
        return self.process.exitcode

    def say(self, text: str) -> None:
        self.stdin.write(text + "\n")
        self.stdin.flush()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.stdin.close()
        self.stdout.close()


def _play(role: str, run: bytes, settings: dict, hears, said) -> None:
    """In the process of a peer: its lines come and go where those of a program do."""
    os.dup2(hears.fileno(), 0)
    os.dup2(said.fileno(), 1)
    sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
    hears.close()
    said.close()
    import peer

    peer.ROLES[role](pickle.loads(run), settings)


def channel(text: str) -> ChannelId:
    return {"gap": GAP, "buffer": BUFFER}[text]
