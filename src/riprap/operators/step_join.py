"""The step of a join in which one port stores the latest tuple per group, and the other stores nothing and looks it
up.

In an outer join the columns of the stored port are null where there was no match.
"""

from collections.abc import Sequence

import pyarrow as pa

from riprap.expressions.generated_code import Block, CannotCompile, Value
from riprap.graph.windows import Count
from riprap.operators.function import Function
from riprap.operators.join import JoinOperator
from riprap.operators.step_state import (
    Row,
    StepRow,
    comes_first,
    counted,
    ends_of,
    flag,
    group_of,
    key_parts,
    operator_name,
    read_back,
    stored_column,
    stored_validity,
    under_name,
    where,
    word_of,
)


def join_step(function: Function, operator: JoinOperator, inputs: Sequence[StepRow], home: Block) -> StepRow:
    spec, setting = operator.spec, operator.setting
    if any(incoming.most > 1 for incoming in inputs) and not function.merged:
        raise CannotCompile("a port can have several rows for one row of the entry")
    stored_port = 0 if isinstance(spec.windows[0], Count) else 1
    name = operator_name(spec)
    blocks = [incoming.block for incoming in inputs]
    if not comes_first(*blocks):
        flags = [flag(function, incoming) for incoming in inputs]
        blocks = [home.sub(f"if {has}:") for has in flags]
    output: StepRow | None = None
    for port in (0, 1):  # the lower port first: row order is merge order
        row, block = inputs[port].row, blocks[port]
        keys = [row[pair[port]] for pair in spec.on]
        outside, hit = block, function.fresh("hit")
        if port != stored_port and spec.outer(port):
            block.add(f"{hit} = False")
        block, group = group_of(function, block, name, operator, keys, False, inputs[port].most)
        ends = ends_of(function, name, operator, stored_port)
        at, index = function.fresh("at"), function.fresh("a")
        block.add(f"{at} = np.uint64({group})")
        if port == stored_port:
            block.add(f"{index} = {ends}[{at}, 1]", f"{ends}[{at}, 0] = {index}", f"{ends}[{at}, 1] = {index} + 1")
            for column in operator.stored[port]:
                value = row[column]
                stored = stored_column(function, name, operator, port, column, setting.schemas[port].field(column).type)
                block.add(f"{stored}[{at}] = {word_of(function, block, name, operator, value)}")
                if setting.schemas[port].field(column).nullable:
                    block.add(f"{stored_validity(function, name, operator, port, column)}[{at}] = {value.valid or 1}")
            continue
        block = block.sub(f"if {ends}[{at}, 1] > {ends}[{at}, 0]:")
        pair: dict[str, Value] = {}
        for column, origin in operator.port_of.items():
            if origin == port and column in row:
                pair[column] = row[column]
            elif origin != port and column in operator.stored[stored_port]:
                field = setting.schemas[stored_port].field(column)
                read = read_back(function, name, operator, stored_port, column, at, field.type, field.nullable)
                pair[column] = under_name(function, block, read)  # a copy: the store may change in this row
        met: Row = pair | key_parts(row)
        if spec.predicate is not None:
            block, met = where(function, block, met, spec.predicate)
        if spec.outer(port):
            block.add(f"{hit} = True")
            stored_values = {c: v for c, v in pair.items() if operator.port_of[c] != port}
            met = pair | {c: _if_hit(outside, v, hit) for c, v in stored_values.items()} | key_parts(row)
            block = outside
        wanted = setting.wanted[0]
        if spec.projections is None:
            columns = {c: met[c] for c in setting.output_schemas[0].names if c in wanted}
        else:
            columns = {c: function.expression(block, met, e) for c, e in spec.projections if c in wanted}
        counter = counted(function, block, f"n_{name}")
        output = StepRow(block, columns | key_parts(row), counter, inputs[port].most)
    assert output is not None
    return output


def _if_hit(block: Block, value: Value, hit: str) -> Value:
    """A stored value in the surrounding block: null where there was no match."""
    name = f"{value.text}_met"
    zero = "0.0" if pa.types.is_floating(value.type) else "False" if pa.types.is_boolean(value.type) else "np.int64(0)"
    block.add(f"{name} = {value.text} if {hit} else {zero}", f"{name}_ok = {hit} and {value.valid or True}")
    return Value(value.type, name, f"{name}_ok", value.dictionary)
