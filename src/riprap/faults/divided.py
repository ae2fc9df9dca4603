"""Whether the trials of an app can run key by key.

They can if the tuples of one key never affect those of another: then a trial replays only the keys that its fault
affects. The app must be partitioned by one column of its sources (`graph.partitioning`), and all state must be in count
windows per key: time windows depend on the time of all keys, and punctuations affect all keys. With an arrival jitter
no tuple may be merged twice: the second merge depends on the order in which the first one emitted tuples of all keys.
Nor may outputs of several ports share an order key: `_n` would depend on their arrival order.
"""

import pyarrow as pa

from riprap.faults.models import FaultKind
from riprap.graph.graph import Graph
from riprap.graph.order_keys import overlapping
from riprap.graph.partitioning import key_partitioning, lineage_of
from riprap.graph.specs import Aggregate, Delay, DropDuplicates, Join, OperatorSpec, Punctor, Scan, Source
from riprap.graph.windows import Count, Zero


def dividing_columns(graph: Graph) -> dict[str, tuple[str, ...]] | None:
    """The column of each source that partitions the app, or None if trials must replay everything."""
    partitioning = key_partitioning(graph)
    columns: dict[str, tuple[str, ...]] = {
        name: chosen for name, chosen in partitioning.columns.items() if chosen is not None and len(chosen) == 1
    }
    if len(columns) < len(graph.sources) or not all(_by_key_alone(spec) for spec in graph.operators):
        return None
    return (
        columns if not _merged_twice(graph) and not any(_renumbers(graph, spec) for spec in graph.operators) else None
    )


def runs_by_key(graph: Graph, kind: FaultKind) -> bool:
    """Whether trials of this fault can run key by key.

    A reorder holds tuples of all keys until a tuple of any key arrives; altered values could be keys. For a fault
    that affects only one tuple, the wrong key is known (`trials.py`).
    """
    columns = dividing_columns(graph)
    if columns is None or kind == "reorder":
        return False
    texts = all(pa.types.is_string(s.schema.field(name).type) for s in graph.sources for name in columns[s.name])
    return texts or kind not in ("diverge", "corrupt")


def key_copies(graph: Graph, name: str) -> frozenset[str]:
    """Columns of an operator's inputs, or of a source, that are copies of the partitioning columns."""
    columns = dividing_columns(graph)
    if columns is None:
        return frozenset()
    dividing = {(source, column) for source, names in columns.items() for column in names}
    spec = graph[name]
    if isinstance(spec, Source):
        return frozenset(columns[name])
    copies = lineage_of(graph)
    return frozenset(
        column
        for stream in graph.inputs(name)
        for column, origins in copies[f"{stream.source}.{stream.source_port}"].items()
        if origins & dividing
    )


def _by_key_alone(spec: OperatorSpec) -> bool:
    if isinstance(spec, Punctor | Delay):
        return False
    if not any(spec.stateful):
        return True
    if any(key is None or len(key) != 1 for key in spec.partition_keys):
        return False
    if isinstance(spec, Aggregate):
        return isinstance(spec.window, Count) and isinstance(spec.every, Count)
    if isinstance(spec, Scan):
        return True
    if isinstance(spec, DropDuplicates):
        return spec.within is None
    return (
        isinstance(spec, Join)
        and spec.how == "inner"
        and spec.per_group
        and all(isinstance(w, Count | Zero) for w in spec.windows)
    )


def _renumbers(graph: Graph, spec: OperatorSpec) -> bool:
    """Whether tuples of two ports can produce outputs with the same order key."""
    shapes = graph.input_shapes(spec.name)
    speaking = [shape for port, shape in enumerate(shapes) if not isinstance(spec, Join) or spec.triggers(port)]
    return spec.inputs > 1 and overlapping(speaking)


def _merged_twice(graph: Graph) -> bool:
    merging = [spec.name for spec in graph.operators if spec.inputs > 1]
    return any(b in graph.reachable(a) for a in merging for b in merging if a != b)
