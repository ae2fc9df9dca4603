"""A workload on Structured Streaming: the same input at the same rate, its own micro-batches and checkpoints.

Sources are persistent streams that are written as their rows are due, the query is SQL over them, and its output is a
persistent stream, too: exactly once, as Spark commits each micro-batch. State per key after an aggregate is also
Spark's (`transformWithState`), in its state store.

A query starts with the first row of each source, so that it is planned and compiled when the clock starts. If it waits
for windows to end, a row of a later day follows the last one: its own window stays open, all others close.

A kill is a SIGKILL of the most recent Python workers; Spark runs their tasks again, and a query that fails nevertheless
is restarted from its checkpoints.
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
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import StatefulProcessor, StreamingQuery

from riprap.base.clock import SYSTEM_CLOCK
from riprap.spark.queries import Restarted
from riprap.streams import PersistentStream

_STEP = 0.02  # seconds between checks for due rows
_RESTARTS = 3  # of a failed query: a kill may fail it, but not repeatedly
_LATER = 86_400_000_000  # microseconds: longer than any window
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"  # needed for state per key


@dataclass(frozen=True)
class MicroBatchQuery:
    """A query: SQL over views of its inputs, and the state per key after it, as declared by a workload."""

    sql: str
    carried: tuple[str, str, str] | None = None  # highest or total, of which value by which key
    closes: bool = False  # emits when windows end
    pace: float = 1.0  # seconds of event time per second


@dataclass(frozen=True)
class Worked:
    """The result of a query. Times are seconds of the wall clock."""

    began: float  # when the first row was due
    ended: float
    killed_at: float | None
    batches: int
    commit_ms: float  # mean, of writing a micro-batch's offsets, state and commit
    restarts: int  # of the query


class Supply(threading.Thread):
    """Writes rows of one source as they are due. The first is written at once."""

    def __init__(self, path: Path, rows: pa.RecordBatch, first: int, asked: MicroBatchQuery) -> None:
        super().__init__(daemon=True)
        self._rows, self._closes = rows, asked.closes
        self._due = (_micros(rows) - first) / 1e6 / asked.pace
        self._writer = PersistentStream.create(path, rows.schema).writer()
        self._append(0, 1)
        self.began = 0.0  # wall clock; set before it starts

    def run(self) -> None:
        at = 1
        with self._writer:
            while at < self._rows.num_rows:
                upto = int(np.searchsorted(self._due, SYSTEM_CLOCK.now() / 1e6 - self.began, side="right"))
                if upto > at:
                    self._append(at, upto)
                    at = upto
                SYSTEM_CLOCK.sleep(_STEP)
            if self._closes:
                self._writer.append(_moved(self._rows.slice(at - 1, 1)))
                self._writer.flush()

    def _append(self, since: int, upto: int) -> None:
        self._writer.append(self._rows.slice(since, upto - since))
        self._writer.flush()


def work(
    spark: SparkSession,
    asked: MicroBatchQuery,
    inputs: Mapping[str, pa.RecordBatch],
    place: Path,
    *,
    kill_after: float | None,
) -> Worked:
    """Run a query until all inputs are processed. Its output is in `place`/Sink."""
    noted = place / "workers"
    noted.mkdir()
    decoded = {name: _decoded(rows) for name, rows in inputs.items()}
    first = min(int(_micros(rows)[0]) for rows in decoded.values())
    supplies = [Supply(place / name, rows, first, asked) for name, rows in decoded.items()]
    frame = _noting(_queried(_session(spark), asked, {name: place / name for name in inputs}), noted)
    PersistentStream.create(place / "Sink", to_arrow_schema(frame.schema, timezone="UTC"), ordered=False)
    running, killed = Restarted(lambda: _started(frame, place), _RESTARTS), None
    running.until(StreamingQuery.processAllAvailable)
    began = SYSTEM_CLOCK.now() / 1e6
    for supply in supplies:
        supply.began = began
        supply.start()
    while any(supply.is_alive() for supply in supplies):
        if kill_after is not None and killed is None and SYSTEM_CLOCK.now() / 1e6 - began >= kill_after:
            killed = SYSTEM_CLOCK.now() / 1e6
            _kill(noted)
        running.look()
        SYSTEM_CLOCK.sleep(_STEP)
    query = running.until(StreamingQuery.processAllAvailable)
    ended = SYSTEM_CLOCK.now() / 1e6
    spent = [_spent(one) for one in query.recentProgress if one["numInputRows"]]
    query.stop()
    batches = len(list((place / "query" / "commits").glob("[0-9]*")))
    return Worked(began, ended, killed, batches, float(np.mean(spent)) if spent else 0.0, running.restarts)


def _session(spark: SparkSession) -> SparkSession:
    """A session beside `spark`, with a partition per core and the store that state per key needs."""
    own = spark.newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.streaming.stateStore.providerClass": _STORE,
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }.items():
        own.conf.set(name, value)
    return own


def _queried(own: SparkSession, asked: MicroBatchQuery, paths: Mapping[str, Path]) -> DataFrame:
    for name, path in paths.items():
        rows = own.readStream.format("riprap").load(str(path))
        rows.withWatermark("_ts", "0 seconds").createOrReplaceTempView(name)
    found = own.sql(asked.sql)
    if asked.carried is None:
        return found
    keeps, by, value = asked.carried
    more = f", {_TOTAL} bigint" if keeps == _TOTAL else ""
    return found.groupBy(by).transformWithState(
        _Kept(value, total=keeps == _TOTAL),
        outputStructType=", ".join(f"`{name}` {kind}" for name, kind in found.dtypes) + more,
        outputMode="append",
        timeMode="none",
    )


_TOTAL = "total"


class _Kept(StatefulProcessor):
    """A number per key, over rows in the order of their times: the highest value, or the sum."""

    def __init__(self, value: str, *, total: bool) -> None:
        self._value, self._total = value, total

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("kept", "kept bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._state.get()
        kept = before[0] if before else 0
        for row in sorted(rows, key=lambda row: row["_ts"]):
            if self._total:
                kept += row[self._value]
                yield Row(**row.asDict(), **{_TOTAL: kept})
            elif row[self._value] > kept:
                kept = row[self._value]
                yield row
        self._state.update((kept,))

    def close(self) -> None:
        pass


def _spent(progress: Mapping[str, Any]) -> float:
    """Milliseconds that a micro-batch takes to become durable; its partitions write their state in parallel."""
    durations = progress["durationMs"]
    states = progress["stateOperators"]
    state = sum(one["commitTimeMs"] / max(one["numShufflePartitions"], 1) for one in states)
    return float(durations.get("walCommit", 0) + durations.get("commitOffsets", 0) + state)


def _micros(rows: pa.RecordBatch) -> np.ndarray:
    return rows.column("_ts").cast(pa.int64()).to_numpy()


def _moved(row: pa.RecordBatch) -> pa.RecordBatch:
    """The same row, a day later."""
    later = {"_ts": _micros(row) + _LATER, "_seq": row.column("_seq").to_numpy() + 1}
    columns = [
        pa.array(later[field.name]).cast(field.type) if field.name in later else row.column(field.name)
        for field in row.schema
    ]
    return pa.record_batch(columns, schema=row.schema)


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in rows.columns]
    return pa.record_batch(columns, names=rows.schema.names)


def _started(frame: DataFrame, place: Path) -> StreamingQuery:
    writer = frame.writeStream.format("riprap").option("checkpointLocation", str(place / "query"))
    return writer.start(str(place / "Sink"))


def _noting(frame: DataFrame, noted: Path) -> DataFrame:
    """The same rows, passed through Python workers that record their process ids."""
    directory = str(noted)

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = os.path.join(directory, str(os.getpid()))
        with open(path, "w"):
            pass
        yield from batches

    return frame.mapInArrow(note, frame.schema)


def _kill(noted: Path) -> None:
    """The process ids of the newest micro-batch."""
    found = sorted(noted.iterdir(), key=lambda path: path.stat().st_mtime)
    newest = found[-1].stat().st_mtime if found else 0.0
    for path in found:
        if path.stat().st_mtime > newest - 1.0:
            with suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)
