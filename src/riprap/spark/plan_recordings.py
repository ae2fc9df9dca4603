"""The recorded rows of a job's sources, sorted by time once and for all trials.

The time of a row is `_ts`, else the column with the source's watermark, else its only or first timestamp, else the
number of the row as microseconds. Rows of equal time keep the order of the recording.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from riprap.base import files
from riprap.base.errors import DataError, as_sentence
from riprap.faults.sealed import finished, fresh, mapped, save_array, seal, sound
from riprap.graph.order_keys import SEQ, TS
from riprap.spark.jobs.captured_job import CapturedJob, CapturedSource, PlanNode
from riprap.spark.plan_operators import PlanOperators
from riprap.spark.plan_runs import TimedRecording, run_batch


def sorted_recording(operators: PlanOperators, inputs: Mapping[str, Path], path: Path) -> TimedRecording:
    """Write the sorted recording to `path`, or what is missing of it."""
    files.make(path)
    for source in operators.sources:
        rows = path / source.name
        if not sound(rows):
            files.remove_tree(rows)
            files.remove_tree(path / "time")
            _write_sorted(operators, source, inputs[source.name], rows)
            seal(rows)
    if not sound(path / "time"):
        times = [_times(path / source.name, source.name) for source in operators.sources]
        work = fresh(path / "time")
        save_array(work / "time.npy", np.sort(np.concatenate(times)))
        finished(work, path / "time")
    return TimedRecording(path, mapped(path / "time" / "time.npy"))


def _write_sorted(operators: PlanOperators, source: CapturedSource, given: Path, path: Path) -> None:
    spark: SparkSession = operators.job.spark
    try:
        rows = read_recorded(spark, given)
        order = [TS, SEQ] if SEQ in rows.columns else [TS]
        timed = rows.withColumn(TS, time_of(rows, event_time(operators.job, source)))
        run_batch(spark, [timed.where(F.col(TS).isNotNull()).orderBy(*order)], path)
    except PySparkException as error:
        raise DataError(
            f"the recording of source {source.name} at {given} cannot be read: {as_sentence(str(error), 200)}"
        ) from error


def read_recorded(spark: SparkSession, path: Path) -> DataFrame:
    """A Parquet file or a directory of them, or a persistent stream."""
    if (path / "stream.json").exists():
        return spark.read.format("riprap").load(str(path))
    return spark.read.parquet(str(path))


def time_of(rows: DataFrame, column: str | None) -> Column:
    if TS in rows.columns:
        return rows[TS].cast("timestamp")
    if column is not None and column in rows.columns:
        return rows[f"`{column}`"].cast("timestamp")
    return F.timestamp_micros(F.monotonically_increasing_id())


def event_time(job: CapturedJob, source: CapturedSource) -> str | None:
    """The column of a source that says when a row happened."""
    own = {leaf.identity for leaf in source.leaves}
    by_id = {column.id: column.name for leaf in source.leaves for column in leaf.columns}
    for query in job.queries:
        for node in query.plan.walk():
            name = by_id.get(node.details.get("column", -1)) if node.kind == "EventTimeWatermark" else None
            if name is not None and _over(node, own):
                return name
    stamps = [c.name for c in source.columns if c.type is not None and str(c.type).startswith("timestamp")]
    return stamps[0] if stamps else None


def _over(node: PlanNode, leaves: set[int]) -> bool:
    return any(below.identity in leaves for below in node.walk())


def _times(path: Path, name: str) -> np.ndarray:
    parts = sorted(path.glob("*.parquet"))
    columns = [pq.read_table(part, columns=[TS])[TS].cast("int64").to_numpy() for part in parts]
    times = np.concatenate([np.empty(0, np.int64), *columns])
    if not len(times):
        raise DataError(f"the recording of source {name} is empty: no fault can be injected")
    return times
