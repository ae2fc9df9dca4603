"""The operators of a captured job whose trials run in Spark's own plan: nodes of the plans that fail together.

    source        a leaf that is a stream; its watermark and aliases belong to it
    select        consecutive projections, filters and generators
    aggregate     with the nodes below it that only assign windows
    join, union, distinct, …, and each Python function by its name
    sink          the end of a query

Operators that two queries share appear once. A static table belongs to the operator that reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.spec_base import OperatorSpec
from riprap.graph.specs import Sink, Source, SparkStep
from riprap.graph.types import is_key
from riprap.spark.jobs.captured_job import CapturedJob, CapturedQuery, CapturedSource, PlanColumn, PlanNode
from riprap.spark.jobs.translate.event_time import event_times, recorded_input

TRANSPARENT = frozenset(("SubqueryAlias", "View", "EventTimeWatermark", "ResolvedHint", "WithCTE", "CTERelationRef"))
_STATELESS = frozenset(("Project", "Filter", "Generate", "Expand", "RepartitionByExpression", "Repartition"))
_WORDS = {
    "Project": "select", "Filter": "filter", "Generate": "explode", "Aggregate": "aggregate", "Join": "join",
    "Union": "union", "Deduplicate": "distinct", "DeduplicateWithinWatermark": "distinct", "Distinct": "distinct",
    "Sort": "sort", "GlobalLimit": "limit", "LocalLimit": "limit", "Window": "window",
}  # fmt: skip


@dataclass(frozen=True)
class PlanOperator:
    """Nodes that fail together."""

    name: str
    nodes: tuple[PlanNode, ...]  # top first; () for a sink
    inputs: tuple[str, ...] = ()  # upstream operators, by port
    stateful: bool = False
    line: str = ""


@dataclass(frozen=True)
class PlanOperators:
    """All operators of a job, upstream first."""

    job: CapturedJob
    operators: tuple[PlanOperator, ...]
    sinks: Mapping[str, CapturedQuery]
    reasons: Mapping[int, str] = field(default_factory=dict)  # by node identity: why it is not translated

    @cached_property
    def links(self) -> dict[int, PlanNode]:
        return links_of(self.job)

    @cached_property
    def sources(self) -> tuple[CapturedSource, ...]:
        return outer_sources(self.job)

    def inputs(self, node: PlanNode) -> tuple[PlanNode, ...]:
        """The children of a node; of a leaf that stands for another plan, that plan."""
        return (self.links[node.identity],) if node.identity in self.links else node.children

    @cached_property
    def by_name(self) -> dict[str, PlanOperator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def of_node(self) -> dict[int, str]:
        """The operator of each node, by the node's identity."""
        return {node.identity: operator.name for operator in self.operators for node in operator.nodes}

    @cached_property
    def graph(self) -> "SparkGraph":
        """The job as a graph, for the choice of targets, the report and plans."""
        specs: list[OperatorSpec] = []
        streams: list[StreamSpec] = []
        sources = {source.name: (rank, source) for rank, source in enumerate(self.sources)}
        times = event_times([query.plan for query in self.job.queries], self.sources)
        for operator in self.operators:
            for port, upstream in enumerate(operator.inputs):
                streams.append(StreamSpec(upstream, 0, operator.name, port))
            if operator.name in self.sinks:
                specs.append(Sink(name=operator.name))
            elif not operator.inputs:
                rank, source = sources[operator.name]
                recorded = recorded_input(source, times[operator.name])
                schema = arrow_schema(tuple(column for column in source.columns if column.type is not None))
                specs.append(Source(name=operator.name, schema=schema, rank=rank, recorded=recorded))
            else:
                specs.append(self._step(operator))
        return SparkGraph(self.job.name, tuple(specs), tuple(streams), self)

    def _step(self, operator: PlanOperator) -> SparkStep:
        top = operator.nodes[0]
        reason = next((self.reasons[node.identity] for node in operator.nodes if node.identity in self.reasons), "")
        return SparkStep(
            name=operator.name, ports=len(operator.inputs), state=operator.stateful,
            columns=arrow_schema(top.columns), does=" ".join(dict.fromkeys(node.kind for node in operator.nodes)),
            line=operator.line, reason=reason,
        )  # fmt: skip


@dataclass(frozen=True)
class SparkGraph(Graph):
    """The graph of a job whose trials run in Spark's own plan."""

    plans: PlanOperators | None = field(default=None, compare=False, repr=False)

    def check_runs(self) -> None:
        """Raise with the first operator that our engine does not know."""
        steps = [spec for spec in self.operators if isinstance(spec, SparkStep)]
        first = next((step for step in steps if step.reason), steps[0] if steps else None)
        at = f"{first.line}: " if first is not None and first.line else ""
        why = f", because of operator {first.name}: {first.reason or first.describe()}" if first is not None else ""
        raise GraphError(f"{at}{self.name} can be assessed and planned, but only Spark can run it{why}")


def arrow_schema(columns: tuple[PlanColumn, ...]) -> pa.Schema:
    """The columns; of several with one name the first."""
    named: dict[str, pa.Field] = {}
    for column in columns:
        if not is_key(column.name):
            named.setdefault(column.name, pa.field(column.name, column.type or pa.string()))
    return pa.schema(list(named.values()))


def plan_operators(job: CapturedJob, reasons: Mapping[int, str] | None = None) -> PlanOperators:
    """`reasons`: by the identity of a node, why it cannot be translated."""
    reading = _Reading(job)
    for query in job.queries:
        reading.query(query)
    return PlanOperators(job, tuple(reading.found), reading.sinks, reasons or {})


def outer_sources(job: CapturedJob) -> tuple[CapturedSource, ...]:
    """The sources that no query of the job writes."""
    return tuple(source for source in job.sources if not source.query)


def links_of(job: CapturedJob) -> dict[int, PlanNode]:
    """What a leaf stands for, by its identity: a definition of a WITH, or what another query of the job writes."""
    links: dict[int, PlanNode] = {}
    plans = {query.name: query.plan for query in job.queries}
    for source in job.sources:
        if source.query in plans:
            links |= {leaf.identity: plans[source.query] for leaf in source.leaves}
    for query in job.queries:
        _link(query.plan, {}, links)
    return links


def _link(node: PlanNode, definitions: Mapping[int, PlanNode], links: dict[int, PlanNode]) -> None:
    own = {**definitions, **node.details.get("definitions", {})}
    if node.kind == "CTERelationRef":
        links[node.identity] = own[node.details["cte"]]
    for child in (*node.children, *node.details.get("definitions", {}).values()):
        _link(child, own, links)


class _Reading:
    def __init__(self, job: CapturedJob) -> None:
        self.found: list[PlanOperator] = []
        self.sinks: dict[str, CapturedQuery] = {}
        self._links = links_of(job)
        self._sources = {leaf.identity: source.name for source in outer_sources(job) for leaf in source.leaves}
        self._known: dict[int, str | None] = {}
        self._names: set[str] = {source.name for source in job.sources} | {query.name for query in job.queries}

    def query(self, query: CapturedQuery) -> None:
        upstream = self._operator(query.plan)
        name = query.name
        if any(operator.name == name for operator in self.found):
            name = self._unique(f"{query.name}-sink")
        self.sinks[name] = query
        self.found.append(PlanOperator(name, (), (upstream,) if upstream else (), line=query.line))

    def _operator(self, node: PlanNode) -> str | None:
        """The operator that emits what a node does; None: a static table."""
        if node.identity not in self._known:
            self._known[node.identity] = self._new(node)
        return self._known[node.identity]

    def _new(self, node: PlanNode) -> str | None:
        if node.identity in self._sources:
            name = self._sources[node.identity]
            if not any(operator.name == name for operator in self.found):
                self.found.append(PlanOperator(name, (node,), line=node.line))
            return name
        below = self._inputs(node)
        if not below:
            return None
        if node.kind in TRANSPARENT or node.identity in self._links:
            return self._operator(below[0])
        nodes = tuple(self._chain(node))
        upstream = tuple(self._operator(child) for child in self._inputs(nodes[-1]))
        inputs = tuple(name for name in upstream if name is not None)
        if not inputs:
            return None
        stateful = node.kind not in _STATELESS and node.kind != "Union" and not _maps(node)
        if node.kind == "Join":
            stateful = len(inputs) > 1
        line = next((each.line for each in nodes if each.line), "")
        name = self._unique(_name(nodes))
        self.found.append(PlanOperator(name, nodes, inputs, stateful, line))
        return name

    def _inputs(self, node: PlanNode) -> tuple[PlanNode, ...]:
        return (self._links[node.identity],) if node.identity in self._links else node.children

    def _chain(self, node: PlanNode) -> Iterator[PlanNode]:
        """The node and those below it that belong to the same operator."""
        yield node
        child = node.children[0] if len(node.children) == 1 else None
        while child is not None and child.kind in _STATELESS and child.identity not in self._known:
            if node.kind == "Aggregate" and not _assigns_windows(child):
                return
            if node.kind not in _STATELESS and node.kind != "Aggregate":
                return
            yield child
            child = child.children[0]

    def _unique(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}-{number}"
        self._names.add(unique)
        return unique


def _assigns_windows(node: PlanNode) -> bool:
    """Whether it makes the window of an aggregate, or is the filter that Spark puts beside that."""
    if node.kind == "Filter":
        return len(node.expressions) == 1 and "IS NOT NULL" in node.expressions[0].text.upper()
    below = {column.id for column in node.children[0].columns}
    return any(column.name in ("window", "session_window") and column.id not in below for column in node.columns)


def _maps(node: PlanNode) -> bool:
    return node.kind.startswith("MapIn") or node.kind in ("MapPartitions", "ArrowEvalPython", "BatchEvalPython")


def _name(nodes: tuple[PlanNode, ...]) -> str:
    """A name that stays the same from run to run."""
    top = nodes[0]
    if top.label:
        return top.label
    function = next((part.text for each in top.expressions for part in each.parts if part.kind == "python"), "")
    if function and top.kind not in _WORDS:
        return "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in function)
    if top.kind in _STATELESS:
        kinds = {node.kind for node in nodes}
        return _WORDS.get(top.kind, "select") if len(kinds) == 1 else "select"
    return _WORDS.get(top.kind, top.kind)
