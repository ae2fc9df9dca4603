"""Golden runs under other jitter seeds, without running everything again.

A jitter only changes the order in which an operator with several ports processes their tuples. If that operator is a
join over count windows per key and no operator behind it is stateful, an output depends only on its trigger and on the
last tuples of its key on the other port. These can change only if the other port has a tuple of that key within the
bound of the jitter. So for each seed only these *unsettled* triggers are run again through the join, with the tuples
that they may join with; all other outputs are the same for every seed.

Other apps are run again from the input streams of their first merging operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.recording import Recording
from riprap.faults.trial_outputs import OutputRows, SinkReader, among, no_rows
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.specs import Delay, Join, Punctor, Sort
from riprap.graph.windows import Count
from riprap.operators.columns import keys_of
from riprap.operators.kernels.selecting import by_part, find_unsettled


@dataclass(frozen=True)
class GoldenOutputs:
    """Golden outputs of any seed, by sink: `settled` are those that all seeds share; `unsettled` computes the rest.

    `inputs`: the tuples to run again, by stream into `members` (empty: everything from the sources). `positions`: of
    the unsettled triggers, ascending (None: all). Without `members` nothing depends on the seed.
    """

    members: frozenset[str]
    inputs: Mapping[str, list[pa.RecordBatch]]
    settled: Mapping[str, OutputRows]
    positions: np.ndarray | None

    def unsettled(self, graph: Graph, readers: Sequence[SinkReader], jitter: Jitter | None) -> dict[str, OutputRows]:
        if not self.members:
            return {reader.sink: no_rows(reader.score) for reader in readers}
        if self.inputs:
            outputs = list(Engine(graph, self.members, jitter=jitter, cut_everywhere=True).run(self.inputs))
        else:
            recording = readers[0].recording
            outputs = list(recording.feed(Engine(graph, jitter=jitter, cut_everywhere=True), 0, recording.tuples))
        return {reader.sink: _at(reader.read(outputs), self.positions, inside=True) for reader in readers}


@dataclass(frozen=True)
class _Port:
    """The input of one port of the merging operator."""

    stream: str
    batch: pa.RecordBatch
    position: np.ndarray
    part: np.ndarray


def golden_outputs(
    graph: Graph, recording: Recording, readers: Sequence[SinkReader], bound: int, *, divided: bool
) -> GoldenOutputs:
    """Prepares golden runs under jitters of at most `bound` tuples (or microseconds)."""
    if any(isinstance(spec, Punctor | Sort | Delay) for spec in graph.operators):
        # Punctuations are not recorded with the tuples, and delayed tuples have a different time from their position:
        # run everything again.
        everything = frozenset(spec.name for spec in graph.operators)
        return GoldenOutputs(everything, {}, {reader.sink: no_rows(reader.score) for reader in readers}, None)
    merging = [spec.name for spec in graph.operators if spec.inputs > 1]
    members = frozenset().union(*(graph.reachable(name) for name in merging))
    entering = {(s.target, s.target_port): s for s in graph.streams if s.target in members and s.source not in members}
    inputs: dict[str, list[pa.RecordBatch]] = {stream.id: [] for stream in entering.values()}

    def watch(name: str, port: int, batch: pa.RecordBatch) -> None:
        if (name, port) in entering:
            inputs[entering[name, port].id].append(batch)

    outputs = list(recording.feed(Engine(graph, watch=watch), 0, recording.tuples))
    base = {reader.sink: reader.read(outputs) for reader in readers}
    if divided and len(merging) == 1 and len(recording.sources) == 1 and _settles(graph, merging[0]):
        rerun, positions = _unsettled(graph, recording, merging[0], inputs, bound)
        behind = {sink: _at(rows, positions, inside=False) if sink in members else rows for sink, rows in base.items()}
        return GoldenOutputs(members, rerun, behind, positions)
    return GoldenOutputs(
        members,
        inputs,
        {r.sink: no_rows(r.score) if r.sink in members else base[r.sink] for r in readers},
        None,
    )


def _settles(graph: Graph, name: str) -> bool:
    spec = graph[name]
    behind = graph.reachable(name) - {name}
    if not isinstance(spec, Join) or all(spec.triggers(port) for port in (0, 1)):
        return False  # with two triggering ports one source tuple can be two triggers
    return not any(any(graph[other].stateful) for other in behind)


def _unsettled(
    graph: Graph, recording: Recording, join: str, inputs: Mapping[str, list[pa.RecordBatch]], bound: int
) -> tuple[dict[str, list[pa.RecordBatch]], np.ndarray]:
    """The triggers that a seed can change with the tuples that they may join with, and the triggers' positions."""
    spec = graph[join]
    assert isinstance(spec, Join)
    triggering = 0 if spec.triggers(0) else 1
    ports = [_port(graph, recording, stream, inputs[stream.id]) for stream in graph.inputs(join)]
    trigger_port, other = ports[triggering], ports[1 - triggering]
    window = spec.windows[1 - triggering]
    unsettled, joinable = np.zeros(len(trigger_port.position), bool), np.zeros(len(other.position), bool)
    find_unsettled(
        trigger_port.position, trigger_port.part, by_part(trigger_port.part, recording.parts)[0],
        other.position, other.part, by_part(other.part, recording.parts)[0],
        bound, window.size if isinstance(window, Count) else 0, unsettled, joinable,
    )  # fmt: skip
    rerun = {
        trigger_port.stream: [trigger_port.batch.take(pa.array(np.flatnonzero(unsettled)))],
        other.stream: [other.batch.take(pa.array(np.flatnonzero(joinable)))],
    }
    return rerun, trigger_port.position[unsettled]


def _port(graph: Graph, recording: Recording, stream: StreamSpec, batches: list[pa.RecordBatch]) -> _Port:
    nothing = pa.RecordBatch.from_pylist([], schema=graph.physical(stream.source, stream.source_port))
    table = pa.Table.from_batches(batches or [nothing]).unify_dictionaries().combine_chunks()
    batch = table.to_batches()[0] if table.num_rows else nothing
    positions = recording.positions_of(keys_of(batch, graph.stream_shape(stream)))
    return _Port(stream.id, batch, positions, recording.parts_of(positions))


def _at(rows: OutputRows, positions: np.ndarray | None, *, inside: bool) -> OutputRows:
    """The rows at these positions, or at all others."""
    if positions is None or not rows.size:
        return rows
    return rows.rows(np.flatnonzero(among(positions, rows.position) == inside))
