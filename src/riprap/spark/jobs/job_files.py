"""Jobs by the name that a user writes: `job.py`, `job.py:query`, `spark-pipeline.yml`, `spark-pipeline.yml:table`.

A file is captured once in a process, whatever is asked about it.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from riprap.base.errors import UsageError
from riprap.graph.graph import Graph
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.frames import capture_frames
from riprap.spark.jobs.scripts import capture_script
from riprap.spark.jobs.translate.job_app import JobApp, translate
from riprap.spark.plan_operators import PlanOperators, plan_operators
from riprap.spark.session import session


def job_app(name: str, spark: SparkSession | None = None) -> JobApp:
    """The app of a job, or of one of its queries; `graph` is None if no query can be an app."""
    file, query = split_name(name)
    return _translated(file, query, session(spark))


def job_graph(name: str) -> Graph:
    """The app of a job. Where a query has a node that only Spark runs, the job is assessed in Spark's own plan."""
    return _graph(job_app(name))


def graph_of_frames(frames: Any, name: str) -> Graph:
    """The app of DataFrames."""
    return _graph(translate(capture_frames(frames, name)))


def _graph(found: JobApp) -> Graph:
    if found.graph is not None and not found.missing:
        return found.graph
    operators = second_route(found)
    if operators.sources:
        return operators.graph
    first = found.missing[0]
    raise UsageError(f"{first.line}: query {first.query} reads no stream: {first.reason}")


def second_route(found: JobApp) -> PlanOperators:
    """The operators of a job whose trials run in Spark's own plan."""
    return plan_operators(found.job, {missing.node.identity: missing.reason for missing in found.missing})


def captured(name: str, spark: SparkSession | None = None) -> CapturedJob:
    """The job of a file, or one of its queries with those that it reads from."""
    file, query = split_name(name)
    return _chosen(_captured(file, session(spark)), query)


def split_name(name: str) -> tuple[str, str]:
    """The file and the query; without one, "": all of them. Raises before Spark starts if there is no such file."""
    file, query = name, ""
    for suffix in (".py", ".yml", ".yaml"):
        stem, found, rest = name.partition(suffix + ":")
        if found:
            file, query = stem + suffix, rest
            break
    if not Path(file).is_file():
        raise UsageError(f"{file} does not exist; name a PySpark script, or the specification of a pipeline")
    return file, query


@lru_cache(maxsize=8)
def _captured(file: str, spark: SparkSession) -> CapturedJob:
    if file.endswith(".py"):
        return capture_script(Path(file), spark)
    from riprap.spark.jobs.pipelines import capture_pipeline

    return capture_pipeline(Path(file), spark)


@lru_cache(maxsize=8)
def _translated(file: str, query: str, spark: SparkSession) -> JobApp:
    return translate(_chosen(_captured(file, spark), query))


def _chosen(job: CapturedJob, query: str) -> CapturedJob:
    if not query:
        return job
    wanted = [query]
    for name in wanted:  # grows
        reads = (job.source(source) for source in job.query(name).reads)
        wanted += [source.query for source in reads if source.query and source.query not in wanted]
    return job.only(query, tuple(wanted))
