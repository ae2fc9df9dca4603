"""Captures a Declarative Pipeline: its tables and views become queries that read from each other. No server is needed.

    job = capture_pipeline(Path("spark-pipeline.yml"), spark)

Reading a table of the pipeline gives the plan that fills it, so tables and views are one graph. A materialized view is
taken as a query in complete mode over what it reads.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from riprap.base.errors import MissingPrerequisite, RiprapError, UsageError, known, users_line
from riprap.spark.jobs.assembling import assembled, last_part
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.capturing import CaptureLog, capturing
from riprap.spark.jobs.pipeline_sql import read_statements
from riprap.spark.jobs.plan_reader import read_yaml
from riprap.spark.jobs.recorded_writers import WriteRequest
from riprap.spark.jobs.scripts import run_file
from riprap.spark.jobs.user_lines import UserLine, shown


@dataclass
class PipelineTable:
    """A table, a materialized view, a temporary view or a sink."""

    name: str
    kind: str  # "streaming table", "materialized view", "view", "sink"
    place: UserLine
    flows: list[tuple[Callable[[], Any], UserLine]] = field(default_factory=list)
    format: str = "table"


def capture_pipeline(path: Path, spark: SparkSession) -> CapturedJob:
    """All tables of a pipeline, from its specification."""
    name, patterns = _specification(path, spark)
    pipeline = _Pipeline(spark)
    with capturing(spark) as log, _inside(path.parent), pipeline.reading():
        for file in _sources(patterns, path):
            if file.suffix == ".py":
                with _registered(pipeline):
                    run_file(file, {"spark": spark}, file.stem)
            else:
                for statement in read_statements(file):
                    pipeline.add_statement(statement.name, statement.kind, statement.query, statement.place)
        if not pipeline.tables:
            raise UsageError(f"{shown(str(path))} defines no table; its libraries have to match files with tables")
        pipeline.evaluate(log)
    return assembled(name, shown(str(path)), log, spark, pipeline.notes)


class _Pipeline:
    def __init__(self, spark: SparkSession) -> None:
        self.tables: dict[str, PipelineTable] = {}
        self.notes: list[str] = []
        self._spark = spark
        self._frames: dict[str, DataFrame] = {}
        self._open: list[str] = []  # tables that are being evaluated, for cycles
        self._views: list[str] = []

    # Definitions ------------------------------------------------------------------------------------------------------

    def add(self, name: str, kind: str, place: UserLine, format: str | None = None) -> None:
        if last_part(name) in self.tables:
            raise UsageError(f"{place}: two tables of the pipeline are called {name}")
        self.tables[last_part(name)] = PipelineTable(name, kind, place, format=format or "table")

    def add_flow(self, target: str, function: Callable[[], Any], place: UserLine) -> None:
        table = self.tables.get(last_part(target))
        if table is None:
            raise UsageError(f"{place}: a flow writes to {target}, which is not a table; {known(self.tables, target)}")
        table.flows.append((function, place))

    def add_statement(self, name: str, kind: str, query: str, place: UserLine) -> None:
        if kind != "flow":
            self.add(name, kind, place)
        if query:
            self.add_flow(name, lambda: self._sql(query), place)

    # Evaluation -------------------------------------------------------------------------------------------------------

    def evaluate(self, log: CaptureLog) -> None:
        for name, table in self.tables.items():
            if not table.flows:
                self.notes.append(f"table {name} was left out: no flow that can be read fills it")
                continue
            frame = self.frame(name)
            if table.kind == "view":
                continue
            mode = "complete" if table.kind == "materialized view" else "append"
            log.write(
                WriteRequest(frame, table.format, table.name, True, name, mode, place=table.flows[0][1])
            )  # fmt: skip
        for view in self._views:
            self._spark.catalog.dropTempView(view)

    def frame(self, name: str) -> DataFrame:
        """What fills a table of the pipeline."""
        if name not in self._frames:
            table = self.tables[name]
            if name in self._open:
                raise UsageError(f"{table.place}: table {name} reads itself, through {', '.join(self._open)}")
            if not table.flows:
                raise UsageError(f"{table.place}: table {name} is read, but no flow that can be read fills it")
            self._open.append(name)
            parts = [self._evaluated(function, place) for function, place in table.flows]
            self._open.pop()
            self._frames[name] = reduce(lambda left, right: left.unionByName(right), parts)
        return self._frames[name]

    def _evaluated(self, function: Callable[[], Any], place: UserLine) -> DataFrame:
        try:
            frame = function()
        except RiprapError:
            raise
        except Exception as error:  # the user's function may fail in any way
            at = users_line(error).rpartition(", line ")
            where = f"{shown(at[0])}, line {at[2]}" if at[1] else str(place)
            text = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason given"]
            raise UsageError(f"{where}: {type(error).__name__}: {text[0].rstrip('.;')}") from error
        if not isinstance(frame, DataFrame):
            raise UsageError(f"{place}: a table's function has to return a DataFrame, not a {type(frame).__name__}")
        return frame

    def _sql(self, query: str) -> DataFrame:
        words = set(query.replace("`", " ").replace("(", " ").replace(")", " ").replace(",", " ").split())
        for word in words:
            if last_part(word) in self.tables and last_part(word) not in self._views:
                name = last_part(word)
                if name not in self._open:
                    self.frame(name).createOrReplaceTempView(name)
                    self._views.append(name)
        return self._spark.sql(query)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reading a table of the pipeline gives its plan."""

        def instead(original: Any) -> Any:
            def read(reader: Any, tableName: str) -> Any:
                name = last_part(tableName)
                return self.frame(name) if name in self.tables else original(reader, tableName)

            return read

        with ExitStack() as stack:
            for owner in (DataStreamReader, DataFrameReader, SparkSession):
                stack.enter_context(patch.object(owner, "table", instead(owner.table)))
            yield


@contextmanager
def _registered(pipeline: _Pipeline) -> Iterator[None]:
    """Decorators of the pipelines API add to the pipeline."""
    try:
        from pyspark.pipelines.flow import AutoCdcFlow, Flow
        from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
        from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable
    except ImportError as error:
        raise MissingPrerequisite(
            f"this PySpark has no Declarative Pipelines that can be read ({error}); tried with 4.3"
        ) from error

    class Registry(GraphElementRegistry):
        def register_output(self, output: Output) -> None:
            kinds = {MaterializedView: "materialized view", StreamingTable: "streaming table", Sink: "sink"}
            pipeline.add(
                output.name, kinds.get(type(output), "view"), _place(output), getattr(output, "format", None)
            )  # fmt: skip

        def register_flow(self, flow: Flow) -> None:
            pipeline.add_flow(flow.target, flow.func, _place(flow))

        def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
            pipeline.notes.append(f"the CDC flow into {flow.target} ({_place(flow)}) was left out")

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            for statement in read_statements(file_path, sql_text):
                pipeline.add_statement(statement.name, statement.kind, statement.query, statement.place)

    with graph_element_registration_context(Registry()):
        try:
            yield
        except PySparkException as error:
            raise UsageError(str(error).splitlines()[0]) from error


def _place(element: Any) -> UserLine:
    location = element.source_code_location
    return UserLine(location.filename, location.line_number or 0)


# The specification ----------------------------------------------------------------------------------------------------


def _specification(path: Path, spark: SparkSession) -> tuple[str, list[str]]:
    """The name and the patterns of a pipeline's files."""
    try:
        found = read_yaml(spark, path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"pipeline {path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise UsageError(f"pipeline {path} is not YAML: {error}") from error
    libraries = found.get("libraries") if isinstance(found, dict) else None
    try:
        patterns = [str(each["glob"]["include"]) for each in libraries or []]
    except (TypeError, KeyError) as error:
        raise UsageError(f"pipeline {path}: libraries have to be a list of `glob: include: PATTERN`") from error
    if not patterns:
        raise UsageError(f"{path} is not the specification of a pipeline: it needs libraries with patterns of files")
    return str(found.get("name") or path.parent.resolve().name), patterns


def _sources(patterns: list[str], path: Path) -> list[Path]:
    """Files below the pipeline's directory, in the order of patterns and names."""
    found: list[Path] = []
    for pattern in patterns:
        if os.path.isabs(pattern) or ".." in Path(pattern).parts:
            raise UsageError(f"pipeline {path}: pattern {pattern} leaves the pipeline's directory")
        for file in sorted(Path().glob(f"{pattern}/*" if pattern.endswith("**") else pattern)):
            if file.suffix in (".py", ".sql") and file.is_file() and file not in found:
                found.append(file)
    return found


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
