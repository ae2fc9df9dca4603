"""Profiles each operator over a recorded stream: rates, selectivity, time per tuple, state.

Two engines process the stream side by side. One runs operator by operator and counts. The other runs in pieces, as in
production, and is timed: the time in a piece's loop per tuple, and the cost of a batch at its edges. The time of a loop
is divided among its operators in proportion to their times in the first engine.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.engine.engine import Engine
from riprap.engine.piece import RunningPiece
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.operators.columns import view
from riprap.operators.contract import Operator

_SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class OperatorProfile:
    """One operator over a whole recorded stream. Rates are in tuples per second of event time."""

    name: str
    kind: str
    tuples_in: tuple[int, ...]  # per input port (for a source: its input)
    tuples_out: tuple[int, ...]  # per output port
    mean_rate: tuple[float, ...]  # per input port: tuples over the time of the data
    peak_rate: tuple[float, ...]  # per input port: the most tuples in any whole second
    selectivity: tuple[float, ...]  # per output port: output tuples per input tuple
    port_selectivity: tuple[float, ...]  # per input port: outputs that this port's tuples triggered, per tuple
    seconds_per_tuple: float  # wall clock, in this operator, per input tuple; in a loop, its share
    state_tuples: int  # in its state when the input ends, before the end closes windows
    state_bytes: int
    port_state: tuple[int, ...] = ()  # per input port: tuples of it in the state
    peak_bytes: int = 0  # of its state, the most after any batch of input
    peak_port: tuple[int, ...] = ()  # per input port: tuples of it in the state then


@dataclass(frozen=True)
class PieceProfile:
    """Operators that run as one loop."""

    operators: tuple[str, ...]
    tuples: int  # that entered
    batches: int  # in which they entered
    seconds_per_tuple: float  # in the loop, per tuple that entered
    seconds_per_batch: float  # at the edges: passing a batch in, and its output out


@dataclass(frozen=True)
class Profile:
    app: str
    seconds: float  # of event time, first tuple of a source to last
    tuples: int  # input of the sources
    operators: Mapping[str, OperatorProfile]
    pieces: tuple[PieceProfile, ...] = ()
    taken: float = 0.0  # wall-clock seconds for the whole stream


def profile(graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]], *, clock: Clock = SYSTEM_CLOCK) -> Profile:
    """Run the app over bounded inputs and measure each operator.

    Another engine processes the first batch of each input beforehand, so compile time is not counted.
    """
    reading = {name: iter(batches) for name, batches in inputs.items()}
    first_batches = {name: list(islice(batches, 1)) for name, batches in reading.items()}
    for _ in Engine(graph).run(first_batches):
        pass
    per_second = {op.name: [_Seconds() for _ in range(max(1, op.inputs))] for op in graph.operators}

    def watch(name: str, port: int, batch: pa.RecordBatch) -> None:
        per_second[name][port].count(view(batch.column(TS), np.int64))

    engine, timed = Engine(graph, watch=watch, clock=clock), Engine(graph, clock=clock)
    taken = 0.0
    open_, states = {source.name for source in graph.sources}, {}
    peaks = _Peaks(engine)
    for name, batch in engine.events({name: chain(first_batches[name], rest) for name, rest in reading.items()}):
        if batch is None:
            open_.discard(name)
            if not open_:  # the end closes windows, and what they hold is gone
                states = {spec.name: _state(engine.operators[spec.name], spec.inputs) for spec in graph}
        engine.end(name) if batch is None else engine.push(name, batch)
        start = clock.monotonic()
        timed.end(name) if batch is None else timed.push(name, batch)
        taken += clock.monotonic() - start
        peaks.look()
    seconds = _seconds(engine, timed)
    # The event time of the input, without the final flush: a window that the end closes may emit much later.
    counted = [port for source in graph.sources for port in per_second[source.name] if port.total]
    first, last = min((port.first for port in counted), default=0), max((port.last for port in counted), default=0)
    length = (last - first) / _SECOND or 1.0  # if all tuples have one time, they count as one second
    operators = {}
    for spec in graph:
        statistics, ports = engine.statistics[spec.name], per_second[spec.name]
        total = sum(statistics.tuples_in)
        operators[spec.name] = OperatorProfile(
            spec.name,
            spec.kind,
            tuple(statistics.tuples_in),
            tuple(statistics.tuples_out),
            tuple(port.total / length for port in ports),
            tuple(float(port.peak) for port in ports),
            tuple(statistics.selectivity),
            tuple(
                triggered / count if count else 0.0
                for triggered, count in zip(statistics.triggered, statistics.tuples_in, strict=True)
            ),
            seconds[spec.name] / total if total else 0.0,
            *states[spec.name],
            *peaks.of(spec.name),
        )
    tuples = sum(sum(engine.statistics[source.name].tuples_in) for source in graph.sources)
    return Profile(graph.name, length, tuples, operators, tuple(map(_piece, timed.running)), taken)


def _state(operator: Operator, inputs: int) -> tuple[int, int, tuple[int, ...]]:
    """Tuples, bytes, and tuples of each input port."""
    return operator.size(), operator.snapshot().nbytes, tuple(operator.port_size(port) for port in range(inputs))


class _Peaks:
    """The largest state of each operator. Bytes are counted again when its tuples have grown by a part."""

    _GROWN = 1.05

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._most = {spec.name: (0, 0, tuple[int, ...]()) for spec in engine.graph if any(spec.stateful)}

    def look(self) -> None:
        for name, (most, _, _) in self._most.items():
            size = self._engine.operators[name].size()
            if size > most * self._GROWN:
                self._most[name] = _state(self._engine.operators[name], self._engine.graph[name].inputs)

    def of(self, name: str) -> tuple[int, tuple[int, ...]]:
        """Bytes, and tuples of each input port."""
        return self._most[name][1:] if name in self._most else (0, ())


def _seconds(apart: Engine, timed: Engine) -> dict[str, float]:
    """The time of each operator in pieces; the time of a piece is divided by the operators' separate times."""
    alone = {name: statistics.seconds for name, statistics in apart.statistics.items()}
    seconds = {name: statistics.seconds for name, statistics in timed.statistics.items()}
    for piece in timed.running:
        total = sum(alone[name] for name in piece.names)
        if total:
            seconds |= {name: piece.seconds_inside * alone[name] / total for name in piece.names}
    return seconds


def _piece(piece: RunningPiece) -> PieceProfile:
    tuples, edges = sum(piece.rows_in(piece.names[0])), piece.seconds - piece.seconds_inside
    inside = piece.seconds_inside / tuples if tuples else 0.0
    return PieceProfile(piece.names, tuples, piece.batches, inside, edges / piece.batches if piece.batches else 0.0)


class _Seconds:
    """Tuples in each second of event time. Times are nearly ascending, so only the newest seconds stay open."""

    def __init__(self) -> None:
        self.total = 0
        self.peak = 0
        self.first = np.iinfo(np.int64).max
        self.last = np.iinfo(np.int64).min
        self._open: dict[int, int] = {}

    def count(self, ts: np.ndarray) -> None:
        self.total += len(ts)
        self.first, self.last = min(self.first, int(ts[0])), max(self.last, int(ts[-1]))
        seconds, counts = np.unique(ts // _SECOND, return_counts=True)
        for second, count in zip(seconds.tolist(), counts.tolist(), strict=True):
            self._open[second] = self._open.get(second, 0) + count
            self.peak = max(self.peak, self._open[second])
        for second in sorted(self._open)[:-2]:
            del self._open[second]


def write_profile(result: Profile) -> str:
    """The profile as TOML, readable and editable by hand."""
    lines = [f'app = "{result.app}"', f"seconds = {result.seconds!r}", f"tuples = {result.tuples}"]
    lines.append(f"taken = {result.taken!r}")
    for piece in result.pieces:
        lines += ["", "[[pieces]]", f"operators = [{', '.join(json.dumps(name) for name in piece.operators)}]"]
        lines += [f"{name} = {value!r}" for name, value in vars(piece).items() if name != "operators"]
    for row in result.operators.values():
        lines += ["", f'[operators."{row.name}"]', f'kind = "{row.kind}"']
        for name, value in vars(row).items():
            if name not in ("name", "kind"):
                lines.append(f"{name} = {list(value) if isinstance(value, tuple) else repr(value)}")
    return "\n".join(lines) + "\n"
