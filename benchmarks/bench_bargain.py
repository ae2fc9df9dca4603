"""Bargain Discovery, 5 million tuples: the engine against a hand-fused loop, Polars and DuckDB; on Spark against Spark
SQL; memory.

One core: Polars and DuckDB are held to one thread, the fused loop and the engine have one each. Every side gets the
input in memory in the
form that it likes best, and is timed for the query alone. All answers are compared before anything is timed.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"  # before Polars is imported

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import bargain_peers as peers
from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.apps import market, market_files
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine
from riprap.engine.inputs import BATCH_ROWS
from riprap.operators.views import Views

TUPLES = 5_000_000


def run() -> Iterator[Result]:
    table = market.generate(TUPLES, seed=1)
    yield from _one_core(table)
    yield from _small_batches(table)
    yield from _compiling()
    yield from _on_spark(table)
    yield from _memory()


def _engine(batches: list[pa.RecordBatch]) -> peers.Answer:
    count, gain = 0, 0.0
    for output in Engine(load_app("bargain-discovery")).run({"Source": batches}):
        count += output.event.num_rows
        gain += pc.sum(output.event.column("gain")).as_py()
    return peers.Answer(count, gain)


def _one_core(table: pa.Table) -> Iterator[Result]:
    batches = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    coded, frame, connection = peers.coded(table), peers.polars_frame(table), peers.duckdb_connection(table)
    sides = {
        "engine": lambda: _engine(batches),
        "fused loop": lambda: peers.fused_loop(coded)[0],
        "polars": lambda: peers.polars_query(frame),
        "duckdb": lambda: peers.duckdb_query(connection),
    }
    _agree({name: side() for name, side in sides.items()})
    seconds = side_by_side(sides, rounds=7)
    rate = {name: TUPLES / taken / 1e6 for name, taken in seconds.items()}
    how = "5 M tuples in memory, dictionary-encoded, batches of 65,536 rows, one core, median of 7"
    yield reported("bargain.engine", rate["engine"], "M tuples/s", how)
    yield reported("bargain.fused-loop", rate["fused loop"], "M tuples/s", "hand-written compiled loop on coded arrays")
    yield at_least("bargain.engine/fused-loop", rate["engine"] / rate["fused loop"], 0.35, how)
    yield at_least("bargain.engine/polars", rate["engine"] / rate["polars"], 4, f"Polars, one thread; {how}")
    yield at_least("bargain.engine/duckdb", rate["engine"] / rate["duckdb"], 12, f"DuckDB, one thread; {how}")


def _small_batches(table: pa.Table) -> Iterator[Result]:
    """What a batch of 100 rows costs from source to sink: as a record batch, and as the column views of a run."""
    batch = table.slice(0, 200_000).combine_chunks().to_batches()[0]
    parts = [batch.slice(start, 100) for start in range(0, batch.num_rows, 100)]
    how = "push of 100 rows, eight operators, median of 1,000"
    yield at_most("bargain.small-batch", _median_push(parts, views=False), 100, how, unit="µs")
    how = f"{how}; column views in and out, as between elements"
    yield reported("bargain.small-batch-of-views", _median_push([Views.of(p) for p in parts], views=True), "µs", how)


def _median_push(parts: Sequence[pa.RecordBatch | Views], *, views: bool) -> float:
    engine = Engine(load_app("bargain-discovery"), views=views)
    engine.prepare()
    taken = []
    for part in parts:
        start = time.perf_counter()
        engine.push("Source", part)
        taken.append(time.perf_counter() - start)
    return 1e6 * statistics.median(taken[len(parts) // 2 :])


def _compiling() -> Iterator[Result]:
    """From the first row of a process to the first output, with an empty cache and with a full one."""
    script = """
import time
from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine
batch = market.generate(10_000, seed=1).combine_chunks().to_batches()[0]
engine = Engine(load_app("bargain-discovery"))
start = time.perf_counter()
engine.push("Source", batch)
print(time.perf_counter() - start)
"""
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {"XDG_CACHE_HOME": directory}
        for name in ("cold", "warm"):
            run = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
            )
            how = f"the first 10,000 rows of Bargain Discovery in a process, {name} cache of compiled pieces"
            yield reported(f"bargain.compile-{name}", float(run.stdout), "s", how)


def _on_spark(table: pa.Table) -> Iterator[Result]:
    from riprap.spark.bounded import run_bounded
    from riprap.spark.session import session

    graph = load_app("bargain-discovery")
    spark = session(master="local[2]")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "market.parquet"
        market_files.write(table, path)
        view = peers.spark_view(spark, str(path))
        sides = {
            "riprap": lambda: run_bounded(graph, path, spark=spark)["Sink"].count(),
            "sql": lambda: peers.spark_query(view),
        }
        assert sides["riprap"]() == sides["sql"]().bargains  # type: ignore[attr-defined]
        seconds = side_by_side(sides, rounds=3)
    how = "5 M tuples, Parquet in, count out, Spark local[2], median of 3"
    yield reported("bargain.on-spark", seconds["riprap"], "s", how)
    yield reported("bargain.spark-sql", seconds["sql"], "s", "window functions and a last-value join in Spark SQL")
    yield at_least("bargain.on-spark/spark-sql", seconds["sql"] / seconds["riprap"], 8, how)


def _memory() -> Iterator[Result]:
    """Peak memory of a process that streams 1 and 8 million tuples through the engine, beyond that of streaming one
    batch.
    """
    peaks = [_peak(tuples) for tuples in (BATCH_ROWS, 1_000_000, 8_000_000)]
    short, long = peaks[1] - peaks[0], peaks[2] - peaks[0]
    how = "peak resident memory over 8 M tuples less that over 1 M, state and batches alike"
    yield at_most("bargain.memory-growth", max(0.0, (long - short) / 2**20), 32, how, unit="MiB")


def _peak(tuples: int) -> int:
    script = f"""
import resource
from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine
day = market.generate({BATCH_ROWS}, seed=1).combine_chunks().to_batches()[0]
import pyarrow as pa
import pyarrow.compute as pc
def again(n):
    for k in range(n):
        shift = k * {BATCH_ROWS}
        ts = pc.add(day["_ts"].cast(pa.int64()), k * 10**9).cast(day["_ts"].type)
        columns = dict(zip(day.schema.names, day.columns)) | {{"_ts": ts, "_seq": pc.add(day["_seq"], shift)}}
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=day.schema)
for _ in Engine(load_app("bargain-discovery")).run({{"Source": again({tuples} // {BATCH_ROWS})}}):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(run.stdout)


def _agree(answers: dict[str, peers.Answer]) -> None:
    expected = answers["fused loop"]
    for name, answer in answers.items():
        same = answer.bargains == expected.bargains and abs(answer.gain - expected.gain) <= 1e-9 * abs(expected.gain)
        assert same, f"{name} says {answer}, the fused loop says {expected}"
