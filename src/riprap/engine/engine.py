"""The engine: runs a fragment of a graph in one process, batch by batch, in exact order.

The caller pushes an event (a batch, a punctuation, a watermark, the end) into a source or into a stream that enters the
fragment. The engine passes it through the operators in topological order, so an operator runs when all upstream effects
of the event have reached it. It returns what leaves the fragment: at sinks, and on streams to operators outside of it.

The output does not depend on batch boundaries: operators guarantee this (their contract), and several input ports are
merged by order key (`merger.py`). Between two calls the engine is at a consistent cut.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError, UsageError, known
from riprap.engine.feedback import cycles, delayed, delayed_watermark
from riprap.engine.jitter import Jitter
from riprap.engine.merger import Behind, MergedRows, Merger, MergerState, PortPunctuation
from riprap.engine.operator_statistics import OperatorStatistics, no_statistics
from riprap.engine.piece import PieceNotCompilable, PieceOutput, RunningPiece
from riprap.engine.pieces import Piece, cut
from riprap.engine.pruning import Wanted, carried_schema, emitted_schema, wanted_columns
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.mark_keys import before_mark, watermark_of_row
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.graph.specs import Sink, Source
from riprap.operators.build import make_operator
from riprap.operators.columns import keys_of
from riprap.operators.contract import Channel, Digest, Emission, Event, Late, Operator, OperatorState, Punctuation
from riprap.operators.step_gate import Gate
from riprap.operators.step_gather import gathers
from riprap.operators.views import Views
from riprap.operators.windowed import WindowedOperator

# Called with the name of an operator, an input port, and each batch when it reaches the operator.
Watch = Callable[[str, int, pa.RecordBatch], None]


class Output(NamedTuple):
    """An event that left the fragment: `name` is a sink, or the id of a stream to an operator outside."""

    name: str
    event: Event | Late | Any  # rows are record batches, or column views in an engine with `views`


@dataclass(frozen=True)
class EngineState:
    """The state of a fragment at a cut."""

    operators: Mapping[str, OperatorState]
    mergers: Mapping[str, MergerState]
    watermark: Mapping[str, OrderKey] = field(default_factory=dict)


class Engine:
    """A running fragment. `members`: by default the whole graph. `cut_everywhere`: no operators share a loop.

    `wanted`: the columns of each operator that are read; by default, streams into and out of the fragment have all
    columns. `views`: rows leave as column views, not as record batches. `recorded`: an operator whose window changes
    are recorded, or that recovers from such records. `taps`: inner streams (by id) that are output as well. `gated`:
    `gates` can drop or change rows before each operator of a loop, and several ports are always merged.
    """

    def __init__(
        self,
        graph: Graph,
        members: Iterable[str] | None = None,
        *,
        jitter: Jitter | None = None,
        watch: Watch | None = None,
        clock: Clock = SYSTEM_CLOCK,
        cut_everywhere: bool = False,
        views: bool = False,
        recorded: str = "",
        taps: Iterable[str] = (),
        gated: bool = False,
        wanted: Wanted | None = None,
    ) -> None:
        self._gated, self._outward = gated, _views if views else _batch
        if graph.cyclic and jitter is not None:
            raise UsageError(f"app {graph.name} has feedback streams, which do not support jitter; leave it out")
        self.graph, self._clock, self._watch = graph, clock, watch
        selected = frozenset(members if members is not None else (op.name for op in graph.operators))
        for name in selected:
            graph[name]
        self._order = [name for name in graph.order if name in selected]
        if wanted is None:
            wanted = wanted_columns(graph, selected)
        self._statistics = {name: no_statistics(graph[name]) for name in self._order}
        self._inside = {name: [s for s in graph.outputs(name) if s.target in selected] for name in self._order}
        tapped = frozenset(taps)
        self._leaving = {
            name: [s for s in graph.outputs(name) if s.target not in selected or s.id in tapped] for name in self._order
        }
        self._output_streams = {  # streams that leave: their operator, and the stream itself if it is feedback
            s.id: (name, s if s.feedback is not None else None) for name, out in self._leaving.items() for s in out
        }
        self._cycles = cycles(graph, selected) if graph.cyclic else []
        apart = {name: "it is on a cycle" for cycle in self._cycles for name in cycle.members}
        self._recorded = recorded
        if recorded and graph[recorded].inputs > 1:
            apart[recorded] = "its window changes are recorded, on several ports"
        if cut_everywhere or watch is not None:
            apart = dict.fromkeys(self._order, "every operator runs alone here")
        self.pieces = self._make_pieces(wanted, selected, jitter, apart)
        self._mergers = {
            name: Merger(
                graph.input_shapes(name),
                tuple(carried_schema(graph, stream, wanted) for stream in graph.inputs(name)),
                tuple(stream.id for stream in graph.inputs(name)),
                jitter,
            )
            for name in self._order
            if graph[name].inputs > 1 and (name not in self._piece_of or name in self._running)
        }
        self._entries = {s.id: s for s in graph.streams if s.target in selected and s.source not in selected}
        self._inbox: dict[str, list[tuple[int, Event | Late | Views]]] = {name: [] for name in self._order}
        # The watermark of each operator's input: nothing at or below it will reach the operator.
        self._watermark: dict[str, OrderKey] = dict.fromkeys(self._order, START_KEY)
        self._ended: set[str] = set()
        self._failed = False

    def _make_pieces(
        self,
        wanted: Wanted,
        selected: frozenset[str],
        jitter: Jitter | None,
        alone: Mapping[str, str],
    ) -> list[Piece]:
        """Create the operators and the loops that run them. An operator that cannot be compiled runs alone."""
        graph, alone = self.graph, dict(alone)
        while True:
            self.operators: dict[str, Operator] = {n: make_operator(graph, n, wanted[n]) for n in self._order}
            if self._recorded:
                cast(WindowedOperator, self.operators[self._recorded]).recorded = True
            self._running: dict[str, RunningPiece] = {}  # by entry
            self._piece_of: dict[str, RunningPiece] = {}
            pieces = cut(graph, selected, merged_apart=jitter is not None or self._gated, alone=alone)
            try:
                for piece in pieces:
                    if piece.compiled:
                        running = self._piece(piece, wanted)
                        self._running[piece.operators[0]] = running
                        self._piece_of |= dict.fromkeys(piece.operators, running)
                return pieces
            except PieceNotCompilable as error:
                alone[error.operator] = str(error)

    def _piece(self, piece: Piece, wanted: Wanted) -> RunningPiece:
        graph, names = self.graph, piece.operators
        tapped = {
            (name, stream.source_port)
            for name in names
            for stream in (*self._inside[name], *self._leaving[name])
            if stream.target not in names or stream in self._leaving[name]
        }
        tapped |= {(name, 0) for name in names if isinstance(graph[name], Sink)}
        carried = {(names[0], 0): emitted_schema(graph, names[0], 0, wanted)}  # by operator and port; this: of a source
        carried |= {(n, s.target_port): carried_schema(graph, s, wanted) for n in names for s in graph.inputs(n)}
        entry = [schema for (name, _), schema in carried.items() if name == names[0]]
        gated = {port: s for port, s in carried.items() if self._gated and not isinstance(graph[port[0]], Sink)}
        running = RunningPiece(graph, names, self.operators, frozenset(tapped), entry, self._clock, gated=gated)
        if self._recorded in names and not gathers(graph[self._recorded]):
            downstream = graph.reachable(self._recorded) - {self._recorded}
            running.past = RunningPiece(
                graph, [name for name in names if name not in downstream], self.operators, frozenset(tapped), entry,
                self._clock, past_of=self._recorded,
            )  # fmt: skip
        return running

    @property
    def running(self) -> list[RunningPiece]:
        """The pieces that run as one loop."""
        return list(self._running.values())

    @property
    def gates(self) -> dict[tuple[str, int], Gate]:
        """The gate before each port of each operator in a loop, in an engine that is gated."""
        return {port: gate for running in self._running.values() for port, gate in running.gates.items()}

    @property
    def statistics(self) -> dict[str, OperatorStatistics]:
        """Counters of each operator. The time of a piece is divided among its operators by their input tuples."""
        for running in self._running.values():
            rows = {name: running.rows_in(name) for name in running.names}
            total = max(1, sum(map(sum, rows.values())))
            for name, rows_in in rows.items():
                statistics = self._statistics[name]
                statistics.tuples_in[:] = rows_in
                statistics.tuples_out[:] = running.rows_out(name)[: len(statistics.tuples_out)]
                statistics.seconds = running.seconds * sum(rows_in) / total
        return self._statistics

    # Events -----------------------------------------------------------------------------------------------------------

    def push(self, name: str, event: Event | Views | Late, *, until: OrderKey | None = None) -> list[Output]:
        """Push a batch or punctuation into a source, or into an entering stream (by id), where it may also be late.

        On an entering stream a punctuation may still follow the last row. `advance` rules that out; `until` does so in
        the same call, which saves a second pass over the operators.
        """
        target, port = self._entry(name)
        if not isinstance(event, Punctuation | Late):
            if not (event.rows if isinstance(event, Views) else event.num_rows):
                return []
            loop = self._running.get(target)
            if loop is None or not loop.merged:
                event = _batch(event) if loop is None else loop.viewed(event)
            last = self._last_key(name, event)
            self._advance(target, port, watermark_of_row(last) if name in self._entries else last)
        self._inbox[target].append((port, event))
        if until is not None:
            self._advance(target, port, until)
        return self._sweep()

    def advance(self, name: str, key: OrderKey) -> list[Output]:
        """Announce a watermark: nothing at or below `key` will follow from a source or entering stream."""
        target, port = self._entry(name)
        self._advance(target, port, key)
        return self._sweep()

    def prepare(self) -> None:
        """Compile everything now, so that no row has to wait."""
        for running in self._running.values():
            running.prepare()

    def compile_first(self) -> int:
        """Compile to disk, for other processes, what is not there yet; returns the number of loops compiled."""
        return sum([running.compile_to_disk() for running in self._running.values()])

    def end(self, name: str) -> list[Output]:
        """Announce the end of a source or entering stream."""
        return self.advance(name, END_KEY)

    def wait_for(self, stream: str, waited: bool) -> list[Output]:
        """Set whether the merge of an operator with several ports waits for this entering stream. Initially it does.

        A merge does not wait for a stream whose producer is down. When it waits again, items at or below `reached` of
        the target are late and must be pushed as `Late`.
        """
        target, port = self._entry(stream)
        merger = self._mergers.get(target)
        if merger is None or merger.waits_for(port) == waited:
            return []
        merger.wait_for(port, waited)
        return self._sweep()

    def run(self, inputs: Mapping[str, Iterable[pa.RecordBatch]]) -> Iterable[Output]:
        """Process bounded inputs, one per source, to their end."""
        for name, batch in self.events(inputs):
            yield from self.end(name) if batch is None else self.push(name, batch)

    def events(self, inputs: Mapping[str, Iterable[pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch | None]]:
        """The batches of bounded inputs, one per source, interleaved in the order of their keys; None: end of one."""
        for name in inputs:
            self._entry(name)
        missing = [s.name for s in self.graph.sources if s.name in self.operators and s.name not in inputs]
        if missing:
            raise UsageError(f"no input for source {missing[0]}; inputs were given for {known(inputs)}")
        reading = {name: iter(batches) for name, batches in inputs.items()}
        reached = dict.fromkeys(reading, START_KEY)
        while reading:
            name = min(reading, key=reached.__getitem__)
            batch = next(reading[name], None)
            if batch is None:
                del reading[name]
                yield name, None
            elif batch.num_rows:
                if len(reading) > 1:
                    reached[name] = self._last_key(name, batch)
                yield name, batch

    def watermark(self, stream: str) -> OrderKey:
        """The watermark of a stream (by id) that leaves the fragment: nothing at or below this key will leave on it."""
        if stream in self._output_streams:
            operator, feedback = self._output_streams[stream]
            watermark = self._output_watermark(operator)
            return watermark if feedback is None else delayed_watermark(watermark, feedback)
        leaving = [spec.id for streams in self._leaving.values() for spec in streams]
        raise UsageError(f"stream {stream} does not leave this fragment; those that do are {known(leaving, stream)}")

    def _entry(self, name: str) -> tuple[str, int]:
        if name in self._entries:
            return self._entries[name].target, self._entries[name].target_port
        if name in self.operators and isinstance(self.graph[name], Source):
            return name, 0
        inputs = [*(s.name for s in self.graph.sources if s.name in self.operators), *self._entries]
        raise UsageError(f"{name} is not an input of this fragment; its inputs are {known(inputs, name)}")

    def _last_key(self, name: str, batch: pa.RecordBatch | Views) -> OrderKey:
        """The key of the last row of a batch for a source or an entering stream."""
        entering = self._entries.get(name)
        shape = self.graph.stream_shape(entering) if entering is not None else self.graph.shape(name)
        if isinstance(batch, Views):
            return batch.last_key(shape)
        return keys_of(batch.slice(batch.num_rows - 1), shape).at(0)

    def _advance(self, target: str, port: int, key: OrderKey) -> None:
        if target in self._mergers:
            self._mergers[target].advance(port, key)
        else:
            self._watermark[target] = max(self._watermark[target], key)

    # One pass over the operators --------------------------------------------------------------------------------------

    def _sweep(self) -> list[Output]:
        """Pass over the operators until nothing moves on a cycle."""
        if self._failed:
            raise UsageError("an error stopped this fragment in the middle of a row; restore an earlier snapshot")
        outputs: list[Output] = []
        turning = True
        while turning:
            self._pass(outputs)
            turning = any(self._inbox[name] for cycle in self._cycles for name in cycle.members)
            for cycle in self._cycles:
                for stream, key in cycle.turn(self.operators, self._mergers, self._watermark, self._inbox):
                    self._advance(stream.target, stream.target_port, key)
                    turning = True
        return outputs

    def _pass(self, outputs: list[Output]) -> None:
        for piece in self.pieces:
            name = piece.operators[0]
            running = self._running.get(name)
            if running is not None:
                self._run(running, outputs)
                continue
            inbox, merger = self._inbox[name], self._mergers.get(name)
            inbox = [(port, _batch(event)) for port, event in inbox]
            if self._watch is not None:
                for port, event in inbox:
                    if isinstance(event, pa.RecordBatch):
                        self._watch(name, port, event)
            start = self._clock.monotonic()
            if merger is None:
                emissions = self._deliver(name, inbox)
                watermark = self._watermark[name]
            else:
                emissions = []
                for port, event in inbox:
                    if isinstance(event, Late) and event.at <= self._watermark[name]:  # behind the merge
                        emissions += self._process_late(name, port, event)
                    else:
                        merger.put(port, event)
                emissions += self._deliver_merged(name, merger)
                watermark = max(
                    self._watermark[name], merger.watermark
                )  # the merger's falls when it waits for a port again
                self._watermark[name] = watermark
            if inbox:
                self._inbox[name] = []
            emissions += self._control(name, watermark)
            self._statistics[name].seconds += self._clock.monotonic() - start
            self._route(name, emissions, outputs)
            watermark = self._output_watermark(name)
            for stream in self._inside[name]:
                if stream.feedback is None:
                    self._advance(stream.target, stream.target_port, watermark)

    def _run(self, running: RunningPiece, outputs: list[Output]) -> None:
        """Run a piece on the events that wait at its entry."""
        entry = running.names[0]
        inbox, self._inbox[entry] = self._inbox[entry], []
        start = self._clock.monotonic()
        emitted: list[PieceOutput] = []
        try:
            emitted += self._run_merged(running, inbox) if running.merged else ()
            for _, event in inbox if not running.merged else ():
                late = event if isinstance(event, Late) else None
                inner = event.event if isinstance(event, Late) else event
                if not isinstance(inner, Punctuation):
                    views = running.viewed(inner)
                    emitted += running.push(views) if late is None else running.push_late(views, late)
                    continue
                caused = running.punctuate(inner)
                emitted += caused if late is None else _as_late(running, late, caused)
        except DataError:
            self._failed = True
            raise
        for name in running.gathering:
            emitted += running.reach(name, self._control(name, self.reached(name)))
        running.seconds += self._clock.monotonic() - start
        for name, port, event in emitted:
            if isinstance(self.graph[name], Sink):
                outputs.append(Output(name, self._outward(event)))
                continue
            for stream in running.onward:
                if stream.source == name and stream.source_port == port:
                    self._inbox[stream.target].append((stream.target_port, event))
            outputs += [Output(s.id, self._outward(event)) for s in self._leaving[name] if s.source_port == port]
        for stream in running.onward:
            self._advance(stream.target, stream.target_port, self._output_watermark(stream.source))

    def _run_merged(self, running: RunningPiece, inbox: list[tuple[int, Event | Late | Views]]) -> list[PieceOutput]:
        """Like `_run`, for a piece behind a merger."""
        name, emitted = running.names[0], list[PieceOutput]()
        merger = self._mergers[name]
        items: list[MergedRows | PortPunctuation | Behind] = []
        for port, event in inbox:
            if isinstance(event, Late) and event.at <= self._watermark[name]:  # behind the merge
                items.append(Behind(port, cast(Late, _batch(event))))
            else:
                merger.put(port, _batch(event) if isinstance(event, Late) else event)
        for item in (*items, *merger.release()):
            if isinstance(item, MergedRows):
                emitted += running.push(running.merge(item.batches, item.ports))
            elif isinstance(item, PortPunctuation):
                emitted += running.punctuate(item.punctuation, item.port)
            elif isinstance(item.late.event, Punctuation):
                emitted += _as_late(running, item.late, running.punctuate(item.late.event, item.port))
            else:
                emitted += running.push_late(running.from_port(item.port, item.late.event), item.late)
        self._watermark[name] = max(
            self._watermark[name], merger.watermark
        )  # the merger's falls when it waits for a port again
        return emitted

    def known(self, name: str, port: int) -> OrderKey:
        """The watermark of a port in an operator's merge: nothing at or below this key will follow; START_KEY: no merge
        or no watermark."""
        merger = self._mergers.get(name)
        return START_KEY if merger is None else merger.known(port)

    def reached(self, name: str) -> OrderKey:
        """The watermark of an operator's input: nothing at or below this key will reach it."""
        running = self._piece_of.get(name)
        if running is None or name == running.names[0]:
            return self._watermark[name]
        return min(self._output_watermark(stream.source) for stream in self.graph.inputs(name))

    def _output_watermark(self, name: str) -> OrderKey:
        watermark = self.reached(name)
        return watermark if watermark in (START_KEY, END_KEY) else self.operators[name].output_watermark(watermark)

    def _deliver(self, name: str, inbox: list[tuple[int, Event]]) -> list[Emission]:
        operator, statistics = self.operators[name], self._statistics[name]
        emissions: list[Emission] = []
        for port, event in inbox:
            if isinstance(event, Late):
                emissions += self._process_late(name, port, event)
            elif isinstance(event, Punctuation):
                emissions += operator.watermark(before_mark(event.key))  # earlier time boundaries come first
                emissions += operator.punctuate(Channel(port), event)
            else:
                statistics.tuples_in[port] += event.num_rows
                caused = operator.process(Channel(port), event)
                if self._watch is not None:
                    statistics.triggered[port] += sum(_rows(emission) for emission in caused)
                emissions += caused
        return emissions

    def _deliver_merged(self, name: str, merger: Merger) -> list[Emission]:
        operator, statistics = self.operators[name], self._statistics[name]
        emissions: list[Emission] = []
        for item in merger.release():
            if isinstance(item, PortPunctuation):
                emissions += operator.watermark(before_mark(item.punctuation.key))
                emissions += operator.punctuate(Channel(item.port), item.punctuation)
            elif isinstance(item, Behind):
                emissions += self._process_late(name, item.port, item.late)
            elif isinstance(item, MergedRows):
                for port, batch in enumerate(item.batches):
                    statistics.tuples_in[port] += batch.num_rows
                caused = operator.process_merged(item.batches, item.ports)
                if self._watch is not None:
                    for emission in caused:
                        ports = item.ports if emission.triggers is None else item.ports[emission.triggers]
                        for port in range(len(item.batches)):
                            statistics.triggered[port] += int((ports == port).sum())
                emissions += caused
        return emissions

    def _process_late(self, name: str, port: int, late: Late) -> list[Emission]:
        """Let an operator process a late event; the output that it causes is late too."""
        operator, at = self.operators[name], late.at
        emissions = operator.watermark(at) if at > START_KEY else []  # earlier time boundaries come first
        if isinstance(late.event, Punctuation):
            caused = operator.punctuate(Channel(port), late.event)
        else:
            self._statistics[name].tuples_in[port] += late.event.num_rows
            caused = operator.late(Channel(port), late.event, at)
        at = operator.output_watermark(at) if START_KEY < at < END_KEY else at
        for emission in caused:
            event = emission.event if isinstance(emission.event, Late) else Late(emission.event, at)
            emissions.append(emission._replace(event=event._replace(again=late.again)))
        return emissions

    def _control(self, name: str, watermark: OrderKey) -> list[Emission]:
        if watermark == END_KEY:
            if name in self._ended:
                return []
            self._ended.add(name)
            return self.operators[name].end()
        return self.operators[name].watermark(watermark) if watermark > START_KEY else []

    def _route(self, name: str, emissions: list[Emission], outputs: list[Output]) -> None:
        if isinstance(self.graph[name], Sink):
            outputs += [Output(name, self._outward(emission.event)) for emission in emissions]
            return
        statistics = self._statistics[name]
        for emission in emissions:
            statistics.tuples_out[emission.port] += _rows(emission)
            for stream in self._inside[name]:
                if stream.source_port == emission.port and (event := self._carried(stream, emission.event)) is not None:
                    self._inbox[stream.target].append((stream.target_port, event))
            for stream in self._leaving[name]:
                if stream.source_port == emission.port and (event := self._carried(stream, emission.event)) is not None:
                    outputs.append(Output(stream.id, self._outward(event)))

    def _carried(self, stream: StreamSpec, event: Event | Late) -> Event | Late | None:
        """The event as a stream carries it; None: it does not. Feedback delays rows and carries no punctuations."""
        if stream.feedback is None:
            return event
        if isinstance(event, Late):
            inner = self._carried(stream, event.event)
            return None if inner is None else Late(inner, delayed_watermark(event.at, stream), event.again)
        if isinstance(event, Punctuation) or stream.source in self._ended:
            return None
        return delayed(
            event, stream, self.graph.shape(stream.source, stream.source_port), self.graph.stream_shape(stream)
        )

    # State ------------------------------------------------------------------------------------------------------------

    def snapshot(self) -> EngineState:
        """Everything that another engine needs to continue from here."""
        if self._failed:
            raise UsageError("an error stopped this fragment in the middle of a row, so its state is inconsistent")
        return EngineState(
            {name: operator.snapshot() for name, operator in self.operators.items()},
            {name: merger.snapshot() for name, merger in self._mergers.items()},
            {name: self.reached(name) for name in self._order},
        )

    def images(self) -> dict[str, Any]:
        """In-memory images of this cut, of the operators that support them."""
        images = {name: operator.image() for name, operator in self.operators.items()}
        return {name: image for name, image in images.items() if image is not None}

    def restore(self, state: EngineState, images: Mapping[str, Any] | None = None) -> bool:
        """Restore the operators in `state`; others stay unchanged. `images`: this engine's images of the same cut;
        returns whether all of them could be used."""
        fitted = images is not None
        for name, saved in state.operators.items():
            operator, image = self.operators[name], (images or {}).get(name)
            if image is None or not operator.put_back(image):
                fitted = fitted and image is None
                operator.restore([saved])
        for name, waiting in state.mergers.items():
            if name in self._mergers:
                self._mergers[name].restore(waiting)
            elif any(waiting.queues):
                raise DataError(
                    f"a saved state has tuples that wait in a merge at {name}, which has no merge here; restore a "
                    "state that the same fragment saved"
                )
        self._watermark |= state.watermark
        self._ended = {name for name, key in self._watermark.items() if key == END_KEY}
        return fitted

    def waiting(self) -> dict[str, MergerState]:
        """The items that wait in the merge of each operator with several ports."""
        return {name: merger.snapshot() for name, merger in self._mergers.items()}

    def spans(self) -> list[tuple[int, int]]:
        """First and last `_ts` of every item that waits in a merge."""
        return [span for merger in self._mergers.values() for span in merger.spans()]

    def digests(self) -> dict[str, Digest]:
        """The digest of every stateful operator."""
        return {name: op.digest() for name, op in self.operators.items() if any(self.graph[name].stateful)}

    def state_sizes(self) -> dict[str, int]:
        """Tuples in the state of every stateful operator."""
        return {name: op.size() for name, op in self.operators.items() if any(self.graph[name].stateful)}


def _as_late(running: RunningPiece, late: Late, caused: list[PieceOutput]) -> list[PieceOutput]:
    """The output that a late punctuation caused in a piece, marked late."""
    return [e._replace(event=running.late_behind(e.operator, late, e.event)) for e in caused]


def _batch(event: Event | Late | Views) -> Event | Late:
    if isinstance(event, Late):
        return event._replace(event=_batch(event.event))
    return event.batch() if isinstance(event, Views) else event


def _views(event: Event | Late | Views) -> Punctuation | Late | Views:
    if isinstance(event, Late):
        return event._replace(event=_views(event.event))
    return Views.of(event) if isinstance(event, pa.RecordBatch) else event


def _rows(emission: Emission) -> int:
    event = emission.event.event if isinstance(emission.event, Late) else emission.event
    return event.num_rows if isinstance(event, pa.RecordBatch) else 0
