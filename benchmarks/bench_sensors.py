"""The sensor fleet, 5 million readings: the engine against Polars and DuckDB, on one core.

Polars and DuckDB are held to one thread. Every side gets the input in memory in the form that it likes best, is timed
for both queries, and gives its rows as Arrow tables. All answers are equal row by row before anything is timed.
"""

import os
from collections.abc import Iterator

os.environ["POLARS_MAX_THREADS"] = "1"  # before Polars is imported

import pyarrow as pa

from benchmarks import sensor_peers as peers
from benchmarks.harness import Result, at_least, reported, side_by_side
from riprap.apps import sensors
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine
from riprap.engine.inputs import BATCH_ROWS

TUPLES = 5_000_000


def run() -> Iterator[Result]:
    table = sensors.generate(TUPLES, seed=1)
    batches = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    frame, connection = peers.polars_frame(table), peers.duckdb_connection(table)
    sides = {
        "engine": lambda: engine_answer(batches),
        "polars": lambda: peers.polars_query(frame),
        "duckdb": lambda: peers.duckdb_query(connection),
    }
    expected = peers.in_order(sides["duckdb"]())
    for name, side in sides.items():
        assert peers.in_order(side()) == expected, f"{name} and DuckDB have different rows"
    seconds = side_by_side(sides, rounds=5)
    rate = {name: TUPLES / taken / 1e6 for name, taken in seconds.items()}
    how = "5 M readings in memory, dictionary-encoded, batches of 65,536 rows, one core, median of 5"
    yield reported("sensors.engine", rate["engine"], "M tuples/s", how)
    fastest = max(("polars", "duckdb"), key=rate.__getitem__)
    for name in ("polars", "duckdb"):
        ratio = rate["engine"] / rate[name]
        told = f"{name}, one thread; {how}"
        yield (
            at_least(f"sensors.engine/{name}", ratio, 2, told)
            if name == fastest
            else reported(f"sensors.engine/{name}", ratio, "×", told)
        )


def engine_answer(batches: list[pa.RecordBatch]) -> peers.Answer:
    """What the app gives, as the peers name it."""
    given: dict[str, list[pa.RecordBatch]] = {"Summaries": [], "Alerts": []}
    for output in Engine(load_app("sensor-fleet")).run({"Source": batches}):
        given[output.name].append(output.event)
    summaries, alerts = (pa.Table.from_batches(parts) for parts in given.values())
    minute = summaries["_ts"].cast(pa.int64())
    return peers.Answer(summaries.append_column("minute", minute), alerts)
