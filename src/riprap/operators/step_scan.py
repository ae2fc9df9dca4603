"""The step of a functor with state variables: a group's variables are read, updated one by one, and written back.

Text variables are ids in the operator's string pool. Before a call the pool contains all strings that an update can
produce in it: those of the input's dictionaries, and of functions of them. So an update may choose among those and the
variables' old values, but cannot compute with text that a row of the same call produced.
"""

import pyarrow as pa

from riprap.expressions.generated_code import Value
from riprap.operators.columns import is_text
from riprap.operators.function import Function
from riprap.operators.scan import ScanOperator
from riprap.operators.step_state import (
    StepRow,
    counted,
    ends_of,
    group_of,
    key_parts,
    operator_name,
    pool_name,
    read_back,
    stored_column,
    stored_validity,
    under_name,
    where,
    word_of,
)


def scan_step(function: Function, operator: ScanOperator, incoming: StepRow) -> StepRow:
    spec, setting, name = operator.spec, operator.setting, operator_name(operator.spec)
    keys = [incoming.row[column] for column in spec.by]
    block, group = group_of(function, incoming.block, name, operator, keys, True, incoming.most)
    ends = ends_of(function, name, operator, 0)
    at, index = function.fresh("at"), function.fresh("a")
    block.add(f"{at} = np.uint64({group})", f"{index} = {ends}[{at}, 1]")
    fresh = block.sub(f"if {index} == {ends}[{at}, 0]:")
    row: dict[str, Value] = dict(incoming.row)
    for field in operator.fields:
        start, ok = operator.initial[field.name]  # text is interned first, so its id is constant
        values = stored_column(function, name, operator, 0, field.name, field.type)
        valid = stored_validity(function, name, operator, 0, field.name)
        first = function.literal(float(start) if pa.types.is_floating(field.type) else int(start))
        fresh.add(f"{values}[{at}] = {first}", f"{valid}[{at}] = {int(ok)}")
    for field in operator.fields:  # all variables are read before any is written
        old = read_back(function, name, operator, 0, field.name, str(at), field.type, True)
        row[field.name] = under_name(function, block, old)
    function.chosen = {f.type: pool_name(name, f.type) for f in operator.fields if is_text(f.type)}
    function.code = lambda value: word_of(function, block, name, operator, value)
    for column, bound in operator.updates:
        row[column] = under_name(function, block, function.expression(block, row, bound.expression))
    for own in function.chosen.values():  # fetched last, with all strings that updates may produce
        function.dictionaries[own] = function.dictionaries.pop(own)
    function.chosen = {}
    for field in operator.fields:
        values = stored_column(function, name, operator, 0, field.name, field.type)
        valid = stored_validity(function, name, operator, 0, field.name)
        new = row[field.name]
        block.add(f"{values}[{at}] = {word_of(function, block, name, operator, new)}")
        block.add(f"{valid}[{at}] = {new.valid or 1}")
    block.add(f"{ends}[{at}, 0] = {index}", f"{ends}[{at}, 1] = {index} + 1")
    counter = incoming.counter
    if spec.predicate is not None:
        block, known = where(function, block, row, spec.predicate)
        row = dict(known)
        counter = counted(function, block, f"n_{name}")
    if spec.projections is None:
        result = {column: row[column] for column in setting.output_schemas[0].names if column in setting.wanted[0]}
    else:
        result = {c: function.expression(block, row, e) for c, e in spec.projections if c in setting.wanted[0]}
    return StepRow(block, result | key_parts(incoming.row), counter, incoming.most)
