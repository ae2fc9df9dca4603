"""Records what the sources of a job bring, and nothing else of the job runs.

    DIR/NAME.parquet/   the rows of a source in the order of event time, with `_ts`, `_seq`, and `_arrived` (when Spark
                        took them: the time of processing)
    DIR/recording.json  what was recorded, by source; no options of a source, since they may hold credentials

Spark's own files, which may quote a source's address, are in a scratch directory that only this user can enter, until
the recording ends. Hashes are keyed with a secret that is stored nowhere: equal values have equal hashes within a
recording, over all of its sources.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError, UsageError, as_sentence, known
from riprap.base.owner import is_empty, owned
from riprap.base.randomness import secret_token
from riprap.base.scratch import scratch
from riprap.graph.order_keys import SEQ, TS
from riprap.spark.catalyst import Catalyst
from riprap.spark.jobs.captured_job import CapturedJob, CapturedSource
from riprap.spark.plan_operators import outer_sources
from riprap.spark.plan_recordings import event_time

_ARRIVED, _BATCH, _ROW = "_arrived", "_batch", "_row"
_SECOND = 1_000_000  # microseconds
_LOOK = 0.2  # seconds between two looks at the queries
_MICROSECONDS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
Tell = Callable[[float], None]  # seconds that have passed


@dataclass(frozen=True)
class SourceRecording:
    """What was recorded of one source. Times are event times, in microseconds."""

    source: str
    rows: int
    time: str  # the column with the event time; "": the time of processing
    span: int  # first row to last
    peak: int  # rows in the busiest second
    late: int  # rows behind one that came before them
    latest: int  # how far behind, at most
    hashed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / max(1.0, self.span / _SECOND)

    def sentence(self) -> str:
        if not self.rows:
            return f"{self.source}: no rows came; record for longer, or look at the source"
        late = f"{self.late:,} came late, by up to {self.latest / _SECOND:.3g} s" if self.late else "none came late"
        return (
            f"{self.source}: {self.rows:,} rows over {self.span / _SECOND:.3g} s, {self.rate:,.0f} a second on "
            f"average and {self.peak:,} in the busiest; {late}; a short recording may not show the real peak"
        )


def record_sources(
    job: CapturedJob,
    out: Path,
    seconds: float,
    *,
    hashed: Sequence[str] = (),
    dropped: Sequence[str] = (),
    tell: Tell | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[SourceRecording]:
    """Run the sources of a job for some time, or until Ctrl-C. `out` must be new or empty.

    `hashed`, `dropped`: COLUMN, of every source that has it, or SOURCE.COLUMN.
    """
    sources = outer_sources(job)
    if not sources:
        raise UsageError(f"{job.origin or job.name} reads no stream, so there is nothing to record")
    chosen = {"hash": _columns(sources, hashed, "--hash"), "drop": _columns(sources, dropped, "--drop")}
    out = files.real(out)
    with owned(out, "recording"), scratch("recording") as place:
        if not is_empty(out):
            raise UsageError(f"{out} is not empty: give a new directory; a recording never goes into an earlier one")
        key = secret_token()
        spark: SparkSession = job.spark
        frames = {each.name: _kept(_stream(job, each), each, chosen, key) for each in sources}
        with _micros(spark):
            _take(frames, {each.name: each for each in sources}, place, seconds, tell, clock)
            found = [_sorted(job, source, place / source.name, out, chosen) for source in sources]
        about = {"job": job.name, "sources": {each.source: asdict(each) for each in found}}
        files.write_text(out / "recording.json", json.dumps(about, indent=2) + "\n")
    return found


def _columns(sources: Sequence[CapturedSource], given: Sequence[str], option: str) -> dict[str, tuple[str, ...]]:
    """The named columns by source."""
    found: dict[str, list[str]] = {source.name: [] for source in sources}
    for text in given:
        owners = [
            (source.name, column.name)
            for source in sources
            for column in source.columns
            if text in (column.name, f"{source.name}.{column.name}")
        ]
        if not owners:
            names = [f"{source.name}.{column.name}" for source in sources for column in source.columns]
            raise UsageError(f"{option} {text}: no source has this column; they have {known(names, text)}")
        for name, column in owners:
            found[name].append(column)
    return {name: tuple(dict.fromkeys(columns)) for name, columns in found.items()}


def _stream(job: CapturedJob, source: CapturedSource) -> DataFrame:
    """The source alone, as the job reads it."""
    leaf = source.leaves[0]
    if leaf.details.get("format") == source.format and leaf.details.get("path") == source.path:
        return Catalyst(job.spark).frame(leaf.handle)
    reader = job.spark.readStream.format(source.format).options(**source.options)  # it was not opened for the capture
    try:
        return reader.table(source.table) if source.table else reader.load(source.path)
    except (PySparkException, Py4JJavaError) as error:
        raise UsageError(
            f"source {source.name} ({source.line}) cannot be opened here: {_reason(error, source)}; start where its "
            "connector and its data are"
        ) from error


def _kept(
    rows: DataFrame, source: CapturedSource, chosen: Mapping[str, Mapping[str, tuple[str, ...]]], key: str
) -> DataFrame:
    """The columns to keep, hashed where asked for, and when they came."""
    types = dict(rows.dtypes)
    hashed, dropped = chosen["hash"][source.name], chosen["drop"][source.name]
    columns = [
        _hashed(source, name, types[name], key) if name in hashed else F.col(f"`{name}`")
        for name in rows.columns
        if name not in dropped
    ]
    return rows.select(*columns, F.current_timestamp().alias(_ARRIVED))


def _hashed(source: CapturedSource, name: str, type_: str, key: str) -> Column:
    """A keyed hash in the column's own type, so that the job can still read it."""
    column = F.col(f"`{name}`")
    digest = F.sha2(F.concat(F.lit(key), column.cast("string")), 256)
    if type_ == "string":
        return digest.alias(name)
    if type_ == "binary":
        return F.unhex(F.sha2(F.concat(F.lit(key), F.hex(column)), 256)).alias(name)
    if type_ == "bigint":
        return F.conv(F.substring(digest, 1, 15), 16, 10).cast("bigint").alias(name)  # 60 bits
    raise UsageError(
        f"--hash {name}: column {name} of source {source.name} is {type_}; text, binary and bigint can be hashed, "
        f"leave others out with --drop {name}"
    )


def _take(
    frames: Mapping[str, DataFrame], sources: Mapping[str, CapturedSource], place: Path, seconds: float,
    tell: Tell | None, clock: Clock,
) -> None:  # fmt: skip
    """Run all sources until the time is over."""
    queries: list[Any] = []
    begun = clock.monotonic()
    try:
        for name, frame in frames.items():
            queries.append(_started(name, frame, place))
        while (passed := clock.monotonic() - begun) < seconds:
            if tell is not None:
                tell(passed)
            for name, query in zip(frames, queries, strict=True):
                if query.exception() is not None:
                    raise UsageError(f"source {name} failed: {_reason(query.exception(), sources[name])}")
            clock.sleep(min(_LOOK, seconds - passed))
    except KeyboardInterrupt:
        pass  # what has come is kept
    finally:
        for query in queries:
            query.stop()


def _started(name: str, frame: DataFrame, place: Path) -> Any:
    def write(rows: DataFrame, number: int) -> None:
        numbered = rows.withColumn(_BATCH, F.lit(number)).withColumn(_ROW, F.monotonically_increasing_id())
        numbered.write.mode("overwrite").parquet(str(place / name / str(number)))

    checkpoint = str(place / f"checkpoint-{name}")
    return frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()


def _sorted(
    job: CapturedJob, source: CapturedSource, place: Path, out: Path,
    chosen: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> SourceRecording:  # fmt: skip
    """Write the rows that have come in the order of their event time."""
    hashed, dropped = chosen["hash"][source.name], chosen["drop"][source.name]
    column = event_time(job, source)
    column = None if column in (*hashed, *dropped) else column
    whole = sorted(str(each.parent) for each in place.glob("*/_SUCCESS"))  # Ctrl-C may cut the last one
    if not whole:
        return SourceRecording(source.name, 0, column or "", 0, 0, 0, 0, hashed, dropped)
    rows = job.spark.read.parquet(*whole)
    time = F.col(_ARRIVED) if column is None else F.coalesce(F.col(f"`{column}`").cast("timestamp"), F.col(_ARRIVED))
    timed = rows.withColumn(TS, time)
    times = timed.orderBy(_BATCH, _ROW).select(F.unix_micros(TS).alias("t")).toArrow()["t"].to_numpy()
    ordered = timed.orderBy(TS, _BATCH, _ROW).drop(_BATCH, _ROW).withColumn(SEQ, F.monotonically_increasing_id())
    try:
        ordered.write.parquet(str(out / f"{source.name}.parquet"))
    except PySparkException as error:
        raise DataError(f"the rows of source {source.name} cannot be written: {_reason(error, source)}") from error
    behind = np.maximum.accumulate(times) - times if len(times) else times
    _, counts = np.unique(times // _SECOND, return_counts=True)
    return SourceRecording(
        source.name, len(times), column or "", int(np.ptp(times)) if len(times) else 0, int(counts.max(initial=0)),
        int((behind > 0).sum()), int(behind.max(initial=0)), hashed, dropped,
    )  # fmt: skip


def _reason(error: Any, source: CapturedSource) -> str:
    """The first line of a message, without values of the source's options."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    for value in sorted(filter(None, source.options.values()), key=len, reverse=True):
        text = text.replace(value, "…") if len(value) > 3 else text
    return as_sentence(text, 200)


@contextmanager
def _micros(spark: SparkSession) -> Iterator[None]:
    """Within it Parquet has timestamps that Arrow reads without loss."""
    name, value = _MICROSECONDS
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "INT96")
