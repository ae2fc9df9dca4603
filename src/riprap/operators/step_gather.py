"""The step of an aggregate that emits by time or punctuation. The loop gathers the group, the time and the arguments
of each row, and the operator processes all rows of a call after it, in kernels. The step ends its piece.

When which window emits depends on all groups and on much later rows, and one row can end many windows. In kernels
after the loop no row waits for the interpreter, however often the operator emits.

Every recovering aggregate processes the rows of its past in the same way, in a piece of its own (`past`), the loop of
which stops where the past ends.
"""

import numpy as np

from riprap.graph.order_keys import TS, OrderKey
from riprap.graph.specs import Aggregate, OperatorSpec
from riprap.graph.windows import Count
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.columns import ALL_VALID, WordColumn, dtype_of
from riprap.operators.contract import Emission
from riprap.operators.function import Buffers, Function
from riprap.operators.step_state import StepRow, group_of, operator_name, word_of

_GROUP, _TIME = " group", " time"  # no argument has these names


def gathers(spec: OperatorSpec) -> bool:
    """Whether an operator processes its rows after the loop, and so ends its piece."""
    return isinstance(spec, Aggregate) and not isinstance(spec.every, Count)


class Gathering:
    """The rows that a loop gathered for an operator."""

    def __init__(self, operator: AggregateOperator, buffers: Buffers, counter: str) -> None:
        self.operator, self.buffers, self.counter = operator, buffers, counter
        self.name = operator.spec.name
        self.emitted = 0  # rows emitted so far

    def take(self, count: int, at: OrderKey | None = None) -> list[Emission]:
        """Let the operator process the rows of the last call; `at`: the key at which they arrived, if they are late."""
        arrays, operator = self.buffers.arrays, self.operator
        groups, ts = arrays[_GROUP][:count], arrays[_TIME][:count]
        words = {
            name: WordColumn(
                arrays[name][:count], arrays[f"{name} ok"][:count] if f"{name} ok" in arrays else ALL_VALID
            )
            for name, _ in operator.arguments
        }
        if operator.repetition is not None and operator.repeating:
            past = operator.repetition.consume_words(groups, ts, words)
            operator.version -= past  # the piece counts them again
            if past == count:
                return []
            groups, ts = groups[past:], ts[past:]
            words = {name: WordColumn(v[past:], ok[past:] if len(ok) else ok) for name, (v, ok) in words.items()}
        if at is None:
            return operator.take(groups, ts, words)
        before, open_ = operator.watermark(at), operator.open_to(ts, at)
        words = {name: WordColumn(v[open_], ok[open_] if len(ok) else ok) for name, (v, ok) in words.items()}
        return before + operator.take(groups[open_], ts[open_], words) if open_.any() else before


def gather_step(function: Function, operator: AggregateOperator, incoming: StepRow, *, past: bool = False) -> Gathering:
    """`past`: only rows of the past."""
    name = operator_name(operator.spec)
    keys = [incoming.row[column] for column in operator.spec.by]
    block, group = group_of(function, incoming.block, name, operator, keys, True, incoming.most)
    buffers = function.buffer(incoming.most)
    count, at = function.counter(f"{name}_rows", lambda: 0), function.fresh("at")
    block.add(f"{at} = np.uint64({count})", f"{count} += 1")
    if past:
        left = function.counter(f"{name}_left", lambda: _left(operator))
        function.checks.sub(f"if {count} >= {left}:").add("done = i", "break")

    def write(column: str, dtype: np.dtype, text: str) -> None:
        array = function.array(f"{name}_in{len(buffers.dtypes)}", dtype.name, buffers.fetch(column, dtype))
        block.add(f"{array}[{at}] = {text}")

    write(_GROUP, np.dtype(np.int64), group)
    write(_TIME, np.dtype(np.int64), incoming.row[TS].text)
    for column, bound in operator.arguments:
        value = function.expression(block, incoming.row, bound.expression)
        write(column, np.dtype(dtype_of(bound.type)), word_of(function, block, name, operator, value))
        if value.valid is not None:
            write(f"{column} ok", np.dtype(np.uint8), value.valid)
    function.outputs.append(count)  # a row that fails is not processed
    return Gathering(operator, buffers, count)


def _left(operator: AggregateOperator) -> int:
    return operator.repetition.left(0) if operator.repetition is not None else 0
