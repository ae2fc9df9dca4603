"""The step of an aggregate over a time window, or many tuples, that emits at tuples: running sums.

A group's window is a ring that grows inside the loop (arrays grow outside it, between two rows). A new tuple is added
to the group's sums and an evicted one is subtracted, so the cost of a tuple does not depend on the window's length.

A sum of floats is stored as two numbers: the rounded sum and its error. As long as nothing was *lost* in the second,
subtracting a value is exact too, and the two equal what adding up the window would give. Once something was lost, the
window is added up again at the next tuple. Infinities and NaN are counted separately, NaN as both infinities, because
they cannot be subtracted from a sum. So a result depends on the window alone, as it must; the running sums are not
part of the operator's state and are computed again from the window after a restore.
"""

from typing import cast

import pyarrow as pa

from riprap.expressions.generated_code import Block, Value
from riprap.graph.aggregates import AggregateCall
from riprap.graph.order_keys import TS
from riprap.graph.specs import Aggregate
from riprap.graph.windows import Count, Time
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.function import Function
from riprap.operators.row_store import STAMP
from riprap.operators.step_aggregate import no_nulls, overflow_site
from riprap.operators.step_events import StepEvents
from riprap.operators.step_state import (
    StepRow,
    counted,
    group_of,
    identifier,
    key_parts,
    operator_name,
    read_back,
    stored_column,
    stored_validity,
    under_name,
    word_of,
)

RUNNING = frozenset(("count", "sum", "avg", "first", "last"))


def runs(spec: Aggregate) -> bool:
    """Whether all results of an aggregate can be updated tuple by tuple."""
    return isinstance(spec.every, Count) and all(call.function in RUNNING for call in spec.calls)


def running_step(function: Function, operator: AggregateOperator, incoming: StepRow) -> StepRow:
    return _Step(function, operator, incoming).write()


class _Step:
    def __init__(self, function: Function, operator: AggregateOperator, incoming: StepRow) -> None:
        self.function, self.operator, self.incoming = function, operator, incoming
        self.spec, self.name = operator.spec, operator_name(operator.spec)
        self.summed = list(dict.fromkeys(c for call in self.spec.calls if (c := self._summed(call)) is not None))

    def _summed(self, call: AggregateCall) -> str | None:
        """The column of which a call needs the sum, or the number of values."""
        column = self.operator.column_of(call)
        adds = call.function in ("sum", "avg") or (call.function == "count" and column and self._nullable(column))
        return column if adds else None

    def _nullable(self, column: str) -> bool:
        return self.operator.nullable(column)

    def write(self) -> StepRow:
        function, operator, spec, name, incoming = self.function, self.operator, self.spec, self.name, self.incoming
        block = incoming.block
        if isinstance(spec.window, Time):  # late rows may be too old
            oldest = function.counter(f"{name}_oldest", lambda: operator.oldest)
            block = block.sub(f"if {incoming.row[TS].text} > {oldest}:")
        keys = [incoming.row[c] for c in spec.by]
        block, group = group_of(function, block, name, operator, keys, True, incoming.most)
        self.rings = function.array(f"{name}_rings", "int64:2", lambda views: operator.stores[0].rings)
        self.ints = function.array(f"{name}_ints", "int64:2", lambda views: operator.running.ints)
        self.floats = function.array(f"{name}_floats", "float64:2", lambda views: operator.running.floats)
        g, b, c, a, lo = (function.fresh(stem) for stem in ("g", "b", "c", "a", "lo"))
        self.g, self.b, self.c = g, b, c
        arguments: dict[str, Value] = {}
        for column, bound in operator.arguments:
            arguments[column] = under_name(function, block, function.expression(block, incoming.row, bound.expression))
        block.add(f"{g} = np.uint64({group})", f"{lo} = {self.ints}[{g}, 0]")
        block.add(*(f"{part} = {self.rings}[{g}, {j}]" for j, part in ((0, b), (1, c), (3, a))), f"{c} -= 1")
        events = None
        if operator.recorded:
            events = StepEvents(
                function,
                name,
                operator,
                block,
                incoming.row[TS].text,
                incoming.most,
                tumbling=spec.tumbling,
                instant=False,
            )
            head = function.fresh("lo")
            block.add(f"{head} = {self.rings}[{g}, 2]")
            events.row(g, head, a)
        self._load(block)
        new = block.sub(f"if {self.ints}[{g}, 1] == 0:")  # the sums belong to another window: add up this one
        new.add(f"{self.ints}[{g}, 1] = 1", f"{lo} = {self.rings}[{g}, 2]")
        self._zero(new)
        adding = new.sub(f"for w in range({lo}, {a}):")
        self._shift(adding, "w", +1)
        if isinstance(spec.window, Time):
            now = function.counter(f"{name}_now", lambda: int(operator.now[0]))
            function.after.append(lambda: operator.now.__setitem__(0, function.value_of(now)))
            block.add(f"{now} = max({now}, {incoming.row[TS].text})")
            size = function.number(f"{name}_size", lambda: cast(Time, spec.window).size)
            stamps = stored_column(function, name, operator, 0, STAMP, pa.int64())
            old = f"{lo} < {a} and {stamps}[np.uint64({b} + ({lo} & {c}))] <= {now} - {size}"
        else:
            size = function.number(f"{name}_size", lambda: cast(Count, spec.window).size)
            old = f"{a} + 1 - {lo} > {size}"
        evicting = block.sub(f"while {old}:")
        self._shift(evicting, lo, -1)
        evicting.add(f"{lo} += 1")
        if self.summed:
            self._zero(block.sub(f"if {lo} == {a}:"))  # the window is empty, so nothing is lost
        self._move(block, a, lo)
        at = function.fresh("at")
        block.add(f"{at} = np.uint64({b} + ({a} & {c}))")
        if isinstance(spec.window, Time):
            block.add(f"{stamps}[{at}] = {now}")
        for column, bound in operator.arguments:
            value = arguments[column]
            block.add(f"{stored_column(function, name, operator, 0, column, bound.type)}[{at}] = "
                      + word_of(function, block, name, operator, value))  # fmt: skip
            if self._nullable(column):
                block.add(f"{stored_validity(function, name, operator, 0, column)}[{at}] = {value.valid or 1}")
        for column in self.summed:
            value = arguments[column]
            body = block if value.valid is None else block.sub(f"if {value.valid}:")
            self._add(body, column, word_of(function, body, name, operator, value), +1)
        block.add(f"{a} += 1", f"{self.rings}[{g}, 3] = {a}")
        end = f"{self.rings}[{g}, 2] = {lo}", f"{self.ints}[{g}, 0] = {lo}"
        conditions = []
        every = cast(Count, spec.every).size
        if every > 1:
            conditions.append(f"{a} % {function.number(f'{name}_every', lambda: every)} == 0")
        if not spec.partial:
            conditions.append(f"{a} - {lo} == {size}")
        columns: dict[str, Value] = {column: incoming.row[column] for column in spec.by}
        if conditions:
            emits = function.fresh("emits")
            block.add(f"{emits} = {' and '.join(conditions)}")
            emitting = block.sub(f"if {emits}:")
        else:
            emitting = block
        results = {call.name: self._call(emitting, call, arguments, a, lo) for call in spec.calls
                   if call.name in operator.setting.wanted[0]}  # fmt: skip
        if spec.tumbling:
            emitting.add(f"{lo} = {a}")
            self._zero(emitting)
        self._store(block)
        block.add(*end)
        below = block.sub(f"if {emits}:") if conditions else block
        columns |= results
        names = operator.setting.output_schemas[0].names
        row = {column: columns[column] for column in names if column in operator.setting.wanted[0]}
        counter = incoming.counter if below is incoming.block else counted(function, below, f"n_{name}")
        if events is not None:
            events.emitted(below, g, counter)
        return StepRow(below, row | key_parts(incoming.row), counter, incoming.most)

    # Sums -------------------------------------------------------------------------------------------------------------

    def _names(self, column: str) -> tuple[str, ...]:
        stem, rare = f"{self.name}_{identifier(column)}_run", 3 + 3 * self.operator.places[column]
        # How many values are infinite or NaN changes so seldom that the number stays in its array.
        special_counts = (f"{self.ints}[{self.g}, {rare + side}]" for side in (0, 1))
        return f"{stem}_n", f"{stem}_t", f"{stem}_u", f"{stem}_l", *special_counts

    def _floats(self, column: str) -> bool:
        return pa.types.is_floating(self.operator.stores[0].type_of(column))

    def _places(self, column: str) -> list[tuple[str, str]]:
        """The sums of a column, and where they are stored between rows of a group."""
        number = self.operator.places[column]
        n, t, u, lost, *_ = self._names(column)
        ints = [f"{self.ints}[{self.g}, {2 + 3 * number + place}]" for place in range(3)]
        if not self._floats(column):
            return list(zip((n, t, u), ints, strict=True))
        floats = [f"{self.floats}[{self.g}, {3 * number + place}]" for place in range(3)]
        return list(zip((n, t, u, lost), [ints[0], *floats], strict=True))

    def _load(self, block: Block) -> None:
        for column in self.summed:
            block.add(*(f"{name} = {place}" for name, place in self._places(column)))

    def _store(self, block: Block) -> None:
        for column in self.summed:
            block.add(*(f"{place} = {name}" for name, place in self._places(column)))

    def _zero(self, block: Block) -> None:
        for column in self.summed:
            self._empty(block, column)

    def _empty(self, block: Block, column: str) -> None:
        n, t, u, lost, above, below = self._names(column)
        if self._floats(column):
            block.add(f"{n} = np.int64(0)", *(f"{name} = 0.0" for name in (t, u, lost)), f"{above} = 0", f"{below} = 0")
        else:
            block.add(*(f"{name} = np.int64(0)" for name in (n, t, u)))

    def _shift(self, block: Block, index: str, sign: int) -> None:
        """Add the row at an insertion index to the sums, or subtract it."""
        if not self.summed:
            block.add("pass")
            return
        place = self.function.fresh("p")
        block.add(f"{place} = np.uint64({self.b} + ({index} & {self.c}))")
        for column in self.summed:
            body = block
            if self._nullable(column):
                valid = stored_validity(self.function, self.name, self.operator, 0, column)
                body = block.sub(f"if {valid}[{place}] != 0:")
            self._add(body, column, self._stored(column, place), sign)

    def _stored(self, column: str, place: str) -> str:
        type_ = self.operator.stores[0].type_of(column)
        return f"{stored_column(self.function, self.name, self.operator, 0, column, type_)}[{place}]"

    def _add(self, body: Block, column: str, value: str, sign: int) -> None:
        n, t, u, lost, above, below = self._names(column)
        plus = "+" if sign > 0 else "-"
        body.add(f"{n} {plus}= 1")
        if not self._floats(column):
            x = self.function.fresh("xi")
            body.add(f"{x} = {value}", f"{t} {plus}= {x}", f"{u} {plus}= {x} >> 32")
            return
        x, s, y, d = (self.function.fresh(stem) for stem in "xsyd")
        body.add(f"{x} = {'' if sign > 0 else '-'}{value}")
        body.sub(f"if np.isfinite({x}):").add(
            f"{s} = {t} + {x}", f"{y} = {s} - {t}", f"{d} = ({t} - ({s} - {y})) + ({x} - {y})", f"{t} = {s}",
            f"{s} = {u} + {d}", f"{y} = {s} - {u}", f"{lost} += abs(({u} - ({s} - {y})) + ({d} - {y}))", f"{u} = {s}",
        )  # fmt: skip
        special, counts = body.sub("else:"), (above, below)[::sign]
        special.sub(f"if not {x} < 0.0:").add(f"{counts[0]} {plus}= 1")
        special.sub(f"if not {x} > 0.0:").add(f"{counts[1]} {plus}= 1")

    def _move(self, block: Block, a: str, lo: str) -> None:
        """Move a full ring to the end of the arrays, and double its places."""
        function, operator, name = self.function, self.operator, self.name
        used = function.counter(f"{name}_used", lambda: operator.stores[0].used)
        largest = function.counter(f"{name}_largest", lambda: operator.largest_ring)
        operator.new_rings += self.incoming.most
        room = function.number(f"{name}_places", lambda: operator.stores[0].room)
        function.checks.sub(f"if {used} + {4 * operator.new_rings} * {largest} > {room}:").add("done = i", "break")

        def after() -> None:
            operator.stores[0].used = function.value_of(used)
            operator.largest_ring = function.value_of(largest)

        function.after.append(after)
        full = block.sub(f"if {a} - {lo} > {self.c}:")
        mask, start = function.fresh("c"), function.fresh("b")
        full.add(f"{mask} = max(2 * {self.c} + 1, 3)", f"{start} = {used}", f"{used} += {mask} + 1")
        copy = full.sub(f"for w in range({lo}, {a}):")
        from_, to = function.fresh("p"), function.fresh("p")
        copy.add(f"{from_} = np.uint64({self.b} + (w & {self.c}))", f"{to} = np.uint64({start} + (w & {mask}))")
        for column in operator.stores[0].names:
            type_ = operator.stores[0].type_of(column)
            stored = stored_column(function, name, operator, 0, column, type_)
            copy.add(f"{stored}[{to}] = {stored}[{from_}]")
            if column != STAMP and self._nullable(column):
                valid = stored_validity(function, name, operator, 0, column)
                copy.add(f"{valid}[{to}] = {valid}[{from_}]")
        if not operator.stores[0].names:
            copy.add("pass")
        full.add(f"{self.b} = {start}", f"{self.c} = {mask}", f"{self.rings}[{self.g}, 0] = {start}",
                 f"{self.rings}[{self.g}, 1] = {mask} + 1", f"{largest} = max({largest}, {mask} + 1)")  # fmt: skip

    # Results ----------------------------------------------------------------------------------------------------------

    def _call(self, block: Block, call: AggregateCall, arguments: dict[str, Value], a: str, lo: str) -> Value:
        function, operator, column = self.function, self.operator, self.operator.column_of(call)
        if column is None or (call.function == "count" and not self._nullable(column)):
            return under_name(function, block, Value(pa.int64(), f"({a} - {lo})"))
        if call.function == "last":
            return arguments[column]
        type_, nullable = operator.stores[0].type_of(column), self._nullable(column)
        if call.function == "first":
            place = function.fresh("p")
            block.add(f"{place} = np.uint64({self.b} + ({lo} & {self.c}))")
            read = read_back(function, self.name, operator, 0, column, place, type_, nullable)
            return under_name(function, block, read)
        n = self._names(column)[0]
        if call.function == "count":
            return under_name(function, block, Value(pa.int64(), n))
        total = self._total(block, column, a, lo)
        some = f"({n} > 0)" if nullable else None
        if call.function == "sum":
            return under_name(function, block, Value(type_ if self._floats(column) else pa.int64(), total, some))
        mean = f"float({total}) / float(max({n}, 1))"
        return under_name(function, block, Value(pa.float64(), mean, some))

    def _total(self, block: Block, column: str, a: str, lo: str) -> str:
        n, t, u, lost, above, below = self._names(column)
        if not self._floats(column):
            # The upper halves are summed separately: see kernels/folds.py.
            wrong = block.sub(f"if err == 0 and abs(({t} >> 32) - {u}) > {n}:")
            wrong.add(f"err = {overflow_site(self.function, self.operator, column)}")
            return t
        result = self.function.fresh("sum")
        block.add(f"{result} = ({t} + {u}) + 0.0")
        doubtful = block.sub(f"if {lost} != 0.0 or not np.isfinite({result}):")
        self._empty(doubtful, column)
        adding = doubtful.sub(f"for w in range({lo}, {a}):")
        place = self.function.fresh("p")
        adding.add(f"{place} = np.uint64({self.b} + (w & {self.c}))")
        valid = no_nulls(self.function)
        if self._nullable(column):
            valid = stored_validity(self.function, self.name, self.operator, 0, column)
            adding = adding.sub(f"if {valid}[{place}] != 0:")
        self._add(adding, column, self._stored(column, place), +1)
        doubtful.add(f"{result} = ({t} + {u}) + 0.0")
        values = stored_column(self.function, self.name, self.operator, 0, column, pa.float64())
        doubtful.sub(f"if ({lost} != 0.0 or not np.isfinite({result})) and not certain({t}, {u}, {lost}):").add(
            f"{result} = exactly({values}, {valid}, {self.b}, {self.c}, {lo}, {a})"
        )
        block.sub(f"if {above} > 0:").add(f"{result} = np.inf if {below} == 0 else np.nan")
        block.sub(f"elif {below} > 0:").add(f"{result} = -np.inf")
        return result
