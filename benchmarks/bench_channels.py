"""Channels between two processes against bare Flight: what the envelope, the numbers and the threads cost."""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import flight

from benchmarks.harness import Result, at_least, reported, side_by_side
from riprap.base.clock import SYSTEM_CLOCK
from riprap.graph.builder import App
from riprap.graph.keys import END_KEY
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import ConsumerUp
from riprap.runtime.endpoint import Endpoint
from riprap.runtime.hosting import Arrival
from riprap.runtime.inbox import Inbox
from riprap.runtime.layout import arrange
from riprap.runtime.messages import Kind, Message
from riprap.runtime.run import Run
from riprap.runtime.sender import Sender
from riprap.runtime.wire import Address

# Rows of 40 bytes: three columns and the order key. Sizes of messages, and how many of them a round sends.
SIZES = {1: 10_000, 1_000: 3_000, 65_536: 100}


def _run(directory: Path) -> Run:
    app = App("channels")
    app.source("S", "a long, b double, c double").filter("a >= 0", name="F").sink("Out")
    return Run(directory, arrange(app.build(), fuse="none"), {}, "grpc://127.0.0.1:1", "secret", "127.0.0.1")


def _channel(run: Run) -> tuple[ChannelId, pa.Schema]:
    return run.layout.links[0].channels()[0], run.layout.graph.physical("S", 0)


class _Bare(flight.FlightServerBase):
    def do_exchange(self, context, descriptor, reader, writer):  # type: ignore[no-untyped-def]
        count = 0
        while True:
            try:
                count += reader.read_chunk().data.num_rows
            except StopIteration:
                break
        writer.write_metadata(str(count).encode())


def _consume(directory: str, pipe: Connection) -> None:
    """The consumer's process: on the channel, tells at every END how many rows came and how old they were."""
    run = _run(Path(directory))
    channel, schema = _channel(run)
    inbox = Inbox(run.buffer_bytes)
    endpoint = Endpoint("F", 1, {channel: schema}, lambda _: 0, inbox, run)
    bare = _Bare("grpc://127.0.0.1:0")
    pipe.send((endpoint.location, f"grpc://127.0.0.1:{bare.port}"))
    count, ages = 0, []
    while not pipe.poll():
        for event in inbox.take(0.05):
            if isinstance(event, Arrival):
                if event.message.kind is Kind.ROWS:
                    ages.append(SYSTEM_CLOCK.now() - event.message.born)
                count += event.message.items
                if event.message.kind is Kind.END:
                    pipe.send((count, statistics.median(ages)))
                    count, ages = 0, []
    inbox.close()
    endpoint.close()


def run() -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        process = context.Process(target=_consume, args=(directory, there))
        process.start()
        location, bare = here.recv()
        settings = _run(Path(directory))
        channel, schema = _channel(settings)
        inbox = Inbox(settings.buffer_bytes)
        address = Address(location, 1)
        sender = Sender(channel, schema, 1, lambda _, newer, __: None if newer else address, "F", inbox, settings)
        (up,) = inbox.take(30.0)
        assert isinstance(up, ConsumerUp)
        try:
            for rows, messages in SIZES.items():
                yield from _throughput(sender, here, bare, schema, rows, messages)
            yield _latency(sender, here, schema)
        finally:
            sender.close(drain=False)
            here.send("end")
            process.join(10)


def _batch(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    return pa.RecordBatch.from_arrays([pa.array(numbers).cast(field.type) for field in schema], schema=schema)


def _send(sender: Sender, message: Message) -> None:
    while not sender.offer(message, 1.0):
        pass


def _throughput(
    sender: Sender, pipe: Connection, bare: str, schema: pa.Schema, rows: int, messages: int
) -> Iterator[Result]:
    batch = _batch(schema, rows)

    def through_the_channel() -> None:
        for number in range(messages):
            _send(sender, Message(Kind.ROWS, 1, number * rows, batch))
        _send(sender, Message(Kind.END, 1, messages * rows, progress=END_KEY))
        assert pipe.recv()[0] == messages * rows

    def bare_flight() -> None:
        client = flight.FlightClient(bare)
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"bare"))
        writer.begin(schema)
        for _ in range(messages):
            writer.write_with_metadata(batch, b"envelope of some fifty bytes, as a message has one")
        writer.done_writing()
        assert int(reader.read_chunk().app_metadata.to_pybytes()) == messages * rows
        writer.close()
        client.close()

    times = side_by_side({"channel": through_the_channel, "bare": bare_flight})
    rate = messages * rows / times["channel"] / 1e6
    yield reported(
        f"channel, {rows:,} rows a message", rate, "M rows/s", "two processes, rows of 40 bytes, sender to inbox"
    )
    yield at_least(
        f"channel against bare Flight, {rows:,} rows a message",
        times["bare"] / times["channel"],
        1.0 if rows == 1 else 0.8,
        "rows/s of the same messages; small ones are joined, which bare Flight does not",
    )


def _latency(sender: Sender, pipe: Connection, schema: pa.Schema) -> Result:
    """Of single rows on an idle channel."""
    batch = _batch(schema, 1)
    ages = []
    for number in range(200):
        _send(sender, Message(Kind.ROWS, 1, number, batch, born=SYSTEM_CLOCK.now()))
        _send(sender, Message(Kind.END, 1, number + 1, progress=END_KEY))
        ages.append(pipe.recv()[1])
        time.sleep(0.002)
    return reported("channel, idle: one row", statistics.median(ages) / 1e3, "ms", "offered until taken, median of 200")
