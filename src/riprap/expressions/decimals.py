"""Decimals: the types of results by Spark's rules, and their arithmetic. A result beyond its type is an error."""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from riprap.expressions.kinds import DOUBLE, INT, LONG, MOST_DIGITS, ValueKind, decimal_of, kind_of
from riprap.expressions.row_values import array_of, values_of
from riprap.expressions.type_names import name_of
from riprap.expressions.typed import Compute, EvaluationError, Mismatch, Typed, apply

EXACT = Context(prec=800, Emax=10_000, Emin=-10_000)
ZERO_DIVISOR = "division by zero (NULLIF(divisor, 0) gives NULL, and TRY_DIVIDE does)"
_KEPT = 6  # decimals that a result keeps at least, where it would exceed 38 digits


def quantized(value: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), rounding, EXACT)


def fitted(value: Decimal, type_: pa.DataType) -> Decimal:
    """The value rounded to the scale of a decimal type; an error if it has more digits."""
    value = quantized(value, type_.scale)
    if abs(value) >= Decimal(10) ** (type_.precision - type_.scale):
        raise EvaluationError(f"{value} does not fit {name_of(type_)}")
    return value


def adjusted(precision: int, scale: int) -> pa.DataType:
    """Beyond 38 digits a result loses decimals, but not below 6."""
    if precision <= MOST_DIGITS:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _KEPT)))


def _result(symbol: str, p1: int, s1: int, p2: int, s2: int) -> pa.DataType:
    match symbol:
        case "+" | "-":
            scale = max(s1, s2)
            return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return adjusted(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return adjusted(p1 - s1 + s2 + scale, scale)
        case "DIV":
            return adjusted(max(p1 - s1 + s2, 1), 0)
    scale = max(s1, s2)
    return adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def _divided(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise EvaluationError(ZERO_DIVISOR)
    return EXACT.divide(left, right)


def _whole_quotient(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise EvaluationError(ZERO_DIVISOR)
    return EXACT.divide_int(left, right)


def _rest(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise EvaluationError(ZERO_DIVISOR)
    return EXACT.remainder(left, right)


def _positive_rest(left: Decimal, right: Decimal) -> Decimal:
    rest = _rest(left, right)
    return EXACT.remainder(EXACT.add(rest, right), right) if rest < 0 else rest


_OPERATIONS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _divided,
    "DIV": _whole_quotient,
    "%": _rest,
    "PMOD": _positive_rest,
}


def arithmetic(symbol: str, arguments: Sequence[Typed], left: pa.DataType, right: pa.DataType) -> Typed:
    type_ = _result(symbol, left.precision, left.scale, right.precision, right.scale)
    operation = _OPERATIONS[symbol]
    if symbol == "DIV":
        return apply(LONG, arguments, [left, right], compute=by_row(lambda a, b: int(operation(a, b)), LONG))
    return apply(type_, arguments, [left, right], compute=by_row(lambda a, b: fitted(operation(a, b), type_), type_))


def by_row(function: Callable[..., Any], type_: pa.DataType) -> Compute:
    """A function of values, NULL where an argument is; an error names its row."""

    def compute(*arrays: pa.Array) -> pa.Array:
        columns, results, row = [values_of(array) for array in arrays], [], 0
        try:
            for row, values in enumerate(zip(*columns, strict=True)):  # noqa: B007
                results.append(None if None in values else function(*values))
        except EvaluationError as failure:
            failure.row = row
            raise
        return array_of(results, type_)

    return compute


UNARY: dict[str, Compute] = {
    "NEGATE": lambda array: by_row(EXACT.minus, array.type)(array),
    "ABS": lambda array: by_row(EXACT.abs, array.type)(array),
}
_ROUNDINGS = {"ROUND": ROUND_HALF_UP, "BROUND": ROUND_HALF_EVEN, "FLOOR": ROUND_FLOOR, "CEIL": ROUND_CEILING}


def whole(name: str, arguments: Sequence[Typed]) -> Typed:
    """FLOOR and CEIL of a decimal."""
    type_ = arguments[0].type
    result = pa.decimal128(min(MOST_DIGITS, type_.precision - type_.scale + 1), 0) if type_.scale else type_
    return apply(result, arguments, compute=by_row(lambda x: fitted(quantized(x, 0, _ROUNDINGS[name]), result), result))


def rounding(name: str, arguments: Sequence[Typed]) -> Typed:
    """FLOOR and CEIL to a number of decimals."""
    places = arguments[1].known
    if not isinstance(places, int):
        raise Mismatch(f"{name} takes a constant whole number of decimals, not {arguments[1]}")
    kind = arguments[0].kind
    type_ = pa.decimal128(30, 15) if kind is ValueKind.FLOAT else decimal_of(arguments[0].type)
    return rounded(name, [Typed(type_, arguments[0].nullable), arguments[1]], type_, places)


def rounded(name: str, arguments: Sequence[Typed], type_: pa.DataType, places: int) -> Typed:
    """A number rounded to a number of decimals, possibly negative; the type of a decimal changes."""
    takes = [type_, *[INT] * (len(arguments) - 1)]
    mode = _ROUNDINGS[name]
    kind = kind_of(type_)
    if kind is ValueKind.DECIMAL:
        left = type_.precision - type_.scale + 1
        scale = 0 if places < 0 else min(type_.scale, places)
        precision = max(left, -places + 1) if places < 0 else left + scale
        result = pa.decimal128(min(MOST_DIGITS, precision), scale)
        return apply(
            result, arguments, takes,
            compute=by_row(lambda x, *_: fitted(quantized(x, places, mode), result), result),
        )  # fmt: skip
    if kind is ValueKind.INTEGER:
        return apply(type_, arguments, takes, compute=by_row(_whole_rounding(places, mode, type_), type_))

    def real(x: float, *_: Any) -> float:
        if x != x or x in (float("inf"), float("-inf")):
            return x
        text = repr(x) if type_ == DOUBLE else shortest_single(x)
        return float(quantized(Decimal(text), places, mode)) + 0.0  # never -0.0

    return apply(type_, arguments, takes, compute=by_row(real, type_))


def shortest_single(x: float) -> str:
    """The shortest digits that read as this single-precision number."""
    import numpy as np

    return str(np.float32(x))


def _whole_rounding(places: int, mode: str, type_: pa.DataType) -> Callable[..., int]:
    limit = 1 << (type_.bit_width - 1)

    def compute(x: int, *_: Any) -> int:
        if places >= 0:
            return x
        result = int(quantized(Decimal(x), places, mode))
        if not -limit <= result < limit:
            raise EvaluationError(f"{result} does not fit {name_of(type_)}")
        return result

    return compute
