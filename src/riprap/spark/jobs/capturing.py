"""Runs code of the user while nothing of Spark starts or writes, and keeps what it would have started.

Within `capturing(spark)` DataFrames remember the line that made them, `writeStream` and `write` record, and waiting for
a query returns at once. A session that the code builds is `spark`, and it stays open.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.types import StructField, StructType
from pyspark.sql.udf import UserDefinedFunction

from riprap.spark.jobs.captured_job import NO_MARK, NodeMark, StatefulCall
from riprap.spark.jobs.plan_reader import identity_of
from riprap.spark.jobs.recorded_writers import EndedQuery, RecordedBatchWriter, RecordedStreamWriter, WriteRequest
from riprap.spark.jobs.stateful_calls import stateful_calls
from riprap.spark.jobs.stream_reads import StreamReads
from riprap.spark.jobs.user_lines import UserLine, statement_at, users_place

_PAUSES = 20  # calls of sleep() without a new query: a loop that waits for ever


class WaitsForever(BaseException):
    """The code waits in a loop for queries that never start. No `except Exception` catches it."""


@dataclass
class CaptureLog:
    """What was captured so far."""

    writes: list[WriteRequest] = field(default_factory=list)
    frames: list[tuple[Any, UserLine]] = field(default_factory=list)
    functions: list[tuple[Any, Callable[..., Any]]] = field(default_factory=list)  # in the JVM, and the user's own
    calls: list[tuple[Any, StatefulCall]] = field(default_factory=list)  # frames that user code with state makes
    awaited: bool = False  # the code waited for the end of a query
    reads: StreamReads = field(init=False)
    _pauses: int = 0

    def __post_init__(self) -> None:
        self.reads = StreamReads(self._written)

    def write(self, request: WriteRequest) -> EndedQuery:
        self.writes.append(request)
        self._pauses = 0
        return EndedQuery(request.name or "query", self.wait)

    def wait(self, *_: Any, **__: Any) -> bool:
        self.awaited = True
        return True

    def pause(self, seconds: float = 0.0) -> None:
        if threading.current_thread() is not threading.main_thread():
            threading.Event().wait(seconds)  # a thread of a library sleeps on
            return
        self._pauses += 1
        if self.writes and self._pauses > _PAUSES:
            self.awaited = True
            raise WaitsForever

    def _written(self, where: str) -> Any:
        """The columns of a table or path that the job writes."""
        for request in self.writes:
            if request.target == where and where:
                fields = request.frame.schema.fields  # without metadata: a table has no watermark
                return StructType([StructField(f.name, f.dataType, f.nullable) for f in fields])
        return None

    def marks(self) -> Callable[[int], NodeMark]:
        """Where each node was made, by its identity; the last one of a statement has the name of its variable."""
        found: dict[int, NodeMark] = {}
        last: dict[tuple[str, int], int] = {}
        labels: dict[int, str] = {}
        starts = {(write.place.file, statement_at(write.place).first) for write in self.writes}
        for frame, place in self.frames:
            identity = identity_of(frame)
            found.setdefault(identity, NodeMark(str(place)))
            statement = statement_at(place)
            if statement.label and (place.file, statement.first) not in starts:  # else it is the query's
                last[place.file, statement.first] = identity
                labels[identity] = statement.label
        named = set(last.values())
        calls = {identity_of(frame): call for frame, call in self.calls}
        marks = {
            identity: NodeMark(mark.line, labels.get(identity, "") if identity in named else "", calls.get(identity))
            for identity, mark in found.items()
        }
        return lambda identity: marks.get(identity, NO_MARK)


@contextmanager
def capturing(spark: SparkSession) -> Iterator[CaptureLog]:
    log = CaptureLog()
    made, wrapped = DataFrame.__init__, UserDefinedFunction._create_judf

    def noted(frame: Any, *arguments: Any, **named: Any) -> None:
        made(frame, *arguments, **named)
        log.frames.append((frame, users_place()))

    def noted_function(udf: UserDefinedFunction, *arguments: Any, **named: Any) -> Any:
        judf = wrapped(udf, *arguments, **named)
        log.functions.append((judf, udf.func))
        return judf

    def unchanged(session: Any) -> None:
        """A session that is used on, after the code has stopped it."""

    with ExitStack() as stack:
        replaced = [
            (DataFrame, "__init__", noted),
            (UserDefinedFunction, "_create_judf", noted_function),
            (DataFrame, "writeStream", property(lambda frame: RecordedStreamWriter(frame, log.write))),
            (DataFrame, "write", property(lambda frame: RecordedBatchWriter(frame, log.write))),
            (DataFrame, "writeTo", lambda frame, table: RecordedBatchWriter(frame, log.write, table)),
            (StreamingQueryManager, "awaitAnyTermination", log.wait),
            (SparkSession, "stop", unchanged),
            (SparkSession.Builder, "getOrCreate", lambda builder: _configured(builder, spark)),
            (time, "sleep", log.pause),
        ]
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(log.reads.recorded())
        stack.enter_context(stateful_calls(log.calls))
        yield log


def _configured(builder: Any, spark: SparkSession) -> SparkSession:
    """The session of the capture, with the builder's settings that can still be changed."""
    for key, value in getattr(builder, "_options", {}).items():
        if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark
