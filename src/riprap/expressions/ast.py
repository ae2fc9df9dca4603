"""The syntax tree of an expression: five frozen kinds of node, which can be compared, hashed and pickled.

Everything with arguments is a `Call`: operators (`+`, `AND`), predicates (`IS NULL`, `IN`, `LIKE`) and functions
alike; `a.b` is FIELD and `a[0]` is ELEMENT. The parser
replaces syntactic sugar with calls: `BETWEEN`, `CASE x WHEN`, `||`, `IS TRUE`. `str(node)` is SQL
again, for messages.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import pyarrow as pa

from riprap.expressions.type_names import name_of

INFIX = ("*", "/", "%", "DIV", "+", "-", "&", "|", "^", "=", "<>", "<=>", "<", "<=", ">", ">=", "AND", "OR", "LIKE")


@dataclass(frozen=True)
class ColumnRef:
    name: str

    def __str__(self) -> str:
        return self.name if self.name.isidentifier() else f"`{self.name}`"


@dataclass(frozen=True)
class Literal:
    """`value` is None for NULL. Timestamps are microseconds since 1970, intervals microseconds, dates days since
    1970, intervals of years and months are months.
    """

    value: "Constant"
    type: pa.DataType

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and TRUE are equal in Python but not in SQL: compare types, too.
        return isinstance(other, Literal) and self.type == other.type and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.value, self.type))

    def __str__(self) -> str:
        if self.value is None or isinstance(self.value, bool):
            return "NULL" if self.value is None else str(self.value).upper()
        if isinstance(self.value, bytes):
            return f"X'{self.value.hex()}'"
        if isinstance(self.value, str):
            return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if pa.types.is_timestamp(self.type):
            return f"TIMESTAMP '{pa.scalar(self.value, pa.timestamp('us'))}'"
        if pa.types.is_date(self.type):
            return f"DATE '{pa.scalar(self.value, pa.int32()).cast(self.type)}'"
        if pa.types.is_duration(self.type):
            return f"INTERVAL {self.value} MICROSECONDS"
        if isinstance(self.value, float):
            return f"{self.value!r}D"
        if isinstance(self.value, Decimal):
            return format(self.value, "f")
        if pa.types.is_integer(self.type):
            return repr(self.value) + ("" if self.type == pa.int32() else "L")
        return f"INTERVAL {self.value!r} MONTHS"


Constant = bool | int | float | str | bytes | Decimal | None


@dataclass(frozen=True)
class Call:
    """Arguments of `CASE`: condition, value, condition, value, …, default; of `IN`: the value, then the list."""

    function: str
    arguments: tuple["Node", ...]

    def __str__(self) -> str:
        texts = [str(argument) for argument in self.arguments]
        nested = [f"({text})" if _compound(node) else text for text, node in zip(texts, self.arguments, strict=True)]
        match self.function:
            case name if name in INFIX:
                return f"{nested[0]} {name} {nested[1]}"
            case "NEGATE":
                return f"-{nested[0]}"
            case "NOT":
                return f"NOT {nested[0]}"
            case "IS NULL":
                return f"{nested[0]} IS NULL"
            case "IN":
                return f"{nested[0]} IN ({', '.join(texts[1:])})"
            case "CASE":
                whens = " ".join(f"WHEN {texts[i]} THEN {texts[i + 1]}" for i in range(0, len(texts) - 1, 2))
                return f"CASE {whens} ELSE {texts[-1]} END"
            case "FIELD":
                return f"{nested[0]}.{texts[1][1:-1]}"
            case "ELEMENT":
                return f"{nested[0]}[{texts[1]}]"
        return f"{self.function}({', '.join(texts)})"


@dataclass(frozen=True)
class Cast:
    operand: "Node"
    type: pa.DataType
    trying: bool = False  # TRY_CAST: NULL where a cast fails

    def __str__(self) -> str:
        return f"{'TRY_' * self.trying}CAST({self.operand} AS {name_of(self.type)})"


@dataclass(frozen=True)
class Lambda:
    """A function that is an argument. Its parameters are columns of its body, with names that no column has."""

    parameters: tuple[str, ...]
    body: "Node"

    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}) -> {self.body}"


Node = ColumnRef | Literal | Call | Cast | Lambda


def columns_of(node: Node) -> frozenset[str]:
    match node:
        case ColumnRef(name):
            return frozenset((name,))
        case Call(_, arguments):
            return frozenset().union(*map(columns_of, arguments))
        case Cast(operand):
            return columns_of(operand)
        case Lambda(parameters, body):
            return columns_of(body) - set(parameters)
    return frozenset()


def _compound(node: Node) -> bool:
    return isinstance(node, Call) and (node.function in INFIX or node.function in ("NEGATE", "NOT", "IS NULL", "IN"))


@dataclass(frozen=True)
class Expression:
    """A parsed expression. Two are equal if their trees are, regardless of spaces and parentheses."""

    text: str = field(compare=False)  # as the user wrote it, for messages
    root: Node

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return columns_of(self.root)

    @property
    def column(self) -> str | None:
        """The column's name, if the expression is only a column."""
        return self.root.name if isinstance(self.root, ColumnRef) else None

    def __str__(self) -> str:
        return self.text
