"""Bargain Discovery as a run on Spark, from Parquet to a persistent stream: against Structured Streaming, its latency,
and what checkpoints cost.

Throughput is that of a whole run: from the first tuple of the source until the last element has ended. Elements are
processes on the same cores as everything else; "per core" divides by the machine's cores, on both sides. Structured
Streaming gets a session of its own, before ours, with as many slots as cores. Latency is that of every tuple that
reaches the sink in the steady state of a paced run, from when its trigger was due at the source.
"""

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import peers_streaming as peers
from benchmarks.harness import Result, at_least, at_most, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.runtime.latency import Latencies
from riprap.runtime.metrics import Metrics
from riprap.spark.session import hosting_session, session

APP = "bargain-discovery"
TUPLES = 5_000_000
_ROUNDS = 3
_PAIRS = 7
_SETTLED = 5.0  # seconds of a paced run until its steady state
_PACED = 15.0  # seconds of it in all
_PLAN = """\
app = "bargain-discovery"
[operators.Aggregator]
checkpoint = "1s"
[operators.BargainIndex]
checkpoint = "1s"
"""


def run() -> Iterator[Result]:
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        fast, per_key = _structured_streaming(place)
        spark = hosting_session(8)
        try:
            rates = _throughput(spark, place)
            fused, apart = rates["all"], rates["none"]
            how = f"{TUPLES:,} tuples, Parquet to a persistent stream, median of {_ROUNDS}"
            yield at_least("run.fused", fused / 1e6, 5, f"one element; {how}", "M tuples/s")
            yield at_least("run.eight", apart / 1e6, 2, f"one element per operator; {how}", "M tuples/s")
            how = "one element per operator, tuples/s per core, against"
            yield at_least(
                "run.eight/streaming", apart / cores / fast, 10, f"{how} Structured Streaming's fastest form"
            )
            yield at_least(
                "run.eight/streaming-per-key",
                apart / cores / per_key,
                100,
                f"{how} its per-key state form",
            )
            yield from _latency(spark, place, apart / 2)
            yield from _checkpoints(spark, place)
        finally:
            spark.stop()


def _structured_streaming(place: Path) -> tuple[float, float]:
    """Tuples/s per core of the two forms."""
    spark = peers.streaming_session(session(master=f"local[{os.cpu_count()}]"))
    try:
        fast = peers.tuples_per_second_per_core(spark, peers.arrow, market.generate(4_000_000, seed=1), 500_000)
        slow = peers.tuples_per_second_per_core(spark, peers.per_key, market.generate(1_200_000, seed=1), 400_000)
    finally:
        spark.stop()
    return fast, slow


def _input(place: Path, tuples: int) -> Path:
    path = place / f"market-{tuples}.parquet"
    if not path.exists():
        market_files.write(market.generate(tuples, seed=1), path, overwrite=True)
    pq.read_metadata(path)
    return path


def _run(spark: SparkSession, place: Path, source: Path, **settings: object) -> dict[str, object]:
    out = place / "run"
    shutil.rmtree(out, ignore_errors=True)
    return dict(run_app(APP, {"Source": source}, out=out, spark=spark, **settings).summary)  # type: ignore[arg-type]


def _throughput(spark: SparkSession, place: Path) -> dict[str, float]:
    source = _input(place, TUPLES)
    rates: dict[str, list[float]] = {"all": [], "none": []}
    for round_ in range(_ROUNDS + 1):  # the first one warms daemons and caches
        for fuse, found in rates.items():
            summary = _run(spark, place, source, fuse=fuse)
            if round_:
                found.append(float(str(summary["throughput"])))
    return {fuse: statistics.median(found) for fuse, found in rates.items()}


def _latency(spark: SparkSession, place: Path, rate: float) -> Iterator[Result]:
    source = _input(place, round(rate * _PACED / 1e6 + 1) * 1_000_000)
    begun: list[dict[int, int]] = []
    ended: list[dict[int, int]] = []

    def watch(state: object, table: object) -> None:
        for status in table:  # type: ignore[attr-defined]
            if status.pe == "Sink" and status.metrics:
                ended[:] = [dict(Metrics.from_json(status.metrics).latency)]
                taken = Metrics.from_json(next(s for s in table if s.pe == "Source").metrics).received  # type: ignore[attr-defined]
                if not begun and taken > rate * _SETTLED:
                    begun[:] = ended

    _run(spark, place, source, fuse="none", rate=rate, seconds=_PACED, watch=watch)
    steady = Latencies({bucket: count - begun[0].get(bucket, 0) for bucket, count in ended[0].items()})
    how = f"source to sink at {rate / 1e6:.2f} M tuples/s, half of the maximum, one element per operator, steady state"
    yield at_most("run.latency.p50", steady.quantile(0.5) or 0.0, 10, how, "ms")
    yield at_most("run.latency.p99", steady.quantile(0.99) or 0.0, 50, how, "ms")


def _checkpoints(spark: SparkSession, place: Path) -> Iterator[Result]:
    source, plan = _input(place, 2 * TUPLES), place / "plan.toml"
    plan.write_text(_PLAN)
    ratios, missed = [], 0
    for pair in range(_PAIRS + 1):
        rates = {}
        for given in (None, plan) if pair % 2 else (plan, None):
            summary = _run(spark, place, source, fuse="auto", plan=given)
            rates[given] = float(str(summary["throughput"]))
            counted: dict[str, dict[str, int]] = summary["checkpoints"]  # type: ignore[assignment]
            missed += sum(counts["missed"] for counts in counted.values())
        if pair:
            ratios.append(rates[plan] / rates[None])
    middle = statistics.median(ratios)
    half = 2.45 * statistics.stdev(ratios) / len(ratios) ** 0.5  # Student's t, 95 %, 7 pairs
    how = f"every stateful operator every second against none, {_PAIRS} interleaved pairs, 10 M tuples, ± {half:.3f}"
    yield at_least("run.checkpoints", middle, 0.99, how)
    yield reported("run.checkpoints.missed", float(missed), "deadlines", "in those runs")
