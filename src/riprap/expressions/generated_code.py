"""Generated code: blocks of lines, values in them, and the function around them, with its errors and tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from riprap.expressions.ast import Constant, Node
from riprap.expressions.kinds import ValueKind, kind_of
from riprap.expressions.lookup_tables import Dictionary, Fetch, Table


class CannotCompile(Exception):
    """No loop code can be generated for this; the message explains why."""


@dataclass
class Block:
    """Lines and indented blocks of lines, in order."""

    header: str = ""
    parent: "Block | None" = None
    items: "list[str | Block]" = field(default_factory=list)
    only: tuple[str, frozenset[object]] | None = None  # a value's text, and its possible values in this block

    def add(self, *lines: str) -> None:
        self.items += lines

    def sub(self, header: str) -> "Block":
        block = Block(header, self)
        self.items.append(block)
        return block

    @property
    def loops(self) -> bool:
        """Whether it is in a nested loop, within the loop over rows."""
        return self.header.startswith("for ") or (self.parent is not None and self.parent.loops)

    def lines(self, depth: int) -> Iterator[str]:
        pad = "    " * depth
        if self.header:
            yield pad + self.header
            pad += "    "
            depth += 1
        for item in self.items or ["pass"] * bool(self.header):
            if isinstance(item, str):
                yield pad + item
            else:
                yield from item.lines(depth)


@dataclass(frozen=True)
class Value:
    """A column or an expression of a row, as text without side effects."""

    type: pa.DataType
    text: str
    valid: str | None = None  # None: never null
    dictionary: str | None = None  # of text: the name of the dictionary of its codes
    constant: Constant = None

    @property
    def kind(self) -> ValueKind:
        return kind_of(self.type)


class FunctionWriter:
    """A function that is being generated: its names, errors, dictionaries and tables."""

    on_columns = False  # whether it processes whole columns, or the rows of a loop
    code: "Callable[[Value], str]"  # in a loop, text as a code of the dictionary in `chosen`

    def __init__(self) -> None:
        self.sites: list[str] = []
        self.dictionaries: dict[str, Dictionary] = {}
        self.tables: dict[str, Table] = {}
        self._table_names: dict[tuple[str, str], str] = {}
        self.chosen: dict[pa.DataType, str] = {}  # in a loop, by type: the dictionary of text that a choice returns
        self._names = 0

    def fresh(self, stem: str) -> str:
        """A unique name."""
        self._names += 1
        return f"{stem}{self._names}"

    def array(self, name: str, kind: str, fetch: Fetch) -> str:
        """An array argument: `kind` is its dtype, with "=" before it where it is only read."""
        raise NotImplementedError

    def literal(self, value: float) -> str:
        """An argument with this value, so that texts that differ only in numbers are equal."""
        raise NotImplementedError

    def held(self, value: object, type_: pa.DataType) -> str:
        """A constant that Arrow holds, or a function of whole columns."""
        raise CannotCompile("constant text in an expression that does not read exactly one text column")

    def decoded(self, value: "Value") -> str:
        """The text of these codes, held by Arrow."""
        raise NotImplementedError

    def fail(self, block: Block, condition: str, site: int, value: str, whole: str) -> None:
        """Report an error in rows for which a condition is true; `value` and `whole` are for its message."""
        raise NotImplementedError

    def site(self, message: str) -> int:
        """The number of an error; `message` may contain {value} (a float), {whole}, or {table:…} (why a code fails)."""
        self.sites.append(message)
        return len(self.sites)

    def dictionary(self, name: str, fetch: Fetch) -> str:
        self.dictionaries.setdefault(name, Dictionary(fetch))
        return name

    def table(
        self, dictionary: str, column: str, field: pa.Field, node: Node, result_type: pa.DataType
    ) -> tuple[str, str, str]:
        """For an expression of one text column: the names of the values and states by code + 1 (0: of null), and of
        the dictionary of the values. States: 0 null, 1 valid, 2 failed.
        """
        known = self._table_names.get((dictionary, str(node)))
        if known is None:
            known = self._table_names[dictionary, str(node)] = self.fresh("t")
            table = Table(self.dictionaries[dictionary], column, field, node, result_type)
            self.array(
                known, "=float64" if pa.types.is_floating(result_type) else "=int64", lambda inputs: table.values
            )
            self.array(f"{known}_s", "=uint8", lambda inputs: table.states)
            self.dictionaries[f"{known}_d"] = Dictionary(lambda inputs: table.result_dictionary)
            self.tables[f"{known}_d"] = table
        return known, f"{known}_s", f"{known}_d"

    def refresh(self, inputs: object) -> bool:
        """Refresh dictionaries and the tables over them, in order; return whether one changed."""
        moved = False
        for name, dictionary in self.dictionaries.items():
            table = self.tables.get(name)
            if table is not None:
                table.refresh()
                if table.result_dictionary is None:
                    continue
            moved |= dictionary.refresh(inputs)
        return moved

    def error(self, site: int, value: float, whole: int) -> str:
        message = self.sites[site - 1]
        for name, table in self.tables.items():
            message = message.replace(f"{{table:{name}}}", table.reasons.get(whole, ""))
        return message.replace("{value}", str(value)).replace("{whole}", str(whole))
