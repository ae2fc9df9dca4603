"""Writes DataFrames to a persistent stream, exactly once.

Tasks stage: each attempt writes its rows to its own file under `staged/`, which only its commit message names.
The driver commits: it appends the files of the attempts that Spark chose, in the order of the partitions, as one atomic
append whose sequence is Spark's batch id and whose producer is the query. So:

    a task that is retried or runs twice        leaves a file that no message names
    a driver that dies before the append        runs the batch again: nothing was appended
    a driver that dies after it                 runs the batch again: the sequence is known, nothing is appended
    a driver that dies during it                leaves an incomplete append, which recovery truncates

The next commit of the same query removes leftovers in `staged/`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import DataError, UsageError
from riprap.streams.description import is_stream, shown
from riprap.streams.positions import KEY_TYPES, int64_values
from riprap.streams.stream import PersistentStream
from riprap.streams.stream_errors import Busy
from riprap.streams.stream_files import Files, files_at
from riprap.streams.writer import StreamWriter

_STAGED = "staged"
_QUERY_ID = "sql.streaming.queryId"  # a local property of every task of a streaming query; it survives a restart
_PATIENCE = 60.0  # seconds to wait for another writer of the stream


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The file that one attempt wrote."""

    job: str
    partition: int
    file: str
    rows: int


class _Sink:
    def __init__(self, path: str, schema: StructType, overwrite: bool, merge: bool) -> None:
        if overwrite:
            raise UsageError("a stream is append-only: write with mode append")
        self._path = path
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._merge = merge
        missing = [name for name in ("_ts", "_seq") if name not in self._schema.names]
        if missing:
            raise DataError(f"a stream needs the columns _ts (timestamp) and _seq (bigint): {missing[0]} is missing")

    def _stage(self, batches: Iterator[pa.RecordBatch], job: str) -> Staged:
        context = TaskContext.get()
        assert context is not None
        files, partition = files_at(self._path), context.partitionId()
        # Unique among attempts, also those of a dead driver: attempt ids restart with every driver.
        attempt = f"{partition}-{context.taskAttemptId()}-{os.getpid()}-{SYSTEM_CLOCK.now()}"
        name, rows = f"{_STAGED}/{job}/{attempt}.arrow", 0
        with files.sink(name) as sink, pa.ipc.new_file(sink, self._schema) as writer:
            for batch in batches:
                writer.write_batch(batch.cast(self._schema))
                rows += batch.num_rows
        return Staged(job, partition, name, rows)

    def _commit(self, parts: list[Staged], producer: str, sequence: int | None) -> None:
        files = files_at(self._path)
        if sum(part.rows for part in parts):
            stream = _opened(self._path, self._schema)
            with _patient_writer(stream, producer) as writer:
                if sequence is None or sequence > writer.last_sequence:
                    schema = stream.schema
                    if self._merge:
                        schema = _merged(schema, self._schema)
                        writer.evolve(schema)
                    batches = [_fitted(batch, schema) for part in parts for batch in _read(files, part)]
                    if stream.description.keys_never_fall and not _in_order(batches):
                        batches = _sorted(batches)
                    writer.append_all(batches, sequence=sequence).result()
        for job in {part.job for part in parts}:
            for name in files.names(f"{_STAGED}/{job}"):
                files.delete(f"{_STAGED}/{job}/{name}")

    def _discard(self, messages: list[WriterCommitMessage | None]) -> None:
        files = files_at(self._path)
        for part in messages:
            if isinstance(part, Staged):
                files.delete(part.file)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context else None
        if not query:
            raise UsageError(f"Spark did not set the local property {_QUERY_ID} for the task: use Spark 4.1 or newer")
        return self._stage(iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        parts = _in_partition_order(messages)
        if parts:
            self._commit(parts, f"spark-{parts[0].job}", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._discard(messages)


class BatchSink(_Sink, DataSourceArrowWriter):
    """Created once per job, on the driver; tasks and commit get copies of it, and so the name of the job."""

    def __init__(self, path: str, schema: StructType, overwrite: bool, merge: bool) -> None:
        super().__init__(path, schema, overwrite, merge)
        self._job = f"job-{os.getpid()}-{SYSTEM_CLOCK.now()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stage(iterator, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(_in_partition_order(messages), "spark-batch", None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._discard(messages)


def _in_partition_order(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    return sorted((part for part in messages if isinstance(part, Staged)), key=lambda part: part.partition)


def _opened(path: str, schema: pa.Schema) -> PersistentStream:
    """The stream; created with the DataFrame's columns if it does not exist."""
    return PersistentStream.open(path) if is_stream(files_at(path)) else PersistentStream.create(path, schema)


def _patient_writer(stream: PersistentStream, producer: str) -> StreamWriter:
    deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE
    while True:
        try:
            return stream.writer(producer=producer)
        except Busy:
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise
            SYSTEM_CLOCK.sleep(0.1)


def _read(files: Files, part: Staged) -> Iterator[pa.RecordBatch]:
    file = files.open(part.file)
    try:
        reader = pa.ipc.open_file(file.read_at(0, file.size()))
        for at in range(reader.num_record_batches):
            yield reader.get_batch(at)
    finally:
        file.close()


def _merged(current: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    added = [field.with_nullable(True) for field in wanted if field.name not in current.names]
    return pa.schema([*current, *added])


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The DataFrame's rows in the stream's columns: matched by name, cast if Spark lacks the type."""
    if sorted(batch.schema.names) != sorted(schema.names):
        raise DataError(
            f"the DataFrame has ({shown(batch.schema)}), the stream has ({shown(schema)}): "
            "select its columns, or add new ones with the option mergeSchema"
        )
    return batch.select(schema.names).cast(schema)


def _in_order(batches: list[pa.RecordBatch]) -> bool:
    last = None
    for batch in batches:
        if batch.num_rows:
            seq = int64_values(batch, "_seq")
            if (seq[1:] < seq[:-1]).any() or (last is not None and seq[0] < last):
                return False
            last = seq[-1]
    return True


def _sorted(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of a micro-batch in the order of their keys, which a shuffle may have mixed."""
    table = pa.Table.from_batches(batches)
    keys = [(name, "ascending") for name in KEY_TYPES if name in table.schema.names]
    return table.sort_by(keys).combine_chunks().to_batches()
