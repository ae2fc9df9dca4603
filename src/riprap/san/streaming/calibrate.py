"""Fits how state recovers after a loss, from a recorded stream (figures 5.10 and 5.11 of the published study).

For many random times, source rates and outages, it counts the tuples in the windows of all groups that lost a tuple.
This many tuples must be processed until all windows are correct. Fit: Z = αS + βL, where S is the number of tuples in
all windows and L the number of lost tuples.

While its state is wrong an operator may also emit too much or too little: the operator runs over the recorded stream
with and without a part missing, and the numbers of emitted tuples until it has recovered are compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.optimize import nnls

from riprap.base.randomness import generator
from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.graph.windows import Count, Time
from riprap.san.streaming.describe import Stability

RATES = (250.0, 350.0, 450.0, 550.0)  # source tuples/s
OUTAGES = (1.0, 3.0, 5.0, 9.0, 13.0, 17.0)  # seconds
MOMENTS = 1_000  # random times for each rate and outage
LEAST = 1_000  # tuples at a port; with fewer, it stays as without calibration
REPLAYS = 3  # runs with a part of the stream missing, for the tainted selectivity
_SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class Sample:
    """One point of the fitted curve: mean number of tuples to process after a loss."""

    lost: int
    needed: float


@dataclass(frozen=True)
class PortSamples:
    """Samples of one stateful port."""

    samples: list[Sample]
    state: float  # tuples of all its windows
    share: float  # its tuples per source tuple


def calibrate(
    graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]], seed: int = 1
) -> dict[tuple[str, int], Stability]:
    """The stability of every stateful port that gets enough tuples, from one run over the recorded inputs."""
    received, source_tuples = _received(graph, inputs)
    fitted = {}
    for (name, port), samples in _counted(graph, received, source_tuples, seed).items():
        penalty, staleness = fit(samples.samples, samples.state)
        ratio = _tainted_ratio(graph, name, port, received[name], samples.samples)
        fitted[name, port] = Stability(penalty, staleness, tainted_ratio=ratio)
    return fitted


def samples_of(
    graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]], seed: int = 1
) -> dict[tuple[str, int], PortSamples]:
    """The samples of the fits, by operator and stateful port."""
    return _counted(graph, *_received(graph, inputs), seed)


Received = dict[str, dict[int, list[pa.RecordBatch]]]  # by stateful operator and port


def _received(graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]]) -> tuple[Received, int]:
    """The input of the stateful operators, and the number of source tuples."""
    received: Received = {spec.name: {} for spec in graph.operators if any(spec.stateful)}

    def watch(name: str, port: int, batch: pa.RecordBatch) -> None:
        if name in received:
            received[name].setdefault(port, []).append(batch)

    source_tuples = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        nonlocal source_tuples
        for batch in batches:
            source_tuples += batch.num_rows
            yield batch

    for _ in Engine(graph, watch=watch).run({name: counted(batches) for name, batches in inputs.items()}):
        pass
    return received, source_tuples


def _counted(graph: Graph, received: Received, source_tuples: int, seed: int) -> dict[tuple[str, int], PortSamples]:
    samples_by_port = {}
    for name, ports in received.items():
        spec = graph[name]
        for port, is_stateful in enumerate(spec.stateful):
            if not is_stateful:
                continue
            batches = ports.get(port, [])
            total = sum(batch.num_rows for batch in batches)
            if total < LEAST:
                continue
            groups, sizes = windows_of(batches, spec.partition_keys[port] or (), spec.windows[port])
            samples = measure(groups, sizes, total / source_tuples, seed)
            if not samples:
                continue  # the stream is shorter than every outage
            samples_by_port[name, port] = PortSamples(samples, float(sizes.sum()), total / source_tuples)
    return samples_by_port


def measure(groups: np.ndarray, sizes: np.ndarray, share: float, seed: int) -> list[Sample]:
    """Mean number of tuples to replace after losses of different lengths.

    `groups[i]`: the group of the i-th tuple of the port; `sizes[g]`: tuples in the window of group g; `share`: tuples
    of the port per source tuple.
    """
    samples = []
    for lost in sorted({max(1, round(rate * share * outage)) for rate in RATES for outage in OUTAGES}):
        if lost >= len(groups):
            continue
        starts = generator(seed, "calibration", lost).integers(0, len(groups) - lost, MOMENTS)
        needed = [float(sizes[np.unique(groups[start : start + lost])].sum()) for start in starts]
        samples.append(Sample(lost, float(np.mean(needed))))
    return samples


def fit(samples: Sequence[Sample], state: float) -> tuple[float, float]:
    """α and β of Z = αS + βL, neither negative, by least squares over the points below the cap."""
    below = [sample for sample in samples if sample.needed < 0.98 * state] or list(samples)
    matrix = np.array([[state, sample.lost] for sample in below], float)
    (penalty, staleness), _ = nnls(matrix, np.array([sample.needed for sample in below]))
    return float(penalty), float(staleness)


def windows_of(batches: list[pa.RecordBatch], keys: Sequence[str], window: object) -> tuple[np.ndarray, np.ndarray]:
    """The group of every tuple, and the number of tuples in the window of each group."""
    table = pa.Table.from_batches(batches)
    codes = np.zeros(table.num_rows, np.int64)
    for key in keys:
        column = table.column(key).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        more = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy() + 1  # nulls are one group
        codes = codes * (int(more.max()) + 1) + more
    _, groups = np.unique(codes, return_inverse=True)
    count = int(groups.max()) + 1
    if isinstance(window, Count):
        return groups, np.full(count, window.size)
    moments = table.column(TS).cast(pa.int64()).to_numpy()
    length = max(1, int(moments[-1] - moments[0]))
    span = window.size if isinstance(window, Time) else length
    # A time window holds the arrivals of its length; a window that only punctuation ends holds everything.
    return groups, np.maximum(1, np.bincount(groups, minlength=count) * min(1.0, span / length)).astype(np.int64)


def _tainted_ratio(
    graph: Graph, name: str, port: int, received: Mapping[int, list[pa.RecordBatch]], samples: Sequence[Sample]
) -> float:
    """Tuples that the operator emits while the state of `port` is wrong, relative to the correct number."""
    streams = graph.inputs(name)
    schemas = [graph.physical(stream.source, stream.source_port) for stream in streams]
    received = {number: [_padded(batch, schemas[number]) for batch in batches] for number, batches in received.items()}
    golden = {stream.id: received.get(number, []) for number, stream in enumerate(streams)}
    loss = samples[len(samples) // 2]
    complete = pa.Table.from_batches(received[port])
    moments = complete.column(TS).cast(pa.int64()).to_numpy()
    expected = _output_moments(graph, name, golden)
    ratios = []
    for replay in range(1, REPLAYS + 1):
        start = complete.num_rows * replay // (REPLAYS + 1)
        after = start + loss.lost
        until = min(complete.num_rows - 1, after + round(loss.needed))
        if until <= after:
            continue
        incomplete = pa.concat_tables([complete.slice(0, start), complete.slice(after)])
        emitted = _output_moments(graph, name, {**golden, streams[port].id: incomplete.combine_chunks().to_batches()})
        low, high = moments[after], moments[until]
        right = np.count_nonzero((expected >= low) & (expected < high))
        if right:
            ratios.append(np.count_nonzero((emitted >= low) & (emitted < high)) / right)
    return float(np.mean(ratios)) if ratios else 1.0


def _padded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Adds blanks for pruned columns, which the operator passes through when it runs alone."""
    columns = {field.name: field.type for field in schema}
    present = batch.schema.names
    arrays = [batch.column(n) if n in present else _blank(batch.num_rows, type_) for n, type_ in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _blank(rows: int, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), _blank(1, type_.value_type)).cast(type_)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pa.array([""] * rows, type_)
    return pa.array(np.zeros(rows, np.int64)).cast(type_)


def _output_moments(graph: Graph, name: str, inputs: Mapping[str, list[pa.RecordBatch]]) -> np.ndarray:
    """`_ts` of everything that one operator emits."""
    outputs = [
        _moments(output.event)
        for output in Engine(graph, members=[name]).run(inputs)
        if isinstance(output.event, pa.RecordBatch)
    ]
    return np.concatenate(outputs) if outputs else np.zeros(0, np.int64)


def _moments(batch: pa.RecordBatch) -> np.ndarray:
    return batch.column(TS).cast(pa.int64()).to_numpy()
