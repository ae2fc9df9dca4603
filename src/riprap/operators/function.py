"""A generated function: its arguments and where they come from, its errors, tables and dictionaries.

The function processes rows [start, stop) of a piece of the graph. Its arguments are arrays and numbers, each with one
name and one Numba type, so equal texts are equal functions, whatever their literals and window sizes. The columns of
the piece's entry are fetched for every call. All other arguments are cached, and fetched again when a dictionary or a
*stamp* changes: the arrays of the state are replaced when it grows or is restored.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions.ast import Expression, Node, columns_of
from riprap.expressions.code_writer import ExpressionWriter
from riprap.expressions.column_functions import folded
from riprap.expressions.facts import may_fail
from riprap.expressions.generated_code import Block, CannotCompile, FunctionWriter, Value
from riprap.expressions.lookup_tables import Fetch, Table


@dataclass(frozen=True)
class Argument:
    name: str
    kind: str  # a NumPy dtype for an array that is written, with "=" before it for one that is read; "int" or "float"
    fetch: Fetch
    held: bool = True


class Conditions:
    """Which of several conditions on one text column are true: a bit each, for null and every code of a dictionary."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}

    def bits(self) -> np.ndarray:
        bits = np.int64(0)
        for place, table in enumerate(self.tables.values()):
            table.refresh()
            bits = bits | (table.values * (table.states == 1)) << place
        return bits  # type: ignore[return-value]


class Buffers:
    """Arrays that a loop appends rows to, at most `most` for each row of the entry. They are reused: allocating
    memory costs more than a row. The first `held` places keep what earlier calls wrote.
    """

    def __init__(self, most: int) -> None:
        self.most, self.room, self.held = most, 0, 0
        self.dtypes: dict[str, np.dtype] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def make(self, rows: int) -> None:
        """Make room for the output of `rows` rows."""
        if self.held + rows * self.most > self.room:
            self.room = 2 * self.held + rows * self.most
            before = self.arrays
            self.arrays = {name: np.empty(self.room, dtype) for name, dtype in self.dtypes.items()}
            for name, array in before.items():
                self.arrays[name][: self.held] = array[: self.held]

    def fetch(self, name: str, dtype: np.dtype) -> Fetch:
        """Add an array; return how an argument fetches it."""
        self.dtypes[name] = dtype
        return lambda views: self.arrays[name]


class Function(FunctionWriter):
    """The text of one piece while it is generated. Steps add to `setup`, `row` and `finish`; the piece calls the
    result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arguments: dict[str, Argument] = {}
        self.pooled: dict[str, list[str]] = {}  # operator → dictionaries with strings for its pool
        self.entered: dict[str, tuple[int, str | None]] = {}  # by text: index and validity of a column of the entry
        self.conditions: dict[int, Conditions] = {}  # by column index
        self.setup = Block()  # before the loop
        self.checks = Block()  # at the start of a row: is there enough room?
        self.prologue = Block()
        self.row = Block()
        self.finish = Block()  # after the loop
        self.after: list[Callable[[], None]] = []  # after a call, once per step
        self.starts: list[tuple[int, Callable[[], int]]] = []  # counters that are set before a call
        self.stamps: list[Callable[[], object]] = []  # values that change when cached arguments must be fetched again
        self.rooms: list[Callable[[], int]] = []  # make room for a row
        self.counters: dict[str, int] = {}  # name → index in `numbers`
        self.numbers = np.zeros(64, np.int64)  # row reached, error, its integer, and counters
        self.buffers: list[Buffers] = []
        self.merged = False  # each row of the loop belongs to one port of the entry
        self.outputs: list[str] = []  # counters of emitted rows; they are reset to before a row that fails
        self._stamp: list[object] = []
        self._values: list[Any] = []  # of the arguments, as of the last call
        self._columns: list[tuple[int, Fetch]] = []  # those that are fetched for every call

    # For steps --------------------------------------------------------------------------------------------------------

    def array(self, name: str, kind: str, fetch: Fetch) -> str:
        """An array argument: `kind` is its dtype, with "=" before it where it is only read."""
        self.arguments.setdefault(name, Argument(name, kind, fetch))
        return name

    def column(self, name: str, kind: str, fetch: Fetch) -> str:
        """As `array`, but fetched for every call."""
        self.arguments.setdefault(name, Argument(name, kind, fetch, held=False))
        return name

    def buffer(self, most: int) -> Buffers:
        self.buffers.append(buffers := Buffers(most))
        self.stamps.append(lambda: buffers.room)
        return buffers

    def literal(self, value: float) -> str:
        name = self.fresh("lit")
        self.arguments[name] = Argument(name, "float" if isinstance(value, float) else "int", lambda views: value)
        return name

    def number(self, name: str, fetch: Callable[[], int]) -> str:
        self.arguments.setdefault(name, Argument(name, "int", lambda views: fetch()))
        return name

    def counter(self, name: str, start: Callable[[], int] | None = None) -> str:
        """A counter of the function; `value_of` reads it after a call."""
        if name not in self.counters:
            place = 3 + len(self.counters)
            self.counters[name] = place
            if place >= len(self.numbers):
                self.numbers = np.zeros(2 * place, np.int64)
            if start is not None:
                self.starts.append((place, start))
            self.setup.add(f"{name} = numbers[{place}]")
            self.finish.add(f"numbers[{place}] = {name}")
        return name

    def value_of(self, counter: str) -> int:
        return int(self.numbers[self.counters[counter]])

    def set(self, counter: str, value: int) -> None:
        """Set its value for the next call."""
        self.numbers[self.counters[counter]] = value

    def fail(self, block: Block, condition: str, site: int, value: str, whole: str) -> None:
        failing = block.sub(f"if err == 0 and {condition}:")
        failing.add(f"err = {site}", f"err_value = float({value})", f"err_whole = np.int64({whole})")
        if not block.loops:
            failing.add("break")

    def table(
        self, dictionary: str, column: str, field: pa.Field, node: Node, result_type: pa.DataType
    ) -> tuple[str, str, str]:
        if dictionary in self.chosen.values():
            raise CannotCompile("a function of text that rows of the same call compute")
        return super().table(dictionary, column, field, node, result_type)

    def truth(self, block: Block, columns: Mapping[str, Value], condition: Expression) -> str:
        """Whether a condition is true. All conditions on one text column of the entry are looked up at once."""
        node, read = condition.root, list(columns_of(condition.root))
        value = columns[read[0]] if len(read) == 1 and not may_fail(node) else None
        place, valid = self.entered.get(value.text, (-1, None)) if value is not None else (-1, None)
        known = self.conditions.setdefault(place, Conditions())
        if value is None or value.dictionary is None or place < 0 or len(known.tables) == 62:
            return self.expression(block, columns, condition).text
        if not known.tables:
            bits = self.array(f"if{place}", "=int64", lambda views: known.bits())
            code = f"np.uint64({value.text} + 1)"
            self.prologue.add(
                f"if{place}_bits = {bits}[{code if valid is None else f'{code} if {valid} else np.uint64(0)'}]"
            )
        bit = list(known.tables).index(str(node)) if str(node) in known.tables else len(known.tables)
        field = pa.field(read[0], value.type)
        known.tables[str(node)] = Table(self.dictionaries[value.dictionary], read[0], field, node, pa.bool_())
        return f"(if{place}_bits & {1 << bit}) != 0"

    def expression(self, block: Block, columns: Mapping[str, Value], expression: Expression) -> Value:
        return ExpressionWriter(self, block, columns, expression.text).write(folded(expression.root))

    # For the piece ----------------------------------------------------------------------------------------------------

    def ready(self, views: Any) -> list[Any]:
        """The arguments of a call; counters have their start values."""
        moved = self.refresh(views) or not self._values
        stamp = [each() for each in self.stamps]
        while moved or stamp != self._stamp:  # fetching an array may replace one that was fetched before it
            for room in self.rooms:
                room()
            self._values = [argument.fetch(views) for argument in self.arguments.values()]
            moved, self._stamp, stamp = False, stamp, [each() for each in self.stamps]
        for place, fetch in self._columns:
            self._values[place] = fetch(views)
        for place, start in self.starts:
            self.numbers[place] = start()
        return self._values

    def text(self, name: str) -> str:
        """The whole function. Columns that it does not read are removed from its arguments."""
        block = Block("")
        block.items += self.setup.items
        block.add("err = 0", "err_value = 0.0", "err_whole = np.int64(0)", "done = stop", "i = start")
        loop = block.sub("for i in range(start, stop):")
        loop.items += self.checks.items
        loop.add("u = np.uint64(i)")
        if self.sites:
            loop.add(*(f"{count}_before = {count}" for count in self.outputs))
        loop.items += self.prologue.items + self.row.items
        if self.sites:
            loop.sub("if err != 0:").add("break")
            failing = block.sub("if err != 0:")
            failing.add(*(f"{count} = {count}_before" for count in self.outputs), "done = i")
        block.items += self.finish.items
        block.add("numbers[0] = done", "numbers[1] = err", "failed[0] = err_value", "numbers[2] = err_whole")
        lines = list(block.lines(1))
        read = set(re.findall(r"\w+", "\n".join(lines)))
        self.arguments = {own: argument for own, argument in self.arguments.items() if argument.held or own in read}
        self._columns = [(j, a.fetch) for j, a in enumerate(self.arguments.values()) if not a.held]
        kinds = " ".join(argument.kind for argument in self.arguments.values())
        head = f"def {name}({', '.join(['start', 'stop', 'numbers', 'failed', *self.arguments])}):"
        text = "\n".join([f"# {kinds}", head, *lines]) + "\n"  # the text includes the signature
        names: dict[str, str] = {}  # replace names of operators and columns: equal shapes have equal texts
        return re.sub(r"\b(n_)?op_\w+", lambda found: names.setdefault(found[0], f"op{len(names)}"), text)
