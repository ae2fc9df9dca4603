"""A baseline for continuous checkpoints: the same averages on Structured Streaming with the RocksDB state store.

Structured Streaming has no count windows, so windows are of event time, as long as that many tuples of an item take on
average; a window behind the watermark is emitted and removed from the state. State is saved with every micro-batch: all
new files of RocksDB (`snapshots`), or a log of changes with occasional snapshots (`changelog`, Spark's answer to long
pauses). Input is a Parquet file for each micro-batch; output is discarded.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from riprap.base.errors import MissingPrerequisite

MODES = ("snapshots", "changelog")
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WARM_UP = 2  # micro-batches, for compilation
_BATCHES = 6  # measured
_LONGEST = 180  # seconds that a query may take


@dataclass(frozen=True)
class Peer:
    """One query."""

    mode: str
    rows: int
    seconds: float  # from trigger to commit, of the micro-batches that count
    commit: float  # seconds that saving the state took, mean of a micro-batch
    windows: int  # in the state at its end

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def measure(spark: SparkSession, mode: str, table: pa.RecordBatch, window: int, directory: Path) -> Peer:
    """Average `price` by `item` over tumbling windows of `window` microseconds."""
    files = directory / "in"
    files.mkdir(parents=True)
    rows = table.num_rows // (_WARM_UP + _BATCHES)
    for number in range(_WARM_UP + _BATCHES):
        part = pa.table(table.slice(number * rows, rows).select(["item", "price", "_ts"])).rename_columns(
            ["item", "price", "ts"]
        )
        pq.write_table(part, path := files / f"{number:05d}.parquet")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))  # the order in which they are read
    own = _session(spark, mode)
    ticks = own.readStream.schema("item bigint, price bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    length = f"{window} microseconds"
    means = (
        ticks.parquet(str(files))
        .withWatermark("ts", length)
        .groupBy(f.window("ts", length), "item")
        .agg(f.avg("price"))
    )
    query = (
        means.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(directory / "progress"))
    ).trigger(availableNow=True).start()  # fmt: skip
    if not query.awaitTermination(_LONGEST):
        query.stop()
        raise MissingPrerequisite(
            f"Structured Streaming did not finish {table.num_rows:,} rows in {_LONGEST} s: try again on a "
            "less busy machine, or leave it out with --no-spark"
        )
    batches = [batch for batch in _progress(query) if batch["numInputRows"]][_WARM_UP:]
    states = [batch["stateOperators"][0] for batch in batches]
    return Peer(
        mode,
        sum(batch["numInputRows"] for batch in batches),
        sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1e3,
        sum(state["commitTimeMs"] for state in states) / 1e3 / max(1, len(states)) / _partitions(own),
        states[-1]["numRowsTotal"] if states else 0,
    )


def _session(spark: SparkSession, mode: str) -> SparkSession:
    own = spark.newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(mode == "changelog").lower(),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }.items():
        own.conf.set(name, value)
    return own


def _partitions(spark: SparkSession) -> int:
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def _progress(query: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(one.json if isinstance(one.json, str) else json.dumps(one)) for one in query.recentProgress)
