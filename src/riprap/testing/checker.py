"""Checks any operator, including user-defined ones, against the operator contract (`contract.py`).

    check_operator(graph, "Totals", [batch])      # raises ContractViolation, or returns
    check_operator(graph, "Totals")               # with edge values of every type (`edge_values.py`)

The baseline processes the input row by row. Each of `rounds` rounds cuts it at random positions, delivers each piece
port by port or merged, and saves and restores the operator between pieces in every supported form. Every round must
produce the baseline's output. The rounds follow from the seed; a violation names the seed and the cuts.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import pack
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from riprap.base.errors import CheckFailed, DataError, UsageError
from riprap.base.randomness import generator
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS, START_KEY, KeyShape, OrderKey
from riprap.graph.specs import Source
from riprap.operators.build import make_operator
from riprap.operators.columns import concatenated, keys_of
from riprap.operators.contract import (
    Channel,
    Emission,
    Event,
    Operator,
    OperatorState,
    Punctuation,
    merge_states,
    split_state,
)
from riprap.operators.edge_values import edge_inputs

Input: TypeAlias = pa.RecordBatch | Sequence[Event]
Fingerprint = tuple[bytes, bytes]  # of a digest: the keys' hashes and their digests


class ContractViolation(CheckFailed):
    """An operator violated the contract."""


def check_operator(
    graph: Graph, name: str, inputs: Sequence[Input] | None = None, *, seed: int = 0, rounds: int = 20
) -> None:
    """Check an operator of a graph on these inputs: for each port a batch, or batches and punctuations in order.

    Batches have the port's columns and order key (`graph.physical` of the stream that feeds it). Without inputs it is
    checked on edge values. If the operator refuses its input (an integer beyond 64 bits), it must refuse it however it
    is cut.
    """
    spec = graph[name]
    if isinstance(spec, Source) or not spec.deterministic:
        raise UsageError(
            f"operator {name}: a source, or an operator declared not deterministic, has no contract to check"
        )
    if inputs is None:
        inputs = edge_inputs(graph, name, seed)
    if len(inputs) != spec.inputs:
        raise UsageError(f"operator {name} has {spec.inputs} input ports, and {len(inputs)} inputs were given")
    feed = _feed(inputs, graph.input_shapes(name))
    saved = pickle.dumps(feed.batches)
    baseline = _Run(graph, name, feed, f"operator {name}, row by row")
    fingerprints = [baseline.fingerprint()]
    refused = ""
    try:
        for position in range(len(feed.ports)):
            baseline.deliver(position, position + 1, merged=False)
            fingerprints.append(baseline.fingerprint())
        baseline.finish()
    except DataError as error:
        refused = str(error)
    for number in range(rounds):
        chance = generator(seed, "check", name, number)
        pieces = int(chance.integers(1, min(len(feed.ports), 12) + 1)) if len(feed.ports) else 1
        cuts = sorted({0, len(feed.ports), *chance.integers(0, len(feed.ports) + 1, pieces - 1).tolist()})
        run = _Run(graph, name, feed, f"operator {name}, seed {seed}, round {number}, cut at {cuts}")
        try:
            for start, stop in pairwise(cuts):
                run.deliver(start, stop, merged=bool(chance.integers(2)))
                run.promise(run.fingerprint() == fingerprints[stop], "equal state has an equal digest", stop)
                run.save(chance)
                run.promise(run.fingerprint() == fingerprints[stop], "a restored state has the same digest", stop)
            run.finish()
        except DataError as error:
            what = f"refusals must not depend on batches; row by row it accepted what it now refuses: {error}"
            run.promise(bool(refused), what, len(feed.ports))
            continue
        what = f"refusals must not depend on batches; row by row it refused: {refused}"
        run.promise(not refused, what, len(feed.ports))
        run.compare(baseline)
    if pickle.dumps(feed.batches) != saved:
        raise ContractViolation(f"operator {name}: it modified its input; input batches are read-only")


@dataclass(frozen=True)
class _Feed:
    """The whole input in the order in which it is delivered: by order key, lower ports first among equal keys."""

    batches: list[pa.RecordBatch]  # all rows of each port
    ports: np.ndarray  # of each delivered row
    rows: np.ndarray  # its row in the port's batch
    keys: list[OrderKey]
    marks: dict[int, list[tuple[int, Punctuation]]]  # port and punctuation, before the row with that number

    def piece(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """The rows of each port in a piece of the delivery."""
        pieces = []
        for port, batch in enumerate(self.batches):
            own = self.rows[start:stop][self.ports[start:stop] == port]
            pieces.append(batch.slice(int(own[0]), len(own)) if len(own) else batch.slice(0, 0))
        return pieces


def _feed(inputs: Sequence[Input], shapes: tuple[KeyShape, ...]) -> _Feed:
    batches, delivery, punctuations = [], [], []
    for port, (given, shape) in enumerate(zip(inputs, shapes, strict=True)):
        events = [given] if isinstance(given, pa.RecordBatch) else list(given)
        parts = [event for event in events if isinstance(event, pa.RecordBatch)]
        if not parts:
            raise UsageError(f"port {port} was given no batch; give it an empty one")
        columns = [concatenated([part.column(name) for part in parts]) for name in parts[0].schema.names]
        batch = pa.RecordBatch.from_arrays(columns, names=parts[0].schema.names)
        keys = keys_of(batch, shape)
        delivery += [(keys.at(row), port, row) for row in range(batch.num_rows)]
        punctuations += [(event.key, port, event) for event in events if isinstance(event, Punctuation)]
        batches.append(batch)
    delivery.sort()
    marks: dict[int, list[tuple[int, Punctuation]]] = {}
    for key, port, punctuation in sorted(punctuations, key=lambda mark: mark[:2]):
        after = sum((row_key, row_port) <= (key, port) for row_key, row_port, _ in delivery)
        marks.setdefault(after, []).append((port, punctuation))
    ports = np.array([port for _, port, _ in delivery], np.int8)
    rows = np.array([row for _, _, row in delivery], np.int64)
    return _Feed(batches, ports, rows, [key for key, _, _ in delivery], marks)


class _Run:
    """Runs an operator, or a chain of operators each restored from the previous one, over a feed."""

    def __init__(self, graph: Graph, name: str, feed: _Feed, where: str) -> None:
        self._make: Callable[[], Operator] = lambda: make_operator(graph, name)
        self._operator = self._make()
        self._feed, self._where = feed, where
        self._by_key = any(graph[name].stateful) and all(graph[name].partition_keys)
        self._chain: list[OperatorState] = []  # a snapshot and the deltas since, of this operator
        self._watermark = START_KEY
        self._last: dict[int, OrderKey] = {}  # of each output port
        self.outputs: dict[int, list[tuple[object, ...]]] = {}

    def promise(self, holds: bool, promise: str, position: int) -> None:
        if not holds:
            raise ContractViolation(f"{self._where}: after {position} rows this was violated: {promise}")

    # Delivery ---------------------------------------------------------------------------------------------------------

    def deliver(self, start: int, stop: int, *, merged: bool) -> None:
        """Rows from `start` to `stop` and the punctuations that follow; then, if possible, a watermark beyond them."""
        if start == 0:
            self._marks(0)
        edges = sorted({start, stop, *(mark for mark in self._feed.marks if start < mark < stop)})
        for first, last in pairwise(edges):
            (self._merged if merged else self._by_port)(first, last)
            self._marks(last)
        key, following = self._feed.keys[stop - 1], self._feed.keys[stop : stop + 1]
        beyond = key._replace(seq=key.seq + 1)  # no row has this key, except possibly the next one
        if not following or following[0] > key:  # else another port's tuple has the same key
            reached = key if following and following[0] <= beyond else beyond
            self._take(self._operator.watermark(reached), None, stop)
            self._watermark = self._operator.output_watermark(reached)

    def _merged(self, start: int, stop: int) -> None:
        batches = self._feed.piece(start, stop)
        self._take(self._operator.process_merged(batches, self._feed.ports[start:stop]), stop - start, stop)

    def _by_port(self, start: int, stop: int) -> None:
        ports = self._feed.ports
        while start < stop:
            end = start + 1
            while end < stop and ports[end] == ports[start]:
                end += 1
            port = int(ports[start])
            batch = self._feed.piece(start, end)[port]
            self._take(self._operator.process(Channel(port), batch), end - start, end)
            start = end

    def _marks(self, position: int) -> None:
        for port, punctuation in self._feed.marks.get(position, ()):
            self._take(self._operator.punctuate(Channel(port), punctuation), None, position)

    def finish(self) -> None:
        if not len(self._feed.ports):
            self._marks(0)
        self._take(self._operator.end(), None, len(self._feed.ports))

    # Output -----------------------------------------------------------------------------------------------------------

    def _take(self, emissions: Sequence[Emission], rows: int | None, position: int) -> None:
        """Check the emissions of a call with `rows` input rows (None: a control call), and store them to compare."""
        for emission in emissions:
            out = self.outputs.setdefault(emission.port, [])
            if isinstance(emission.event, Punctuation):
                out.append(("punctuation", *emission.event.key))
                continue
            batch = emission.event
            if rows is not None:
                self._check_triggers(emission.triggers, batch.num_rows, rows, position)
            shape = self._operator.setting.output_shapes[emission.port]
            schema = self._operator.setting.output_schemas[emission.port]
            expected = [*schema.names, *(field.name for field in shape.fields)]
            columns = [name for name in batch.schema.names if name in expected or name not in KEY_COLUMNS]
            self.promise(columns == expected, f"batches have the columns {expected}, not {columns}", position)
            keys = keys_of(batch, shape)
            values = [map(_comparable, _plain(batch.column(name))) for name in schema.names]
            rows_out = list(zip(*values, strict=True)) if values else [()] * batch.num_rows
            for row, content in enumerate(rows_out):
                key, last = keys.at(row), self._last.get(emission.port, START_KEY)
                self.promise(key > last, f"output keys ascend and are unique, and {key} follows {last}", position)
                self.promise(key > self._watermark, f"output {key} is above the watermark {self._watermark}", position)
                self._last[emission.port] = key
                out.append((*key, *content))

    def _check_triggers(self, triggers: np.ndarray | None, count: int, rows: int, position: int) -> None:
        if triggers is None:
            self.promise(count == rows, "without triggers each input row has one output row", position)
            return
        ascending = bool((np.diff(triggers) >= 0).all())
        self.promise(len(triggers) == count and ascending, "every output row has a trigger, never falling", position)
        within = not count or (triggers[0] >= 0 and triggers[-1] < rows)
        self.promise(bool(within), "a trigger is a row of the call's input", position)

    def compare(self, baseline: "_Run") -> None:
        end = len(self._feed.ports)
        for port in {*self.outputs, *baseline.outputs}:
            mine, other = self.outputs.get(port, []), baseline.outputs.get(port, [])
            for place, (found, expected) in enumerate(zip(mine, other, strict=False)):
                what = f"the output does not depend on batches and restores; output {place} of port {port} is {found}"
                self.promise(found == expected, f"{what}, and row by row it was {expected}", end)
            what = f"the output does not depend on batches and restores; port {port} emitted {len(mine)} items"
            self.promise(len(mine) == len(other), f"{what}, and row by row {len(other)}", end)

    # State ------------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        keys, digests = self._operator.digest()
        return keys.tobytes(), digests.tobytes()

    def save(self, chance: np.random.Generator) -> None:
        """Save the operator in a random form, and continue with a restored one or with the same one."""
        forms = ["nothing", "snapshot", "delta", "delta and restore", *(["split"] if self._by_key else [])]
        form = forms[int(chance.integers(len(forms)))]
        if form == "nothing":
            return
        size = self._operator.size()
        if form in ("snapshot", "split") or not self._chain:
            self._chain = [self._operator.snapshot()]
        else:
            part = self._operator.delta(self._chain[-1].version)
            self._chain = [part] if part.since is None else [*self._chain, part]
        if form == "delta":
            return
        parts: list[OperatorState] = pickle.loads(pickle.dumps(self._chain))
        if form == "split" and not parts[0].blob:
            bounds = sorted(chance.integers(0, 2**64, int(chance.integers(1, 4)), np.uint64).tolist())
            parts = [merge_states(split_state(parts[0], bounds))]
        self._operator = self._make()
        self._operator.restore(parts)
        self._chain = parts
        position = self._operator.version
        self.promise(self._operator.size() == size, f"a state restored by {form} has the same size", position)


def _plain(column: pa.Array) -> list[object]:
    """Dates and times as numbers: Python's ranges are smaller than Arrow's."""
    if pa.types.is_date32(column.type) or pa.types.is_timestamp(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return column.to_pylist()  # type: ignore[no-any-return]


def _comparable(value: object) -> object:
    """Compares like Python, but floats by their bits: -0.0 differs from 0.0, and a NaN has a sign."""
    if isinstance(value, float):
        return f"{value!r} ({pack('>d', value).hex()})"
    if isinstance(value, dict):
        return [(name, _comparable(one)) for name, one in value.items()]
    return [_comparable(one) for one in value] if isinstance(value, list | tuple) else value
