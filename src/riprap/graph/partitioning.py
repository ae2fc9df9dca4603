"""Partitions an app by key: finds the source columns by which its input can be divided.

Every stateful operator divides its state by columns. If all of these are copies of source columns, and all operators
agree on at least one of them, the sources can be partitioned by those columns and each partition can run separately:
the union of the outputs is the output of the whole app. Otherwise the app runs as one partition, and `reason` names
the operator that requires it.
"""

from dataclasses import dataclass

from riprap.expressions.ast import ColumnRef
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TIMER
from riprap.graph.specs import (
    Aggregate,
    Barrier,
    Functor,
    Join,
    JoinTable,
    MapBatches,
    MapPython,
    OperatorSpec,
    Scan,
    Sort,
    Source,
    SparkStep,
    StatefulPython,
    Union,
    UserDefined,
)
from riprap.graph.windows import Punctuated

Origin = tuple[str, str]  # source, column
# by column: the source columns that it is a copy of, one per source that feeds it
Lineage = dict[str, frozenset[Origin]]


@dataclass(frozen=True)
class KeyPartitioning:
    """`columns` by source; None: any partitioning is correct; (): the app cannot be partitioned."""

    columns: dict[str, tuple[str, ...] | None]
    reason: str  # for people

    @property
    def divisible(self) -> bool:
        return all(columns != () for columns in self.columns.values())


def key_partitioning(graph: Graph) -> KeyPartitioning:
    sources = [source.name for source in graph.sources]
    if graph.cyclic:
        return _undivided(sources, "a tuple on a cycle may meet any other tuple")
    lineage = lineage_of(graph)
    same = _Classes()
    for columns in lineage.values():
        for origins in columns.values():
            same.join(origins)
    agreed: set[Origin] | None = None
    keyed: list[str] = []
    for spec in graph:
        for port, key in enumerate(spec.partition_keys):
            if key is None:
                continue
            if key == () or _depends_on_others(graph, spec):
                return _undivided(sources, f"{spec.name} ({spec.kind}) needs every tuple in one place")
            stream = graph.inputs(spec.name)[port]
            feeding = _feeding(graph, stream.source)
            columns = lineage[f"{stream.source}.{stream.source_port}"]
            classes = {
                same.of(next(iter(columns[name])))
                for name in key
                if name in columns and {source for source, _ in columns[name]} == feeding
            }
            if not classes:
                return _undivided(
                    sources,
                    f"{spec.name} groups by {', '.join(key)}, which is not a column of the sources that feed it",
                )
            keyed.append(spec.name)
            agreed = classes if agreed is None else agreed & classes
            if not agreed:
                return _undivided(sources, f"{spec.name} and {keyed[0]} group by different columns")
    if agreed is None:
        return KeyPartitioning(dict.fromkeys(sources), "no operator has state, so any partitioning is correct")
    by_source: dict[str, tuple[str, ...] | None] = {}
    for source in graph.sources:
        candidates = [[c for s, c in same.members(cls) if s == source.name] for cls in sorted(agreed)]
        if any(len(columns) != 1 for columns in candidates):
            return _undivided(sources, f"the operators' keys do not come from one column of source {source.name}")
        by_source[source.name] = tuple(columns[0] for columns in candidates)
    names = sorted({", ".join(columns or ()) for columns in by_source.values()})
    return KeyPartitioning(by_source, f"{', '.join(dict.fromkeys(keyed))} divide their state by {' and '.join(names)}")


def _undivided(sources: list[str], reason: str) -> KeyPartitioning:
    return KeyPartitioning(dict.fromkeys(sources, ()), reason)


def _depends_on_others(graph: Graph, spec: OperatorSpec) -> bool:
    """Whether a keyed operator's output for one key depends on tuples of others."""
    if isinstance(spec, Aggregate) and isinstance(spec.window, Punctuated):
        return True  # one tuple causes a punctuation, which closes the windows of all groups
    # Outputs with one time boundary as their trigger are numbered over all keys.
    timed = any(min(shape.origins) <= TIMER for shape in graph.input_shapes(spec.name))
    return timed and isinstance(spec, Join | StatefulPython) and spec.renumbers(graph.input_shapes(spec.name))


def _feeding(graph: Graph, name: str) -> set[str]:
    """The sources upstream of an operator."""
    return {source.name for source in graph.sources if name in graph.reachable(source.name)}


def lineage_of(graph: Graph) -> dict[str, Lineage]:
    """For each output port (`name.port`), which columns are copies of source columns."""
    lineage: dict[str, Lineage] = {}
    for spec in graph:
        inputs = [lineage[f"{s.source}.{s.source_port}"] for s in graph.inputs(spec.name) if s.feedback is None]
        for port in range(spec.outputs):
            lineage[f"{spec.name}.{port}"] = _passed(spec, inputs)
    return lineage


def _passed(spec: OperatorSpec, inputs: list[Lineage]) -> Lineage:
    if isinstance(spec, Source):
        return {name: frozenset(((spec.name, name),)) for name in spec.schema.names}
    if isinstance(spec, MapBatches | SparkStep | StatefulPython | UserDefined):
        return {}
    if isinstance(spec, MapPython):
        made = {column.name for column in spec.added}
        return {name: origins for name, origins in inputs[0].items() if name not in made}
    if isinstance(spec, Aggregate):
        return {name: inputs[0][name] for name in spec.by if name in inputs[0]}
    if isinstance(spec, Join):
        pairs = dict(inputs[1]) | dict(inputs[0])
        for left, right in spec.on:
            if left in inputs[0] and right in inputs[1]:
                pairs[left] = pairs[right] = inputs[0][left] | inputs[1][right]
        # A column that is null without a match is not a copy; a shared column comes from the arriving tuple.
        shared = {left for left, right in spec.on if left == right}
        for port in (0, 1):
            if spec.outer(1 - port):
                for name in set(inputs[port]) - shared:
                    pairs.pop(name, None)
        return _renamed(pairs, spec.projections)
    if isinstance(spec, Functor | JoinTable | Scan):
        return _renamed(inputs[0], spec.projections)
    if isinstance(spec, Union):
        shared = set(inputs[0]).intersection(*inputs[1:])
        return {name: frozenset().union(*(columns[name] for columns in inputs)) for name in shared}
    if isinstance(spec, Barrier | Sort):
        return {name: origins for columns in inputs for name, origins in columns.items()}
    return dict(inputs[0]) if inputs else {}


def _renamed(columns: Lineage, projections: tuple[tuple[str, object], ...] | None) -> Lineage:
    if projections is None:
        return dict(columns)
    copies = {}
    for name, expression in projections:
        root = getattr(expression, "root", None)
        if isinstance(root, ColumnRef) and root.name in columns:
            copies[name] = columns[root.name]
    return copies


class _Classes:
    """Equivalence classes of source columns that have equal values in matching tuples (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[Origin, Origin] = {}

    def of(self, origin: Origin) -> Origin:
        while self._parent.setdefault(origin, origin) != origin:
            origin = self._parent[origin]
        return origin

    def join(self, origins: frozenset[Origin]) -> None:
        first, *others = sorted(origins)
        for other in others:
            self._parent[max(self.of(first), self.of(other))] = min(self.of(first), self.of(other))
        self.of(first)

    def members(self, cls: Origin) -> list[Origin]:
        return sorted(origin for origin in self._parent if self.of(origin) == cls)
