"""Apps whose operators keep books of their own: a tap writes the number of every tuple that it takes to a file.

    Plain ┬→ G1 ──────→ G2 ─┐
          └→ B1 (barrier) ──┴→ Both → M → Merged          gap and buffer streams
    Kept ─→ R1 ─→ R2 → Exact                              replay streams

A file is one life of a tap, and a record in it is one call: with one `write` to a file opened to append, so that it
outlives `kill -9`; a kill in the middle of a write leaves the beginning of the record.

    i64 n, i64 × n: `_seq`, i64 × n: way
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.graph.annotations import backup, checkpoint, persist
from riprap.graph.builder import App
from riprap.graph.windows import count, zero
from riprap.operators.user import Rows, UserOperator

_lives = itertools.count()


class Tap(UserOperator):
    """Passes every tuple on, with `way` set to its own if it has one."""

    one_per_trigger = True

    def __init__(self, books: str, tap: str, way: int = 0) -> None:
        self.books, self.tap, self.way = books, tap, way
        self.file = None

    def output_schemas(self, inputs):
        return inputs

    def process(self, port, batch):
        if self.file is None:
            path = Path(self.books) / f"{self.tap}.{os.getpid()}.{next(_lives)}"
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        numbers = batch.column("_seq").to_numpy()
        ways = batch.column("way").to_numpy()
        os.write(self.file, np.concatenate([[batch.num_rows], numbers, ways]).astype(np.int64).tobytes())
        if self.way:
            ways = np.full(batch.num_rows, self.way)
        yield Rows(pa.record_batch({"x": batch.column("x"), "way": pa.array(ways, pa.int64())}))


class Barrier(Tap):
    tolerates_loss = False


def tapped(books):
    app = App("tapped")

    def tap(stream, name, protect=(), kind=Tap, way=0):
        return stream.apply(kind, name=name, protect=protect, books=str(books), tap=name, way=way)[0]

    saved = checkpoint(every="500ms")
    plain = app.source("Plain", "x long, way long")
    upper = tap(tap(plain, "G1", way=1), "G2", saved)
    lower = tap(plain, "B1", kind=Barrier, way=2)
    tap(upper.union(lower, name="Both"), "M").sink("Merged")
    # persist(): the streams have logs, where backups would share a process and have none between them
    kept = app.source("Kept", "x long, way long", protect=persist())
    tap(tap(kept, "R1", [saved, persist()]), "R2", saved).sink("Exact")
    return app.build()


def live():
    """The app of docs/how-to/live-inputs.md."""
    app = App("live")
    numbers = app.source("Numbers", "value long", protect=backup())
    lines = app.source("Lines", "value long", protect=backup())
    numbers.union(lines, name="Both", protect=backup()).sink("All")
    return app


def two_sources():
    """A union and a join of two sources."""
    app = App("two-sources")
    one, two = (app.source(name, "x long") for name in ("One", "Two"))
    one.union(two, name="Both").sink("All")
    other = two.select("x", "x AS y", name="Other")
    one.join(other, on="x", left_window=count(2), right_window=zero(), select=["x", "y"], name="Join").sink("Pairs")
    return app.build()


class Fails(UserOperator):
    """Raises at a tuple."""

    stateful = False
    one_per_trigger = True

    def output_schemas(self, inputs):
        return inputs

    def process(self, port, batch):
        if 3_000 in batch.column("x").to_pylist():
            raise ValueError("three thousand is too much")
        yield Rows(batch.select(["x"]))


def failing():
    app = App("failing")
    app.source("In", "x long").filter("x >= 0", name="Positive").apply(Fails, name="Touchy")[0].sink("Out")
    return app.build()


def counting():
    """Every output tells how many tuples the state holds."""
    app = App("counting")
    counted = app.source("In", "x long").aggregate(
        "count(*) AS n", window=count(1_000_000), every=count(1), name="Count"
    )
    counted.sink("Out")
    return app.build()
