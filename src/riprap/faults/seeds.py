"""Golden runs under other jitter seeds, without running everything again.

A jitter changes nothing but the order in which an operator with several ports takes their tuples. Where that operator is
a join over count windows per key and nothing behind it has state, an output depends on its trigger and on the last tuples
of its key on the other port. Those can only change for a trigger with a tuple of its key on the other port within the bound
of the jitter. So, for every seed alike, these *unsettled* triggers are run again, with the tuples that they may meet, through the
join itself; all other outputs stay as they are.

Other apps are run again from the streams that reach their first merging operators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine, Output
from riprap.engine.inputs import BATCH_ROWS
from riprap.engine.jitter import Jitter
from riprap.faults.outputs import OutputRows, SinkReader, joined
from riprap.faults.recording import Recording
from riprap.graph.graph import Graph
from riprap.graph.specs import Join
from riprap.graph.windows import Count
from riprap.operators.columns import keys_of
from riprap.operators.kernels import kernel


class GoldenOutputs(Protocol):
    """Golden outputs of any seed. `settled` are those that all seeds share; `unsettled` gives the rest."""

    settled: dict[str, OutputRows]

    def unsettled(self, jitter: Jitter) -> dict[str, OutputRows]:
        """By sink, the outputs under this jitter that `settled` has not."""


@dataclass(frozen=True)
class _Port:
    """The tuples that reach one port of the merging operator."""

    stream: str
    batch: pa.RecordBatch
    position: np.ndarray
    part: np.ndarray


def golden_outputs(
    graph: Graph, recording: Recording, readers: Sequence[SinkReader], bound: int, *, divided: bool
) -> GoldenOutputs:
    """Prepare golden runs under jitters of at most `bound` tuples (or microseconds)."""
    merging = [spec.name for spec in graph.operators if spec.inputs > 1]
    if not merging:
        return _Fixed(graph, recording, readers)
    if divided and len(merging) == 1 and len(recording.sources) == 1 and _settles(graph, merging[0]):
        return _Unsettled(graph, recording, readers, merging[0], bound)
    return _Rerun(graph, recording, readers, merging)


def _settles(graph: Graph, name: str) -> bool:
    spec = graph[name]
    behind = graph.reachable(name) - {name}
    if not isinstance(spec, Join) or all(spec.triggers(port) for port in (0, 1)):
        return False  # with two speaking ports one source tuple can be two triggers
    return not any(any(graph[other].stateful) for other in behind)


class _Fixed:
    """Without merging operators there is one golden run."""

    def __init__(self, graph: Graph, recording: Recording, readers: Sequence[SinkReader]) -> None:
        outputs = list(recording.feed(Engine(graph), 0, recording.tuples))
        self.settled = {reader.sink: reader.read(outputs) for reader in readers}

    def unsettled(self, jitter: Jitter) -> dict[str, OutputRows]:
        return {sink: rows.rows(np.empty(0, np.int64)) for sink, rows in self.settled.items()}


class _Rerun:
    """Every seed anew, from the streams into merging operators on."""

    def __init__(
        self, graph: Graph, recording: Recording, readers: Sequence[SinkReader], merging: Sequence[str]
    ) -> None:
        self.graph, self.readers = graph, readers
        self.behind = frozenset().union(*(graph.reachable(name) for name in merging))
        before = [spec.name for spec in graph.operators if spec.name not in self.behind]
        self.inputs: dict[str, list[pa.RecordBatch]] = {
            s.id: [] for s in graph.streams if s.target in self.behind and s.source not in self.behind
        }
        engine = Engine(graph, before)
        fixed = []
        for output in recording.feed(engine, 0, recording.tuples):
            if output.name in self.inputs and isinstance(output.event, pa.RecordBatch):
                self.inputs[output.name].append(output.event)
            else:
                fixed.append(output)
        self.settled = {reader.sink: reader.read(fixed) for reader in readers}

    def unsettled(self, jitter: Jitter) -> dict[str, OutputRows]:
        engine = Engine(self.graph, self.behind, jitter=jitter)
        outputs = list(engine.run(self.inputs))
        return {reader.sink: reader.read(outputs) for reader in self.readers}


class _Unsettled:
    """Only triggers whose outcome can depend on the seed."""

    def __init__(
        self, graph: Graph, recording: Recording, readers: Sequence[SinkReader], join: str, bound: int
    ) -> None:
        behind = graph.reachable(join)
        self.graph, self.readers, self.members = graph, readers, behind
        ports, fixed = _ports(graph, recording, join, behind)
        spec = graph[join]
        assert isinstance(spec, Join)
        sizes = [window.size if isinstance(window, Count) else 0 for window in spec.windows]
        speaking = 0 if spec.triggers(0) else 1
        own, other = ports[speaking], ports[1 - speaking]
        unsettled, met = np.zeros(len(own.position), bool), np.zeros(len(other.position), bool)
        find_unsettled(
            own.position, own.part, np.argsort(own.part, kind="stable"),
            other.position, other.part, np.argsort(other.part, kind="stable"),
            bound, sizes[1 - speaking], unsettled, met,
        )  # fmt: skip
        self.positions = own.position[unsettled]  # ascending: a stream is in order
        self.batches = {
            own.stream: own.batch.take(pa.array(np.flatnonzero(unsettled))),
            other.stream: other.batch.take(pa.array(np.flatnonzero(met))),
        }
        base = Engine(graph, behind)
        whole = {port.stream: _sliced(port.batch) for port in ports}
        outputs = [*fixed, *base.run(whole)]
        self.settled = {reader.sink: self._chosen(reader.read(outputs), settled=True) for reader in readers}

    def unsettled(self, jitter: Jitter) -> dict[str, OutputRows]:
        engine = Engine(self.graph, self.members, jitter=jitter)
        outputs = list(engine.run({stream: [batch] for stream, batch in self.batches.items()}))
        return {reader.sink: self._chosen(reader.read(outputs), settled=False) for reader in self.readers}

    def _chosen(self, rows: OutputRows, *, settled: bool) -> OutputRows:
        return rows.rows(np.flatnonzero(np.isin(rows.position, self.positions) != settled)) if rows.count else rows


def _ports(
    graph: Graph, recording: Recording, join: str, behind: frozenset[str]
) -> tuple[list[_Port], list[Output]]:
    before = [spec.name for spec in graph.operators if spec.name not in behind]
    streams = graph.inputs(join)
    found: dict[str, list[pa.RecordBatch]] = {stream.id: [] for stream in streams}
    fixed = []
    for output in recording.feed(Engine(graph, before), 0, recording.tuples):
        if output.name in found:
            if isinstance(output.event, pa.RecordBatch):
                found[output.name].append(output.event)
        else:
            fixed.append(output)
    ports = []
    for stream in streams:
        batches = found[stream.id] or [pa.RecordBatch.from_pylist([], schema=graph.physical(stream.source, stream.source_port))]
        table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        batch = table.to_batches()[0] if table.num_rows else batches[0]
        positions = recording.positions_of(keys_of(batch, graph.stream_shape(stream)))
        ports.append(_Port(stream.id, batch, positions, recording.parts_of(positions)))
    return ports, fixed


def _sliced(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(row, BATCH_ROWS) for row in range(0, batch.num_rows, BATCH_ROWS)]


@kernel
def find_unsettled(position, part, order, other_position, other_part, other_order, bound, window, unsettled, met):
    """Rows of one port with a row of their part on the other port within `bound`, and what they may meet there.

    `order` lists rows by part, in order within each. Marks triggers in `unsettled`, and in `met` the other port's rows within the
    bound of each and the `window` rows before those.
    """
    other_rows = len(other_order)
    first = 0  # of this part on the other port
    low = 0  # first row of the part there that is not too early for the trigger
    current = -1
    for k in range(len(order)):
        row = order[k]
        if part[row] != current:
            current = part[row]
            while first < other_rows and other_part[other_order[first]] < current:
                first += 1
            low = first
        at = position[row]
        while (
            low < other_rows
            and other_part[other_order[low]] == current
            and other_position[other_order[low]] < at - bound
        ):
            low += 1
        if low == other_rows or other_part[other_order[low]] != current or other_position[other_order[low]] > at + bound:
            continue
        unsettled[row] = True
        high = low
        while (
            high < other_rows
            and other_part[other_order[high]] == current
            and other_position[other_order[high]] <= at + bound
        ):
            met[other_order[high]] = True
            high += 1
        for back in range(low - window, low):
            if back >= first and other_part[other_order[back]] == current:
                met[other_order[back]] = True
