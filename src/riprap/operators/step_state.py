"""Common parts of steps: the row that one step passes to the next, and the state of operators."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from riprap.expressions import Expression
from riprap.expressions.facts import not_null_where, only_values
from riprap.expressions.generated_code import Block, Value
from riprap.expressions.kinds import HELD_BY_ARROW
from riprap.expressions.value_bytes import has_own_bytes
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.graph.specs import OperatorSpec
from riprap.operators.columns import is_text
from riprap.operators.function import Function
from riprap.operators.groups import GroupTable
from riprap.operators.windowed import WindowedOperator

Row = Mapping[str, Value]  # by column, including the order key


@dataclass
class StepRow:
    """An output row of a step: the block in which it exists, its columns, its counter, and how many there can be for
    one row of the entry.
    """

    block: Block
    row: Row
    counter: str
    most: int = 1


def key_parts(row: Row) -> dict[str, Value]:
    return {name: row[name] for name in KEY_COLUMNS if name in row}


def where(function: Function, block: Block, row: Row, predicate: Expression) -> tuple[Block, Row]:
    """The block in which a predicate is true, and the row as known there: the columns it compares are not null."""
    condition = function.truth(block, row, predicate)
    there = not_null_where(predicate.root)
    known = {name: replace(value, valid=None) if name in there else value for name, value in row.items()}
    # After a block for other values of the same column, `elif` skips the test where that block ran.
    only = only_values(predicate.root)
    last = block.items[-1] if block.items else None
    before = last.only if isinstance(last, Block) and only is not None else None
    if only is not None:
        only = (row[only[0]].text, only[1])
    otherwise = before is not None and only is not None and before[0] == only[0] and not before[1] & only[1]
    inner = block.sub(f"{'elif' if otherwise else 'if'} {condition}:")
    inner.only = (only[0], only[1] | before[1]) if otherwise and only is not None and before is not None else only
    return inner, known


def counted(function: Function, block: Block, name: str) -> str:
    block.add(f"{function.counter(name)} += 1")
    return name


def flag(function: Function, incoming: StepRow) -> str:
    """A name that is true in every row for which this output row exists, usable anywhere in the loop."""
    name = function.fresh("has")
    function.prologue.add(f"{name} = False")
    incoming.block.add(f"{name} = True")
    return name


def comes_first(first: Block, second: Block) -> bool:
    """Whether code added to one block runs before code added to another, in every row that runs both."""
    paths = []
    for block in (first, second):
        path: list[Block] = [block]
        while path[0].parent is not None:
            path.insert(0, path[0].parent)
        paths.append(path)
    depth = 0
    while depth < min(map(len, paths)) and paths[0][depth] is paths[1][depth]:
        depth += 1
    if depth == len(paths[0]):
        return depth == len(paths[1])  # the same block, or the second is inside the first
    if depth == len(paths[1]):
        return True  # the first is inside the second
    places = [next(i for i, item in enumerate(paths[0][depth - 1].items) if item is path[depth]) for path in paths]
    return places[0] < places[1]


def under_name(function: Function, block: Block, value: Value) -> Value:
    """The value as it is at the end of the block, whatever is written to its origin later."""
    name = function.fresh("r")
    block.add(f"{name} = {value.text}")
    if value.valid is None:
        return Value(value.type, name, None, value.dictionary)
    block.add(f"{name}_ok = {value.valid}")
    return Value(value.type, name, f"{name}_ok", value.dictionary)


def operator_name(spec: OperatorSpec) -> str:
    """The prefix of the names of an operator's arguments, which is unique."""
    return f"op_{identifier(spec.name)}"


def identifier(name: str) -> str:
    """A part of an identifier: letters, digits and underscores; different names stay different."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)


# Groups ---------------------------------------------------------------------------------------------------------------


def group_of(
    function: Function,
    block: Block,
    name: str,
    operator: WindowedOperator,
    keys: Sequence[Value],
    null_is_a_key: bool,
    most: int = 1,
) -> tuple[Block, str]:
    """The block in which a row has a group, and the group's number. `most`: how many such rows there are for one row
    of the entry.
    """

    def groups() -> GroupTable:
        return operator.groups

    if not keys:
        return block, "np.int64(0)"
    group, count = f"{name}_g", function.counter(f"{name}_count", lambda: groups().count)
    operator.new_groups += most
    room = function.number(f"{name}_room", lambda: operator.make_room() + 1 - operator.new_groups)
    check = f"if {count} >= {room}:"
    if not any(isinstance(item, Block) and item.header == check for item in function.checks.items):
        function.checks.sub(check).add("done = i", "break")
        function.after.append(lambda: groups().numbered(function.value_of(count)))
    nullable = any(key.valid is not None for key in keys)
    if nullable and not null_is_a_key:
        block = block.sub(f"if {' and '.join(key.valid for key in keys if key.valid is not None)}:")
    nulls = nullable and null_is_a_key
    group = function.fresh(group)
    if groups().by_code:
        _by_code(function, block, name, operator, keys[0], group, count, nulls)
    else:
        _by_words(function, block, name, operator, keys, group, count, nulls)
    return block, group


def _by_code(
    function: Function,
    block: Block,
    name: str,
    operator: WindowedOperator,
    key: Value,
    group: str,
    count: str,
    nulls: bool,
) -> None:
    ids, of_code = _ids(function, name, operator, key)
    lut = function.array(f"{name}_lut_{key.dictionary}", "int32", lambda views: operator.groups.lut(ids()))
    of_id = function.array(f"{name}_of_id", "int64", lambda views: operator.groups.group_of_id())
    own = function.array(f"{name}_own", "int64", lambda views: operator.groups.own_ids)
    place = f"np.uint64({key.text} + 1)"  # place 0 stands for null
    block.add(f"{group} = np.int64({lut}[{f'{place} if {key.valid} else np.uint64(0)' if nulls else place}])")
    unknown = block.sub(f"if {group} < 0:")
    known = unknown
    if nulls:
        missing = unknown.sub(f"if not {key.valid}:")
        missing.add(f"{group} = {count}", f"{own}[np.uint64({group})] = -1", f"{count} += 1", f"{lut}[0] = {group}")
        known = unknown.sub("else:")
    known.add(f"{group} = {of_id}[np.uint64({of_code}[np.uint64({key.text})])]")
    new = known.sub(f"if {group} < 0:")
    new.add(f"{group} = {count}", f"{of_id}[np.uint64({of_code}[np.uint64({key.text})])] = {group}",
            f"{own}[np.uint64({group})] = {of_code}[np.uint64({key.text})]", f"{count} += 1")  # fmt: skip
    known.add(f"{lut}[{place}] = {group}")


def _ids(
    function: Function, name: str, operator: WindowedOperator, value: Value
) -> tuple[Callable[[], np.ndarray], str]:
    """The id in the operator's pool of each code of a text value: the function that computes it, and the argument."""
    assert value.dictionary is not None
    dictionary = function.dictionaries[value.dictionary]
    if value.dictionary not in function.pooled.setdefault(name, []):
        function.pooled[name].append(value.dictionary)

    def ids() -> np.ndarray:
        return operator.pool.ids_of(cast(pa.Array, dictionary.current), dictionary.address)

    return ids, function.array(f"{name}_ids_{value.dictionary}", "=int64", lambda views: ids())


def _by_words(
    function: Function, block: Block, name: str, operator: WindowedOperator, keys: Sequence[Value], group: str,
    count: str, nulls: bool,
) -> None:  # fmt: skip
    slots = function.array(f"{name}_slots", "int64", lambda views: operator.groups.slots)
    own = function.array(f"{name}_own", "int64:2", lambda views: operator.groups.keys)
    words = []
    for key in keys:
        word = word_of(function, block, name, operator, key)
        if pa.types.is_floating(key.type):
            word = f"comparable({word})"
        words.append(function.fresh("w"))
        block.add(
            f"{words[-1]} = {word}" if key.valid is None else f"{words[-1]} = {word} if {key.valid} else np.int64(0)"
        )
    missing = [f"(0 if {key.valid} else {1 << j})" for j, key in enumerate(keys) if nulls and key.valid is not None]
    words.append(function.fresh("w"))
    block.add(f"{words[-1]} = np.int64({' | '.join(missing) or 0})")
    hashed = "SEED"
    for word in words:
        hashed = f"np.uint64(combine({hashed}, {word}))"
    slot = function.fresh("slot")
    block.add(f"{slot} = place({hashed}, len({slots}) - 1)")
    loop = block.sub("while True:")
    loop.add(f"{group} = {slots}[np.uint64({slot})]")
    new = loop.sub(f"if {group} < 0:")
    new.add(f"{group} = {count}", f"{slots}[np.uint64({slot})] = {group}", f"{count} += 1")
    new.add(*(f"{own}[np.uint64({group}), {j}] = {word}" for j, word in enumerate(words)), "break")
    same = " and ".join(f"{own}[np.uint64({group}), {j}] == {word}" for j, word in enumerate(words))
    loop.sub(f"if {same}:").add("break")
    loop.add(f"{slot} = ({slot} + 1) & (len({slots}) - 1)")


def word_of(function: Function, block: Block, name: str, operator: WindowedOperator, value: Value) -> str:
    """A value as a store holds it: int64 or float64, text as its id in the operator's pool."""
    if value.kind in HELD_BY_ARROW:
        word = value.text
        if value.dictionary != pool_name(name, value.type):  # else it is the id already
            word = f"{_ids(function, name, operator, value)[1]}[np.uint64({word})]"
        return word if value.valid is None else f"({word} if {value.valid} else np.int64(0))"
    if pa.types.is_floating(value.type):
        return f"float({value.text})"
    return f"np.int64({value.text})"


def ends_of(function: Function, name: str, operator: WindowedOperator, port: int) -> str:
    """The start and end of each group's window, side by side."""
    return function.array(f"{name}_ends", "int64:2", lambda views: operator.stores[port].ends)


def stored_column(
    function: Function, name: str, operator: WindowedOperator, port: int, column: str, type_: pa.DataType
) -> str:
    kind = "float64" if pa.types.is_floating(type_) else "int64"
    return function.array(
        f"{name}_{identifier(column)}", kind, lambda views: operator.stores[port].column(column).values
    )


def stored_validity(function: Function, name: str, operator: WindowedOperator, port: int, column: str) -> str:
    return function.array(
        f"{name}_{identifier(column)}_ok", "uint8", lambda views: operator.stores[port].validity(column)
    )


def read_back(
    function: Function, name: str, operator: WindowedOperator, port: int, column: str, at: str, type_: pa.DataType,
    nullable: bool,
) -> Value:  # fmt: skip
    text = f"{stored_column(function, name, operator, port, column, type_)}[{at}]"
    if pa.types.is_boolean(type_):
        text = f"({text} != 0)"
    valid = f"({stored_validity(function, name, operator, port, column)}[{at}] != 0)" if nullable else None
    pool = None
    if is_text(type_):
        pool = function.dictionary(pool_name(name, type_), lambda views: _pool(function, name, operator, type_))
    return Value(type_, text, valid, pool)


def pool_name(name: str, type_: pa.DataType) -> str:
    """The name of an operator's strings as a dictionary: one of each type, for the same ids."""
    own = f"{zlib.crc32(str(type_).encode()):x}" if has_own_bytes(type_) else "bytes"
    return f"{name}_{'pool' if pa.types.is_string(type_) else own}"


def _pool(function: Function, name: str, operator: WindowedOperator, type_: pa.DataType) -> pa.Array:
    """An operator's strings, including those of the dictionaries of this call."""
    for source in function.pooled.get(name, ()):
        dictionary = function.dictionaries[source]
        operator.pool.ids_of(cast(pa.Array, dictionary.current), dictionary.address)
    return operator.pool.array(type_)
