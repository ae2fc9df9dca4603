"""Puts what was captured together: queries with names, their plans, and the sources that they share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from riprap.base.errors import UsageError, without_secrets
from riprap.spark.jobs.captured_job import (
    CapturedJob,
    CapturedQuery,
    CapturedSink,
    CapturedSource,
    OutputMode,
    PlanNode,
)
from riprap.spark.jobs.capturing import CaptureLog
from riprap.spark.jobs.plan_reader import python_functions, read_plan, untried
from riprap.spark.jobs.recorded_writers import WriteRequest
from riprap.spark.jobs.stream_reads import StreamRead
from riprap.spark.jobs.user_lines import statement_at

_MODES: Mapping[str, OutputMode] = {"append": "append", "update": "update", "complete": "complete"}
_TOPICS = ("subscribe", "subscribepattern", "assign", "streamname", "eventhubs.name", "topic", "table", "dbtable")
_DEFAULT_SINK = "parquet"


def assembled(name: str, origin: str, log: CaptureLog, spark: Any, notes: Sequence[str] = ()) -> CapturedJob:
    """The job of all writes. A job with streaming queries is those; what it writes as a batch is preparation."""
    streaming = [request for request in log.writes if request.frame.isStreaming]
    requests = streaming or log.writes
    if len(requests) < len(log.writes):
        left = len(log.writes) - len(requests)
        notes = [
            *notes,
            f"{left} batch write{'s' * (left > 1)} of the script {'was' if left == 1 else 'were'} left out",
        ]
    notes = [*notes, *untried()]
    marks = log.marks()
    names = unique_names(_query_name(request) for request in requests)
    functions = python_functions(spark, log.functions)
    plans = [read_plan(request.frame, marks, functions) for request in requests]
    written = {request.target: name for request, name in zip(requests, names, strict=True) if request.target}
    sources = tuple(
        replace(source, query=written.get(source.table or source.path or "", ""))
        for source in sources_of(plans, log.reads.by_placeholder)
    )
    queries = tuple(
        _query(name, request, plan, sources) for name, request, plan in zip(names, requests, plans, strict=True)
    )
    return CapturedJob(name, origin, queries, sources, spark, tuple(notes))


def _query(name: str, request: WriteRequest, plan: PlanNode, sources: Sequence[CapturedSource]) -> CapturedQuery:
    if request.mode not in _MODES:
        raise UsageError(f"{request.place}: output mode {request.mode} is unknown; known: append, update, complete")
    return CapturedQuery(
        name,
        request.frame,
        plan,
        CapturedSink(
            request.format or ("table" if request.table else _DEFAULT_SINK),
            request.target,
            request.options,
            request.body,
        ),
        _MODES[request.mode],
        request.trigger,
        str(request.place),
        tuple(source.name for source in sources if _reads(plan, source)),
        request.options.get("checkpointLocation"),
    )


def _reads(plan: PlanNode, source: CapturedSource) -> bool:
    own = {leaf.identity for leaf in source.leaves}
    return any(node.identity in own for node in leaves(plan))


def _query_name(request: WriteRequest) -> str:
    """The query's name; else its table, topic or path, the variable that got it, or what it writes."""
    target = request.target or request.options.get("topic")
    variable = statement_at(request.place).label
    function = getattr(request.body, "__name__", "")
    return request.name or (last_part(target) if target else "") or variable or function or request.format or "query"


# Sources --------------------------------------------------------------------------------------------------------------


def leaves(plan: PlanNode) -> list[PlanNode]:
    """Streaming leaves, also those inside definitions of a WITH."""
    found = []
    for node in plan.walk():
        for definition in node.details.get("definitions", {}).values():
            found += leaves(definition)
        if not node.children and node.streaming and node.kind != "CTERelationRef":
            found.append(node)
    return found


def sources_of(plans: Iterable[PlanNode], placeholders: Mapping[str, StreamRead]) -> tuple[CapturedSource, ...]:
    """Each thing that is read as a stream, once."""
    found: dict[Any, tuple[CapturedSource, list[PlanNode]]] = {}
    for leaf in (leaf for plan in plans for leaf in leaves(plan)):
        source = _source(leaf, placeholders.get(_plain_path(leaf.details.get("path"))))
        location = source.path or source.table or _topic(source) or str(sorted(source.options.items()))
        key = (source.format, location, tuple((c.name, str(c.type)) for c in source.columns))
        found.setdefault(key, (source, []))[1].append(leaf)
    names = unique_names(source.name for source, _ in found.values())
    return tuple(
        replace(source, name=name, leaves=tuple(read))
        for name, (source, read) in zip(names, found.values(), strict=True)
    )


def _source(leaf: PlanNode, read: StreamRead | None) -> CapturedSource:
    if read is None:
        details = leaf.details
        source = CapturedSource(
            "", details["format"], details["options"], details["path"], details["table"], leaf.columns, leaf.line
        )
    else:
        path = None if read.table else read.path
        source = CapturedSource("", read.format, read.options, path, read.table, leaf.columns, str(read.place))
    location = source.table or source.path or _topic(source)
    place = leaf.label or (last_part(location) if location else "") or source.format
    return replace(source, name=last_part(source.table) if source.table else place)


def _topic(source: CapturedSource) -> str | None:
    """What a connector reads, by the option that says so."""
    options = {key.lower(): value for key, value in source.options.items()}
    return next((options[name] for name in _TOPICS if name in options), None)


def _plain_path(path: str | None) -> str:
    return (path or "").removeprefix("file://").removeprefix("file:")


# Names ----------------------------------------------------------------------------------------------------------------


def last_part(location: str) -> str:
    """`clicks` of `s3://bucket/clicks/*.json`, `main.web.clicks` or a topic `clicks`."""
    location = without_secrets(location).partition("?")[0] if "=" in location else without_secrets(location)
    parts = [part for part in re.split(r"[/\\]", location) if part and not set(part) & set("*?[{")]
    last = parts[-1] if parts else location
    if len(parts) <= 1 and "/" not in location:
        last = last.rpartition(".")[2] or last
    return plain_name(re.sub(r"\.(parquet|json|csv|orc|txt|avro|jsonl)$", "", last))


def plain_name(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "stream"


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, with a number behind those that come again."""
    seen: set[str] = set()
    out = []
    for name in names:
        number, unique = 1, name
        while unique in seen:
            number += 1
            unique = f"{name}-{number}"
        seen.add(unique)
        out.append(unique)
    return out
