"""A workload on Structured Streaming: the same input at the same rate, its own micro-batches and checkpoints.

Sources are persistent streams that are written as their rows are due, the query is SQL over them, and what comes out is
a persistent stream again: exactly once, as Spark commits each micro-batch. A kill is a SIGKILL of the Python workers
that were last at work; Spark runs their tasks again, and a query that fails nevertheless is started again with its
checkpoints.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from riprap.base.clock import SYSTEM_CLOCK
from riprap.streams import Stream

_STEP = 0.02  # seconds between looks at which rows are due
_PATIENCE = 120.0  # seconds that a query may take to work off what is left


@dataclass(frozen=True)
class Worked:
    """What a query did. Times are seconds of the wall clock."""

    began: float  # when the first row was due
    ended: float
    killed_at: float | None
    batches: int
    commit_ms: float  # mean, of writing what a micro-batch is to do and that it is done
    restarts: int  # of the query


class Supply(threading.Thread):
    """Writes rows of one source as they are due: each as long after `began` as it is after the first row of all."""

    def __init__(self, path: Path, rows: pa.RecordBatch, first: int, began: float) -> None:
        super().__init__(daemon=True)
        self._rows, self._began = rows, began
        self._due = (rows.column("_ts").cast(pa.int64()).to_numpy() - first) / 1e6
        self._writer = Stream.create(path, rows.schema).writer()

    def run(self) -> None:
        at = 0
        with self._writer:
            while at < self._rows.num_rows:
                upto = int(np.searchsorted(self._due, SYSTEM_CLOCK.now() / 1e6 - self._began, side="right"))
                if upto > at:
                    self._writer.append(self._rows.slice(at, upto - at))
                    self._writer.flush()
                    at = upto
                SYSTEM_CLOCK.sleep(_STEP)


def work(
    spark: SparkSession, sql: str, inputs: Mapping[str, pa.RecordBatch], place: Path, *, kill_after: float | None
) -> Worked:
    """Run a query over inputs until all of it is worked off. What comes out is in `place`/Sink."""
    noted = place / "workers"
    noted.mkdir()
    decoded = {name: _decoded(rows) for name, rows in inputs.items()}
    first = min(int(rows.column("_ts").cast(pa.int64())[0].as_py()) for rows in decoded.values())
    began = SYSTEM_CLOCK.now() / 1e6 + 0.5
    supplies = [Supply(place / name, rows, first, began) for name, rows in decoded.items()]
    for name in inputs:
        spark.readStream.format("riprap").load(str(place / name)).createOrReplaceTempView(name)
    frame = _noting(spark.sql(sql), noted)
    query, restarts, killed = _started(frame, place), 0, None
    for supply in supplies:
        supply.start()
    while any(supply.is_alive() for supply in supplies):
        if kill_after is not None and killed is None and SYSTEM_CLOCK.now() / 1e6 - began >= kill_after:
            killed = SYSTEM_CLOCK.now() / 1e6
            _kill(noted)
        if not query.isActive:
            query, restarts = _started(frame, place), restarts + 1
        SYSTEM_CLOCK.sleep(_STEP)
    until = SYSTEM_CLOCK.monotonic() + _PATIENCE
    while True:
        try:
            query.processAllAvailable()
            break
        except StreamingQueryException:
            if SYSTEM_CLOCK.monotonic() > until:
                raise
            query, restarts = _started(frame, place), restarts + 1
    ended = SYSTEM_CLOCK.now() / 1e6
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    query.stop()
    spent = [one["durationMs"].get("walCommit", 0) + one["durationMs"].get("commitOffsets", 0) for one in progress]
    batches = len(list((place / "query" / "commits").glob("[0-9]*")))
    return Worked(began, ended, killed, batches, float(np.mean(spent)) if spent else 0.0, restarts)


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in rows.columns]
    return pa.record_batch(columns, names=rows.schema.names)


def _started(frame: DataFrame, place: Path) -> Any:
    writer = frame.writeStream.format("riprap").option("checkpointLocation", str(place / "query"))
    return writer.start(str(place / "Sink"))


def _noting(frame: DataFrame, noted: Path) -> DataFrame:
    """The same rows, through Python workers that leave their process ids."""
    directory = str(noted)

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = os.path.join(directory, str(os.getpid()))
        with open(path, "w"):
            pass
        yield from batches

    return frame.mapInArrow(note, frame.schema)


def _kill(noted: Path) -> None:
    """Those of the newest micro-batch."""
    found = sorted(noted.iterdir(), key=lambda path: path.stat().st_mtime)
    newest = found[-1].stat().st_mtime if found else 0.0
    for path in found:
        if path.stat().st_mtime > newest - 1.0:
            with suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)
