"""Truth: comparisons, three-valued AND OR NOT, IS NULL, IN.

Comparisons are IEEE's for floats (NaN equals nothing, itself included) and by UTF-8 bytes for strings, which is the
order of code points.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import HELD_BY_ARROW, Kind
from riprap.expressions.typed import Kernel, Typed, agreed, alike, apply, arity, as_kind, expect
from riprap.expressions.vectors import Vector, boolean, both, from_arrow

_NUMPY = {"=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
_ARROW = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}

# Beyond this many values, one search of a sorted list is quicker than a comparison with each.
_FEW = 8


def comparison(symbol: str, kind: Kind) -> Kernel:
    """The kernel that compares two vectors of `kind`."""
    if kind in HELD_BY_ARROW:
        arrow = _ARROW[symbol]
        return lambda left, right: from_arrow(arrow(left.values, right.values))
    function = _NUMPY[symbol]

    def kernel(left: Vector, right: Vector) -> Vector:
        return boolean(function(left.values, right.values), both(left.valid, right.valid))

    return kernel


def compare(symbol: str, arguments: Sequence[Typed]) -> Typed:
    kind = agreed(arguments, f"{symbol} compares two values of one type{_hint(arguments)}")
    # An integer beside a float stays one: NumPy widens it as it compares, which saves a pass.
    operands = [as_kind(argument, kind) if argument.kind is Kind.NULL else argument for argument in arguments]
    return apply(Kind.BOOLEAN, comparison(symbol, kind), operands)


def _hint(arguments: Sequence[Typed]) -> str:
    kinds = {argument.kind for argument in arguments}
    if Kind.STRING in kinds and Kind.TIMESTAMP in kinds:
        return " (write TIMESTAMP '…' for a constant time)"
    if Kind.STRING in kinds and Kind.DATE in kinds:
        return " (write DATE '…' for a constant date)"
    return " (CAST one of them)" if Kind.OTHER not in kinds else ""


def _and(left: Vector, right: Vector) -> Vector:
    values = left.values & right.values
    if left.valid is None and right.valid is None:
        return Vector(values)
    return Vector(values, values | _false(left) | _false(right))


def _or(left: Vector, right: Vector) -> Vector:
    values = left.values | right.values
    if left.valid is None and right.valid is None:
        return Vector(values)
    return Vector(values, values | (_false(left) & _false(right)))


def _false(vector: Vector) -> Any:
    """Where it is known to be false. A null's value is False, so known and not true."""
    return ~vector.values if vector.valid is None else vector.valid & ~vector.values


def _not(vector: Vector) -> Vector:
    return Vector(_false(vector), vector.valid)


def and_or(name: str, arguments: Sequence[Typed]) -> Typed:
    operands = [expect(argument, (Kind.BOOLEAN,), name) for argument in arguments]
    return apply(Kind.BOOLEAN, _and if name == "AND" else _or, operands)


def negation(arguments: Sequence[Typed]) -> Typed:
    return apply(Kind.BOOLEAN, _not, [expect(arguments[0], (Kind.BOOLEAN,), "NOT")])


def _is_null(vector: Vector) -> Vector:
    return Vector(np.False_ if vector.valid is None else ~vector.valid)


def is_null(arguments: Sequence[Typed]) -> Typed:
    node = apply(Kind.BOOLEAN, _is_null, arguments)
    return Typed(node.type, False, node.run)


def is_in(arguments: Sequence[Typed]) -> Typed:
    """`x IN (a, b)` is `x = a OR x = b`, computed as one search when the list is long and constant."""
    arity(arguments, 2, None, "IN")
    kind, operands = alike(arguments, "IN compares values of one type")
    value, *choices = operands
    if len(choices) > _FEW and all(choice.constant is not None for choice in choices):
        any_null = any(choice.nullable for choice in choices)
        return apply(Kind.BOOLEAN, _search(kind, [choice.constant for choice in choices]), [value], any_null)
    node = compare("=", [value, choices[0]])
    for choice in choices[1:]:
        node = and_or("OR", [node, compare("=", [value, choice])])
    return node


def _search(kind: Kind, constants: Sequence[Any]) -> Kernel:
    present = [constant.values for constant in constants if constant.valid is None]
    complete = len(present) == len(constants)
    if kind in HELD_BY_ARROW:
        choices = pa.array([value.as_py() for value in present], kind.type)
    else:
        # NaN equals nothing, so it is no choice.
        choices = np.array([value for value in present if value == value])

    def kernel(vector: Vector) -> Vector:
        if kind in HELD_BY_ARROW:
            found = from_arrow(pc.is_in(vector.values, value_set=choices)).values
        else:
            found = np.isin(vector.values, choices)
        found = boolean(found, vector.valid).values
        # Not found, with a NULL among the choices, is unknown.
        return Vector(found, vector.valid if complete else found)

    return kernel
