"""A type-checked node: its type, whether it can be null, and its value if it is constant.

Typing rules (in `arithmetic`, `logic`, …) take type-checked arguments and return such a node, or raise `Mismatch`.
`code_writer.py` generates the code for numbers, times and booleans; functions of text are Arrow's, and their rule
provides them as a kernel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from riprap.expressions.ast import Literal
from riprap.expressions.kinds import ValueKind, common, kind_of, logical

Kernel = Callable[..., Any]  # of the Arrow values of the arguments; null exactly where an argument is


class Mismatch(Exception):
    """Arguments with types that do not fit. The message lists those that do; `bind` adds the expression."""


class EvaluationError(Exception):
    """A value that cannot be computed. Becomes a `DataError` that names the expression."""


@dataclass(frozen=True, eq=False)
class Typed:
    type: pa.DataType  # logical: never a dictionary
    nullable: bool  # False only when no value can be null
    text: str = ""  # the expression, as a message shows it
    constant: Literal | None = None  # its value, if it reads no column
    kernel: Kernel | None = None  # how Arrow computes it

    @property
    def kind(self) -> ValueKind:
        return kind_of(self.type)

    def __str__(self) -> str:
        return f"{self.text} ({logical(self.type)})"


def apply(kind: ValueKind, arguments: Sequence[Typed], nullable: bool = False, kernel: Kernel | None = None) -> Typed:
    """A node that is null if an argument is, or if `nullable`."""
    return Typed(kind.type, nullable or any(argument.nullable for argument in arguments), kernel=kernel)


def as_kind(node: Typed, kind: ValueKind) -> Typed:
    """`node` widened to `kind`: NULL to anything, integers to floats."""
    if node.kind is kind:
        return node
    constant = node.constant
    if node.kind is ValueKind.NULL:
        return Typed(kind.type, True, constant=Literal(None, kind.type))
    if constant is not None and constant.value is not None:
        constant = Literal(float(constant.value), kind.type)
    return replace(node, type=kind.type, constant=constant)


def agreed(arguments: Sequence[Typed], why: str) -> ValueKind:
    """The common kind of all arguments."""
    kind = common(argument.kind for argument in arguments)
    if kind is None:
        raise Mismatch(f"{why}, not {' and '.join(map(str, arguments))}")
    return kind


def expect(argument: Typed, kinds: Sequence[ValueKind], function: str) -> Typed:
    """Check that `argument` is of one of `kinds`, and return it; NULL becomes the first."""
    if argument.kind is ValueKind.NULL:
        return as_kind(argument, kinds[0])
    if argument.kind not in kinds:
        names = " or ".join(dict.fromkeys(_NAMES[kind] for kind in kinds))
        raise Mismatch(f"{function} takes {names}, not {argument}")
    return argument


def arity(arguments: Sequence[Typed], least: int, most: int | None, function: str) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise Mismatch(f"{function} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(arguments)}")


_NAMES = {
    ValueKind.BOOLEAN: "a boolean",
    ValueKind.INTEGER: "a number",
    ValueKind.FLOAT: "a number",
    ValueKind.STRING: "a string",
    ValueKind.BINARY: "a binary",
    ValueKind.TIMESTAMP: "a timestamp",
    ValueKind.DATE: "a date",
    ValueKind.INTERVAL: "an interval",
}
