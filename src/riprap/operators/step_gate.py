"""A gate before an operator: in a range of order keys, rows are lost, pass twice, or get wrong values.

Integers in an array control a gate, never text, so one compiled function serves every fault at every operator of a
piece:

    0        how often a row of the range passes: 0 lost, 1 once, 2 twice
    1        how its values are wrong: 0 not at all, OFF or FLIPPED (`kernels/altering.py`)
    2        the seed for wrong values
    3 … 6    the order key (_ts, _src, _seq, _n) at which the range starts
    7 … 10   before which the range ends
    11, 12   the greatest relative error in millionths; how many columns may be wrong
    13 …     two numbers for each of `columns`: its index among those that may be wrong (-1: none), and its salt
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import SEQ, SRC, TS, KeyShape, N, OrderKey
from riprap.operators.function import Function
from riprap.operators.step_state import Row, StepRow, under_name

TWICE = 3  # the most gates of one piece through which rows pass twice
_COLUMNS = 13
_TYPES = (pa.float64(), pa.int64())


class Wrong(NamedTuple):
    """How values are wrong, and which ones: a salt by column."""

    how: int
    seed: int
    parts: int
    salts: Mapping[str, int]


class Gate:
    """The fault before one operator. `columns` are those that can be wrong, in the order of its stream."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.numbers = np.zeros(_COLUMNS + 2 * len(self.columns), np.int64)
        self.open()

    def open(self) -> None:
        """Let every row pass unchanged."""
        self.numbers[:2] = 1, 0

    def strike(self, start: OrderKey, end: OrderKey, times: int, wrong: Wrong | None = None) -> None:
        """Let rows in [start, end) pass `times` times, or with wrong values."""
        numbers = self.numbers
        numbers[0], numbers[1], numbers[3:7], numbers[7:11] = times, 0, start, end
        if wrong is not None:
            struck = [name for name in self.columns if name in wrong.salts]
            numbers[1], numbers[2] = wrong.how if struck else 0, _signed(wrong.seed)
            numbers[11], numbers[12] = wrong.parts, len(struck)
            for place, name in enumerate(self.columns):
                number = struck.index(name) if name in struck else -1
                numbers[_COLUMNS + 2 * place] = number
                numbers[_COLUMNS + 2 * place + 1] = _signed(wrong.salts[name]) if number >= 0 else 0

    def loses(self, key: OrderKey) -> bool:
        """Whether a punctuation is lost."""
        numbers = self.numbers.tolist()
        return numbers[0] == 0 and numbers[3:7] <= list(key) < numbers[7:11]


def wrongable(carried: pa.Schema) -> list[str]:
    """Columns of a stream that can be wrong."""
    return [field.name for field in carried if field.type in _TYPES and field.name not in (TS, SRC, SEQ, N)]


def gate_step(function: Function, name: str, gate: Gate, shape: KeyShape, incoming: StepRow) -> StepRow:
    """The rows behind the gate of the operator whose arguments start with `name`."""
    block, key = incoming.block, _key(incoming.row, shape)
    array = function.array(f"{name}_gate", "=int64", lambda views: gate.numbers)
    own = [f"{name}_gate{place}" for place in range(len(gate.numbers))]
    function.setup.add(*(f"{value} = {array}[{place}]" for place, value in enumerate(own)))
    times, how, seed = own[:3]
    struck = function.fresh("struck")
    inside = f"({_from(key, own[3:7])}) and not ({_from(key, own[7:11])})"
    block.add(f"{struck} = ({times} != 1 or {how} != 0) and {inside}")
    row = dict(incoming.row)
    if gate.columns:
        for column in gate.columns:
            row[column] = under_name(function, block, row[column])
        wrong, chance = block.sub(f"if {struck} and {how} != 0:"), function.fresh("chance")
        words = ", ".join(f"np.uint64(np.int64({part}))" for part in (seed, *key[1:]))
        wrong.add(f"{chance} = np.uint64(chance_at({words}))")
        for place, column in enumerate(gate.columns):
            number, salt = own[_COLUMNS + 2 * place :][:2]
            floating = pa.types.is_floating(row[column].type)
            alter, type_ = ("wrong_float", "np.float64") if floating else ("wrong_whole", "np.int64")
            text = f"{type_}({alter}({row[column].text}, {how}, {chance}, {own[11]}, {own[12]}, {number}, {salt}))"
            wrong.sub(f"if {number} >= 0:").add(f"{row[column].text} = {text}")
    through = block.sub(f"for {function.fresh('pass')} in range({times} if {struck} else 1):")
    return StepRow(through, row, incoming.counter, incoming.most)


def _key(row: Row, shape: KeyShape) -> list[str]:
    """The parts of an order key as text; constant parts as literals."""
    src = row[SRC].text if SRC in row else str(shape.src)
    return [row[TS].text, src, row[SEQ].text, row[N].text if N in row else "0"]


def _from(key: Sequence[str], limit: Sequence[str]) -> str:
    """Whether a key is at or behind a limit."""
    text = f"{key[-1]} >= {limit[-1]}"
    for own, other in zip(reversed(key[:-1]), reversed(limit[:-1]), strict=True):
        text = f"{own} > {other} or ({own} == {other} and ({text}))"
    return text


def _signed(number: int) -> int:
    return int(np.uint64(number).astype(np.int64))
