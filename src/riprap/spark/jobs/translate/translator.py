"""Translates the nodes of captured plans to operators of one app. A node that several queries share is one operator.

A node that only selects, renames or names columns needs no operator: `NodeStream` says which columns are its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.graph.builder import App, Stream
from riprap.graph.static_table import StaticTable
from riprap.graph.types import is_key, logical_type
from riprap.spark.jobs.captured_job import CapturedJob, CapturedSource, PlanColumn, PlanNode
from riprap.spark.jobs.translate.event_time import EventTime, resolve
from riprap.spark.jobs.translate.node_stream import NodeStream, Untranslatable, distinct_names, quoted


@dataclass(frozen=True)
class NodeOrigin:
    """What became of a node of the plan."""

    operator: str  # name in the app; "" for a node that needs none
    node: str  # what it is in the job, as in "Filter (n > 1)"
    line: str
    query: str = ""
    reason: str = ""  # why it is none of an app's operators; "" for those that are


@dataclass(frozen=True)
class Naming:
    """Names for the operators of a part of a plan."""

    label: str  # for the next operator, if the user has named it
    context: str  # what the others are named after

    def below(self, node: PlanNode) -> "Naming":
        return Naming(node.label or self.label, node.label or self.context)


Family = Callable[["Translator", PlanNode, Naming], NodeStream]


@dataclass
class Translator:
    app: App
    job: CapturedJob
    times: Mapping[str, EventTime]  # of the sources
    families: Mapping[str, Family]
    taken: set[str]  # names of sources and queries
    static: dict[int, pa.Table]  # rows of static parts of plans, by identity
    mode: str = "append"  # output mode of the query
    query: str = ""
    origins: list[NodeOrigin] = field(default_factory=list)
    outputs: dict[str, NodeStream] = field(default_factory=dict)  # of queries, by name, for those that read them
    _done: dict[int, NodeStream] = field(default_factory=dict)
    _sources: dict[str, Stream] = field(default_factory=dict)
    _definitions: dict[int, PlanNode] = field(default_factory=dict)

    def stream(self, node: PlanNode, naming: Naming) -> NodeStream:
        """The output of a node; its operators are made on the first call."""
        if node.identity not in self._done:
            below = naming.below(node)
            if not node.children and node.kind != "CTERelationRef":
                made = self._source(node)
            elif node.kind in self.families:
                try:
                    made = self.families[node.kind](self, node, below)
                except GraphError as error:
                    raise self.untranslatable(node, _plain(error)) from error
                except Untranslatable as error:
                    raise error if error.args[1:] else self.untranslatable(node, str(error)) from error
            else:
                raise self.untranslatable(node, f"an app has no operator for {node.kind}")
            self._done[node.identity] = made
        return self._done[node.identity]

    def child(self, node: PlanNode, naming: Naming) -> NodeStream:
        """The only child of a node with an operator of its own."""
        return self.stream(node.children[0], replace(naming, label=""))

    def untranslatable(self, node: PlanNode, reason: str) -> Untranslatable:
        return Untranslatable(reason, node)

    def name(self, node: PlanNode, naming: Naming, kind: str) -> str:
        """A new name, which the capture of the same job gives again."""
        wanted = [naming.label] if naming.label and naming.label not in self.taken else []
        base = f"{naming.context}-{kind}"
        name = (wanted or [base])[0]
        number = 1
        while name in self.taken:
            number += 1
            name = f"{base}-{number}"
        self.taken.add(name)
        self.origins.append(NodeOrigin(name, described(node), node.line, self.query))
        return name

    def shaped(self, node: PlanNode, naming: Naming, stream: Stream, wanted: Sequence[tuple[str, str]]) -> Stream:
        """The stream with exactly these columns, each with its old and its new name."""
        if [old for old, _ in wanted] == stream.columns and all(old == new for old, new in wanted):
            return stream
        texts = [f"{quoted(old)} AS {quoted(new)}" for old, new in wanted]
        return stream.select(*texts, name=self.name(node, replace(naming, label=""), "columns"))

    def definitions(self, found: Mapping[int, PlanNode]) -> None:
        self._definitions |= found

    def definition(self, number: int) -> PlanNode:
        return self._definitions[number]

    # Leaves -----------------------------------------------------------------------------------------------------------

    def _source(self, leaf: PlanNode) -> NodeStream:
        source = next((each for each in self.job.sources if leaf.identity in {at.identity for at in each.leaves}), None)
        if source is None:
            raise self.untranslatable(leaf, "static rows have no order in time; join them to a stream")
        if source.query:
            return self._output_of(source, leaf)
        time = self.times[source.name]
        if source.name not in self._sources:
            self._sources[source.name] = self.app.source(source.name, _schema(source))
            self.origins.append(NodeOrigin(source.name, f"read {source.format}", source.line, self.query))
        stream = self._sources[source.name]
        columns = {column.id: column.name for column in leaf.columns if column.name in stream.columns}
        own = frozenset(column.id for column in leaf.columns if f"`{column.name}`" == time.text)
        return NodeStream(stream, columns, times=own)

    def _output_of(self, source: CapturedSource, leaf: PlanNode) -> NodeStream:
        """What another query of the job writes."""
        if source.query not in self.outputs:
            raise self.untranslatable(leaf, f"query {source.query}, which it reads, has no operators of an app")
        output = self.outputs[source.query]
        names = {name: identity for identity, name in output.columns.items()}
        columns = {column.id: column.name for column in leaf.columns if column.name in names}
        times = frozenset(column.id for column in leaf.columns if names.get(column.name) in output.times)
        return NodeStream(output.stream, columns, times=times)

    def event_time(self, node: PlanNode, column: int, stream: NodeStream) -> bool:
        """Whether a column is the event time of the stream."""
        if column in stream.times:
            return True
        found = resolve(column, node)
        if found is None:
            return False
        text, leaf = found
        source = next((each for each in self.job.sources if leaf.identity in {at.identity for at in each.leaves}), None)
        return source is not None and not source.query and self.times[source.name].text == text

    def table(self, node: PlanNode, naming: Naming) -> tuple[StaticTable, Mapping[int, str]]:
        """The rows of a static part of a plan, computed by Spark, and the names of its columns."""
        names = distinct_names(node.columns)
        kept = [column for column in node.columns if supported(column)]
        rows = self.static[node.identity].select([node.columns.index(column) for column in kept])
        rows = rows.rename_columns([names[column.id] for column in kept])
        label = next((each.label or each.details.get("alias", "") for each in node.walk() if each.label), "")
        name = label or f"{naming.context}-table"
        while name in self.taken:
            name += "-table"
        self.taken.add(name)
        schema = pa.schema([(names[c.id], logical_type(c.type)) for c in kept])
        return self.app.table(rows, schema, name=name), {column.id: names[column.id] for column in kept}

    def replaced_table(self, name: str, rows: pa.RecordBatch) -> StaticTable:
        """The table of that name with other columns."""
        self.app._tables[:] = [table for table in self.app._tables if table.name != name]
        return self.app.table(rows, name=name)


def supported(column: PlanColumn) -> bool:
    try:
        return column.type is not None and bool(logical_type(column.type)) and not is_key(column.name)
    except GraphError:
        return False


def _schema(source: CapturedSource) -> pa.Schema:
    """The columns that an app can have; an expression over one of the others cannot be translated."""
    return pa.schema([pa.field(c.name, logical_type(c.type), c.nullable) for c in source.columns if supported(c)])


def described(node: PlanNode) -> str:
    """What a node is in the job, in a few words."""
    words = {
        "Aggregate": "aggregate", "Filter": "filter", "Project": "select", "Join": "join", "Union": "union",
        "Deduplicate": "drop duplicates", "DeduplicateWithinWatermark": "drop duplicates", "GlobalLimit": "limit",
        "MapInPandas": "mapInPandas", "MapInArrow": "mapInArrow", "PythonMapInArrow": "mapInArrow",
        "FlatMapGroupsInPandasWithState": "Python with state", "TransformWithStateInPySpark": "Python with state",
    }  # fmt: skip
    return words.get(node.kind, node.kind)


def _plain(error: Exception) -> str:
    """The reason without the name of the operator."""
    text = str(error)
    return text.partition(": ")[2] if text.startswith("operator ") else text


def static_parts(plans: Sequence[PlanNode]) -> list[PlanNode]:
    """The uppermost nodes that do not stream, beside a stream."""
    found: dict[int, PlanNode] = {}

    def walk(node: PlanNode) -> None:
        for child in (*node.children, *node.details.get("definitions", {}).values()):
            if child.streaming:
                walk(child)
            elif node.streaming and node.kind in ("Join", "Union"):
                found.setdefault(child.identity, child)

    for plan in plans:
        walk(plan)
    return list(found.values())
