"""A type-checked node: its type, whether it can be null, and its value if it is constant.

Typing rules take type-checked arguments and return such a node, or raise `Mismatch`. A rule says to which types the
arguments are converted first (`takes`); the conversion is a cast, as Spark's analyzer inserts it. `code_writer.py`
generates the code of most functions of numbers, times and booleans; every other function has a `compute`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from riprap.expressions.ast import Literal
from riprap.expressions.kinds import DOUBLE, NUMERIC, TIMES, ValueKind, common_type, kind_of
from riprap.expressions.type_names import name_of

# Arrays of the arguments, all of one length, to the array of results. Raises `EvaluationError`.
Compute = Callable[..., Any]


class Mismatch(Exception):
    """Arguments with types that do not fit. The message lists those that do; `bind` adds the expression."""


class EvaluationError(Exception):
    """A value that cannot be computed, and its row where that is known. Becomes a `DataError` that names the
    expression.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, eq=False)
class Typed:
    type: pa.DataType  # logical: never a dictionary
    nullable: bool  # False only when no value can be null
    text: str = ""  # the expression, as a message shows it
    constant: Literal | None = None  # its value, if it reads no column
    takes: tuple[pa.DataType, ...] | None = None  # the types of the arguments; None: those they have
    compute: Compute | None = None  # how a function of Arrow arrays computes it

    @property
    def kind(self) -> ValueKind:
        return kind_of(self.type)

    @property
    def known(self) -> Any:
        """The value of a constant; None if it is NULL or not constant."""
        return None if self.constant is None else self.constant.value

    def __str__(self) -> str:
        return f"{self.text} ({name_of(self.type)})"


def apply(
    type_: pa.DataType,
    arguments: Sequence[Typed],
    takes: Sequence[pa.DataType] | None = None,
    *,
    nullable: bool = False,
    compute: Compute | None = None,
) -> Typed:
    """A node that is null if an argument is, or if `nullable`."""
    null = nullable or any(argument.nullable for argument in arguments)
    return Typed(type_, null, takes=None if takes is None else tuple(takes), compute=compute)


def agreed(arguments: Sequence[Typed], why: str) -> pa.DataType:
    """The common type of all arguments."""
    type_ = common_type(argument.type for argument in arguments)
    if type_ is None or kind_of(type_) is ValueKind.OTHER:
        raise Mismatch(f"{why}, not {' and '.join(map(str, arguments))}")
    return type_


def number(argument: Typed, function: str) -> pa.DataType:
    """The type of a number; a string is read as a double."""
    if argument.kind in NUMERIC:
        return argument.type
    if argument.kind in (ValueKind.STRING, ValueKind.NULL):
        return DOUBLE
    raise Mismatch(f"{function} takes a number, not {argument}")


def arity(arguments: Sequence[Typed], least: int, most: int | None, function: str) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise Mismatch(f"{function} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(arguments)}")


def convertible(argument: Typed, type_: pa.DataType) -> bool:
    """Whether Spark converts an argument to this type of a parameter by itself."""
    source, kind = argument.kind, kind_of(type_)
    if argument.type == type_ or source is ValueKind.NULL:
        return True
    if kind is ValueKind.STRING:
        return source not in (ValueKind.ARRAY, ValueKind.MAP, ValueKind.STRUCT, ValueKind.OTHER, ValueKind.BINARY)
    if source is ValueKind.STRING:
        return kind not in (ValueKind.ARRAY, ValueKind.MAP, ValueKind.STRUCT)
    moments = (*TIMES, ValueKind.DATE)
    if kind in moments:
        return source in moments
    if kind is ValueKind.INTEGER and source is ValueKind.INTEGER:
        return bool(argument.type.bit_width <= type_.bit_width or argument.known is not None)
    if kind in NUMERIC and source in NUMERIC:
        return kind is not ValueKind.INTEGER
    if kind in (ValueKind.ARRAY, ValueKind.MAP, ValueKind.STRUCT):
        return common_type([argument.type, type_]) == type_
    return False
