"""Profile: what a recorded stream makes of each operator — rates, selectivity, time per tuple, state.

Two engines take the stream side by side. One runs operator by operator and is watched: it counts. The other runs as it
does in earnest, in pieces, and is timed: the loop of a piece per tuple, and what a batch costs at its edges. What a
loop takes is divided among its operators as their times are when each runs on its own.
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
from riprap.graph.keys import TS
from riprap.operators.columns import view

_SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class OperatorProfile:
    """One operator over a whole recorded stream. Rates are in tuples per second of event time."""

    name: str
    kind: str
    tuples_in: tuple[int, ...]  # per input port (for a source: what it was given)
    tuples_out: tuple[int, ...]  # per output port
    mean_rate: tuple[float, ...]  # per input port: tuples over the length of the stream
    peak_rate: tuple[float, ...]  # per input port: the most tuples in any whole second
    selectivity: tuple[float, ...]  # per output port: output tuples per input tuple
    port_selectivity: tuple[float, ...]  # per input port: outputs that this port's tuples triggered, per tuple
    seconds_per_tuple: float  # of the wall clock, in this operator, per input tuple; of a loop, its share
    state_tuples: int  # in its state at the end
    state_bytes: int
    port_state: tuple[int, ...] = ()  # per input port: tuples of it in the state at the end


@dataclass(frozen=True)
class PieceProfile:
    """Operators that run as one loop."""

    operators: tuple[str, ...]
    tuples: int  # that entered
    batches: int  # that they came in
    seconds_per_tuple: float  # in the loop, per tuple that entered
    seconds_per_batch: float  # at the edges: handing a batch in, and what comes of it out


@dataclass(frozen=True)
class Profile:
    app: str
    seconds: float  # of event time, first tuple to last
    tuples: int  # given to the sources
    operators: Mapping[str, OperatorProfile]
    pieces: tuple[PieceProfile, ...] = ()
    taken: float = 0.0  # seconds of the wall clock for the whole stream


def profile(graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]], *, clock: Clock = SYSTEM_CLOCK) -> Profile:
    """Run the app over bounded inputs and say what each operator had to do.

    The first batch of each input goes through an engine of its own before, so that compiling kernels is not counted.
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
    for name, batch in engine.events({name: chain(first_batches[name], rest) for name, rest in reading.items()}):
        engine.end(name) if batch is None else engine.push(name, batch)
        start = clock.monotonic()
        timed.end(name) if batch is None else timed.push(name, batch)
        taken += clock.monotonic() - start
    seconds = _seconds(engine, timed)
    first = min((s.first for ports in per_second.values() for s in ports if s.total), default=0)
    last = max((s.last for ports in per_second.values() for s in ports if s.total), default=0)
    length = max(last - first, 1) / _SECOND
    operators = {}
    for spec in graph:
        statistics, ports = engine.statistics[spec.name], per_second[spec.name]
        operator = engine.operators[spec.name]
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
                triggered / taken if taken else 0.0
                for triggered, taken in zip(statistics.triggered, statistics.tuples_in, strict=True)
            ),
            seconds[spec.name] / total if total else 0.0,
            operator.size(),
            operator.snapshot().nbytes,
            tuple(operator.port_size(port) for port in range(spec.inputs)),
        )
    given = sum(sum(engine.statistics[source.name].tuples_in) for source in graph.sources)
    return Profile(graph.name, length, given, operators, tuple(map(_piece, timed.running)), taken)


def _seconds(apart: Engine, timed: Engine) -> dict[str, float]:
    """What each operator took in an engine of pieces, by what it took on its own."""
    alone = {name: statistics.seconds for name, statistics in apart.statistics.items()}
    found = {name: statistics.seconds for name, statistics in timed.statistics.items()}
    for piece in timed.running:
        total = sum(alone[name] for name in piece.names)
        if total:
            found |= {name: piece.seconds_inside * alone[name] / total for name in piece.names}
    return found


def _piece(piece: RunningPiece) -> PieceProfile:
    tuples, edges = sum(piece.taken(piece.names[0])), piece.seconds - piece.seconds_inside
    inside = piece.seconds_inside / tuples if tuples else 0.0
    return PieceProfile(piece.names, tuples, piece.batches, inside, edges / piece.batches if piece.batches else 0.0)


class _Seconds:
    """Tuples in each second of event time. Times never fall much, so only the newest seconds are kept open."""

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
    """The profile as TOML, to be read or edited by hand."""
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
