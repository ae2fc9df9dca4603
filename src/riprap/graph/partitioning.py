"""Dividing an app by key: which columns of its sources keep everything that belongs together in one place.

Every stateful operator divides its state by columns. Where all of these columns come unchanged from columns of the
sources, and all operators agree on at least one of them, each partition of the sources by those columns can run on its
own: the outputs together are the outputs of the whole. Otherwise the app runs in one place, and `reason` says which
operator is why.
"""

from dataclasses import dataclass

from riprap.expressions.ast import ColumnRef
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TIMER
from riprap.graph.specs import Aggregate, Barrier, Functor, Join, OperatorSpec, Scan, Sort, Source, Union, UserDefined
from riprap.graph.windows import Punctuated

Origin = tuple[str, str]  # source, column
# by column: the source columns that it is a copy of, one per source that feeds it
Lineage = dict[str, frozenset[Origin]]


@dataclass(frozen=True)
class KeyPartitioning:
    """`columns` by source: None where any division will do, () where there must be none."""

    columns: dict[str, tuple[str, ...] | None]
    reason: str  # in words, for people

    @property
    def divisible(self) -> bool:
        return all(columns != () for columns in self.columns.values())


def key_partitioning(graph: Graph) -> KeyPartitioning:
    sources = [source.name for source in graph.sources]
    if graph.cyclic:
        return _undivided(sources, "what goes round a cycle may meet any tuple")
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
                return _undivided(sources, f"{spec.name} groups by other columns than {keyed[0]}")
    if agreed is None:
        return KeyPartitioning(dict.fromkeys(sources), "no operator has state, so any division will do")
    chosen: dict[str, tuple[str, ...] | None] = {}
    for source in graph.sources:
        own = [[c for s, c in same.members(cls) if s == source.name] for cls in sorted(agreed)]
        if any(len(columns) != 1 for columns in own):
            return _undivided(sources, f"the operators' keys do not lead back to one column of source {source.name}")
        chosen[source.name] = tuple(columns[0] for columns in own)
    names = sorted({", ".join(columns or ()) for columns in chosen.values()})
    return KeyPartitioning(chosen, f"{', '.join(dict.fromkeys(keyed))} keep their state by {' and '.join(names)}")


def _undivided(sources: list[str], reason: str) -> KeyPartitioning:
    return KeyPartitioning(dict.fromkeys(sources, ()), reason)


def _depends_on_others(graph: Graph, spec: OperatorSpec) -> bool:
    """Whether a keyed operator's output for one key depends on tuples of others."""
    if isinstance(spec, Aggregate) and isinstance(spec.window, Punctuated):
        return True  # a punctuation is one tuple's doing and closes every group's window
    # Numbering what one time boundary triggers counts over all keys.
    timed = any(TIMER in shape.origins for shape in graph.input_shapes(spec.name))
    return timed and isinstance(spec, Join) and spec.renumbers(graph.input_shapes(spec.name))


def _feeding(graph: Graph, name: str) -> set[str]:
    """Sources whose tuples may reach an operator."""
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
    if isinstance(spec, UserDefined):
        return {}
    if isinstance(spec, Aggregate):
        return {name: inputs[0][name] for name in spec.by if name in inputs[0]}
    if isinstance(spec, Join):
        pairs = dict(inputs[1]) | dict(inputs[0])
        for left, right in spec.on:
            if left in inputs[0] and right in inputs[1]:
                pairs[left] = pairs[right] = inputs[0][left] | inputs[1][right]
        # What is null where nothing matched is no copy; a column of both comes from the tuple that arrived.
        shared = {left for left, right in spec.on if left == right}
        for port in (0, 1):
            if spec.outer(1 - port):
                for name in set(inputs[port]) - shared:
                    pairs.pop(name, None)
        return _renamed(pairs, spec.projections)
    if isinstance(spec, Functor | Scan):
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
    """Which source columns hold the same value in tuples that belong together."""

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
