"""A small app, its run, and a consumer as a process of its own, to be killed or stopped."""

import json
import multiprocessing
import os
import pickle
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
from riprap.runtime.messages import Kind, Message
from riprap.runtime.run import Run
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
    return Message(Kind.ROWS, fields.pop("epoch", 1), number, Views.of(batch), **fields)


def eventually(condition: Callable[[], object], what: str = "it") -> object:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (result := condition()) is not None and result is not False:
            return result
        time.sleep(0.005)
    raise AssertionError(f"{what} did not happen within {PATIENCE} s")


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
