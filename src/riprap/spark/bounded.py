"""The bounded run: an app over DataFrames or files as a Spark job, with a DataFrame for each sink.

The app is partitioned by key if the graph allows it (`riprap.graph.partitioning`): every task runs the whole app in the
engine for its share of the keys, and the union of the outputs is that of the whole app. Otherwise one task runs it.

From DataFrames, Spark shuffles and sorts each key's tuples. From files, every task reads them with pyarrow and filters
its keys: for the tasks of one machine, reading twice is cheaper than a shuffle. A fully compiled app takes less time
than reading its files, so a second reader would save nothing: one task runs it by default. DataFrame API only: it also
runs over Spark Connect.
"""

import gc
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from riprap.base.errors import DataError, UsageError, known
from riprap.engine.engine import Engine, Output
from riprap.engine.inputs import Keyer, file_schema, keyed, read_ahead, read_file
from riprap.engine.pruning import wanted_columns
from riprap.graph.graph import Graph
from riprap.graph.order_keys import SEQ, TS, OrderKey
from riprap.graph.partitioning import key_partitioning
from riprap.graph.specs import Sink, Source
from riprap.operators.groups import GroupTable
from riprap.operators.strings import StringPool
from riprap.spark.modules import for_worker
from riprap.spark.session import session

Input: TypeAlias = DataFrame | str | os.PathLike[str]
_SOURCE = "_source"  # the number of a row's source in the united input


def run_bounded(
    graph: Graph,
    inputs: Mapping[str, Input] | Input,
    *,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> dict[str, DataFrame]:
    """A DataFrame for each sink. Nothing runs until one of them is used.

    `inputs` has a DataFrame or a path (Parquet or Arrow) by source; with a single source, it may be just that. A
    DataFrame needs `_ts` (or the source's time column) and `_seq`. `partitions` defaults to the number of task slots;
    for an app of compiled loops over files, to one.
    """
    spark = session(spark)
    if not graph.sinks:
        raise UsageError(f"app {graph.name} has no sink, so it has no output; add stream.sink(name)")
    by_source = _by_source(graph, inputs)
    files = not any(isinstance(input_, DataFrame) for input_ in by_source.values())
    count = _partitions(spark, graph, partitions, files=files)
    return {sink.name: _of_sink(spark, graph, sink.name, by_source, count) for sink in graph.sinks}


@dataclass(frozen=True)
class SinkTotals:
    """The totals of a sink's output."""

    rows: int
    sums: Mapping[str, float]  # of its numeric columns; empty without rows


def write_bounded(
    graph: Graph,
    paths: Mapping[str, str | os.PathLike[str]],
    out: str | os.PathLike[str] | None,
    *,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> dict[str, SinkTotals]:
    """Run an app over files in one job for all sinks; each task writes `out/SINK/part-NUMBER.parquet`.

    A retried task replaces its files. Without `out` the rows are only counted.
    """
    spark = session(spark)
    absolute = {name: os.path.abspath(os.fspath(path)) for name, path in paths.items()}
    _by_source(graph, absolute)
    count = _partitions(spark, graph, partitions, files=True)
    jobs = {sink.name: _Job(graph, sink.name, count) for sink in graph.sinks}
    place = None if out is None else os.path.abspath(os.fspath(out))
    found = (
        spark.range(0, count, 1, count)
        .mapInArrow(for_worker(partial(_write_files, jobs, absolute, place)), _TOTALS)
        .collect()
    )
    totals: dict[str, SinkTotals] = {}
    for name in jobs:
        parts = [row for row in found if row["sink"] == name]
        sums: dict[str, float] = {}
        for row in sorted(parts, key=lambda row: row["part"]):
            for column, value in json.loads(row["sums"]).items():
                sums[column] = sums.get(column, 0) + value
        totals[name] = SinkTotals(sum(row["rows"] for row in parts), sums)
    return totals


def _by_source(graph: Graph, inputs: Mapping[str, Input] | Input) -> dict[str, Input]:
    names = [source.name for source in graph.sources]
    if not isinstance(inputs, Mapping):
        if len(names) != 1:
            raise UsageError(f"app {graph.name} has sources {known(names)}; give an input for each, by name")
        return {names[0]: inputs}
    for name in inputs:
        if name not in names:
            raise UsageError(f"app {graph.name} has no source {name}; its sources are {known(names, name)}")
    missing = [name for name in names if name not in inputs]
    if missing:
        raise UsageError(f"no input for source {missing[0]}; inputs were given for {known(inputs)}")
    return dict(inputs)


def _partitions(spark: SparkSession, graph: Graph, wanted: int | None, *, files: bool) -> int:
    if wanted is not None and wanted < 1:
        raise UsageError(f"partitions={wanted}: an app runs in 1 partition or more")
    if not key_partitioning(graph).divisible:
        return 1
    return wanted or (1 if files and _all_loops(graph) else task_slots(spark))


def _all_loops(graph: Graph) -> bool:
    """Whether an app takes less time than reading its input: all of it except sinks is compiled."""
    alone = [piece.operators for piece in Engine(graph).pieces if not piece.compiled]
    return all(isinstance(graph[name], Sink) for operators in alone for name in operators)


def task_slots(spark: SparkSession) -> int:
    """How many tasks run at once; 2 if the session does not expose it (Spark Connect)."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Connect has no context and raises its own errors
        return 2


def _of_sink(spark: SparkSession, graph: Graph, sink: str, inputs: Mapping[str, Input], count: int) -> DataFrame:
    job = _Job(graph.leading_to(sink), sink, count)
    own = {source.name: inputs[source.name] for source in job.graph.sources}
    if any(isinstance(input_, DataFrame) for input_ in own.values()):
        frames = {
            name: input_ if isinstance(input_, DataFrame) else _read(spark, input_) for name, input_ in own.items()
        }
        return _united(job, frames).mapInArrow(for_worker(partial(_run_united, job)), job.spark_schema)
    paths = {name: os.path.abspath(os.fspath(path)) for name, path in own.items()}  # type: ignore[arg-type]
    for path in paths.values():
        file_schema(path)  # report a missing file here, not in a task
    return spark.range(0, count, 1, count).mapInArrow(for_worker(partial(_run_files, job, paths)), job.spark_schema)


# Tasks --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """The description of a run for every task."""

    graph: Graph  # the part upstream of the sink
    sink: str
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        """The sink's schema in Spark's types, which have no unsigned numbers and no dictionaries."""
        stream = self.graph.inputs(self.sink)[0]
        wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
        physical = self.graph.physical(stream.source, stream.source_port)
        return pa.schema([pa.field(f.name, wider.get(f.type, f.type), f.nullable) for f in physical])

    @property
    def spark_schema(self) -> StructType:
        return from_arrow_schema(self.schema)

    def read_columns(self, source: str) -> list[str]:
        """The columns of a source that the run reads."""
        wanted = wanted_columns(self.graph)[source][0]
        spec = self.source(source)
        return [name for name in spec.schema.names if name in wanted]

    def source(self, name: str) -> Source:
        spec = self.graph[name]
        assert isinstance(spec, Source)
        return spec

    def outputs(self, outputs: Iterable[Output]) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for output in outputs:
            if isinstance(output.event, pa.RecordBatch) and output.event.num_rows:
                yield pa.RecordBatch.from_arrays(
                    [output.event.column(field.name).cast(field.type) for field in schema], schema=schema
                )


@cache
def keep_loaded() -> None:
    """Exclude loaded modules from Spark's garbage collection after every task, which would take 75 ms of a core."""
    gc.freeze()


def _run_files(job: _Job, paths: Mapping[str, str], ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keep_loaded()
    for batch in ids:
        for index in batch.column(0).to_pylist():
            yield from job.outputs(Engine(job.graph).run(_file_inputs(job, paths, index)))


def _file_inputs(job: _Job, paths: Mapping[str, str], index: int) -> dict[str, Iterator[pa.RecordBatch]]:
    keys = key_partitioning(job.graph).columns
    inputs = {}
    for name, path in paths.items():
        source, columns = job.source(name), job.read_columns(name)
        extra = [TS, SEQ, *(keys[name] or ()), *([source.time] if source.time else [])]
        batches = keyed(read_file(path, [*columns, *extra]), source, [*columns, *(keys[name] or ())])
        inputs[name] = read_ahead(_share(batches, source, keys[name], index, job.partitions))
    return inputs


def _share(
    batches: Iterable[pa.RecordBatch], source: Source, keys: tuple[str, ...] | None, index: int, count: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition: by the hash of the key, or round-robin if any partitioning will do."""
    if count == 1:
        yield from batches
        return
    table = GroupTable([source.schema.field(name).type for name in keys or ()], StringPool())
    for number, batch in enumerate(batches):
        if not keys:
            if number % count == index:
                yield batch
            continue
        groups = table.groups([batch.column(name) for name in keys])
        mine = np.flatnonzero(table.hashes[groups] % np.uint64(count) == np.uint64(index))
        if len(mine):
            yield batch.take(pa.array(mine))


_TOTALS = "sink string, part int, rows long, sums string"


def _write_files(
    jobs: Mapping[str, "_Job"], paths: Mapping[str, str], out: str | None, ids: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    keep_loaded()
    for batch in ids:
        for index in batch.column(0).to_pylist():
            job = next(iter(jobs.values()))
            sinks = {name: _SinkFile(sink_job.schema, out, name, index) for name, sink_job in jobs.items()}
            for output in Engine(job.graph).run(_file_inputs(job, paths, index)):
                for rows in jobs[output.name].outputs((output,)):
                    sinks[output.name].write(rows)
            totals = [(name, index, sink.rows, json.dumps(sink.close())) for name, sink in sinks.items()]
            columns = [pa.array(column) for column in zip(*totals, strict=True)]
            columns[1] = columns[1].cast(pa.int32())
            yield pa.RecordBatch.from_arrays(columns, names=["sink", "part", "rows", "sums"])


class _SinkFile:
    """The output of one task at one sink: counted, summed, and in a file that appears when it is complete."""

    def __init__(self, schema: pa.Schema, out: str | None, sink: str, part: int) -> None:
        self.rows = 0
        numeric = (pa.types.is_integer, pa.types.is_floating)
        self._numeric = [f.name for f in schema if not f.name.startswith("_") and any(is_(f.type) for is_ in numeric)]
        self._sums: dict[str, float] = {}
        self._path = self._file = None
        if out is not None:
            os.makedirs(os.path.join(out, sink), exist_ok=True)
            self._path = os.path.join(out, sink, f"part-{part:05d}.parquet")
            self._file = pq.ParquetWriter(self._unfinished, schema)

    @property
    def _unfinished(self) -> str:
        folder, name = os.path.split(self._path or "")
        return os.path.join(folder, f".{name}.unfinished")

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        for name in self._numeric:
            total = pc.sum(rows.column(name)).as_py()
            if total is not None:
                self._sums[name] = self._sums.get(name, 0) + total
        if self._file is not None:
            self._file.write_batch(rows)

    def close(self) -> dict[str, float]:
        if self._file is not None and self._path is not None:
            self._file.close()
            os.replace(self._unfinished, self._path)
        return self._sums


# Input from DataFrames ------------------------------------------------------------------------------------------------


def _read(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    file_schema(path)
    return spark.read.parquet(os.path.abspath(os.fspath(path)))


def _united(job: _Job, frames: Mapping[str, DataFrame]) -> DataFrame:
    """All sources in one DataFrame: the source's number, the order key, and a struct per source (null for the
    others).
    """
    keys = key_partitioning(job.graph).columns
    parts = []
    for number, (name, frame) in enumerate(frames.items()):
        source = job.source(name)
        ts = TS if TS in frame.columns else source.time
        for column, advice in (
            (ts, "name its time column with time= in the app"),
            (SEQ, "number its rows in time order"),
        ):
            if column is None or column not in frame.columns:
                raise DataError(f"the DataFrame for source {name} has no {column or TS} column; add one, or {advice}")
        columns = list(dict.fromkeys([*job.read_columns(name), *(keys[name] or ())]))
        for column in columns:
            if column not in frame.columns:
                raise DataError(
                    f"the DataFrame for source {name} has no column {column}; it has {known(frame.columns, column)}"
                )
        key = [F.col(column).alias(f"_key{j}") for j, column in enumerate(keys[name] or ())]
        struct = F.struct(*columns) if columns else F.struct(F.lit(0).alias("_"))
        parts.append(
            frame.select(
                F.lit(number).alias(_SOURCE), F.col(ts or TS).alias(TS), F.col(SEQ), *key, struct.alias(f"s{number}")
            )
        )
    united = parts[0]
    for part in parts[1:]:
        united = united.unionByName(part, allowMissingColumns=True)
    names = [name for name in united.columns if name.startswith("_key")]
    divided = united.repartition(job.partitions, *names) if names else united.repartition(job.partitions)
    return divided.sortWithinPartitions(TS, _SOURCE, SEQ).drop(*names)


def _run_united(job: _Job, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of all sources arrive in the order of their keys: each batch advances every source."""
    engine = Engine(job.graph)
    sources = job.graph.sources
    feeds = [_Feed(source, job.read_columns(source.name)) for source in sources]
    for batch in rows:
        owner = batch.column(_SOURCE).to_numpy()
        for number, (source, feed) in enumerate(zip(sources, feeds, strict=True)):
            own = batch.filter(pa.array(owner == number)) if len(sources) > 1 else batch
            if own.num_rows:
                yield from job.outputs(engine.push(source.name, feed.keyed(own, number)))
        last = batch.slice(batch.num_rows - 1)
        ts = last.column(TS).cast(pa.int64())[0].as_py()
        if len(sources) > 1:
            for source in sources:
                yield from job.outputs(engine.advance(source.name, OrderKey(ts - 1, source.rank, 2**63 - 1)))
    for source in sources:
        yield from job.outputs(engine.end(source.name))


class _Feed:
    """Converts a source's rows of the united input into the source's input batches."""

    def __init__(self, source: Source, columns: list[str]) -> None:
        self._keyer = Keyer(source, columns)  # Spark has sorted the rows: none is late

    def keyed(self, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        struct = rows.column(f"s{number}")
        columns = dict(zip([field.name for field in struct.type], struct.flatten(), strict=True))
        columns |= {TS: rows.column(TS), SEQ: rows.column(SEQ).cast(pa.int64())}
        return self._keyer.keyed(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
