"""Which expression over a source's columns is its event time.

It is the watermark's column, followed down to the source; without a watermark the time of the first window; else a
column of the connector, or the first timestamp. Recordings are put in the order of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from riprap.graph.recorded_input import RecordedInput
from riprap.spark.jobs.captured_job import CapturedSource, PlanNode
from riprap.spark.jobs.translate.node_stream import quoted, references
from riprap.spark.jobs.translate.window_text import read_window

_SAME = (
    "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Deduplicate", "DeduplicateWithinWatermark", "WithCTE",
)  # fmt: skip
_ARRIVAL = ("timestamp", "approximateArrivalTimestamp", "enqueuedTime")  # columns of connectors


@dataclass(frozen=True)
class EventTime:
    """Of a source: SQL over its columns, and how late rows may be."""

    text: str
    delay: int | None = None  # microseconds; None: no watermark
    why: str = "watermark"  # or "window", "arrival", "none"


def recorded_input(source: CapturedSource, time: EventTime) -> RecordedInput:
    """How the rows that a source of the job reads are read again."""
    return RecordedInput(
        source.format, source.line, source.schema, time.text, time.delay, source.path, dict(source.options)
    )


def event_times(plans: Iterable[PlanNode], sources: Iterable[CapturedSource]) -> dict[str, EventTime]:
    """The event time of each source, by name."""
    by_leaf = {leaf.identity: source for source in sources for leaf in source.leaves}
    found: dict[str, EventTime] = {}
    nodes = [node for plan in plans for node in walk_all(plan)]
    for kind in ("EventTimeWatermark", "window"):
        for node in nodes:
            for column, child, delay in _named_times(node, kind):
                resolved = resolve(column, child)
                if resolved is None or resolved[1].identity not in by_leaf:
                    continue
                name = by_leaf[resolved[1].identity].name
                time = EventTime(resolved[0], delay, "watermark" if delay is not None else "window")
                before = found.get(name)
                if before is None or (before.text == time.text and (time.delay or 0) > (before.delay or 0)):
                    found[name] = time
    for source in by_leaf.values():
        found.setdefault(source.name, _arrival(source))
    return found


def walk_all(plan: PlanNode) -> list[PlanNode]:
    """All nodes, also those of definitions in a WITH."""
    nodes = []
    for node in plan.walk():
        nodes.append(node)
        for definition in node.details.get("definitions", {}).values():
            nodes += walk_all(definition)
    return nodes


def _named_times(node: PlanNode, kind: str) -> list[tuple[int, PlanNode, int | None]]:
    """Columns that a node names as times, by id, with the node that they come from, and the watermark delay."""
    if node.kind == kind == "EventTimeWatermark":
        return [(node.details["column"], node.children[0], node.details["delay"])]
    if kind != "window" or node.kind not in ("Project", "Expand"):
        return []
    expressions = node.expressions if node.kind == "Project" else node.details["projections"]
    windows = [read_window(each.text) for each in expressions]
    return [(window.time, node.children[0], None) for window in windows if window is not None]


def resolve(column: int, node: PlanNode) -> tuple[str, PlanNode] | None:
    """SQL over the columns of the leaf below that a column comes from; None: it comes through other operators."""
    if not node.children:
        names = {each.id: each.name for each in node.columns}
        return (quoted(names[column]), node) if column in names and node.streaming else None
    if node.kind in _SAME:
        return resolve(column, node.children[0])
    if node.kind != "Project":
        return None
    expression = next((each for each in node.expressions if each.id == column), None)
    if expression is None or expression.parts:
        return None
    parts = {identity: resolve(identity, node.children[0]) for identity in references(expression.text)}
    if not parts or None in parts.values():
        return None
    leaf = next(iter(parts.values()))[1]  # type: ignore[index]
    texts = {identity: each[0] for identity, each in parts.items() if each is not None}
    return re.sub(r"`§(-?\d+)`", lambda found: texts[int(found[1])], expression.text), leaf


def _arrival(source: CapturedSource) -> EventTime:
    """Without a watermark or a window: when rows arrived, if a column says so."""
    times = [column.name for column in source.columns if column.type is not None and pa.types.is_timestamp(column.type)]
    for name in (*(name for name in _ARRIVAL if name in times), *times):
        return EventTime(quoted(name), None, "arrival")
    return EventTime("", None, "none")


Times = Mapping[str, EventTime]
