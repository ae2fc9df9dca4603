"""A type-checked node: its type, whether it can be null, and the function that computes it on a batch.

Typing rules (in `arithmetic`, `logic`, …) take type-checked arguments and return such a node, or raise `Mismatch`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from riprap.expressions import vectors
from riprap.expressions.kinds import Kind, common, kind_of, logical
from riprap.expressions.vectors import Vector

Kernel = Callable[..., Vector]


class Mismatch(Exception):
    """Arguments of types that do not fit. The message says which do; `bind` adds which expression it was."""


@dataclass(frozen=True, eq=False)
class Typed:
    type: pa.DataType  # logical: never a dictionary
    nullable: bool  # False only when no value can be null
    run: Callable[[pa.RecordBatch], Vector]
    text: str = ""  # the expression, as a message shows it
    constant: Vector | None = None  # its value, when it reads no column

    @property
    def kind(self) -> Kind:
        return kind_of(self.type)

    def __str__(self) -> str:
        return f"{self.text} ({logical(self.type)})"


def literal(value: Vector, type_: pa.DataType, nullable: bool) -> Typed:
    return Typed(type_, nullable, lambda batch: value, constant=value)


def apply(kind: Kind, kernel: Kernel, arguments: Sequence[Typed], nullable: bool = False) -> Typed:
    """A node that computes its arguments and then `kernel` on them. Null when an argument is, or when `nullable`."""
    nullable = nullable or any(argument.nullable for argument in arguments)
    runs = tuple(argument.run for argument in arguments)
    if len(runs) == 1:
        (only,) = runs
        return Typed(kind.type, nullable, lambda batch: kernel(only(batch)))
    if len(runs) == 2:
        left, right = runs
        return Typed(kind.type, nullable, lambda batch: kernel(left(batch), right(batch)))
    return Typed(kind.type, nullable, lambda batch: kernel(*[run(batch) for run in runs]))


def as_kind(node: Typed, kind: Kind) -> Typed:
    """`node` computed as `kind`, to which its own kind widens: NULL to anything, integers to floats."""
    if node.kind is kind:
        return node
    if node.kind is Kind.NULL:
        return literal(vectors.null(kind), kind.type, True)
    assert kind is Kind.FLOAT
    assert node.kind is Kind.INTEGER
    if node.constant is not None:
        return literal(_float(node.constant), kind.type, node.nullable)
    return apply(kind, _float, [node])


def agreed(arguments: Sequence[Typed], why: str) -> Kind:
    """The common kind of all arguments."""
    kind = common(argument.kind for argument in arguments)
    if kind is None:
        raise Mismatch(f"{why}, not {' and '.join(map(str, arguments))}")
    return kind


def alike(arguments: Sequence[Typed], why: str) -> tuple[Kind, list[Typed]]:
    """All arguments as their common kind."""
    kind = agreed(arguments, why)
    return kind, [as_kind(argument, kind) for argument in arguments]


def expect(argument: Typed, kinds: Sequence[Kind], who: str) -> Typed:
    """`argument`, which must be of one of `kinds`; NULL becomes the first."""
    if argument.kind is Kind.NULL:
        return as_kind(argument, kinds[0])
    if argument.kind not in kinds:
        names = " or ".join(dict.fromkeys(_NAMES[kind] for kind in kinds))
        raise Mismatch(f"{who} takes {names}, not {argument}")
    return argument


def arity(arguments: Sequence[Typed], least: int, most: int | None, who: str) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise Mismatch(f"{who} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(arguments)}")


_NAMES = {
    Kind.BOOLEAN: "a boolean",
    Kind.INTEGER: "a number",
    Kind.FLOAT: "a number",
    Kind.STRING: "a string",
    Kind.BINARY: "a binary",
    Kind.TIMESTAMP: "a timestamp",
    Kind.DATE: "a date",
    Kind.INTERVAL: "an interval",
}


def _float(vector: Vector) -> Vector:
    return Vector(vector.values.astype(float), vector.valid)
