"""Runs rewritten plans, many in one job: as a batch, or as a stream where Spark refuses a batch.

A stream reads the recording in chunks, one for each micro-batch, in order of time, and ends with the last one
(`availableNow`). Chunks of all sources end at the same time. So the number of a micro-batch says when its output came.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from riprap.base import files
from riprap.base.errors import UsageError, as_sentence
from riprap.faults.sealed import fresh
from riprap.spark.jobs.captured_job import CapturedQuery
from riprap.spark.queries import Restarted

BATCH = "_batch"  # the column with the number of the micro-batch
CHUNKS = 16  # micro-batches of a trial
_ONLY_STREAMS = ("DeduplicateWithinWatermark", "WithState", "TransformWithState")
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_MICROSECONDS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_STREAM = {
    **_MICROSECONDS,
    "spark.sql.shuffle.partitions": "1",  # each partition of each operator writes its state in every micro-batch
    # Both count the stateful operators of all trials of a job as if they were one query.
    "spark.sql.streaming.unsupportedOperationCheck": "false",
    "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",
}


def needs_stream(query: CapturedQuery) -> bool:
    """Whether Spark refuses the query as a batch, or calls its functions differently."""
    return any(part in node.kind for node in query.plan.walk() for part in _ONLY_STREAMS)


def run_batch(spark: SparkSession, frames: Sequence[DataFrame], path: Path) -> None:
    """Write the rows of frames with equal columns to one directory."""
    with _settings(spark, _MICROSECONDS):
        _union(frames).write.mode("overwrite").parquet(str(path))


def run_stream(spark: SparkSession, frames: Sequence[DataFrame], path: Path, query: CapturedQuery) -> None:
    """The same for frames that read a recording as a stream; with `BATCH`."""
    work = fresh(path.with_name(f"{path.name}-batches"))
    mode = "update" if query.mode == "complete" else query.mode  # a complete result repeats what did not change
    checkpoint = fresh(path.with_name(f"{path.name}-checkpoint"))
    settings = dict(_STREAM)
    if any("TransformWithState" in node.kind for node in query.plan.walk()):
        settings["spark.sql.streaming.stateStore.providerClass"] = _ROCKSDB

    def write(rows: DataFrame, number: int) -> None:
        rows.withColumn(BATCH, F.lit(number)).write.mode("overwrite").parquet(str(work / str(number)))

    def start() -> Any:
        writer = _union(frames).writeStream.foreachBatch(write).outputMode(mode)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    with _settings(spark, settings):
        try:
            Restarted(start).until(lambda running: running.awaitTermination())
            table = read_rows(work)
            files.make(path)
            with files.open_file(path / "part-0.parquet", "wb") as file:
                pq.write_table(table, file)
        finally:
            files.remove_tree(checkpoint)
            files.remove_tree(work)


def read_rows(path: Path) -> pa.Table:
    """All rows that Spark wrote below a directory."""
    parts = [part for part in sorted(path.rglob("*.parquet")) if part.is_file()]
    return pa.concat_tables([pq.ParquetFile(part).read() for part in parts])


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


@contextmanager
def _settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def refused(error: Exception, query: CapturedQuery) -> UsageError:
    """An error of Spark in a query of the user, as one sentence."""
    text = str(error).splitlines()
    return UsageError(
        f"{query.line}: Spark cannot run query {query.name} over the recording: {as_sentence(text[0] if text else '')}"
    )


# The recording --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedRecording:
    """The recorded rows of all sources, sorted by time. `DIR/NAME/*.parquet`, with `_ts`; `DIR/time/time.npy`."""

    path: Path
    time: np.ndarray  # int64 microseconds, ascending: of all sources

    @property
    def tuples(self) -> int:
        return len(self.time)

    def positions(self, times: np.ndarray) -> np.ndarray:
        """The position of the first row at or after each time."""
        return np.minimum(np.searchsorted(self.time, times), self.tuples - 1)

    @property
    def bounds(self) -> np.ndarray:
        """The times at which chunks end; the last one has no end."""
        at = np.linspace(0, self.tuples, CHUNKS + 1)[1:-1].astype(int)
        return np.unique(self.time[np.minimum(at, self.tuples - 1)])

    def batch_positions(self, numbers: np.ndarray) -> np.ndarray:
        """The position at which the output of a micro-batch came: its last row."""
        ends = np.append(np.searchsorted(self.time, self.bounds), self.tuples)
        return np.asarray(ends[np.minimum(numbers, len(ends) - 1)] - 1)


def cut_chunks(recording: TimedRecording, name: str, path: Path) -> None:
    """One file of a source for each micro-batch, in the order in which Spark takes files: by time of modification."""
    work = fresh(path)
    parts = sorted((recording.path / name).glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    times = table["_ts"].cast(pa.int64()).to_numpy()
    cuts = [0, *np.searchsorted(times, recording.bounds).tolist(), table.num_rows]
    for number, (start, end) in enumerate(pairwise(cuts)):
        file = work / f"{number:05d}.parquet"
        with files.open_file(file, "wb") as out:
            pq.write_table(table.slice(start, end - start), out)
        os.utime(file, (1_600_000_000 + number, 1_600_000_000 + number))
    files.rename(work, path)
