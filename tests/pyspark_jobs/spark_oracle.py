"""What Spark itself gives for a job as a batch over its recordings. Shares no code with the capture."""

import os
import runpy
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming.query import StreamingQueryManager

KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


class _Ended:
    isActive = False

    def awaitTermination(self, timeout=None):
        return True


class _BatchReader:
    """Reads recordings where the job reads streams."""

    def __init__(self, spark, recordings, outputs):
        self._spark, self._recordings, self._outputs = spark, recordings, outputs
        self._schema, self._options = None, {}

    def format(self, name):
        return self

    def schema(self, schema):
        self._schema = schema
        return self

    def option(self, key, value):
        self._options[key] = value
        return self

    def load(self, path=None, **_):
        name = self._options.get("subscribe") or os.path.basename(path)
        rows = self._spark.read.parquet(str(self._recordings[name]))
        return rows if self._schema is None else rows.select(*[part.split()[0] for part in self._schema.split(", ")])

    parquet = json = text = load

    def table(self, name):
        return self._outputs[name]


class _Writer:
    def __init__(self, frame, outputs, parent=None):
        self._frame, self._outputs, self._name = frame, outputs, None
        self._target = None

    def queryName(self, name):
        self._name = name
        return self

    def option(self, key, value):
        self._target = value if key in ("path", "topic") else self._target
        return self

    def foreachBatch(self, function):
        self._name = self._name or function.__name__
        return self

    foreach = foreachBatch

    def _same(self, *_, **__):
        return self

    outputMode = format = trigger = options = _same

    def start(self, path=None, **_):
        target = path or self._target
        self._outputs[self._name or (os.path.basename(target) if target else "query")] = self._frame
        return _Ended()

    def toTable(self, name, **_):
        self._outputs[name] = self._frame
        return _Ended()


class _Forever(BaseException): ...


def batch_outputs(spark, script: Path, recordings) -> dict[str, DataFrame]:
    """A static DataFrame for each query of a script, by its name, table or path."""
    outputs: dict[str, DataFrame] = {}

    slept = time.sleep

    def forever(seconds):
        if threading.current_thread() is threading.main_thread():
            raise _Forever
        slept(seconds)

    with ExitStack() as stack:
        for owner, name, value in (
            (SparkSession, "readStream", property(lambda s: _BatchReader(s, recordings, outputs))),
            (DataFrame, "writeStream", property(lambda frame: _Writer(frame, outputs))),
            (StreamingQueryManager, "awaitAnyTermination", lambda *_: True),
            (time, "sleep", forever),
        ):
            stack.enter_context(patch.object(owner, name, value))
        with suppress(_Forever):
            runpy.run_path(str(script), run_name="__main__")
    return outputs
