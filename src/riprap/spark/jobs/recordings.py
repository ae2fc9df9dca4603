"""Recorded input of a job's sources: read through Spark, in the order of event time, once.

    path = prepared(spark, source, Path("recorded/clicks.parquet"), cache)

A recording is a Parquet file or a directory of them, a Delta or Iceberg table, a persistent stream, or files in the
format that the job itself reads. The prepared file has the source's columns and `_ts`. It is in `cache`, under a digest
of the recording's files and of how it is read, with `facts.json` beside it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from riprap.base import files
from riprap.base.errors import DataError, UsageError, as_sentence, known
from riprap.base.quantities import Duration, format_duration
from riprap.graph.order_keys import SEQ, TS
from riprap.graph.recorded_input import RecordedInput
from riprap.graph.specs import Source

_SECOND = 1_000_000
_ARRIVED = "_arrived"
_TEXT_FILES = ("json", "csv", "text", "orc", "xml")


@dataclass(frozen=True)
class RecordingFacts:
    """What a recording is like. Times in microseconds of event time."""

    source: str
    rows: int
    span: int
    peak: int  # rows in the busiest second
    unordered: int  # rows behind one that came before them
    latest: int  # how far behind, at most
    too_late: int  # rows that are later than the watermark delay
    without_time: int  # rows whose event time is NULL

    def sentences(self, delay: int | None) -> list[str]:
        seconds = max(self.span / _SECOND, 1.0)
        out = [
            f"{self.source}: {self.rows:,} rows over {format_duration(Duration(self.span))}, "
            f"{_rate(self.rows / seconds)} a second on average and {self.peak:,} in the busiest second; "
            "a short recording may not show the real peak"
        ]
        if self.unordered:
            late = (
                f"{self.source}: {self.unordered:,} rows came late, by up to {format_duration(Duration(self.latest))}"
            )
            if delay is not None:
                late += f"; {self.too_late:,} by more than the watermark delay of {format_duration(Duration(delay))}"
            out.append(f"{late}; all are kept, in the order of their times")
        if self.without_time:
            out.append(f"{self.source}: {self.without_time:,} rows have no event time (NULL); they come first")
        return out


def prepared(spark: SparkSession, source: Source, given: Path | None, cache: Path) -> tuple[Path, RecordingFacts]:
    """The path of the input in the order of its event time, and what the recording is like."""
    recorded = source.recorded
    assert recorded is not None
    path = given
    if path is None:
        if recorded.path is None:
            raise UsageError(
                f"source {source.name} ({recorded.line}) reads {recorded.format}, which is not recorded: give --input "
                f"{source.name}=PATH of a recording of its rows"
            )
        path = Path(recorded.path.removeprefix("file://").removeprefix("file:"))
    if "://" not in str(path) and not path.exists():
        raise DataError(
            f"the recording of source {source.name}, {path}, does not exist; give --input {source.name}=PATH"
        )
    place = cache / f"{source.name}-{_digest(path, recorded)}"
    facts = place / "facts.json"
    if not facts.exists():
        files.make(place)
        try:
            found = _write(spark, source, path, place / "rows")
        except (PySparkException, Py4JJavaError) as error:
            raise DataError(
                f"the recording of source {source.name}, {path}, cannot be read: {as_sentence(_first(error), 200)}"
            ) from error
        files.write_text(facts, json.dumps(asdict(found)))
    return place / "rows", RecordingFacts(**json.loads(files.read_text(facts)))


def _write(spark: SparkSession, source: Source, path: Path, out: Path) -> RecordingFacts:
    recorded = source.recorded
    assert recorded is not None
    rows = _with_columns(_read(spark, path, recorded), source, recorded, path)
    rows = rows.withColumn(_ARRIVED, F.col(SEQ) if SEQ in rows.columns else F.monotonically_increasing_id())
    rows = rows.withColumn(TS, _time(rows, recorded))
    times = rows.orderBy(_ARRIVED).select(F.unix_micros(TS).alias("t")).toArrow()["t"]
    facts = _facts(source.name, times, recorded.delay)
    if not facts.rows:
        raise DataError(f"the recording of source {source.name}, {path}, has no rows; give one with rows")
    first = F.lit(_least(times)).cast("timestamp") if facts.without_time < facts.rows else F.timestamp_micros(F.lit(0))
    rows = rows.withColumn(TS, F.coalesce(F.col(TS), first)).orderBy(TS, _ARRIVED)
    chosen = rows.select(*(F.col(f"`{name}`") for name in source.schema.names), TS)
    with _micros(spark):
        chosen.write.mode("overwrite").parquet(str(out.absolute()))
    return facts


def _time(rows: DataFrame, recorded: RecordedInput) -> Column:
    if recorded.time:
        return F.expr(recorded.time).cast("timestamp")
    return F.col(TS) if TS in rows.columns else F.timestamp_micros(F.col(_ARRIVED) % F.lit(2**33) * 1_000)


class _micros:
    """Within it Parquet has timestamps that Arrow reads without loss."""

    _KEY = "spark.sql.parquet.outputTimestampType"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __enter__(self) -> None:
        self._before = self._spark.conf.get(self._KEY)
        self._spark.conf.set(self._KEY, "TIMESTAMP_MICROS")

    def __exit__(self, *_: object) -> None:
        self._spark.conf.set(self._KEY, self._before or "INT96")


def _read(spark: SparkSession, path: Path, recorded: RecordedInput) -> DataFrame:
    """By what is there; else in the format of the job's own reader."""
    text = str(path) if "://" in str(path) else str(path.absolute())  # Spark may have started elsewhere
    if (path / "stream.json").exists():
        return spark.read.format("riprap").load(text)
    if (path / "_delta_log").is_dir():
        return spark.read.format("delta").load(text)
    if (path / "metadata").is_dir() and (path / "data").is_dir():
        return spark.read.format("iceberg").load(text)
    if path.suffix == ".arrow":
        with pa.memory_map(text) as file:
            return spark.createDataFrame(pa.ipc.open_file(file).read_all())
    own = (path.is_dir() and not any(path.rglob("*.parquet"))) or path.suffix in (
        ".json",
        ".csv",
        ".txt",
        ".orc",
        ".xml",
    )
    if own and recorded.format in ("json", "csv", "text", "orc", "xml"):
        reader = spark.read.format(recorded.format).schema(from_arrow_schema(recorded.schema))
        return reader.options(**{k: v for k, v in recorded.options.items() if k != "path"}).load(text)
    return spark.read.option("recursiveFileLookup", "true").parquet(text)


def _with_columns(rows: DataFrame, source: Source, recorded: RecordedInput, path: Path) -> DataFrame:
    """The columns in the types that the job reads. What a connector adds may be missing: it is NULL."""
    connector = recorded.format not in (*_TEXT_FILES, "parquet", "delta", "table")
    chosen = []
    types: Mapping[str, Any] = {field.name: field.dataType for field in from_arrow_schema(recorded.schema)}
    for name, type_ in types.items():
        if name in rows.columns:
            chosen.append(F.col(f"`{name}`").cast(type_).alias(name))
        elif connector and name not in recorded.time:
            chosen.append(F.lit(None).cast(type_).alias(name))
        elif name in source.schema.names or f"`{name}`" in recorded.time:
            raise DataError(
                f"the recording of source {source.name}, {path}, has no column {name}; "
                f"it has {known(rows.columns, name)}"
            )
    return rows.select(*chosen, *(name for name in (TS, SEQ) if name in rows.columns and name not in types))


def _facts(name: str, times: pa.ChunkedArray, delay: int | None) -> RecordingFacts:
    present = times.drop_null().to_numpy()
    if not len(present):
        return RecordingFacts(name, len(times), 0, 0, 0, 0, 0, times.null_count)
    behind = np.maximum.accumulate(present) - present
    _, counts = np.unique(present // _SECOND, return_counts=True)
    return RecordingFacts(
        name,
        len(times),
        int(present.max() - present.min()),
        int(counts.max()),
        int((behind > 0).sum()),
        int(behind.max()),
        0 if delay is None else int((behind > delay).sum()),
        times.null_count,
    )


def _rate(rows: float) -> str:
    """Rows a second."""
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


def _least(times: pa.ChunkedArray) -> Any:
    return np.datetime64(int(times.drop_null().to_numpy().min()), "us").item()


def _digest(path: Path, recorded: RecordedInput) -> str:
    """Of the recording's files and of how it is read."""
    found = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    about = [(str(each.absolute()), each.stat().st_size, each.stat().st_mtime_ns) for each in found if each.exists()]
    text = json.dumps([about, recorded.time, recorded.format, str(recorded.schema), str(path)])
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _first(error: Any) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return (text.splitlines() or [type(error).__name__])[0].rstrip(".")
