"""Bargain Discovery as a run on Spark, from Parquet to a persistent stream: against Structured Streaming, its latency,
and what checkpoints cost.

Throughput is that of a whole run: from the first tuple of the source until the last element has ended, over some
seconds, since Structured Streaming's is taken behind its warm-up. Elements are processes on the same cores as
everything else; "per core" divides by the machine's cores, on both sides. Structured Streaming gets a session of its
own, before ours, with as many slots as cores. Latency is that of every tuple that reaches the sink in the steady state
of a paced run, from when its trigger was due at the source.
"""

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from scipy import stats

from benchmarks import peers_streaming as peers
from benchmarks.harness import Result, at_least, at_most, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.runtime.coordination.element_metrics import ElementMetrics
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.element.latency import Latencies
from riprap.spark.session import hosting_session, session

APP = "bargain-discovery"
TUPLES = 20_000_000
_ROUNDS = 3
_PER_KEY_ROWS = (100_000, 400_000)  # the larger a micro-batch, the faster; these take some 15 s each
_PAIRS = 9
_EVEN = 4.0  # seconds of each run of these pairs
_LOW_RATE = 500_000.0  # tuples/s
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
        fast, per_key = _structured_streaming()
        spark = hosting_session(8)
        try:
            rates = _throughput(spark, place)
            fused, apart = rates["all"], rates["none"]
            how = f"{TUPLES:,} tuples, Parquet to a persistent stream, median of {_ROUNDS}"
            yield at_least("run.fused", fused / 1e6, 5, f"one element; {how}", "M tuples/s")
            yield at_least("run.eight", apart / 1e6, 5, f"one element per operator; {how}", "M tuples/s")
            how = "one element per operator, tuples/s per core, against"
            yield at_least(
                "run.eight/streaming", apart / cores / fast, 20, f"{how} Structured Streaming's fastest form"
            )
            how += " its per-key state form, micro-batches of"
            small, large = (apart / cores / each for each in per_key)
            yield at_least("run.eight/streaming-per-key", small, 100, f"{how} {_PER_KEY_ROWS[0]:,} tuples")
            yield reported("run.eight/streaming-per-key-large", large, "×", f"{how} {_PER_KEY_ROWS[1]:,} tuples")
            for rate, name, bars in ((apart / 2, "half of the maximum", (10, 50)), (_LOW_RATE, "a low rate", (4, 50))):
                yield from _latency(spark, place, rate, name, bars)
            yield from _checkpoints(spark, place, apart / 2)
        finally:
            spark.stop()


def _structured_streaming() -> tuple[float, list[float]]:
    """Tuples/s per core of the two forms."""
    spark = peers.streaming_session(session(master=f"local[{os.cpu_count()}]"))
    try:
        fast = peers.tuples_per_second_per_core(spark, peers.arrow, market.generate(4_000_000, seed=1), 500_000)
        slow = [
            peers.tuples_per_second_per_core(spark, peers.per_key, market.generate(3 * rows, seed=1), rows)
            for rows in _PER_KEY_ROWS
        ]
    finally:
        spark.stop()
    return fast, slow


def _input(place: Path, tuples: int) -> Path:
    path = place / f"market-{tuples}.parquet"
    if not path.exists():
        market_files.write(market.generate(tuples, seed=1), path, overwrite=True)
        with path.open("rb") as file:  # else the system writes it while runs are measured, whose sinks then wait
            os.fsync(file.fileno())
    return path


def _long_input(place: Path, rate: float) -> Path:
    """Enough for the longest of the paced runs."""
    return _input(place, round(rate * _PACED / 1e6 + 1) * 1_000_000)


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


def _latency(spark: SparkSession, place: Path, rate: float, name: str, bars: tuple[float, float]) -> Iterator[Result]:
    source = _long_input(place, rate)
    begun: list[dict[int, int]] = []
    ended: list[dict[int, int]] = []

    def watch(state: str, table: Sequence[PeStatus]) -> None:
        told = {status.pe: ElementMetrics.from_json(status.metrics) for status in table if status.metrics}
        if "Sink" in told and "Source" in told:
            ended[:] = [dict(told["Sink"].latency)]
            if not begun and told["Source"].received > rate * _SETTLED:
                begun[:] = ended

    _run(spark, place, source, fuse="none", rate=rate, seconds=_PACED, watch=watch)
    steady = Latencies(ended[0]).since(begun[0])
    how = f"source to sink at {rate / 1e6:.2f} M tuples/s, one element per operator, steady state"
    for quantile, bar in zip((0.5, 0.99), bars, strict=True):
        yield at_most(f"run.latency, {name}, p{quantile * 100:.0f}", steady.quantile(quantile) or 0.0, bar, how, "ms")


def _checkpoints(spark: SparkSession, place: Path, rate: float) -> Iterator[Result]:
    """What the elements take of a processor for the same tuples in the same time, in pairs of runs one after another:
    how many tuples they take at most differs by several per cent between equal runs, and shows nothing of this size.

    What a checkpoint takes does not depend on the rate, so at a low one it is a larger share.
    """
    source, plan = _long_input(place, rate), place / "plan.toml"
    plan.write_text(_PLAN)
    ratios, missed, taken = [], 0, 0.0
    for pair in range(_PAIRS + 1):
        cores = {}
        for given in (None, plan) if pair % 2 else (plan, None):
            summary = _run(spark, place, source, fuse="none", plan=given, rate=rate, seconds=_EVEN)
            costs: dict[str, dict[str, float]] = summary["costs"]  # type: ignore[assignment]
            cores[given] = sum(cost["cores"] for cost in costs.values())
            counted: dict[str, dict[str, int]] = summary["checkpoints"]  # type: ignore[assignment]
            missed += sum(counts["missed"] for counts in counted.values())
        if pair:
            ratios.append(cores[None] / cores[plan])
            taken += cores[None] / _PAIRS
    middle = statistics.mean(ratios)
    half = stats.t.ppf(0.975, _PAIRS - 1) * statistics.stdev(ratios) / _PAIRS**0.5
    how = "processor without checkpoints / with every stateful operator checkpointed every second, one element per "
    how += f"operator, {rate / 1e6:.2f} M tuples/s for {_EVEN:.0f} s, which take {taken:.2f} cores without; "
    how += f"{_PAIRS} interleaved pairs, 95 %: ± {half:.3f}"
    yield at_least("run.checkpoints", middle, 0.99, how)
    yield reported("run.checkpoints.missed", float(missed), "deadlines", "in those runs")
