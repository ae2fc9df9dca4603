"""What protocols cost while nothing fails: NEXMark 2 on Spark, one element per operator, as fast as it goes.

Rows/s of a whole run under each protocol, against a run without any: with checkpoints every 10 s in runs that are long
enough for one of every element, and every second. Logs of uncoordinated and induced are volatile, as published, and
persistent.

Equal runs differ by several per cent, so they are interleaved: a round is a run without a protocol and one under each,
every other round in the opposite order, and a ratio is to the mean of the runs without one before and behind its round.
Of several rounds the geometric mean is told, with its 95 % confidence interval, and beside it the same in processor
time of all elements per row, which a busy machine disturbs less. `RIPRAP_BENCH_ROUNDS=5` runs five times as many.

The input is a stretch of the generator's bids, repeated with later times: the file has to last for seconds of tens of
millions of rows.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, at_least, confidence, reported
from riprap.api.run import run as run_app
from riprap.spark.session import hosting_session
from riprap_papers.workloads.workload_catalogue import load_workload

_STRETCH = 2_000_000  # rows that repeat
_STRETCHES = 200  # 16 s of 25 M rows/s: a run that comes to its end before its first checkpoint shows nothing
_NONE: dict[str, Any] = {}
_VOLATILE: dict[str, dict[str, Any]] = {
    "coordinated": {"protocol": "coordinated"},
    "uncoordinated": {"protocol": "uncoordinated", "log": "volatile"},
    "induced": {"protocol": "induced", "log": "volatile"},
}
_PERSISTENT: dict[str, dict[str, Any]] = {
    "uncoordinated": {"protocol": "uncoordinated", "log": "persistent"},
    "induced": {"protocol": "induced", "log": "persistent"},
}
_SECONDS = {"10s": 16.0, "1s": 8.0}  # of a run: uncoordinated elements take their first after up to one and a half
_ROUNDS = {"10s": 1, "1s": 3}


class Pace(NamedTuple):
    """Of one run."""

    rows: float  # per second
    processor: float  # seconds of all elements together, per row
    checkpoints: int


def run() -> Iterator[Result]:
    workload = load_workload("nexmark-2")
    times = int(os.environ.get("RIPRAP_BENCH_ROUNDS", "1"))
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        source = _input(place / "Bid.parquet")
        spark = hosting_session(3)

        def pace(seconds: float, **settings: Any) -> Pace:
            out = place / "run"
            shutil.rmtree(out, ignore_errors=True)
            graph = workload.graph("small")
            found = run_app(graph, {"Bid": source}, out=out, spark=spark, fuse="none", seconds=seconds, **settings)
            rows = float(found.summary["throughput"])
            cores = sum(cost["cores"] for cost in found.summary["costs"].values())
            return Pace(rows, cores / rows, int(found.summary["protocol"]["checkpoints"]))

        try:
            pace(2.0)  # warms daemons and caches
            for interval, seconds in _SECONDS.items():
                for log, of, rounds in (
                    ("volatile", _VOLATILE, _ROUNDS[interval] * times),
                    ("persistent", _PERSISTENT if interval == "1s" else _NONE, times),
                ):
                    told = {name: {"interval": interval, **settings} for name, settings in of.items()}
                    if told:
                        yield from _compared(interval, seconds, log, rounds, told, pace)
        finally:
            spark.stop()


def _compared(
    interval: str,
    seconds: float,
    log: str,
    rounds: int,
    protocols: Mapping[str, Mapping[str, Any]],
    pace: Callable[..., Pace],
) -> Iterator[Result]:
    found, without = interleaved(rounds, protocols, lambda settings: pace(seconds, **settings))
    how = (
        f"of the rows/s without a protocol, nexmark-2, a checkpoint every {interval}, {rounds} × {seconds:g} s in turn"
    )
    rows, processor = mean(one.rows for one in without), mean(one.processor for one in without)
    name = f"protocols.none, {interval}, beside {log} logs"
    yield reported(name, rows / 1e6, "M rows/s", f"{processor * 1e9:.0f} ns of a core a row, {len(without)} runs")
    for name, paces in found.items():
        logs = "" if name == "coordinated" else f", {log} logs"
        by_clock, by_processor = ratios(paces, without)
        low, ratio, high = confidence(by_clock)
        least, worked, most = confidence(by_processor)
        taken = sum(one.checkpoints for one in paces)
        said = f"95 % confidence {low:.3f} … {high:.3f}" if rounds > 1 else "one round, so no confidence interval"
        spread = f" ({least:.3f} … {most:.3f})" if rounds > 1 else ""
        told = f"{how}, {said}; in processor time {worked:.3f}{spread}; {taken} checkpoints"
        yield at_least(f"protocols.{name}{logs}, {interval}", ratio, 0.95 if log == "volatile" else 0.5, told)


def interleaved(
    rounds: int, protocols: Mapping[str, Mapping[str, Any]], pace: Callable[[Mapping[str, Any]], Pace]
) -> tuple[dict[str, list[Pace]], list[Pace]]:
    """By protocol, of each round; and those without any, one more: before each round and behind the last."""
    found: dict[str, list[Pace]] = {name: [] for name in protocols}
    without = [pace({})]
    for number in range(rounds):
        for name in list(protocols)[:: -1 if number % 2 else 1]:
            found[name].append(pace(protocols[name]))
        without.append(pace({}))
    return found, without


def ratios(paces: Sequence[Pace], without: Sequence[Pace]) -> tuple[list[float], list[float]]:
    """Of each round: rows/s, and rows per second of processor, to the mean of the two runs around it."""
    around = list(pairwise(without))
    by_clock = [one.rows / mean(other.rows for other in two) for one, two in zip(paces, around, strict=True)]
    return by_clock, [
        mean(other.processor for other in two) / one.processor for one, two in zip(paces, around, strict=True)
    ]


def _input(path: Path) -> Path:
    """So many rows that no run comes to their end. What rises is stored as differences: the file stays small."""
    table = load_workload("nexmark-2").inputs(_STRETCH, 1, rate=1e6)["Bid"]
    ts, seq = (table.column(name).cast(pa.int64()).to_numpy() for name in ("_ts", "_seq"))
    others = {name: table.column(name) for name in table.column_names if name not in ("_ts", "_seq")}
    span, rows = int(ts[-1] - ts[0]) + 1, int(seq[-1]) + 1
    rising = {"_ts": "DELTA_BINARY_PACKED", "_seq": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(path, table.schema, use_dictionary=list(others), column_encoding=rising) as writer:
        for number in range(_STRETCHES):
            later = {"_ts": ts + np.int64(number * span), "_seq": seq + np.int64(number * rows)}
            moved = {name: pa.array(values).cast(table.schema.field(name).type) for name, values in later.items()}
            columns = {**others, **moved}
            writer.write_table(pa.table({name: columns[name] for name in table.column_names}, schema=table.schema))
    return path
