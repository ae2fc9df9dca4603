"""What backups everywhere cost a run: throughput with all of them over throughput without protection.

Bargain Discovery, and an app of 19 operators that ends in 5 sinks; every operator a backup, stateful ones with a
checkpoint a second, against the same app without annotations, interleaved, from Parquet to persistent streams. Both
with `--fuse auto`. Then the paced run: at a quarter of what the unprotected run does at most, 10 s of input, the run
with backups has to keep pace: it ends within a second of the input's end.
"""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.harness import Result, at_least, at_most
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.apps.catalogue import load_app
from riprap.base.quantities import parse_duration
from riprap.graph.annotations import Annotations
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink
from riprap.graph.windows import count
from riprap.spark.session import hosting_session

TUPLES = 5_000_000
_ROUNDS = 3
_PACED = 10.0  # seconds of input


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        spark = hosting_session(26)
        try:
            for name, graph in (("bargain", load_app("bargain-discovery")), ("wide", wide())):
                yield from _compared(spark, place, name, graph)
        finally:
            spark.stop()


def wide() -> Graph:
    """19 operators and 5 sinks over market data."""
    app = App("wide")
    ticks = app.source("Source", "ticker string, type string, price double, size long")
    trades = ticks.filter("type = 'TRADE'", name="Trades")
    quotes = ticks.filter("type = 'QUOTE'", name="Quotes")
    values = trades.select("ticker", "price", "size", "price * size AS value", name="Values")
    sums = values.aggregate("sum(value) AS value", "sum(size) AS size", window=count(5), every=count(1), by="ticker",
                            name="Sums")  # fmt: skip
    vwap = sums.select("ticker", "value / size AS vwap", name="Vwap")
    vwap.filter("vwap > 50", name="Dear").select("ticker", "vwap", name="DearOnes").sink("S1")
    counted = values.aggregate("count(*) AS n", "max(price) AS most", window=count(20), every=count(20), by="ticker",
                               name="Counted")  # fmt: skip
    counted.filter("most > 10", name="High").select("ticker", "n", "most", name="HighOnes").sink("S2")
    sizes = quotes.select("ticker", "size", "price", name="Sizes")
    sizes.filter("size > 500", name="Large").select("ticker", "size * 2 AS double", name="Doubled").sink("S3")
    offers = sizes.aggregate("min(price) AS least", window=count(10), every=count(10), by="ticker", name="Offers")
    offers.select("ticker", "least", name="LeastOnes").sink("S4")
    prices = quotes.select("ticker", "price * 100 AS cents", name="Cents").filter("cents > 0", name="Positive")
    prices.aggregate("count(*) AS n", window=count(50), every=count(50), by="ticker", name="Ticks").sink("S5")
    return app.build()


def backed_up(graph: Graph) -> Graph:
    """Every operator a backup, those with state saved every second."""
    every = parse_duration("1s")
    for spec in graph.operators:
        if not isinstance(spec, Sink):
            saved = every if any(spec.stateful) else None
            graph = graph.with_operator(replace(spec, annotations=Annotations(checkpoint_every=saved, backup=True)))
    return graph


def _compared(spark: SparkSession, place: Path, name: str, graph: Graph) -> Iterator[Result]:
    graphs = {"plain": graph, "backups": backed_up(graph)}
    rates: dict[str, list[float]] = {"plain": [], "backups": []}
    source = place / "market.parquet"
    if not source.exists():
        market_files.write(market.generate(TUPLES, seed=1), source, overwrite=True)
    for round_ in range(_ROUNDS + 1):  # the first one warms daemons and caches
        for which, found in rates.items():
            summary = _run(spark, place, graphs[which], source)
            if round_:
                found.append(summary["throughput"])
    plain, kept = (statistics.median(found) for found in rates.values())
    how = f"all backups, checkpoints every second, against none: {kept / 1e6:.2f} and {plain / 1e6:.2f} M tuples/s"
    yield at_least(f"backups.{name}", kept / plain, 0.5, f"{how}, median of {_ROUNDS}")
    rate = plain / 4
    summary = _run(spark, place, graphs["backups"], source, rate=rate, seconds=_PACED)
    late = summary["seconds"] - min(_PACED, TUPLES / rate)
    yield at_most(f"backups.{name}.paced", late, 1, f"at {rate / 1e6:.2f} M tuples/s, from the input's end", "s")


def _run(spark: SparkSession, place: Path, graph: Graph, source: Path, **settings: object) -> dict[str, float]:
    out = place / "run"
    shutil.rmtree(out, ignore_errors=True)
    return dict(run_app(graph, {"Source": source}, out=out, spark=spark, **settings).summary)  # type: ignore[arg-type]
