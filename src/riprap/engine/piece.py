"""A piece that runs: its text, written from one step per operator, and the call that takes rows through it.

Between calls all state is in the operators, so a piece is at a consistent cut whenever an operator on its own would be.
A row runs whole or not at all: the loop stops before a row for which a table of groups has no room, room is made, and
it goes on. An error stops it at its row; the rows before have been taken, and their outputs are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError
from riprap.engine.compiling import COMPILER
from riprap.expressions.kinds import HELD_BY_ARROW, kind_of
from riprap.expressions.vectors import aligned
from riprap.expressions.written import Block, Unwritten, Value
from riprap.graph.graph import Graph
from riprap.graph.keys import just_before
from riprap.graph.specs import Join, Sink
from riprap.graph.windows import Count
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.contract import Channel, Emission, Event, Late, Operator, Punctuation
from riprap.operators.function import Buffers, Dictionary, Function
from riprap.operators.step_gather import Gathering, gathers
from riprap.operators.step_state import Given
from riprap.operators.steps import dense, write_step
from riprap.operators.views import Column, Views, column_of, dtype_of
from riprap.operators.windowed import WindowedOperator

_TIDY = 4096  # rows after which operators are looked at, whether they hold more than they need


class HasNoText(Exception):
    """An operator for which there is no text after all, and why."""

    def __init__(self, operator: str, reason: Unwritten) -> None:
        super().__init__(f"it cannot be written: {reason}")
        self.operator = operator


class Emitted(NamedTuple):
    """What leaves a piece: a batch or punctuation of an operator's output port (of a sink: what it was given)."""

    operator: str
    port: int
    event: Event | Late | Views


class _Leaving(NamedTuple):
    """A column of a tap: what the loop wrote, or a column of the entry at the rows that it listed."""

    type: pa.DataType
    place: int  # of the column of the entry; -1: the loop writes it
    dictionary: str | None
    nullable: bool


@dataclass
class _Tap:
    """A stream that somebody outside the piece reads: its rows are appended to arrays."""

    operator: str
    port: int
    counter: str
    columns: dict[str, _Leaving]
    buffers: Buffers

    def taken(self, count: int, views: Views, dictionaries: Mapping[str, Dictionary]) -> Views:
        """What the last call gave."""
        whole = count == views.rows and self.buffers.most == 1  # every row gave one
        arrays, columns = self.buffers.arrays, []
        for name, (type_, place, dictionary, nullable) in self.columns.items():
            if place < 0:
                valid = arrays[f"{name} ok"][:count].copy() if nullable else None
                held = None if dictionary is None else dictionaries[dictionary].current
                columns.append(Column(type_, arrays[name][:count].copy(), valid, held))
            elif whole:
                columns.append(views.columns[place])
            else:
                columns.append(views.columns[place].take(arrays[_ROWS][:count]))
        return Views(tuple(self.columns), tuple(columns), count)


_ROWS = " rows"  # no column is called that


class RunningPiece:
    """Operators that run as one loop. They are the engine's own, which it saves, restores and asks for digests."""

    def __init__(
        self,
        graph: Graph,
        names: Sequence[str],
        operators: Mapping[str, Operator],
        tapped: frozenset[tuple[str, int]],
        carried: pa.Schema,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._graph, self.names, self._clock = graph, tuple(names), clock
        self._operators = {name: operators[name] for name in names}
        self._function = function = Function()
        self._taps: list[_Tap] = []
        self._gatherings: list[Gathering] = []
        self.inputs: dict[str, list[str]] = {}  # the counter of each port's rows
        self.outputs: dict[str, list[str]] = {}
        function.finish.add("n_entry += done - start")
        function.counter("n_entry")
        self._names = tuple(carried.names)
        self._schema, self._picked = pa.schema([]), list[int]()  # of the last record batch: where the columns are
        self._never_null = tuple(place for place, field in enumerate(carried) if not field.nullable)
        self.seconds = 0.0  # with what it takes to hand batches in and out
        self.seconds_inside = 0.0  # in the loop alone
        self.batches = 0
        self.onward = [
            s for name in names for s in graph.outputs(name) if s.target in operators and s.target not in names
        ]
        columns = {field.name: self._entered(place, field) for place, field in enumerate(carried)}
        function.entered = {value.text: (place, value.valid) for place, value in enumerate(columns.values())}
        entry = Given(function.row, columns, "n_entry")
        made: dict[tuple[str, int], Given] = {}
        for name in names:
            operator = self._operators[name]
            if isinstance(operator, WindowedOperator):
                window = graph[name].windows[0]
                size = window.size if isinstance(window, Count) else 1
                operator.use_steps(1 if isinstance(graph[name], Join) else size, dense=dense(graph[name]))
                function.rooms.append(operator.make_room)
                function.stamps.append(operator.stamp)
            given = [made[s.source, s.source_port] for s in graph.inputs(name)] if name != names[0] else [entry]
            home = given[0].block
            for other in given[1:]:
                home = _common(home, other.block)
            try:
                outputs = write_step(function, operator, given, home)
            except Unwritten as reason:
                raise HasNoText(name, reason) from None
            self.inputs[name] = [g.counter for g in given]
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
        self._untidied = 0  # rows since the operators were tidied up
        self._windowed = {n: o for n, o in self._operators.items() if isinstance(o, WindowedOperator)}
        self._places = [
            (operator, function.counters[counter])
            for name, operator in self._operators.items()
            for counter in self.inputs[name]
        ]

    def _entered(self, place: int, field: pa.Field) -> Value:
        """A column of the entry."""
        dtype = dtype_of(field.type)
        array = self._function.column(
            f"col{place}", f"={dtype.name}", lambda views: aligned(views.columns[place].values)
        )
        valid = None
        if field.nullable:
            ok = self._function.column(f"col{place}_ok", "=uint8", lambda views: _valid(views.columns[place]))
            valid = f"({ok}[u] != 0)"
        if kind_of(field.type) in HELD_BY_ARROW:
            dictionary = self._function.dictionary(f"dict{place}", lambda views: views.columns[place].dictionary)
            return Value(field.type, f"np.int64({array}[u])", valid, dictionary)
        if pa.types.is_boolean(field.type):
            return Value(field.type, f"({valid} and {array}[u] != 0)" if valid else f"({array}[u] != 0)", valid)
        if pa.types.is_floating(field.type):
            return Value(field.type, f"float({array}[u])" if dtype != np.float64 else f"{array}[u]", valid)
        return Value(field.type, f"np.int64({array}[u])" if dtype != np.int64 else f"{array}[u]", valid)

    def _tap(self, operator: Operator, port: int, given: Given) -> None:
        function, number = self._function, len(self._taps)
        setting, name = operator.setting, operator.setting.spec.name
        schema, shape = setting.output_schemas[port], setting.output_shapes[port]
        fields = [f for f in schema if f.name in setting.wanted[port]] + shape.fields
        count = function.counter(f"out{number}", lambda: 0)
        tap = _Tap(name, port, count, {}, buffers := function.buffer(given.most))
        at = f"out{number}_at"
        given.block.add(f"{at} = np.uint64({count})")
        places = [function.entered.get(given.row[field.name].text, (-1,))[0] for field in fields]
        if max(places) >= 0:
            listed = function.array(f"out{number}_rows", "int64", buffers.fetch(_ROWS, np.dtype(np.int64)))
            given.block.add(f"{listed}[{at}] = i")
        for place, (field, entered) in enumerate(zip(fields, places, strict=True)):
            value = given.row[field.name]
            tap.columns[field.name] = _Leaving(field.type, entered, value.dictionary, value.valid is not None)
            if entered >= 0:
                continue
            dtype = dtype_of(field.type)
            array = function.array(f"out{number}_{place}", dtype.name, buffers.fetch(field.name, dtype))
            given.block.add(f"{array}[{at}] = {value.text}")
            if value.valid is not None:
                fetch = buffers.fetch(f"{field.name} ok", np.dtype(np.uint8))
                ok = function.array(f"out{number}_{place}_ok", "uint8", fetch)
                given.block.add(f"{ok}[{at}] = {value.valid}")
        given.block.add(f"{count} += 1")
        self._taps.append(tap)
        function.outputs.append(count)

    def prepare(self) -> None:
        """Compile now, rather than when it has taken so many rows that it is worth it."""
        COMPILER.prepare(self.text, self._arguments)

    # Running ----------------------------------------------------------------------------------------------------------

    def viewed(self, event: "pa.RecordBatch | Views") -> Views:
        """The columns of the entry that the piece reads."""
        if not isinstance(event, Views):
            if not event.schema.equals(self._schema):
                self._schema = event.schema
                self._picked = [event.schema.get_field_index(name) for name in self._names]
            columns = tuple([column_of(event.column(place)) for place in self._picked])
            views = Views(self._names, columns, event.num_rows)
        else:
            views = event if event.names == self._names else event.select(self._names)
        for place in self._never_null:
            if views.columns[place].valid is not None:
                raise DataError(
                    f"column {self._names[place]} of what {self.names[0]} is given has nulls and is declared not null; "
                    "declare it nullable"
                )
        return views

    def push(self, views: Views, late: Late | None = None) -> list[Emitted]:
        """Take rows of the entry, as `viewed` gives them; those of `late` where they come late."""
        function = self._function
        before = {name: [op.tails(p) for p in op.stores] for name, op in self._watched()}
        done, emitted = 0, []
        while done < views.rows:
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
                    emitted += self._given(gathering, gathering.take(count, None if late is None else late.at))
            self.seconds_inside += self._clock.monotonic() - start
            for tap in self._taps:
                if count := function.value_of(tap.counter):
                    made = tap.taken(count, views, function.dictionaries)
                    given = made if late is None else late._replace(event=made)
                    emitted.append(Emitted(tap.operator, tap.port, given))
            done = int(function.numbers[0])
            if function.numbers[1]:
                raise DataError(function.error(float(self._failed[0]), int(function.numbers[2])))
            if done < views.rows:
                for room in function.rooms:
                    room()
        self.batches += 1
        self._account(views.rows)
        for name, op in self._watched():
            if gathers(self._graph[name]):
                continue  # it told so itself
            for port, tails in zip(op.stores, before[name], strict=True):
                op.note_step(port, tails)
        return emitted

    def push_late(self, views: Views, late: Late) -> list[Emitted]:
        """Take rows that come late."""
        aggregates = [op for op in self._operators.values() if isinstance(op, AggregateOperator)]
        for operator in aggregates:
            operator.step_late(late.at)
        emitted = self.push(views, late)
        for operator in aggregates:
            operator.step_late(None)
        return emitted

    def reach(self, name: str, emissions: list[Emission]) -> list[Emitted]:
        """What an operator gave because its input has come so far."""
        return next(self._given(gathering, emissions) for gathering in self._gatherings if gathering.name == name)

    @property
    def speaking(self) -> list[str]:
        """Operators that have something to say when their input comes on, rows or none."""
        return [gathering.name for gathering in self._gatherings]

    @staticmethod
    def _given(gathering: Gathering, emissions: list[Emission]) -> list[Emitted]:
        for emission in emissions:
            gathering.given += emission.event.num_rows if isinstance(emission.event, pa.RecordBatch) else 0
        return [Emitted(gathering.name, emission.port, emission.event) for emission in emissions]

    def given(self, name: str) -> list[int]:
        """Rows that an operator gave so far, by port."""
        gathered = [gathering.given for gathering in self._gatherings if gathering.name == name]
        return gathered or [self._function.value_of(counter) for counter in self.outputs[name]]

    def _watched(self) -> list[tuple[str, WindowedOperator]]:
        return [(name, operator) for name, operator in self._windowed.items() if operator.watched]

    def _account(self, rows: int) -> None:
        numbers = self._function.numbers.tolist()
        counted, self._counted = self._counted, numbers
        for operator, place in self._places:
            operator.version += numbers[place] - counted[place]
        self._untidied += rows
        if self._untidied >= _TIDY:
            for windowed in self._windowed.values():
                windowed.tidy(self._untidied)
            self._untidied = 0

    def total(self, counter: str) -> int:
        """Rows that were counted so far."""
        return self._function.value_of(counter)

    def punctuate(self, punctuation: Punctuation) -> list[Emitted]:
        """Every operator hears a punctuation once per port, and hands on what it makes of it."""
        inbox: dict[str, list[tuple[int, Punctuation]]] = {name: [] for name in self.names}
        inbox[self.names[0]].append((0, punctuation))
        emitted: list[Emitted] = []
        tapped = {(tap.operator, tap.port) for tap in self._taps}
        gatherings = {gathering.name: gathering for gathering in self._gatherings}
        for name in self.names:
            operator, gathering = self._operators[name], gatherings.get(name)
            for port, mark in sorted(inbox[name], key=lambda entry: entry[0]):
                if gathering is not None:
                    spoken = operator.progress(just_before(mark.key))  # time boundaries before it come first
                    emitted += self._given(gathering, spoken + operator.punctuate(Channel(port), mark))
                    continue
                for emission in operator.punctuate(Channel(port), mark):
                    assert isinstance(emission.event, Punctuation)
                    if (name, emission.port) in tapped:
                        emitted.append(Emitted(name, emission.port, emission.event))
                    if isinstance(self._graph[name], Sink):
                        continue
                    for stream in self._graph.outputs(name):
                        if stream.source_port == emission.port and stream.target in inbox:
                            inbox[stream.target].append((stream.target_port, emission.event))
        return emitted


def _valid(column: Column) -> np.ndarray:
    return np.ones(len(column.values), np.uint8) if column.valid is None else np.ascontiguousarray(column.valid)


def _common(left: Block, right: Block) -> Block:
    """The innermost block that holds both."""
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
