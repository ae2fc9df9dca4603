"""The cost of persistent output: the published experiment (figures 3.5 to 3.9, table 3.1) on a chain of filters.

A sender, one or more filters, a receiver. A filter tests an integer of each tuple and passes it on. The sender sends
tuples of 256 bytes to 4 KiB in batches of 1 to 64; a filter sends its output in blocks of 184 tuples, as the published
system did. The sender's blocks reach the first filter through a socket; a filter's output goes

    native  through a socket as well, and is not stored
    async   through a persistent stream, which the consumer follows: what was written survives the process
    fsync   the same, synced before it becomes visible

as between the elements of a run. All of a chain runs in one process, one after another, so a longer chain
shows the cost of its work and not what several machines would achieve; a persistent stream is read from its file, as by
another process. Equation 3.1 gives the memory needed: M = x · (t_proc + t_store), with x in bytes a
second; it is computed from the mean times and compared with the measured mean of bytes in flight.
"""

import shutil
import socket
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.randomness import generator
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.operators.contract import Event
from riprap.streams import PersistentStream
from riprap.streams.positions import Appended

SIZES, BATCHING, CHAINS, MODES = (256, 1024, 4096), (1, 16, 32, 64), (1, 2, 4, 8), ("native", "async", "fsync")
BLOCK = 184  # tuples
PUBLISHED = "2 cores: 63 MB/s without, 28 with; 8 cores: 75 and 50"
TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("x", pa.int64()), ("payload", pa.binary()), ("_ts", TS), ("_seq", pa.int64())])
_TRIM_EVERY = 0.05  # seconds
_PIECE = 64 << 10  # bytes that a socket always accepts at once


@dataclass(frozen=True)
class ChainOutcome:
    """One run. Bytes are those of the tuples."""

    size: int  # of a tuple
    batching: int
    chain: int
    mode: str
    bytes: int
    seconds: float  # until the receiver had received everything
    worked: float  # seconds of CPU, all threads
    t_proc: float  # seconds, mean, from a block's first tuple until it is emitted
    t_store: float  # until it counts as stored
    seen: float  # bytes in flight, mean

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds

    @property
    def predicted(self) -> float:
        """Equation 3.1."""
        return self.rate * (self.t_proc + self.t_store)


class _Hop(Protocol):
    """The link that carries blocks to the next stage."""

    stored: float  # total seconds until blocks counted as stored
    waiting: int  # bytes that do not count as stored yet

    def give(self, block: pa.RecordBatch) -> None: ...

    def take(self) -> Iterator[pa.RecordBatch]:
        """Blocks that are visible by now."""

    def flush(self) -> None:
        """Make everything that was sent visible."""

    def close(self) -> None: ...


class _Socket:
    def __init__(self) -> None:
        self._sender, self._receiver = socket.socketpair()
        self._blocks: list[pa.RecordBatch] = []
        self.stored, self.waiting = 0.0, 0

    def give(self, block: pa.RecordBatch) -> None:
        message = block.serialize()
        data, buffer = memoryview(message), pa.allocate_buffer(message.size)
        into, at = memoryview(buffer), 0
        for first in range(0, len(data), _PIECE):
            self._sender.sendall(data[first : first + _PIECE])
            while at < min(first + _PIECE, len(data)):
                at += self._receiver.recv_into(into[at:])
        self._blocks.append(pa.ipc.read_record_batch(buffer, SCHEMA))

    def take(self) -> Iterator[pa.RecordBatch]:
        blocks, self._blocks = self._blocks, []
        yield from blocks

    def flush(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


class _Log:
    def __init__(self, path: Path, stability: str) -> None:
        self._path = path
        stream = PersistentStream.create(path, SCHEMA, stability=stability, memory_bytes=0)
        self._stream, self._writer, self._reader = stream, stream.writer(), stream.read()
        self._taken, self._trimmed_at, self._segment = 0, SYSTEM_CLOCK.monotonic(), 0
        self._waiting: deque[tuple[Future[Appended], int, float]] = deque()
        self.stored, self.waiting = 0.0, 0

    def give(self, block: pa.RecordBatch) -> None:
        given, before = SYSTEM_CLOCK.monotonic(), self._writer.appended_bytes
        future = self._writer.append(block)
        size = self._writer.appended_bytes - before
        self._waiting.append((future, size, given))
        self.waiting += size

    def take(self) -> Iterator[pa.RecordBatch]:
        while self._waiting and self._waiting[0][0].done():
            future, size, given = self._waiting.popleft()
            future.result()
            self.stored += SYSTEM_CLOCK.monotonic() - given
            self.waiting -= size
        for item in self._reader.again():
            self._taken = item.next_position
            yield item.batch
        if SYSTEM_CLOCK.monotonic() - self._trimmed_at >= _TRIM_EVERY:
            self._trim()

    def _trim(self) -> None:
        """As elements do: the consumer acknowledges what it will not request again, and its producer trims it."""
        self._trimmed_at = SYSTEM_CLOCK.monotonic()
        if self._stream.stable().segment > self._segment:
            self._segment = self._stream.stable().segment
            self._stream.register_reader("receiver", self._taken)
            self._stream.trim(before_position=self._taken, discard=self._writer.discard)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
        shutil.rmtree(self._path)


class _Filter:
    def __init__(self, out: _Hop) -> None:
        app = App("chain")
        app.source("S", "x long, payload binary").filter("x >= 0", name="F").sink("Out")
        self._engine = Engine(app.build())
        self.out = out
        self.t_proc, self.blocks, self.seen = 0.0, 0, 0

    def take(self, block: pa.RecordBatch) -> None:
        begin = SYSTEM_CLOCK.monotonic()
        out = [_shaped(event) for _, event in self._engine.push("S", block)]
        self.t_proc += SYSTEM_CLOCK.monotonic() - begin
        self.blocks += 1
        self.seen += block.nbytes + self.out.waiting
        for rows in out:
            self.out.give(rows)


def _shaped(event: Event) -> pa.RecordBatch:
    assert isinstance(event, pa.RecordBatch)
    return pa.RecordBatch.from_arrays([event.column(name) for name in SCHEMA.names], schema=SCHEMA)


def measure(
    size: int, batching: int, chain: int, mode: str, total: int, directory: Path, *, settling: int = 0
) -> ChainOutcome:
    """Send about `total` bytes of tuples through a chain, after `settling` bytes that do not count."""
    hops: list[_Hop] = [_Socket() if mode == "native" else _Log(directory / f"chain-{at}", mode) for at in range(chain)]
    filters, first_hop = [_Filter(hop) for hop in hops], _Socket()
    settled = settling // size // BLOCK * BLOCK
    count = settled + max(BLOCK, total // size // BLOCK * BLOCK)
    payload = pa.array([generator(1, "tuple", size).bytes(size - 24)] * BLOCK, pa.binary())
    numbers = np.arange(count)
    received = 0
    begin, worked = SYSTEM_CLOCK.monotonic(), time.process_time()
    for first in range(0, count, BLOCK):
        if first and first == settled:
            received += _flush(first_hop, filters)
            begin, worked = SYSTEM_CLOCK.monotonic(), time.process_time()
        own = numbers[first : first + BLOCK]
        block = pa.RecordBatch.from_arrays([pa.array(own), payload, pa.array(own, TS), pa.array(own)], schema=SCHEMA)
        for at in range(0, BLOCK, batching):  # as the sender sends them
            block.slice(at, batching).validate()
        first_hop.give(block)
        received += _pass_on(first_hop, filters)
    received += _flush(first_hop, filters)
    seconds, worked = SYSTEM_CLOCK.monotonic() - begin, time.process_time() - worked
    for hop in (first_hop, *hops):
        hop.close()
    assert received == count, f"{received} of {count} tuples were received"
    blocks = sum(one.blocks for one in filters)
    return ChainOutcome(
        size, batching, chain, mode, (count - settled) * size, seconds, worked,
        sum(one.t_proc for one in filters) / blocks, sum(hop.stored for hop in hops) / blocks,
        sum(one.seen for one in filters) / blocks,
    )  # fmt: skip


def _flush(first: _Hop, filters: list[_Filter]) -> int:
    """Deliver everything that was emitted; returns the tuples that the receiver gets."""
    received = 0
    for one in filters:
        one.out.flush()
        received += _pass_on(first, filters)
    return received


def _pass_on(first: _Hop, filters: list[_Filter]) -> int:
    """Forward everything that is visible; returns the tuples that the receiver gets."""
    hop: _Hop = first
    for one in filters:
        for block in hop.take():
            one.take(block)
        hop = one.out
    return sum(block.num_rows for block in hop.take())
