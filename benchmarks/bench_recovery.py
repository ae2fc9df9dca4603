"""How long an element is away: killed with `kill -9`, and sent back alive.

Killed: Bargain Discovery with one element per operator at an even rate; two of its elements are killed in turn, the
first kills warm the session and are not counted. What counts is from the kill until the element runs again, and what
its parts take. Sent back alive: what a process does between its order and its new connections, which is to read a
checkpoint and build an element, here of a join whose windows hold 10 MB.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Result, at_most, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.randomness import generator
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count, zero
from riprap.spark.session import hosting_session

RATE = 200_000  # tuples/s
KILLED = ("Aggregator", "BargainIndex")
WARM, KILLS, EVERY = 2, 10, 3  # kills, and seconds between them
_ROWS, _WINDOW = 4_096, 131_072  # of 80 bytes each
_BACK = 7  # times


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        yield from _killed(Path(directory))
        yield from _sent_back(Path(directory))


def _killed(place: Path) -> Iterator[Result]:
    seconds = EVERY * (WARM + KILLS + 2)
    source = place / "market.parquet"
    market_files.write(market.generate(RATE * seconds, seed=1), source, overwrite=True)
    kills = ",".join(f"{KILLED[at % 2]}@{EVERY * (at + 1)}s" for at in range(WARM + KILLS))
    spark = hosting_session(8)
    try:
        settings: dict[str, Any] = {"fuse": "none", "rate": RATE, "kill": kills}
        summary = run_app("bargain-discovery", {"Source": source}, out=place / "run", spark=spark, **settings).summary
    finally:
        spark.stop()
    found = [each for pe in KILLED for each in summary["pes"][pe]["recoveries"][WARM // 2 :]]
    parts = {name: [each[name] or 0.0 for each in found] for name in ("detect", "restart", "restore", "catch_up")}
    away = [sum(times) for times in zip(*parts.values(), strict=True)]
    how = f"of {len(away)} kills, one element per operator, {RATE:,} tuples/s"
    yield at_most("recovery.kill, median", statistics.median(away), 0.4, how, "s")
    yield reported("recovery.kill, longest", max(away), "s", how)
    for name, times in parts.items():
        yield reported(f"recovery.kill, {name.replace('_', ' ')}", statistics.median(times), "s", f"median {how}")


def _graph() -> Graph:
    app = App("join")
    right = app.source("S2", "g long")
    left = app.source("S1", "g long, a long, b long, c long, d double, e double, f double, h double")
    all_ = list("gabcdefh")
    joined = left.join(right, on="g", left_window=count(_WINDOW), right_window=zero(), name="J", select=all_)
    joined.sink("Out")
    return app.build()


def _filled(graph: Graph) -> Engine:
    engine, chance = Engine(graph), generator(3, "recovery")
    for first in range(0, _WINDOW, _ROWS):
        numbers = np.arange(first, first + _ROWS)
        columns = {f.name: pa.array(chance.integers(0, 1_000, _ROWS)).cast(f.type) for f in graph.schema("S1")}
        key = {"_ts": pa.array(numbers, pa.timestamp("us", "UTC")), "_seq": pa.array(numbers)}
        engine.push("S1", pa.record_batch({**columns, **key}))
        engine.advance("S2", OrderKey(int(numbers[-1]), 1, int(numbers[-1])))
    return engine


def _sent_back(place: Path) -> Iterator[Result]:
    graph = _graph()
    storage = LocalStorage(place / "checkpoints")
    writer = Checkpointer(storage, "J", 1, {"J": ["J"]})
    engine = _filled(graph)
    writer.capture("J", engine, {}, SYSTEM_CLOCK.now())
    writer.close()
    taken, used = [], []
    for _ in range(_BACK):
        wall, cpu = SYSTEM_CLOCK.monotonic(), time.process_time()
        loaded = load(storage, "J", "J", SYSTEM_CLOCK.now())
        assert loaded is not None
        again = Engine(graph)
        loaded.into(again)
        again.prepare()
        taken.append(SYSTEM_CLOCK.monotonic() - wall)
        used.append(time.process_time() - cpu)
    assert again.state_sizes() == engine.state_sizes()
    how = (
        f"a checkpoint of {_WINDOW:,} tuples of 80 bytes read, an engine built and restored from it in a process that "
        f"lives, median of {_BACK}"
    )
    yield at_most("recovery.back alive", statistics.median(taken) * 1e3, 100, how, "ms")
    yield at_most("recovery.back alive, processor", statistics.median(used) * 1e3, 50, how, "ms of a core")
