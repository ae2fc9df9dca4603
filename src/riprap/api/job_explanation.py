"""What each operator of an existing PySpark job becomes, and why."""

from dataclasses import dataclass, replace
from typing import Literal

from riprap.graph.graph import Graph
from riprap.graph.specs import MapBatches, MapPython, Sink, Source, SparkStep, StatefulPython, UserDefined
from riprap.spark.jobs.translate.job_app import JobApp, MissingNode
from riprap.spark.plan_operators import plan_operators

RunsAs = Literal["compiled", "Python", "Spark", "input", "output"]


@dataclass(frozen=True)
class OperatorExplanation:
    """One row for each operator: of the app, and of Spark's own plan for queries that cannot be an app."""

    query: str
    operator: str
    is_: str  # what it is in the job
    line: str
    runs_as: RunsAs
    why: str


def explained(found: JobApp) -> list[OperatorExplanation]:
    """In the order of the graph; queries that only Spark can run come last."""
    rows = [] if found.graph is None else _operators(found, found.graph)
    for missing in found.missing:
        rows += _in_spark(found, missing)
    return rows


def _in_spark(found: JobApp, missing: MissingNode) -> list[OperatorExplanation]:
    """The operators of a query whose faults are injected in Spark's own plan; first the one that is the reason."""
    query = missing.query
    rows = [OperatorExplanation(query, "", missing.does, missing.line, "Spark", missing.reason)]
    plans = plan_operators(found.job.only(query, (query,)), {missing.node.identity: missing.reason})
    for spec in plans.graph:
        if isinstance(spec, SparkStep):
            if spec.reason:
                rows[0] = replace(rows[0], operator=spec.name, line=missing.node.line or spec.line or missing.line)
            else:
                why = f"query {query} runs in Spark's own plan"
                rows.append(OperatorExplanation(query, spec.name, spec.does, spec.line, "Spark", why))
    return rows


def _operators(found: JobApp, graph: Graph) -> list[OperatorExplanation]:
    origins = {origin.operator: origin for origin in found.origins}
    queries = {query.name: query for query in found.job.queries}
    rows = []
    for spec in graph:
        origin = origins.get(spec.name)
        if isinstance(spec, Source):
            time = found.times[spec.name]
            why = f"ordered by {time.text}" if time.text else "in the order of its rows"
            line = "" if spec.recorded is None else spec.recorded.line
            rows.append(OperatorExplanation("", spec.name, "source", line, "input", why))
        elif isinstance(spec, Sink):
            query = queries.get(spec.name) or queries[spec.name.removesuffix("-out")]
            opaque = "its function is opaque: rows are counted where it gets them" if query.sink.body else "as written"
            rows.append(OperatorExplanation(query.name, spec.name, query.sink.format, query.line, "output", opaque))
        elif origin is not None:
            python = isinstance(spec, UserDefined | MapPython | MapBatches | StatefulPython)
            runs_as: RunsAs = "Python" if python else "compiled"
            rows.append(
                OperatorExplanation(
                    origin.query,
                    spec.name,
                    origin.node,
                    origin.line,
                    runs_as,
                    spec.describe(),
                )
            )
    return rows
