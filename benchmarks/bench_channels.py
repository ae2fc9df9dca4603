"""Channels between processes: what a message costs on its way, beside a bare socket and bare Flight.

A chain of eight processes, each a transport that gives on what it gets: so a hop is to receive, decode, encode and
send, without any operator. What counts is the time of a core, not of the clock: it hardly depends on who else is busy.
"""

import multiprocessing
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import flight

from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.base.clock import SYSTEM_CLOCK
from riprap.graph.builder import App
from riprap.graph.order_keys import END_KEY
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.runtime.host import Arrival
from riprap.runtime.layout import arrange
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.run_context import Run, Tls
from riprap.runtime.tls import generate_tls
from riprap.runtime.transport.outlets import Outlet
from riprap.runtime.transport.transport import ALL, NONE, Transport
from riprap.runtime.wire import Address

PROCESSES = 8
ROWS = 1_000  # in a message of the chain
SATURATED, PACED, RATE = 4_000, 1_000, 200  # messages; and of the paced ones, how many a second
# Rows of 40 bytes: three columns and the order key. Sizes of messages on one hop, and how many of them a round sends.
SIZES = {1: 10_000, 1_000: 3_000, 16_000: 400}
_LENGTH = struct.Struct("<Q")


def _run(directory: str, tls: Tls | None) -> Run:
    app = App("channels")
    stream = app.source("S", "a long, b double, c double")
    for at in range(1, PROCESSES):
        stream = stream.filter("a >= 0", name=f"F{at}")
    stream.sink("Out")
    layout = arrange(app.build(), fuse="none")
    return Run(Path(directory), layout, {}, "grpc://127.0.0.1:1", "secret", "127.0.0.1", tls=tls)


def _channel(run: Run, at: int) -> tuple[ChannelId, pa.Schema]:
    """From the `at`-th process of the chain to the next."""
    target = f"F{at + 1}"
    link = next(link for link in run.layout.links if link.target.name == target)
    return link.channels()[0], run.layout.graph.physical(link.stream.source, link.stream.source_port)


def _batch(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    return pa.RecordBatch.from_arrays([pa.array(numbers).cast(field.type) for field in schema], schema=schema)


class _Hop:
    """The transport of one process of a chain."""

    def __init__(self, run: Run, at: int, last: int, consumer: str | None) -> None:
        self.channel, inlets = None, {}
        if at > 0:
            inlets = dict([_channel(run, at - 1)])
        outlets: dict[ChannelId, Outlet] = {}
        if at < last:
            self.channel, schema = _channel(run, at)
            outlets[self.channel] = Outlet(schema, f"F{at + 1}", False)
        address = Address(consumer or "", 1)
        self.transport = Transport(
            f"F{at}", 1, inlets, outlets, lambda _: 0, lambda _, newer, __: None if newer else address, run
        )

    def give(self, message: Message) -> None:
        assert self.channel is not None
        while not self.transport.send(self.channel, message):
            self.transport.poll(1.0, ALL)


def _member(directory: str, tls: Tls | None, at: int, last: int, consumer: str | None, pipe: Connection) -> None:
    """A process of the chain behind the first: tells its location, then at every END what happened since the last.

    It looks at the pipe only when nothing has come for a while, because that costs as much as a message does.
    """
    hop = _Hop(_run(directory, tls), at, last, consumer)
    pipe.send(hop.transport.location)
    count, ages = 0, []
    used = time.process_time()
    while True:
        events = hop.transport.poll(0.2)
        if not events and pipe.poll():
            break
        for event in events:
            if not isinstance(event, Arrival):
                continue
            message = event.message
            if hop.channel is not None:
                hop.give(message)
            elif message.kind is MessageKind.ROWS:
                ages.append(SYSTEM_CLOCK.now() - message.born)
            count += message.items
            if message.kind is MessageKind.END:
                now = time.process_time()
                pipe.send((count, now - used, statistics.median(ages) if ages else 0.0))
                count, ages, used = 0, [], now
    hop.transport.close()


class _Chain:
    """This process, and those behind it."""

    def __init__(self, directory: str, processes: int, tls: Tls | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._members = []
        location = None
        for at in range(processes - 1, 0, -1):
            here, there = context.Pipe()
            process = context.Process(
                target=_member, args=(directory, tls, at, processes - 1, location, there), daemon=True
            )
            process.start()
            location = here.recv()
            self._members.insert(0, (process, here))
        run = _run(directory, tls)
        self.schema = _channel(run, 0)[1]
        self._hop = _Hop(run, 0, processes - 1, location)
        self.number = 0
        while not self._hop.transport.poll(5.0, NONE):
            pass

    def send(self, batch: pa.RecordBatch, messages: int, rate: float | None = None) -> tuple[float, float]:
        """Seconds of a core that all processes used together, and the median age at the end in microseconds."""
        views = Views.of(batch)
        start, used = SYSTEM_CLOCK.monotonic(), time.process_time()
        for at in range(messages):
            if rate is not None:
                while (left := start + at / rate - SYSTEM_CLOCK.monotonic()) > 0:
                    self._hop.transport.poll(left, NONE)
            self._hop.give(Message(MessageKind.ROWS, 1, self.number, views, born=SYSTEM_CLOCK.now()))
            self.number += batch.num_rows
        self._hop.give(Message(MessageKind.END, 1, self.number, watermark=END_KEY))
        self._hop.transport.poll(0.0, NONE)  # the end of the turn: what was gathered goes
        while self._hop.transport.pending(self._hop.channel):  # type: ignore[arg-type]
            self._hop.transport.poll(1.0, NONE)
        used = time.process_time() - used
        reports = [here.recv() for _, here in self._members]
        assert {count for count, _, _ in reports} == {messages * batch.num_rows}
        return used + sum(seconds for _, seconds, _ in reports), reports[-1][2]

    def close(self) -> None:
        self._hop.transport.close()
        for process, here in self._members:
            here.send("end")
            process.join(10)


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        yield from _chain_costs(directory)
        yield from _one_hop(directory)


def _chain_costs(directory: str) -> Iterator[Result]:
    chain, bare = _Chain(directory, PROCESSES), _BareChain()
    try:
        batch = _batch(chain.schema, ROWS)
        chain.send(batch, 200)
        rounds = [
            (
                *chain.send(batch, PACED, RATE),
                bare.send(PACED, RATE),
                chain.send(batch, SATURATED)[0],
                bare.send(SATURATED),
            )
            for _ in range(3)
        ]
    finally:
        chain.close()
        bare.close()
    paced, ages, bare_paced, saturated, bare_saturated = map(statistics.median, zip(*rounds, strict=True))
    hop = 1e3 / (PROCESSES - 1)
    told = f"{PROCESSES} processes in a chain, {ROWS:,} rows of 40 bytes, all in; of 3 rounds the median"
    each = f"{told}; {RATE} messages/s, so that each is woken for"
    yield at_most("channel, a message and hop", paced / PACED * hop, 0.15, each, "ms of a core")
    yield reported("bare socket, a message and hop", bare_paced / PACED * hop, "ms of a core", each)
    yield reported("channel, a message and hop, saturated", saturated / SATURATED * hop, "ms of a core", told)
    yield reported("bare socket, a message and hop, saturated", bare_saturated / SATURATED * hop, "ms of a core", told)
    yield reported("channel, age behind the chain", ages / 1e3, "ms", each)


class _BareChain:
    """The least that a chain of processes can cost: bytes of the same length, received and sent on unseen."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._members = []
        address = None
        for _ in range(PROCESSES - 1):
            here, there = context.Pipe()
            process = context.Process(target=_bare_member, args=(address, there), daemon=True)
            process.start()
            address = here.recv()
            self._members.append((process, here))
        self._first = socket.create_connection(address)
        self._first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, messages: int, rate: float | None = None) -> float:
        for _, here in self._members:
            here.send(messages)
        start, used = SYSTEM_CLOCK.monotonic(), time.process_time()
        data = bytes(_BARE_BYTES)
        for at in range(messages):
            if rate is not None and (left := start + at / rate - SYSTEM_CLOCK.monotonic()) > 0:
                SYSTEM_CLOCK.sleep(left)
            self._first.sendall(data)
        used = time.process_time() - used
        return used + sum(here.recv() for _, here in self._members)

    def close(self) -> None:
        self._first.close()
        for process, here in self._members:
            here.send(0)
            process.join(10)


_BARE_BYTES = 40 * ROWS + 128


def _bare_member(consumer: tuple[str, int] | None, pipe: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pipe.send(listening.getsockname()[:2])
        on = socket.create_connection(consumer) if consumer is not None else None
        if on is not None:
            on.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken, _ = listening.accept()
    buffer, have = memoryview(bytearray(1 << 18)), 0
    while messages := pipe.recv():
        left, used = messages * _BARE_BYTES, time.process_time()
        while left:
            count = taken.recv_into(buffer[have:])
            left, have = left - count, have + count
            whole = have // _BARE_BYTES * _BARE_BYTES
            if whole:
                if on is not None:
                    on.sendall(buffer[:whole])
                buffer[: have - whole] = buffer[whole:have]
                have -= whole
        pipe.send(time.process_time() - used)


# One hop --------------------------------------------------------------------------------------------------------------


class _BareFlight(flight.FlightServerBase):
    def do_exchange(self, context, descriptor, reader, writer):  # type: ignore[no-untyped-def]
        count = 0
        while True:
            try:
                count += reader.read_chunk().data.num_rows
            except StopIteration:
                break
        writer.write_metadata(str(count).encode())


def _bare(pipe: Connection) -> None:
    """A process with a bare Flight server, and a bare socket that takes what comes and tells how much it was."""
    server = _BareFlight("grpc://127.0.0.1:0")
    listening = socket.create_server(("127.0.0.1", 0))
    pipe.send((f"grpc://127.0.0.1:{server.port}", listening.getsockname()[:2]))
    buffer = memoryview(bytearray(1 << 20))
    taken, _ = listening.accept()
    with taken:
        while True:
            head = taken.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                break
            left = expected = _LENGTH.unpack(head)[0]
            while left:
                left -= taken.recv_into(buffer[: min(left, len(buffer))])
            taken.sendall(_LENGTH.pack(expected))


def _one_hop(directory: str) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    other = context.Process(target=_bare, args=(there,), daemon=True)
    other.start()
    location, address = here.recv()
    chains = {"channel": _Chain(directory, 2), "TLS": _Chain(directory, 2, generate_tls(["127.0.0.1"]))}
    plain = socket.create_connection(address)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for rows, messages in SIZES.items():
            batch = _batch(chains["channel"].schema, rows)
            times = side_by_side(
                {
                    **{name: _through(chain, batch, messages) for name, chain in chains.items()},
                    "TCP": lambda batch=batch, messages=messages: _bare_tcp(plain, batch, messages),
                    "Flight": lambda batch=batch, messages=messages: _bare_flight(location, batch, messages),
                }
            )
            yield from _told(rows, messages, times)
        yield _idle(chains["channel"])
    finally:
        for chain in chains.values():
            chain.close()
        plain.close()
        other.join(10)


def _through(chain: _Chain, batch: pa.RecordBatch, messages: int) -> Callable[[], object]:
    return lambda: chain.send(batch, messages)


def _bare_tcp(plain: socket.socket, batch: pa.RecordBatch, messages: int) -> None:
    """The same bytes in the same pieces, without any meaning."""
    buffers = [memoryview(column.buffers()[1]) for column in batch.columns]
    size = sum(map(len, buffers))
    plain.sendall(_LENGTH.pack(size * messages))
    for _ in range(messages):
        sent = plain.sendmsg(buffers)
        if sent < size:
            plain.sendall(b"".join(buffers)[sent:])
    assert _LENGTH.unpack(plain.recv(8, socket.MSG_WAITALL))[0] == size * messages


def _bare_flight(location: str, batch: pa.RecordBatch, messages: int) -> None:
    client = flight.FlightClient(location)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"bare"))
    writer.begin(batch.schema)
    for _ in range(messages):
        writer.write_with_metadata(batch, b"envelope of some fifty bytes, as a message has one")
    writer.done_writing()
    assert int(reader.read_chunk().app_metadata.to_pybytes()) == messages * batch.num_rows
    writer.close()
    client.close()


def _told(rows: int, messages: int, times: dict[str, float]) -> Iterator[Result]:
    rates = {name: messages * rows / seconds / 1e6 for name, seconds in times.items()}
    what = f"{rows:,} rows a message"
    how = "two processes, rows of 40 bytes, from `send` to `poll`"
    if rows == 16_000:
        yield at_least(f"channel, {what}", rates["channel"], 50.0, how, "M rows/s")
    else:
        yield reported(f"channel, {what}", rates["channel"], "M rows/s", how)
    yield reported(f"channel under TLS, {what}", rates["TLS"], "M rows/s", how)
    yield reported(f"channel against a bare socket, {what}", rates["channel"] / rates["TCP"], "×", "the same bytes")
    yield at_least(
        f"channel against bare Flight, {what}", rates["channel"] / rates["Flight"], 1.0, "rows/s of the same messages"
    )


def _idle(chain: _Chain) -> Result:
    batch = _batch(chain.schema, 1)
    ages = [chain.send(batch, 1)[1] for _ in range(200)]
    return reported("channel, idle: one row", statistics.median(ages) / 1e3, "ms", "sent until taken, median of 200")
