"""What persistent output costs: the published experiment (figures 3.5 to 3.9, table 3.1) on a chain of filters.

A filter looks at an integer of each tuple and lets it pass. Tuples of 256 bytes to 4 KiB come in batches of 1 to 64
from the source; a filter gives its output on in blocks of 184 tuples, as the published system was found to do, to the
next filter of the chain, and keeps it before that where output is persistent:

    native  nothing is kept
    async   each filter's output is in a log, which survives the process
    fsync   and is synced before it counts; what is given on waits for that

Each filter gets its input through a socket. All filters of a chain run in one process, one after another, so a longer
chain shows what its work costs and not what several machines would do. Equation 3.1 says how much memory that takes:
M = x · (t_proc + t_store), with x in bytes a second; it is computed from the mean times, beside the mean of the bytes
that were seen to be on their way.
"""

import shutil
import socket
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.randomness import generator
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.operators.contract import Event
from riprap.streams import Stream
from riprap.streams.writer import Appended, Writer

SIZES, BATCHING, CHAINS, MODES = (256, 1024, 4096), (1, 16, 32, 64), (1, 2, 4, 8), ("native", "async", "fsync")
BLOCK = 184  # tuples
PUBLISHED = "2 cores: 63 MB/s without, 28 with; 8 cores: 75 and 50"
TS = pa.timestamp("us", "UTC")
_PIECE = 64 << 10  # bytes that a socket takes at once for sure


@dataclass(frozen=True)
class Outcome:
    """One run. Bytes are those of the tuples."""

    size: int  # of a tuple
    batching: int
    chain: int
    mode: str
    bytes: int
    seconds: float
    t_proc: float  # seconds, mean, from a block's first tuple until it is given out
    t_store: float  # until it counts as kept
    seen: float  # bytes on their way, mean

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds

    @property
    def predicted(self) -> float:
        """Equation 3.1."""
        return self.rate * (self.t_proc + self.t_store)


class _Filter:
    """One filter, and its log."""

    def __init__(self, schema: pa.Schema, path: Path | None, stability: str) -> None:
        app = App("chain")
        app.source("S", "x long, payload binary").filter("x >= 0", name="F").sink("Out")
        self._engine = Engine(app.build())
        self._writer: Writer | None = None
        if path is not None:
            self._writer = Stream.create(path, schema, stability=stability).writer()  # type: ignore[arg-type]
        self._schema = schema
        self._sender, self._receiver = socket.socketpair()
        self._waiting: deque[tuple[Future[Appended], pa.RecordBatch, float]] = deque()
        self.t_proc, self.t_store, self.blocks, self.seen, self.looks = 0.0, 0.0, 0, 0, 0

    def take(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows in; gives what may be given on."""
        clock = SYSTEM_CLOCK
        begin = clock.monotonic()
        out = [self._shaped(event) for _, event in self._engine.push("S", self._hop(batch))]
        made = clock.monotonic()
        self.t_proc += made - begin
        self.blocks += 1
        if self._writer is None:
            self.looks += 1
            self.seen += batch.nbytes
            return out
        for rows in out:
            self._waiting.append((self._writer.append(rows), rows, made))
        self.looks += 1
        self.seen += batch.nbytes + sum(rows.nbytes for _, rows, _ in self._waiting)
        return self.kept(wait=False)

    def _shaped(self, event: Event) -> pa.RecordBatch:
        assert isinstance(event, pa.RecordBatch)
        return pa.RecordBatch.from_arrays([event.column(name) for name in self._schema.names], schema=self._schema)

    def _hop(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Through a socket, as from another process."""
        message = batch.serialize()
        data, buffer = memoryview(message), pa.allocate_buffer(message.size)
        into, at = memoryview(buffer), 0
        for first in range(0, len(data), _PIECE):
            self._sender.sendall(data[first : first + _PIECE])
            while at < min(first + _PIECE, len(data)):
                at += self._receiver.recv_into(into[at:])
        return pa.ipc.read_record_batch(buffer, self._schema)

    def kept(self, *, wait: bool) -> list[pa.RecordBatch]:
        """What has become stable since."""
        done = []
        while self._waiting and (wait or self._waiting[0][0].done()):
            future, rows, made = self._waiting.popleft()
            future.result()
            self.t_store += SYSTEM_CLOCK.monotonic() - made
            done.append(rows)
        return done

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()
        if self._writer is not None:
            self._writer.close()


def measure(size: int, batching: int, chain: int, mode: str, total: int, directory: Path) -> Outcome:
    """Take about `total` bytes of tuples through a chain."""
    schema = pa.schema([("x", pa.int64()), ("payload", pa.binary()), ("_ts", TS), ("_seq", pa.int64())])
    paths = [None if mode == "native" else directory / f"chain-{at}" for at in range(chain)]
    filters = [_Filter(schema, path, mode) for path in paths]
    count = max(BLOCK, total // size // BLOCK * BLOCK)
    payload = pa.array([generator(1, "tuple", size).bytes(size - 24)] * BLOCK, pa.binary())
    numbers = np.arange(count)
    begin = SYSTEM_CLOCK.monotonic()
    for first in range(0, count, BLOCK):
        own = numbers[first : first + BLOCK]
        block = pa.RecordBatch.from_arrays([pa.array(own), payload, pa.array(own, TS), pa.array(own)], schema=schema)
        for at in range(0, BLOCK, batching):  # as the source injects them
            block.slice(at, batching).validate()
        blocks = [block]
        for one in filters:
            blocks = [out for taken in blocks for out in one.take(taken)]
    for at, one in enumerate(filters):
        blocks = one.kept(wait=True)
        for other in filters[at + 1 :]:
            blocks = [out for taken in blocks for out in other.take(taken)]
    seconds = SYSTEM_CLOCK.monotonic() - begin
    for one, path in zip(filters, paths, strict=True):
        one.close()
        if path is not None:
            shutil.rmtree(path)
    blocks_taken = sum(one.blocks for one in filters)
    looks = max(1, sum(one.looks for one in filters))
    return Outcome(
        size, batching, chain, mode, count * size, seconds, sum(one.t_proc for one in filters) / blocks_taken,
        sum(one.t_store for one in filters) / blocks_taken, sum(one.seen for one in filters) / looks,
    )  # fmt: skip
