"""One step per operator: source text that processes a row and emits rows.

A step gets the block in which its operator's input row exists, as (value, valid) pairs by column. For each output port
it returns the block in which an output row exists; downstream operators write into that block. So a chain of
operators becomes nested conditions in one loop, and no row is stored between two of them.

State stays in the operators' row stores and group tables; a step reads their arrays and appends to them.
Windows of a few tuples are *dense*: equally sized rings, one per group, side by side, which the step overwrites.

The step of an operator that processes whole batches gathers the columns it needs and ends the piece
(`step_gather.py`).

`cannot_step` explains why an operator has no step, or none with its windows; such an operator runs outside pieces.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from riprap.expressions.generated_code import Block, CannotCompile, Value
from riprap.graph.order_keys import SEQ, SRC, TS, N
from riprap.graph.specs import (
    Aggregate,
    Barrier,
    Delay,
    DropDuplicates,
    ExpiringJoin,
    Functor,
    Join,
    JoinTable,
    MapBatches,
    MapPython,
    OperatorSpec,
    Punctor,
    Scan,
    Sink,
    Sort,
    Source,
    Split,
    StatefulPython,
    Union,
    UserDefined,
)
from riprap.graph.windows import Count, Zero
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.contract import Operator
from riprap.operators.function import Function
from riprap.operators.join import JoinOperator
from riprap.operators.scan import ScanOperator
from riprap.operators.step_aggregate import STEPPED, aggregate_step
from riprap.operators.step_gather import Gathering, gather_step, gathers
from riprap.operators.step_join import join_step
from riprap.operators.step_running import running_step, runs
from riprap.operators.step_scan import scan_step
from riprap.operators.step_state import (
    StepRow,
    counted,
    flag,
    identifier,
    key_parts,
    operator_name,
    under_name,
    where,
)
from riprap.operators.union import UnionOperator

DENSE = 16  # length of the longest window with a dense ring; longer windows have rings that grow

_STEPS = (Source, Sink, Functor, Scan, Split, Delay, Union, Aggregate, Join)
_WHY: dict[type[OperatorSpec], str] = {
    Punctor: "it emits punctuations, and a compiled loop emits only rows",
    Sort: "it emits many rows at once, in another order",
    Barrier: "its rows wait for rows of all other ports",
    DropDuplicates: "it looks up the keys of a whole batch at once",
    ExpiringJoin: "it emits tuples when they leave their windows",
    JoinTable: "it looks up the rows of a table for a whole batch at once",
    MapBatches: "it is a Python function",
    MapPython: "it calls Python functions",
    StatefulPython: "it calls Python functions with state",
    UserDefined: "it is user-defined code",
}


def cannot_step(spec: OperatorSpec) -> str | None:
    """Why an operator has no step; None if it has one."""
    if type(spec) not in _STEPS:  # a subclass has no step
        return _WHY.get(type(spec), f"a {spec.kind} runs outside compiled loops")
    match spec:
        case Aggregate():
            if gathers(spec):
                return None
            if any(call.function == "apply" for call in spec.calls):
                return "a user-defined function over a window"
            if any(call.function not in STEPPED or call.second is not None for call in spec.calls):
                return "a function that reads the whole window at each emission, which is computed per batch"
            if not ring_size(spec) and not runs(spec):
                return f"more than sums over {spec.window}, which are computed per batch"
            return None
        case Join():
            latest = [p for p in (0, 1) if spec.windows[p] == Count(1) and isinstance(spec.windows[1 - p], Zero)]
            if not latest or not spec.per_group:
                return "an arrival can match several tuples, or a window evicts by time or across groups"
            if spec.outer(latest[0]):
                return "the stored side is emitted as well, and has nothing to match"
            return None
    return None


def ring_size(spec: OperatorSpec) -> int:
    """The length of windows that are dense rings: a few tuples, or the latest one. 0: the rings grow."""
    if not isinstance(spec, Aggregate):
        return 1
    few = isinstance(spec.every, Count) and isinstance(spec.window, Count) and spec.window.size <= DENSE
    return cast(Count, spec.window).size if few else 0


def write_step(
    function: Function, operator: Operator, inputs: Sequence[StepRow], home: Block
) -> list[StepRow] | Gathering:
    """Add an operator. `inputs` are the rows of its ports; an operator with several ports writes into `home`."""
    spec = operator.setting.spec
    match spec:
        case Source() | Sink():
            return [inputs[0]]
        case Functor():
            return [_functor(function, operator, inputs[0])]
        case Scan():
            return [scan_step(function, cast(ScanOperator, operator), inputs[0])]
        case Split():
            return _split(function, operator, inputs[0])
        case Delay():
            return [_delay(function, operator, inputs[0])]
        case Union():
            return [_union(function, cast(UnionOperator, operator), inputs, home)]
        case Aggregate() if gathers(spec):
            return gather_step(function, cast(AggregateOperator, operator), inputs[0])
        case Aggregate() if not ring_size(spec):
            return [running_step(function, cast(AggregateOperator, operator), inputs[0])]
        case Aggregate():
            return [aggregate_step(function, cast(AggregateOperator, operator), inputs[0])]
        case Join():
            return [join_step(function, cast(JoinOperator, operator), inputs, home)]
    raise AssertionError(spec)


def _functor(function: Function, operator: Operator, incoming: StepRow) -> StepRow:
    spec = cast(Functor, operator.setting.spec)
    block, row, counter = incoming.block, incoming.row, incoming.counter
    if spec.predicate is not None:
        block, row = where(function, block, row, spec.predicate)
        counter = counted(function, block, f"n_{operator_name(spec)}")
    if spec.projections is not None:
        result = {
            name: function.expression(block, row, expression)
            for name, expression in spec.projections
            if name in operator.setting.wanted[0]
        }
        row = result | key_parts(row)
    return StepRow(block, row, counter, incoming.most)


def _split(function: Function, operator: Operator, incoming: StepRow) -> list[StepRow]:
    spec = cast(Split, operator.setting.spec)
    where = function.fresh("route")
    block = incoming.block
    block.add(f"{where} = {len(spec.routes)}")
    # Compute all conditions, as on columns: an error in a later one is an error, too.
    conditions = [function.expression(block, incoming.row, route) for route in spec.routes]
    for port in range(len(conditions) - 1, -1, -1):
        block.sub(f"if {conditions[port].text}:").add(f"{where} = {port}")
    outputs = []
    for port in range(spec.outputs):
        inner = block.sub(f"if {where} == {port}:")
        counter = counted(function, inner, f"n_{operator_name(spec)}_{port}")
        outputs.append(StepRow(inner, incoming.row, counter, incoming.most))
    return outputs


def _delay(function: Function, operator: Operator, incoming: StepRow) -> StepRow:
    spec, row = cast(Delay, operator.setting.spec), dict(incoming.row)
    time = row[TS]
    row[TS] = under_name(function, incoming.block, replace(time, text=f"{time.text} + {function.literal(spec.delay)}"))
    if SRC not in row:  # a column behind it
        row[SRC] = Value(pa.int32(), str(operator.setting.shapes[0].src))
    return StepRow(incoming.block, row, incoming.counter, incoming.most)


def _union(function: Function, operator: UnionOperator, inputs: Sequence[StepRow], home: Block) -> StepRow:
    """What follows is written once, in a small loop over the ports that have a row."""
    if any(incoming.most > 1 for incoming in inputs):
        raise CannotCompile("a port can have several rows for one row of the entry")
    flags = [flag(function, incoming) for incoming in inputs]
    port, name = function.fresh("port"), operator_name(operator.setting.spec)
    loop = home.sub(f"for {port} in range({len(inputs)}):")
    wanted = [n for n in operator.setting.output_schemas[0].names if n in operator.setting.wanted[0]]
    keys = [n for n in (TS, SRC, SEQ) if n in inputs[0].row]
    if len({SRC in incoming.row for incoming in inputs}) > 1 or len({incoming.row.get(N) for incoming in inputs}) > 1:
        raise CannotCompile("ports whose order keys have different parts")
    result: dict[str, Value] = {}
    for column in [*wanted, *keys]:
        values = [incoming.row[column] for incoming in inputs]
        if len({(value.type, value.dictionary) for value in values}) > 1:
            raise CannotCompile("text of several dictionaries")
        valid = any(value.valid is not None for value in values)
        if len({(value.text, value.valid) for value in values}) == 1:
            result[column] = values[0]
        else:
            own = f"{name}_{identifier(column)}"
            result[column] = Value(values[0].type, own, f"{own}_ok" if valid else None, values[0].dictionary)
    for index, (incoming, has) in enumerate(zip(inputs, flags, strict=True)):
        chosen = loop.sub(f"if {port} == {index}:")
        chosen.sub(f"if not {has}:").add("continue")
        for column, value in result.items():
            of_port = incoming.row[column]
            if (value.text, value.valid) != (of_port.text, of_port.valid):  # else it is equal already
                chosen.add(f"{value.text} = {of_port.text}")
                if value.valid is not None:
                    chosen.add(f"{value.valid} = {of_port.valid or True}")
    if operator.renumbers:
        last = function.column(f"{name}_last", "int64", lambda views: operator.numbering.last)
        src = result[SRC].text if SRC in result else str(operator.setting.shapes[0].src)
        number = f"{name}_n"
        same = loop.sub(
            f"if {last}[0] == {result[TS].text} and {last}[1] == {src} and {last}[2] == {result[SEQ].text}:"
        )
        same.add(f"{number} = {last}[3]")
        loop.sub("else:").add(f"{number} = np.int64(0)", f"{last}[0] = {result[TS].text}", f"{last}[1] = {src}",
                              f"{last}[2] = {result[SEQ].text}")  # fmt: skip
        loop.add(f"{last}[3] = {number} + 1")
        result[N] = Value(pa.int64(), number)
    elif N in inputs[0].row:
        result[N] = inputs[0].row[N]
    counter = counted(function, loop, f"n_{name}")
    return StepRow(loop, result, counter, len(inputs))
