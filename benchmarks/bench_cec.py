"""Continuous checkpoints against the same app with `persist()`, and the pause that they save."""

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.base.quantities import Duration
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.annotations import Annotations, Continuous, persist
from riprap_papers.experiments.window_records import SCENARIOS, RecordsOutcome, build, measure, prices, started
from riprap_papers.experiments.window_recovery import ESTIMATE, returns

ROWS = 1 << 23  # half a second of work and more: dozens of records and checks in every run
KILLS = 20
GOAL = 0.5  # seconds
OPEN = 500_000  # windows


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        yield from overhead(Path(scratch))
        yield from pause(Path(scratch))
        yield from recovery(Path(scratch))


def overhead(directory: Path) -> Iterator[Result]:
    for scenario in SCENARIOS:
        table = prices(scenario, ROWS)
        outcomes: dict[str, RecordsOutcome] = {}

        def one(mode: str, scenario=scenario, table=table, outcomes=outcomes) -> None:
            outcomes[mode] = measure(scenario, mode, table, directory, every=20_000)

        taken = side_by_side({mode: lambda mode=mode: one(mode) for mode in ("kept", "disk", "checks")}, rounds=4)
        for mode in ("disk", "checks"):
            what = "records" if mode == "disk" else "records and checks every 20 ms"
            totals = outcomes[mode].totals
            how = (
                f"{what}: {ROWS / taken[mode]:,.0f} rows/s, with persist() {ROWS / taken['kept']:,.0f}; opened "
                f"{totals.opened:,}, checked {totals.checked:,}, closed {totals.closed:,}, within {totals.within:,}"
            )
            yield at_least(
                f"continuous over persist(), {scenario.name}, {mode}", taken["kept"] / taken[mode], 0.95, how
            )


def recovery(directory: Path) -> Iterator[Result]:
    """`continuous(recovery="500ms")`: the slowest of 20 kills at random moments, without detection and restart, on a
    machine whose cache has what is compiled: a first kill does not count."""
    for scenario in (*SCENARIOS, ESTIMATE):
        returns(scenario, ROWS, 0, 1, directory, goal=GOAL)
        found = returns(scenario, ROWS, 0, KILLS, directory, goal=GOAL)
        seconds, worked = [one.seconds for one in found], [one.worked for one in found]
        how = (
            f"{KILLS} kills: slowest {max(seconds) * 1e3:.0f} ms, median {statistics.median(seconds) * 1e3:.0f} ms; "
            f"of a processor's time {max(worked) * 1e3:.0f} and {statistics.median(worked) * 1e3:.0f} ms; "
            f"goal {GOAL * 1e3:.0f} ms; reading records, loading and repeating input"
        )
        yield at_most(f"slowest recovery over its goal, {scenario.name}", max(seconds) / GOAL, 1.5, how)


def pause(directory: Path) -> Iterator[Result]:
    """500,000 open windows: the longest turn of the loop with records, and what a copy at an interval takes; in time of
    the processor, so that a busy machine does not count.
    """
    turns = 400
    warm = np.arange(OPEN)
    ids = np.concatenate([warm, np.random.Generator(np.random.Philox(1)).integers(0, OPEN, turns * 1_000)])
    table = pa.RecordBatch.from_arrays(
        [
            pa.array(ids), pa.array(ids % 997), pa.array(["x"] * len(ids)),
            pa.array(np.arange(len(ids)) * 20, pa.timestamp("us", "UTC")), pa.array(np.arange(len(ids))),
        ],
        names=["item", "price", "description", "_ts", "_seq"],
    )  # fmt: skip
    longest = {}
    for name, protect in {
        "records": Annotations(continuous=Continuous(None, Duration(1_000_000), Duration(100_000), 500)),
        "none": persist(0),
    }.items():
        element, host = started(build(1_000, protect), table, directory / name, batch_rows=1_000)
        for turn in range(OPEN // 1_000):
            if turn == OPEN // 1_000 - 10:  # which leaves nothing in the processor's cache: turns after it do not count
                gc.collect()  # as a process does before its loop; all that is loaded is frozen there
                gc.freeze()
            element.handle()
        took = []
        for _ in range(turns):
            begin, worked = time.perf_counter(), time.thread_time()
            element.handle()
            took.append((time.thread_time() - worked, time.perf_counter() - begin))
        work, waited = zip(*took, strict=True)
        longest[name] = (max(work), float(np.percentile(work, 99)), max(waited))
        host.close()
        gc.unfreeze()
    graph = build(1_000, persist(0))
    engine = Engine(graph, ("Prices", "Mean"))
    engine.push("Prices", table)
    checkpointer = Checkpointer(LocalStorage(directory / "checkpoints"), "pe", 1, {"fragment": ("Prices", "Mean")})
    begin = time.thread_time()
    checkpointer.copy("fragment", engine, {}, 0, {})
    copied = time.thread_time() - begin
    checkpointer.close()
    more = (longest["records"][0] - longest["none"][0]) * 1e3
    how = (
        f"{OPEN:,} open windows, turns of 1,000 rows: longest {longest['records'][0] * 1e3:.2f} ms, without records "
        f"{longest['none'][0] * 1e3:.2f} (99 %: {longest['records'][1] * 1e3:.2f} and {longest['none'][1] * 1e3:.2f}) "
        f"of the processor; by the clock, with what others take of it, {longest['records'][2] * 1e3:.2f} and "
        f"{longest['none'][2] * 1e3:.2f}"
    )
    yield at_most("longest pause of continuous checkpoints", max(more, 0.0), 2, how, "ms")
    yield reported("pause of a checkpoint at an interval", copied * 1e3, "ms", "the same windows, copied at once")
