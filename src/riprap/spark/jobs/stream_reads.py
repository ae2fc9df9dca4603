"""Reads of streams while a job is captured, and placeholders for what cannot be opened here.

A job may read what only its cluster has: Kafka without its connector, a path or a table that does not exist on this
machine, a table that another query of the job writes. A placeholder is a stream of no files with the same columns.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from riprap.base.errors import UsageError
from riprap.base.scratch import scratch_directory
from riprap.spark.jobs.user_lines import UserLine, users_place

_FILES = ("json", "orc", "parquet", "text", "csv", "xml")
_KNOWN = {  # formats with fixed columns
    "text": "value string",
    "kafka": "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int",
    "kinesis": "partitionKey string, data binary, stream string, shardId string, sequenceNumber string, "
    "approximateArrivalTimestamp timestamp",
    "eventhubs": "body binary, partition string, offset string, sequenceNumber bigint, enqueuedTime timestamp, "
    "publisher string, partitionKey string",
    "pubsub": "messageId string, payload binary, attributes string, publishTimestampInMillis bigint",
}


@dataclass
class StreamRead:
    """What the user asked a reader for."""

    format: str = ""
    schema: StructType | str | None = None
    options: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    table: str | None = None
    place: UserLine = field(default_factory=lambda: UserLine("", 0))


class StreamReads:
    """The reads of one job. `schema_of`: the columns of a table or path that the job itself writes."""

    def __init__(self, schema_of: Callable[[str], StructType | None]) -> None:
        self.by_placeholder: dict[str, StreamRead] = {}  # by the path of the placeholder
        self._schema_of = schema_of
        self._directory = Path(scratch_directory("sources"))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Readers of streams record what they are asked for, and open placeholders where they cannot open it."""
        originals = {name: getattr(DataStreamReader, name) for name in ("format", "schema", "option", "options")}
        opening = {name: getattr(DataStreamReader, name) for name in (*_FILES, "load", "table")}
        for name, method in originals.items():
            setattr(DataStreamReader, name, _noting(name, method))
        for name, method in opening.items():
            setattr(DataStreamReader, name, self._opening(name, method, opening["parquet"], originals["schema"]))
        try:
            yield
        finally:
            for name, method in (originals | opening).items():
                setattr(DataStreamReader, name, method)

    def _opening(self, name: str, method: Any, parquet: Any, schema: Any) -> Any:
        signature = inspect.signature(method)

        @wraps(method)
        def opened(reader: Any, *arguments: Any, **named: Any) -> Any:
            if getattr(reader, "_riprap_inside", False):  # a method of the reader that calls another
                return method(reader, *arguments, **named)
            given = signature.bind(reader, *arguments, **named).arguments
            read = _note(reader)
            read.place = users_place()
            read.path = given.get("path") or read.options.get("path")
            read.table = given.get("tableName")
            read.format = given.get("format") or (name if name in _FILES else read.format) or "parquet"
            read.schema = given.get("schema") or read.schema
            read.options |= {key: str(value) for key, value in given.get("options", {}).items()}
            reader._riprap_inside = True
            try:
                if read.table is None or self._schema_of(read.table) is None:
                    return method(reader, *arguments, **named)
            except (PySparkException, Py4JJavaError) as error:
                if self._columns(read) is None:
                    raise _unknown(read, error) from error
            finally:
                reader._riprap_inside = False
            return self._placeholder(reader, read, parquet, schema)

        return opened

    def _placeholder(self, reader: Any, read: StreamRead, parquet: Any, schema: Any) -> Any:
        folder = self._directory / str(len(self.by_placeholder))
        folder.mkdir()
        self.by_placeholder[os.fspath(folder)] = read
        fresh = DataStreamReader(reader._spark)
        return parquet(schema(fresh, self._columns(read)), os.fspath(folder))

    def _columns(self, read: StreamRead) -> StructType | str | None:
        written = self._schema_of(read.table or read.path or "")
        return read.schema or written or _KNOWN.get(read.format.lower()) or _parquet_below(read)


def _unknown(read: StreamRead, error: Exception) -> UsageError:
    what = f"table {read.table}" if read.table else f"{read.format} {read.path or ''}".strip()
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    reason = text.splitlines()[0].split("] ", 1)[-1].rstrip(".")
    return UsageError(
        f"{read.place}: the columns of the stream from {what} are not known here ({reason}); "
        "give the reader a .schema(…), or start from a place where it exists"
    )


def _parquet_below(read: StreamRead) -> str | None:
    """The columns of a table of files (Delta, Iceberg) by one of its Parquet files."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema

    path = Path(read.path) if read.path and "://" not in read.path else None
    first = next(iter(sorted(path.rglob("*.parquet"))), None) if path is not None and path.is_dir() else None
    return None if first is None else from_arrow_schema(pq.read_schema(first))  # type: ignore[return-value]


def _note(reader: Any) -> StreamRead:
    if "_riprap_read" not in vars(reader):
        reader._riprap_read = StreamRead()
    note: StreamRead = reader._riprap_read
    return note


def _noting(name: str, method: Any) -> Any:
    @wraps(method)
    def noted(reader: Any, *arguments: Any, **named: Any) -> Any:
        note = _note(reader)
        if name == "options":
            note.options |= {key: str(value) for key, value in named.items()}
        elif name == "option":
            note.options[str((*arguments, *named.values())[0])] = str((*arguments, *named.values())[1])
        else:
            setattr(note, name, (*arguments, *named.values())[0])
        return method(reader, *arguments, **named)

    return noted
