"""Replications of models as Spark tasks. DataFrame API only: it also runs over Spark Connect.

`riprap.san.replicate` divides the work independent of the number of tasks, and results carry the number of their piece,
so the result is the same on any cluster.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from riprap.san.replicate import ReplicationJob, ReplicationShare, Runner
from riprap.spark.bounded import task_slots
from riprap.spark.job_progress import Tell, with_progress

PIECES_PER_SLOT = 8  # tasks per slot at most: enough to balance, few enough that starting them costs little
_SCHEMA = "piece bigint, rewards array<double>"


def on_spark(spark: SparkSession, tell: Tell | None = None, tasks: int | None = None) -> Runner:
    """Runs pieces as tasks of one job; `tell` gets the tasks done and the tasks in total."""

    def run(jobs: Sequence[ReplicationJob], pieces: Sequence[ReplicationShare]) -> list[np.ndarray]:
        count = tasks or min(len(pieces), PIECES_PER_SLOT * task_slots(spark))
        frame = spark.range(0, count, 1, count).mapInArrow(partial(_task, tuple(jobs), tuple(pieces), count), _SCHEMA)
        table = with_progress(spark, frame.toArrow, tell) if tell else frame.toArrow()
        found = dict(zip(table.column("piece").to_pylist(), table.column("rewards").to_pylist(), strict=True))
        return [
            np.array(found[number], np.float64).reshape(piece.count, len(jobs[piece.job].names))
            for number, piece in enumerate(pieces)
        ]

    return run


def _task(
    jobs: tuple[ReplicationJob, ...],
    pieces: tuple[ReplicationShare, ...],
    count: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Every `count`-th piece, so that long jobs are spread over the tasks."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for number in range(task, len(pieces), count):
                piece = pieces[number]
                rows = jobs[piece.job].rows(piece.first, piece.count)
                values = pa.array([rows.ravel().tolist()], pa.list_(pa.float64()))
                yield pa.record_batch([pa.array([number], pa.int64()), values], names=["piece", "rewards"])
