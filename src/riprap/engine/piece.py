"""A running piece: its source text, composed of one step per operator, and the calls that run rows through it.

Between calls all state is in the operators, so a piece is at a consistent cut whenever a single operator would be. A
row is processed completely or not at all: the loop stops before a row for which a table of groups has no room, the
table grows, and the loop continues. An error stops it at its row; earlier rows are processed, and their output counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError
from riprap.engine.compiling import COMPILER
from riprap.engine.pieces import delay_of
from riprap.expressions.generated_code import Block, CannotCompile, Value
from riprap.expressions.kinds import HELD_BY_ARROW, kind_of
from riprap.expressions.lookup_tables import Dictionary
from riprap.expressions.vectors import aligned
from riprap.graph.graph import Graph
from riprap.graph.mark_keys import before_mark
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.graph.specs import Sink
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.contract import Channel, Emission, Event, Late, Operator, Punctuation
from riprap.operators.function import Buffers, Function
from riprap.operators.kernels.merging import source_rows
from riprap.operators.step_gate import TWICE, Gate, gate_step, wrongable
from riprap.operators.step_gather import Gathering, gather_step
from riprap.operators.step_state import StepRow, counted, operator_name
from riprap.operators.steps import ring_size, write_step
from riprap.operators.views import ColumnView, Views, column_of, dtype_of
from riprap.operators.windowed import WindowedOperator

_TIDY = 4096  # rows after which operators may release memory


class PieceNotCompilable(Exception):
    """An operator for which no source text can be generated, and why."""

    def __init__(self, operator: str, reason: CannotCompile) -> None:
        super().__init__(f"it cannot be compiled: {reason}")
        self.operator = operator


class PieceOutput(NamedTuple):
    """A batch or punctuation that leaves a piece, on an operator's output port (of a sink: its input)."""

    operator: str
    port: int
    event: Event | Late | Views


class _Leaving(NamedTuple):
    """A column of a tap: written by the loop, or a column of the entry at the rows that the loop listed."""

    type: pa.DataType
    place: int  # index of the entry's column; -1: the loop writes it
    dictionary: str | None
    nullable: bool


@dataclass
class _Tap:
    """A stream that is read outside the piece: its rows are appended to arrays."""

    operator: str
    port: int
    counter: str
    columns: dict[str, _Leaving]
    buffers: Buffers

    def rows(self, count: int, views: Any, dictionaries: Mapping[str, Dictionary]) -> Views:
        """The `count` rows of the last call."""
        whole = count == views.rows and self.buffers.most == 1  # every input row emitted one
        arrays, columns = self.buffers.arrays, []
        for name, (type_, place, dictionary, nullable) in self.columns.items():
            if place < 0:
                valid = arrays[f"{name} ok"][:count].copy() if nullable else None
                held = None if dictionary is None else dictionaries[dictionary].current
                columns.append(ColumnView(type_, arrays[name][:count].copy(), valid, held))
            elif whole:
                columns.append(views.columns[place])
            else:
                columns.append(views.columns[place].take(arrays[_ROWS][:count]))
        return Views(tuple(self.columns), tuple(columns), count)


_ROWS = " rows"  # not a valid column name


class Merged(NamedTuple):
    """Rows of several ports: the k-th row is row `within[k]` of port `ports[k]`."""

    parts: tuple[Views, ...]
    ports: np.ndarray
    within: np.ndarray
    rows: int


class _Port:
    """One port of the entry: picks the columns that the piece reads from incoming batches."""

    def __init__(self, entry: str, carried: pa.Schema) -> None:
        self._entry, self._names = entry, tuple(carried.names)
        self._schema, self._picked = pa.schema([]), list[int]()  # of the last record batch; its column indices
        self._never_null = tuple(place for place, field in enumerate(carried) if not field.nullable)
        self.nothing = pa.RecordBatch.from_pylist([], schema=carried)
        self._last = Views.of(self.nothing)

    def viewed(self, event: pa.RecordBatch | Views) -> Views:
        if isinstance(event, Views):
            views = event if event.names == self._names else event.select(self._names)
        elif not event.num_rows:  # with the last dictionaries
            return self._last.slice(0, 0)
        else:
            if not event.schema.equals(self._schema):
                self._schema = event.schema
                self._picked = [event.schema.get_field_index(name) for name in self._names]
            columns = tuple([column_of(event.column(place)) for place in self._picked])
            views = Views(self._names, columns, event.num_rows)
        for place in self._never_null:
            if views.columns[place].valid is not None:
                raise DataError(
                    f"column {self._names[place]} in the input of {self._entry} has nulls and is declared not null; "
                    "declare it nullable"
                )
        self._last = views
        return views


class RunningPiece:
    """Operators that run as one loop. The engine owns them: it snapshots, restores and digests them."""

    def __init__(
        self,
        graph: Graph,
        names: Sequence[str],
        operators: Mapping[str, Operator],
        tapped: frozenset[tuple[str, int]],
        carried: Sequence[pa.Schema],
        clock: Clock = SYSTEM_CLOCK,
        *,
        gated: Mapping[tuple[str, int], pa.Schema] | None = None,
        past_of: str = "",
    ) -> None:
        """`carried`: the schema of each port of the entry. `gated`: the ports that have a gate, with their schemas.
        `past_of`: a recovering operator, to which this piece brings only the rows that it had processed before; it has
        no consumers here. The operators belong to another piece, which continues after those rows (its `past` is this
        piece).
        """
        self.past: RunningPiece | None = None
        self._past_of = past_of
        self._graph, self.names, self._clock = graph, tuple(names), clock
        self.gates = {port: Gate(wrongable(schema)) for port, schema in (gated or {}).items()}
        self._operators = {name: operators[name] for name in names}
        self._function = function = Function()
        self._taps: list[_Tap] = []
        self._gatherings: list[Gathering] = []
        self.inputs: dict[str, list[str]] = {}  # the row counter of each port
        self.outputs: dict[str, list[str]] = {}
        function.finish.add("n_entry += done - start")
        function.counter("n_entry")
        self._ports = [_Port(names[0], schema) for schema in carried]
        self.seconds = 0.0  # including passing batches in and out
        self.seconds_inside = 0.0  # only in the loop
        self.batches = 0
        self._delay: dict[str, int] = {}  # event time added between the entry and an operator's input
        for name in names:
            producer = graph.inputs(name)[0].source if name != names[0] else None
            self._delay[name] = 0 if producer is None else self._delay[producer] + delay_of(graph, producer)
        self.onward = [
            s for name in names for s in graph.outputs(name) if s.target in operators and s.target not in names
        ]
        most = 2**TWICE if self.gates else 1  # rows that one row of the entry can become
        entries = self._merged_entry(carried, most) if len(carried) > 1 else [self._entry(carried[0], most)]
        made: dict[tuple[str, int], StepRow] = {}
        for name in names:
            operator = self._operators[name]
            if isinstance(operator, WindowedOperator):
                if not past_of:
                    operator.use_steps(ring_size(graph[name]))
                function.rooms.append(operator.make_room)
                function.stamps.append(operator.stamp)
            rows = [made[s.source, s.source_port] for s in graph.inputs(name)] if name != names[0] else entries
            for port, shape in enumerate(operator.setting.shapes):
                if (gate := self.gates.get((name, port))) is not None:
                    rows[port] = gate_step(function, f"{operator_name(graph[name])}_{port}", gate, shape, rows[port])
            home = rows[0].block
            for other in rows[1:]:
                home = _common(home, other.block)
            outputs: list[StepRow] | Gathering
            try:
                if name == past_of:
                    outputs = gather_step(function, cast(AggregateOperator, operator), rows[0], past=True)
                else:
                    outputs = write_step(function, operator, rows, home)
            except CannotCompile as reason:
                raise PieceNotCompilable(name, reason) from None
            self.inputs[name] = [g.counter for g in rows]
            if isinstance(outputs, Gathering):
                self._gatherings.append(outputs)
                continue
            self.outputs[name] = [g.counter for g in outputs]
            for port, output in enumerate(outputs):
                made[name, port] = output
                if (name, port) in tapped:
                    self._tap(operator, port, output)
        self.text = function.text("piece")
        self._failed = np.zeros(1)
        self._arguments = list(function.arguments.values())
        self._counted = function.numbers.tolist()
        self._untidied = 0  # rows since the last `tidy`
        self._windowed = [o for o in self._operators.values() if isinstance(o, WindowedOperator)]
        self._places = [
            (operator, function.counters[counter])
            for name, operator in self._operators.items()
            for counter in self.inputs[name]
        ]

    def _entry(self, carried: pa.Schema, most: int) -> StepRow:
        columns = {field.name: self._entered(place, field) for place, field in enumerate(carried)}
        entered = {value.text: (place, value.valid) for place, value in enumerate(columns.values())}
        self._function.entered = entered
        return StepRow(self._function.row, columns, "n_entry", most)

    def _merged_entry(self, carried: Sequence[pa.Schema], most: int) -> list[StepRow]:
        """A block for each port; each row of the merged order runs one of them."""
        function = self._function
        function.merged = True
        ports = function.column("ports", "=int8", lambda views: views.ports)
        within = function.column("within", "=int64", lambda views: views.within)
        function.row.add(f"port_row = np.uint64({within}[u])")
        entries = []
        for port, schema in enumerate(carried):
            block = function.row.sub(f"if {ports}[u] == {port}:")
            columns = {field.name: self._entered(place, field, port) for place, field in enumerate(schema)}
            entries.append(StepRow(block, columns, counted(function, block, f"n_entry{port}"), most))
        return entries

    def _entered(self, place: int, field: pa.Field, port: int | None = None) -> Value:
        """A column of the entry, or of one of its ports."""
        dtype, at = dtype_of(field.type), "u" if port is None else "port_row"
        stem = "" if port is None else f"p{port}_"

        def column(views: Any) -> ColumnView:
            return (views if port is None else views.parts[port]).columns[place]  # type: ignore[no-any-return]

        array = self._function.column(
            f"{stem}col{place}", f"={dtype.name}", lambda views: aligned(column(views).values)
        )
        text = f"{array}[{at}]"
        valid = None
        if field.nullable:
            ok = self._function.column(f"{stem}col{place}_ok", "=uint8", lambda views: _valid(column(views)))
            valid = f"({ok}[{at}] != 0)"
        if kind_of(field.type) in HELD_BY_ARROW:
            dictionary = self._function.dictionary(f"{stem}dict{place}", lambda views: column(views).dictionary)
            return Value(field.type, f"np.int64({text})", valid, dictionary)
        if pa.types.is_boolean(field.type):
            return Value(field.type, f"({valid} and {text} != 0)" if valid else f"({text} != 0)", valid)
        if pa.types.is_floating(field.type):
            return Value(field.type, f"float({text})" if dtype != np.float64 else text, valid)
        return Value(field.type, f"np.int64({text})" if dtype != np.int64 else text, valid)

    def _tap(self, operator: Operator, port: int, row: StepRow) -> None:
        function, number = self._function, len(self._taps)
        setting, name = operator.setting, operator.setting.spec.name
        schema, shape = setting.output_schemas[port], setting.output_shapes[port]
        fields = [f for f in schema if f.name in setting.wanted[port]] + shape.fields
        count = function.counter(f"out{number}", lambda: 0)
        tap = _Tap(name, port, count, {}, buffers := function.buffer(row.most))
        at = f"out{number}_at"
        row.block.add(f"{at} = np.uint64({count})")
        places = [function.entered.get(row.row[field.name].text, (-1,))[0] for field in fields]
        if max(places) >= 0:
            listed = function.array(f"out{number}_rows", "int64", buffers.fetch(_ROWS, np.dtype(np.int64)))
            row.block.add(f"{listed}[{at}] = i")
        for place, (field, entered) in enumerate(zip(fields, places, strict=True)):
            value = row.row[field.name]
            nullable = field.nullable and value.valid is not None  # the schema can be stricter than the text
            tap.columns[field.name] = _Leaving(field.type, entered, value.dictionary, nullable)
            if entered >= 0:
                continue
            dtype = dtype_of(field.type)
            array = function.array(f"out{number}_{place}", dtype.name, buffers.fetch(field.name, dtype))
            row.block.add(f"{array}[{at}] = {value.text}")
            if nullable:
                fetch = buffers.fetch(f"{field.name} ok", np.dtype(np.uint8))
                ok = function.array(f"out{number}_{place}_ok", "uint8", fetch)
                row.block.add(f"{ok}[{at}] = {value.valid}")
        row.block.add(f"{count} += 1")
        self._taps.append(tap)
        function.outputs.append(count)

    def prepare(self) -> None:
        """Compile now, not only after enough rows to make it worthwhile."""
        COMPILER.prepare(self.text, self._arguments)
        if self.past is not None:
            self.past.prepare()  # cached on disk for a recovery

    def compile_to_disk(self) -> bool:
        """Compile to disk for other processes; returns whether it was not there yet."""
        return COMPILER.compile_to_disk(self.text, self._arguments)

    # Running ----------------------------------------------------------------------------------------------------------

    def viewed(self, event: "pa.RecordBatch | Views") -> Views:
        """The columns of the entry that the piece reads."""
        return self._ports[0].viewed(event)

    @property
    def merged(self) -> bool:
        """Whether its entry is an operator with several ports, behind a merger."""
        return len(self._ports) > 1

    def merge(self, batches: Sequence[pa.RecordBatch | Views], ports: np.ndarray) -> Merged:
        """Rows of several ports in the order of `ports`, for `push`."""
        parts = tuple([port.viewed(batch) for port, batch in zip(self._ports, batches, strict=True)])
        return Merged(parts, ports, source_rows(ports, np.zeros(len(parts), np.int64)), len(ports))

    def from_port(self, port: int, batch: pa.RecordBatch) -> Merged:
        """Rows of one port."""
        empty = [port_.nothing for port_ in self._ports]
        batches = [*empty[:port], batch, *empty[port + 1 :]]
        return self.merge(batches, np.full(batch.num_rows, port, np.int8))

    def push(self, views: Views | Merged, late: Late | None = None) -> list[PieceOutput]:
        """Process rows of the entry, from `viewed` or `merge`; `late`: if they are late."""
        emitted: list[PieceOutput] = []
        done = 0
        if self.past is not None and self.past.repeats:
            done = self.past.take(views, 0, late, emitted)
        if done < views.rows:
            self.take(views, done, late, emitted)
        self.batches += 1
        return emitted

    @property
    def repeats(self) -> bool:
        """Whether the operator of `past_of` still repeats rows that it had processed before."""
        operator = self._operators[self._past_of]
        return isinstance(operator, WindowedOperator) and operator.repeating

    def take(self, views: Views | Merged, done: int, late: Late | None, emitted: list[PieceOutput]) -> int:
        """Process rows from `done` to the end, or to the end of the repeated past; returns where it stopped."""
        function, first = self._function, done
        while done < views.rows and (not self._past_of or self.repeats):
            rows = views.rows - done
            for buffers in function.buffers:
                buffers.make(rows)
            arguments = function.ready(views)
            run = COMPILER.function(self.text, self._arguments, rows)
            start = self._clock.monotonic()
            run(done, views.rows, function.numbers, self._failed, *arguments)
            for after in function.after:
                after()
            for gathering in self._gatherings:
                if count := function.value_of(gathering.counter):
                    emitted += self._emitted(gathering, gathering.take(count, self._late_at(gathering.name, late)))
            self.seconds_inside += self._clock.monotonic() - start
            for tap in self._taps:
                if count := function.value_of(tap.counter):
                    rows_out = tap.rows(count, views, function.dictionaries)
                    event = rows_out if late is None else self.late_behind(tap.operator, late, rows_out)
                    emitted.append(PieceOutput(tap.operator, tap.port, event))
            done = int(function.numbers[0])
            if function.numbers[1]:
                _, site, whole = function.numbers[:3].tolist()
                raise DataError(function.error(site, float(self._failed[0]), whole))
            if done < views.rows:
                for room in function.rooms:
                    room()
        self._account(done - first)
        return done

    def push_late(self, views: Views | Merged, late: Late) -> list[PieceOutput]:
        """Process late rows."""
        aggregates = [op for op in self._operators.values() if isinstance(op, AggregateOperator)]
        for operator in aggregates:
            operator.step_late(self._late_at(operator.spec.name, late))
        emitted = self.push(views, late)
        for operator in aggregates:
            operator.step_late(None)
        return emitted

    def late_behind(self, name: str, late: Late, event: Event | Views) -> Late:
        """Output that a late event caused in an operator, marked late, with the delays on its path added."""
        at = _after(late.at, self._delay[name] + delay_of(self._graph, name))
        return late._replace(event=event, at=at)

    def _late_at(self, name: str, late: Late | None) -> OrderKey | None:
        """The `at` of the entry's late event, as an operator sees it."""
        return None if late is None else _after(late.at, self._delay[name])

    def reach(self, name: str, emissions: list[Emission]) -> list[PieceOutput]:
        """Output that an operator emitted on a watermark."""
        return next(self._emitted(gathering, emissions) for gathering in self._gatherings if gathering.name == name)

    @property
    def gathering(self) -> list[str]:
        """Operators that may emit on a watermark, without a row."""
        return [gathering.name for gathering in self._gatherings]

    @staticmethod
    def _emitted(gathering: Gathering, emissions: list[Emission]) -> list[PieceOutput]:
        for emission in emissions:
            gathering.emitted += emission.event.num_rows if isinstance(emission.event, pa.RecordBatch) else 0
        return [PieceOutput(gathering.name, emission.port, emission.event) for emission in emissions]

    def rows_out(self, name: str) -> list[int]:
        """Rows that an operator emitted so far, by port."""
        gathered = [gathering.emitted for gathering in self._gatherings if gathering.name == name]
        counts = gathered or [self._function.value_of(counter) for counter in self.outputs[name]]
        if self.past is None or name not in self.past.outputs:
            return counts
        return [now + before for now, before in zip(counts, self.past.rows_out(name), strict=True)]

    def _account(self, rows: int) -> None:
        numbers = self._function.numbers.tolist()
        counted, self._counted = self._counted, numbers
        for operator, place in self._places:
            operator.version += numbers[place] - counted[place]
        self._untidied += rows
        if self._untidied >= _TIDY:
            for windowed in self._windowed:
                windowed.tidy(self._untidied)
            self._untidied = 0

    def rows_in(self, name: str) -> list[int]:
        """Rows that an operator processed so far, by port."""
        counts = [self._function.value_of(counter) for counter in self.inputs[name]]
        if self.past is None or name not in self.past.inputs:
            return counts
        return [now + before for now, before in zip(counts, self.past.rows_in(name), strict=True)]

    def punctuate(self, punctuation: Punctuation, port: int = 0) -> list[PieceOutput]:
        """Pass a punctuation through the operators, once per port; the entry receives it on `port`."""
        inbox: dict[str, list[tuple[int, Punctuation]]] = {name: [] for name in self.names}
        inbox[self.names[0]].append((port, punctuation))
        emitted: list[PieceOutput] = []
        tapped = {(tap.operator, tap.port) for tap in self._taps}
        gatherings = {gathering.name: gathering for gathering in self._gatherings}
        for name in self.names:
            operator, gathering = self._operators[name], gatherings.get(name)
            for port, mark in sorted(inbox[name], key=lambda entry: entry[0]):
                if (gate := self.gates.get((name, port))) is not None and gate.loses(mark.key):
                    continue
                if gathering is not None:
                    before = operator.watermark(before_mark(mark.key))  # earlier time boundaries come first
                    emitted += self._emitted(gathering, before + operator.punctuate(Channel(port), mark))
                    continue
                for emission in operator.punctuate(Channel(port), mark):
                    assert isinstance(emission.event, Punctuation)
                    if (name, emission.port) in tapped:
                        emitted.append(PieceOutput(name, emission.port, emission.event))
                    if isinstance(self._graph[name], Sink):
                        continue
                    for stream in self._graph.outputs(name):
                        if stream.source_port == emission.port and stream.target in inbox:
                            inbox[stream.target].append((stream.target_port, emission.event))
        return emitted


def _valid(column: ColumnView) -> np.ndarray:
    return np.ones(len(column.values), np.uint8) if column.valid is None else np.ascontiguousarray(column.valid)


def _after(key: OrderKey, delay: int) -> OrderKey:
    return key if key in (START_KEY, END_KEY) else key._replace(ts=key.ts + delay)


def _common(left: Block, right: Block) -> Block:
    """The innermost block that contains both."""
    above = []
    block: Block | None = left
    while block is not None:
        above.append(block)
        block = block.parent
    block = right
    while not any(block is other for other in above):
        assert block is not None
        block = block.parent
    assert block is not None
    return block
