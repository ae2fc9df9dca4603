"""The Spark data source `riprap`: persistent streams as DataFrames, batch and streaming. Arrow in and out.

Spark's offset is a position in the stream: `{"position": rows before it}`; if a sink wrote several shards, one position
for each: `{"0": …, "1": …}`. Options:

    path                                      the stream, or the directory of its shards
    startTs, endTs, startSeq, endSeq          bounds on rows, answered from the index; ends are exclusive
    columns                                   names, separated by commas
    maxRowsPerTrigger, maxBytesPerTrigger     admission control of a streaming read
    reader                                    registers a streaming read under this name: retention keeps what it needs

Filters on `_ts` and `_seq` become bounds, too, when `spark.sql.python.filterPushdown.enabled` is on. Spark then plans
the read in a separate worker, and refuses a reader with `pushFilters` in any other: so only that worker gets one.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import wraps
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from riprap.base.errors import RiprapError, UsageError, known
from riprap.base.files import real
from riprap.spark.sink import BatchSink, StreamSink
from riprap.streams.positions import Bounds, as_microseconds
from riprap.streams.read_plan import after_bytes, beginning, stretches
from riprap.streams.shards import shards
from riprap.streams.stream import PersistentStream

T = TypeVar("T")
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_TASK_BYTES = 32 << 20  # adjacent small segments share a task up to this: a task costs about 50 ms


@dataclass(frozen=True)
class ReadOptions:
    path: str
    bounds: Bounds
    columns: tuple[str, ...] | None
    max_rows: int | None
    max_bytes: int | None
    reader: str | None


def read_options(options: Any) -> ReadOptions:
    """From Spark's case-insensitive options; raises `UsageError`."""

    def number(name: str, least: int | None = None) -> int | None:
        text = options.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"the option {name} is a whole number, not {text!r}") from None
        if least is not None and value < least:
            raise UsageError(f"the option {name} must be at least {least}, not {value}")
        return value

    def time(name: str) -> int | None:
        text = options.get(name)
        return None if text is None else as_microseconds(text)

    columns = options.get("columns")
    bounds = Bounds(from_ts=time("startTs"), to_ts=time("endTs"), from_seq=number("startSeq"), to_seq=number("endSeq"))
    return ReadOptions(
        path_option(options),
        bounds,
        tuple(name.strip() for name in columns.split(",")) if columns else None,
        number("maxRowsPerTrigger", 1),
        number("maxBytesPerTrigger", 1),
        options.get("reader"),
    )


def path_option(options: Any) -> str:
    path = options.get("path")
    if not path:
        raise UsageError('the format riprap needs the path of a stream: .load("…") or .option("path", "…")')
    return str(path)


def _without_traceback(method: Callable[..., T]) -> Callable[..., T]:
    """Report a user's error from Spark's worker as its message alone, without the worker's traceback."""

    @wraps(method)
    def wrapped(*arguments: Any, **options: Any) -> T:
        try:
            return method(*arguments, **options)
        except RiprapError:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # PySpark checks it when it reports an error of its worker
            raise

    return wrapped


class StreamSource(DataSource):
    """`spark.read.format("riprap")`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "riprap"

    @_without_traceback
    def schema(self) -> StructType:
        options = read_options(self.options)
        schema = PersistentStream.open(shards(real(options.path))[0]).schema
        for name in options.columns or ():
            if name not in schema.names:
                raise UsageError(f"the stream has no column {name}: {known(schema.names, name)}")
        if options.columns is not None:
            schema = pa.schema([schema.field(name) for name in options.columns])
        return from_arrow_schema(schema)

    @_without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringPastReader if _PUSHDOWN_WORKER in sys.modules else PastReader
        return kind(read_options(self.options), schema)

    @_without_traceback
    def streamReader(self, schema: StructType) -> "LiveReader":
        return LiveReader(read_options(self.options), schema)

    @_without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        return BatchSink(path_option(self.options), schema, overwrite, self._merge())

    @_without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        return StreamSink(path_option(self.options), schema, overwrite, self._merge())

    def _merge(self) -> bool:
        return str(self.options.get("mergeSchema", "false")).lower() == "true"


class Part(InputPartition):
    """The rows that one task reads."""

    def __init__(self, path: str, bounds: Bounds) -> None:
        super().__init__(None)
        self.path, self.bounds = path, bounds


class _Reads:
    """The common part of the batch and the streaming reader. It is pickled to tasks, so it holds no open stream."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.bounds = options.bounds
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def parts(self, path: str, stream: PersistentStream, bounds: Bounds) -> list[Part]:
        return [
            Part(path, replace(bounds, from_position=item.from_position, to_position=item.to_position))
            for item in stretches(stream, bounds, _TASK_BYTES)
        ]

    def rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        bounds = part.bounds
        for item in PersistentStream.open(part.path).read(
            from_position=bounds.from_position,
            to_position=bounds.to_position,
            from_ts=bounds.from_ts,
            to_ts=bounds.to_ts,
            from_seq=bounds.from_seq,
            to_seq=bounds.to_seq,
            columns=self.options.columns,
        ):
            batch = item.batch
            yield batch if batch.schema.equals(self._schema) else batch.cast(self._schema)


class PastReader(_Reads, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        paths = shards(real(self.options.path))
        found = [
            part
            for path in paths
            for part in self.parts(path, PersistentStream.open(path).require_whole(), self.bounds)
        ]
        return found or [Part(paths[0], Bounds(0, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return self.rows(partition)


class FilteringPastReader(PastReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the bounds. Every filter is returned, so Spark applies it again, and results do not depend on ours."""
        for filter_ in filters:
            self.bounds = narrowed(self.bounds, filter_)
        return filters


def narrowed(bounds: Bounds, filter_: Filter) -> Bounds:
    """The bounds combined with the filter, as far as bounds can express it."""
    column = getattr(filter_, "attribute", None)
    value = getattr(filter_, "value", None)
    if column == ("_ts",) and isinstance(value, datetime):
        value, least, limit = as_microseconds(value), "from_ts", "to_ts"
    elif column == ("_seq",) and isinstance(value, int) and not isinstance(value, bool | date):
        least, limit = "from_seq", "to_seq"
    else:
        return bounds
    low, high = getattr(bounds, least), getattr(bounds, limit)
    if isinstance(filter_, EqualTo | GreaterThan | GreaterThanOrEqual):
        bound = value + isinstance(filter_, GreaterThan)
        low = bound if low is None else max(low, bound)
    if isinstance(filter_, EqualTo | LessThan | LessThanOrEqual):
        bound = value + (not isinstance(filter_, LessThan))
        high = bound if high is None else min(high, bound)
    return replace(bounds, **{least: low, limit: high})


class LiveReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are positions. `latestOffset` reads only the stream's mark, 64 bytes: an idle query polls it."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: dict[str, int] | None = None  # where Trigger.AvailableNow ends
        self._open: dict[str, tuple[str, PersistentStream]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def _streams(self) -> dict[str, tuple[str, PersistentStream]]:
        """By its name in an offset: the path and the stream."""
        if self._open is None:
            paths = shards(real(self.options.path))
            names = ["position"] if len(paths) == 1 else [os.path.basename(path) for path in paths]
            self._open = {name: (path, PersistentStream.open(path)) for name, path in zip(names, paths, strict=True)}
        return self._open

    def initialOffset(self) -> dict[str, int]:
        unbounded = self.bounds.from_ts is None and self.bounds.from_seq is None
        return {
            name: stream.first_position() if unbounded else beginning(stream, self.bounds)
            for name, (_, stream) in self._streams().items()
        }

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.reportLatestOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_rows is not None:
            return ReadMaxRows(self.options.max_rows)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Each of several streams gets its share of the limit, and at least one row."""
        found = {}
        for name, (_, stream) in self._streams().items():
            position, end = start.get(name, 0), stream.stable().position
            if self._target is not None:
                end = min(end, self._target[name])
            if not isinstance(limit, ReadAllAvailable) and end > position:
                if self.options.max_rows is not None:
                    end = min(end, position + max(self.options.max_rows // len(self._streams()), 1))
                if self.options.max_bytes is not None:
                    size = max(self.options.max_bytes // len(self._streams()), 1)
                    end = min(end, after_bytes(stream, position, size))
            found[name] = max(end, position)
        return found

    def reportLatestOffset(self) -> dict[str, int]:
        return {name: stream.stable().position for name, (_, stream) in self._streams().items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        for name, (path, stream) in self._streams().items():
            bounds = replace(self.bounds, from_position=start.get(name, 0), to_position=end.get(name, 0))
            found += self.parts(path, stream, bounds)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return self.rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        if self.options.reader is not None:
            for name, (_, stream) in self._streams().items():
                stream.register_reader(self.options.reader, end.get(name, 0))
