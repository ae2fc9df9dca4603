"""The step of an aggregate over the few latest tuples of a group: one pass over the window for all its calls."""

import re
from typing import cast

import numpy as np
import pyarrow as pa

from riprap.expressions.generated_code import Block, CannotCompile, Value
from riprap.graph.aggregates import AggregateCall
from riprap.graph.order_keys import TS
from riprap.graph.windows import Count
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.columns import is_text
from riprap.operators.function import Function
from riprap.operators.step_events import StepEvents
from riprap.operators.step_state import (
    StepRow,
    counted,
    ends_of,
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

STEPPED = frozenset(("count", "count_distinct", "sum", "avg", "min", "max", "first", "last", "percentile"))


def aggregate_step(function: Function, operator: AggregateOperator, incoming: StepRow) -> StepRow:
    spec, setting = operator.spec, operator.setting
    name = operator_name(spec)
    size, every = cast(Count, spec.window).size, cast(Count, spec.every).size
    keys = [incoming.row[column] for column in spec.by]
    block, group = group_of(function, incoming.block, name, operator, keys, True, incoming.most)
    at, index, first = (function.fresh(stem) for stem in ("at", "a", "lo"))
    ends = ends_of(function, name, operator, 0)
    ring = operator.ring
    cap, mask = function.number(f"{name}_cap", lambda: ring), function.number(f"{name}_mask", lambda: ring - 1)
    g = function.fresh("g")
    block.add(f"{g} = np.uint64({group})", f"{index} = {ends}[{g}, 1]",
              f"{at} = np.uint64({group} * {cap} + ({index} & {mask}))")  # fmt: skip
    events = None
    if operator.recorded:
        instant = spec.tumbling and size == 1
        events = StepEvents(
            function,
            name,
            operator,
            block,
            incoming.row[TS].text,
            incoming.most,
            tumbling=spec.tumbling,
            instant=instant,
        )
        block.add(f"{first} = {ends}[{g}, 0]")
        events.row(g, first, index)
    arguments: dict[str, Value] = {}
    for column, bound in operator.arguments:
        value = arguments[column] = function.expression(block, incoming.row, bound.expression)
        block.add(f"{stored_column(function, name, operator, 0, column, bound.type)}[{at}] = "
                  + word_of(function, block, name, operator, value))  # fmt: skip
        if value.valid is not None or operator.nullable(column):
            block.add(f"{stored_validity(function, name, operator, 0, column)}[{at}] = {value.valid or 1}")
    block.add(f"{index} += 1", f"{ends}[{g}, 1] = {index}", f"{first} = {ends}[{g}, 0]")
    width = function.number(f"{name}_size", lambda: size)
    block.sub(f"if {index} - {first} > {width}:").add(f"{first} = {index} - {width}", f"{ends}[{g}, 0] = {first}")
    conditions = []
    if every > 1:
        conditions.append(f"{index} % {function.number(f'{name}_every', lambda: every)} == 0")
    if not spec.partial:
        conditions.append(f"{index} - {first} == {width}")
    emitting = block.sub(f"if {' and '.join(conditions)}:") if conditions else block
    result: dict[str, Value] = {column: incoming.row[column] for column in spec.by if column in setting.wanted[0]}
    window = _Window(function, emitting, name, operator, f"{group} * {cap}", mask, first, index)
    for call in spec.calls:
        if call.name in setting.wanted[0]:
            result[call.name] = window.call(call, operator.column_of(call))
    window.write()
    if spec.tumbling:
        emitting.add(f"{ends}[{g}, 0] = {index}")
    ordered = {column: result[column] for column in setting.output_schemas[0].names if column in result}
    counter = incoming.counter if emitting is incoming.block else counted(function, emitting, f"n_{name}")
    if events is not None:
        events.emitted(emitting, g, counter)
    return StepRow(emitting, ordered | key_parts(incoming.row), counter, incoming.most)


class _Window:
    """One pass over the window [lo, hi) of a group for all calls of an aggregate."""

    def __init__(
        self,
        function: Function,
        block: Block,
        name: str,
        operator: AggregateOperator,
        base: str,
        mask: str,
        lo: str,
        hi: str,
    ) -> None:
        self._function, self._block, self._name, self._operator = function, block, name, operator
        self._base, self._mask, self._lo, self._hi = base, mask, lo, hi
        self._before: list[str] = []
        self._each: dict[str, list[str]] = {}  # per stored column: what is done with each of its values
        self._behind = Block()
        self._sums: dict[str, tuple[str, str]] = {}

    def call(self, call: AggregateCall, column: str | None) -> Value:
        function, operator, what = self._function, self._operator, call.function
        if column is None or (what == "count" and not operator.nullable(column)):
            return Value(pa.int64(), f"({self._hi} - {self._lo})")
        type_, nullable = operator.stores[0].type_of(column), operator.nullable(column)
        if what in ("first", "last"):
            index = self._lo if what == "first" else f"({self._hi} - 1)"
            where = function.fresh("p")
            self._behind.add(f"{where} = np.uint64({self._base} + ({index} & {self._mask}))")
            return under_name(
                function, self._behind, read_back(function, self._name, operator, 0, column, where, type_, nullable)
            )
        if what == "count":
            return Value(pa.int64(), self._count(column))
        if what == "count_distinct":
            return self._ranked("distinct_in", column, type_, pa.int64())
        some = f"({self._count(column)} > 0)" if nullable else None
        if what in ("min", "max"):
            return self._extreme(column, what, type_, some)
        if what == "percentile":
            share = function.literal(float(call.share or 0.0))
            return self._ranked("percentile_in", column, type_, pa.float64(), share, valid=some)
        total = self._sum(column, type_)
        result_type = pa.float64() if pa.types.is_floating(type_) else pa.int64()
        if what == "sum":
            return Value(result_type, total, some)
        counted = self._count(column) if nullable else f"({self._hi} - {self._lo})"
        return under_name(
            function, self._behind, Value(pa.float64(), f"float({total}) / float(max({counted}, 1))", some)
        )

    def _count(self, column: str) -> str:
        name = f"{self._name}_{identifier(column)}_cnt"
        if f"{name} = 0" not in self._before:
            self._before.append(f"{name} = 0")
            self._each.setdefault(column, []).append(f"{name} += 1")
        return name

    def _ranked(
        self,
        kernel: str,
        column: str,
        type_: pa.DataType,
        result_type: pa.DataType,
        *more: str,
        valid: str | None = None,
    ) -> Value:
        """A function of the order of the window's values."""
        values = stored_column(self._function, self._name, self._operator, 0, column, type_)
        arguments = [values, self._validity(column), self._base, self._mask, self._lo, self._hi, *more]
        return under_name(self._function, self._behind, Value(result_type, f"{kernel}({', '.join(arguments)})", valid))

    def _validity(self, column: str) -> str:
        if self._operator.nullable(column):
            return stored_validity(self._function, self._name, self._operator, 0, column)
        return no_nulls(self._function)

    def _sum(self, column: str, type_: pa.DataType) -> str:
        if column in self._sums:
            return self._sums[column][0]
        function, stem = self._function, _stem(self._name, column)
        if pa.types.is_floating(type_):
            result = self._float_sum(column, stem)
        else:
            # The upper halves are summed separately: see kernels/folds.py.
            self._before += [f"{stem}_t = np.int64(0)", f"{stem}_u = np.int64(0)"]
            self._each.setdefault(column, []).extend([f"{stem}_t += x", f"{stem}_u += x >> 32"])
            counted = self._count(column) if self._operator.nullable(column) else f"({self._hi} - {self._lo})"
            site = overflow_site(function, self._operator, column)
            wrong = self._behind.sub(f"if err == 0 and abs(({stem}_t >> 32) - {stem}_u) > {counted}:")
            wrong.add(f"err = {site}")
            result = f"{stem}_t"
        self._sums[column] = (result, stem)
        return result

    def _float_sum(self, column: str, stem: str) -> str:
        """Cascaded additions with a known error; the exact accumulator where that is too large."""
        t, e, lost = f"{stem}_t", f"{stem}_e", f"{stem}_l"
        self._before += [f"{t} = 0.0", f"{e} = 0.0", f"{lost} = 0.0"]
        self._each.setdefault(column, []).extend([
            f"s = {t} + x", f"y = s - {t}", f"d = ({t} - (s - y)) + (x - y)", f"{t} = s",
            f"s = {e} + d", f"y = s - {e}", f"{lost} += abs(({e} - (s - y)) + (d - y))", f"{e} = s",
        ])  # fmt: skip
        result = f"{stem}_s"
        self._behind.add(f"{result} = ({t} + {e}) + 0.0")
        doubtful = self._behind.sub(f"if {lost} != 0.0 or not np.isfinite({result}):")
        values = stored_column(self._function, self._name, self._operator, 0, column, pa.float64())
        valid = self._validity(column)
        doubtful.sub(f"if not certain({t}, {e}, {lost}):").add(
            f"{result} = exactly({values}, {valid}, {self._base}, {self._mask}, {self._lo}, {self._hi})"
        )
        return result

    def _extreme(self, column: str, what: str, type_: pa.DataType, some: str | None) -> Value:
        if is_text(type_):
            raise CannotCompile(f"{what} of text")
        best = f"{self._name}_{identifier(column)}_{what}"
        floats = pa.types.is_floating(type_)
        if f"{best}_any = False" not in self._before:
            self._before += [f"{best}_any = False", f"{best} = {'0.0' if floats else 'np.int64(0)'}"]
            if not floats:
                better = f"x {'>' if what == 'max' else '<'} {best}"
            elif what == "max":  # NaN is above every number
                better = f"x > {best} or (x != x and {best} == {best})"
            else:
                better = f"x < {best} or ({best} != {best} and x == x)"
            self._each.setdefault(column, []).append(f"if not {best}_any or {better}: {best} = x")
            self._each[column].append(f"{best}_any = True")
        return Value(type_, f"({best} != 0)" if pa.types.is_boolean(type_) else best, some)

    def write(self) -> None:
        self._block.add(*self._before)
        if self._each:
            loop = self._block.sub(f"for w in range({self._lo}, {self._hi}):")
            loop.add(f"p = np.uint64({self._base} + (w & {self._mask}))")
            for column, lines in self._each.items():
                body = loop
                if self._operator.nullable(column):
                    valid = stored_validity(self._function, self._name, self._operator, 0, column)
                    body = loop.sub(f"if {valid}[p] != 0:")
                type_ = self._operator.stores[0].type_of(column)
                x = f"x{identifier(column)}"
                body.add(f"{x} = {stored_column(self._function, self._name, self._operator, 0, column, type_)}[p]")
                body.add(*(_renamed(line, x) for line in lines))
        self._block.items += self._behind.items


_NO_NULLS = np.empty(0, np.uint8)


def no_nulls(function: Function) -> str:
    """An empty array, which kernels read as no nulls."""
    return function.array("no_nulls", "=uint8", lambda views: _NO_NULLS)


def overflow_site(function: Function, operator: AggregateOperator, column: str) -> int:
    summed = (call for call in operator.spec.calls if operator.column_of(call) == column)
    called = next(call.name for call in summed if call.function in ("sum", "avg"))
    return function.site(
        f"operator {operator.spec.name}: {called} exceeds 64 bits; cast its argument to double, or use a smaller window"
    )


def _stem(name: str, column: str) -> str:
    return f"{name}_{identifier(column)}_sum"


def _renamed(line: str, x: str) -> str:
    """The line with the value's name in place of `x`."""
    return re.sub(r"\bx\b", x, line)
