"""The app of a job: its queries as operators of one graph, and for the others why not.

translated = translate(job)
translated.graph             # None: no query could be translated
translated.missing           # for each other query the node that is no operator, with its line
"""

from dataclasses import dataclass, replace
from typing import Any

from riprap.base.errors import GraphError
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.spark.jobs.captured_job import CapturedJob, CapturedQuery, PlanNode
from riprap.spark.jobs.plan_reader import frame_of
from riprap.spark.jobs.translate.event_time import EventTime, event_times, recorded_input
from riprap.spark.jobs.translate.families import FAMILIES
from riprap.spark.jobs.translate.node_stream import NodeStream, Untranslatable, distinct_names, quoted
from riprap.spark.jobs.translate.translator import Naming, NodeOrigin, Translator, described, static_parts


@dataclass(frozen=True)
class MissingNode:
    """The node because of which a query is not translated."""

    query: str
    node: PlanNode
    does: str  # what it is, in a few words
    line: str
    reason: str


@dataclass(frozen=True)
class JobApp:
    """What became of a job."""

    job: CapturedJob
    graph: Graph | None  # the queries that are operators of an app
    origins: tuple[NodeOrigin, ...]
    missing: tuple[MissingNode, ...]
    times: dict[str, EventTime]  # of the sources


def translate(job: CapturedJob) -> JobApp:
    """Every query that can be an app. Rows of static tables are read, in Spark; streams are not."""
    plans = [query.plan for query in job.queries]
    times = event_times(plans, job.sources)
    static = {node.identity: frame_of(job.spark, node).toArrow() for node in static_parts(plans)}
    missing: dict[str, MissingNode] = {}
    translated: list[CapturedQuery] = []
    for query in _producers_first(job):  # each one alone: a query that fails leaves no operator behind
        try:
            _built(job, [*_upstream(job, query, translated), query], times, static)
            translated.append(query)
        except Untranslatable as error:
            node = error.args[1] if error.args[1:] else query.plan
            line = node.line or query.line
            missing[query.name] = MissingNode(query.name, node, described(node), line, str(error.args[0]))
    if not translated:
        return JobApp(job, None, (), tuple(missing.values()), times)
    graph, origins = _built(job, translated, times, static)
    return JobApp(job, graph, origins, tuple(missing.values()), times)


def _built(
    job: CapturedJob, queries: list[CapturedQuery], times: dict[str, EventTime], static: dict[int, Any]
) -> tuple[Graph, tuple[NodeOrigin, ...]]:
    app = App(job.name)
    taken = {source.name for source in job.sources} | {query.name for query in job.queries}
    translator = Translator(app, job, times, FAMILIES, taken, static)
    for query in queries:
        translator.mode, translator.query = query.mode, query.name
        try:
            output = translator.stream(query.plan, Naming("", query.name))
            translator.outputs[query.name] = _written(translator, query, output)
        except GraphError as error:
            raise Untranslatable(str(error), query.plan) from error
    try:
        graph = app.build()
    except GraphError as error:
        raise Untranslatable(str(error), queries[-1].plan) from error
    for source in graph.sources:
        recorded = recorded_input(job.source(source.name), times[source.name])
        graph = graph.with_operator(replace(source, recorded=recorded))
    return graph, tuple(translator.origins)


def _written(translator: Translator, query: CapturedQuery, output: NodeStream) -> NodeStream:
    """The sink, behind exactly the query's columns. A window is two columns, with its start and its end."""
    names = distinct_names(query.plan.columns)
    texts, columns = [], {}
    for column in query.plan.columns:
        name = names[column.id]
        if column.id in output.windows:
            window = output.windows[column.id]
            texts += [quoted(bound) for bound in (window.start, window.end)]
            continue
        if output.column(column.id) == name:
            texts.append(quoted(name))
        else:
            texts.append(f"{quoted(output.column(column.id))} AS {quoted(name)}")
        columns[column.id] = name
    stream = output.stream
    if [quoted(name) for name in stream.columns] != texts:
        stream = stream.select(*texts, name=translator.name(query.plan, Naming("", query.name), "columns"))
    source = next((source for source in translator.job.sources if source.name == query.name), None)
    stream.sink(query.name if source is None else f"{query.name}-out")
    return replace(output, stream=stream, columns=columns)


def _producers_first(job: CapturedJob) -> list[CapturedQuery]:
    """The queries, each after those whose output it reads."""
    by_source = {source.name: source.query for source in job.sources if source.query}
    ordered: list[CapturedQuery] = []
    waiting = list(job.queries)
    while waiting:
        done = {query.name for query in ordered}
        free = [q for q in waiting if all(by_source.get(name, "") in ("", q.name, *done) for name in q.reads)]
        ordered += free or waiting  # a cycle: the first of them fails for what it reads
        waiting = [query for query in waiting if query not in ordered]
    return ordered


def _upstream(job: CapturedJob, query: CapturedQuery, among: list[CapturedQuery]) -> list[CapturedQuery]:
    """The queries that it reads from, of those that are translated."""
    by_source = {source.name: source.query for source in job.sources if source.query}
    wanted = {by_source[name] for name in query.reads if name in by_source}
    found: list[CapturedQuery] = []
    for each in among:
        if each.name in wanted:
            found += [above for above in _upstream(job, each, among) if above not in found] + [each]
    return found
