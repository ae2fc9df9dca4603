"""Numbers: + - * / % and the numeric functions; also + and - of timestamps and intervals.

Integers are computed in int64. Whether a result can overflow is decided from the bounds of the operands, one quick
pass each; only when it might is the checked (and slower) operation used, which fails on a real overflow.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions import kernels
from riprap.expressions.kinds import NUMBERS, Kind
from riprap.expressions.typed import Mismatch, Typed, apply, arity, as_kind, expect
from riprap.expressions.vectors import Failure, Vector, both

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def _bounds(vector: Vector) -> tuple[int, int]:
    if np.ndim(vector.values) == 0:
        return int(vector.values), int(vector.values)
    if vector.values.size == 0:
        return 0, 0
    low, high = kernels.bounds(vector.values)
    return int(low), int(high)


def _checked(
    exact: Callable[[int, int], int], quick: Callable[[Any, Any], Any], slow: Callable[[Any, Any], Any]
) -> Callable[[Vector, Vector], Vector]:
    """An integer operation whose extremes are found among the extremes of its operands, as is so of + - and *."""

    def kernel(left: Vector, right: Vector) -> Vector:
        valid = both(left.valid, right.valid)
        if valid is np.False_:
            return Vector(np.int64(0), valid)
        corners = [exact(a, b) for a in _bounds(left) for b in _bounds(right)]
        if min(corners) >= _LEAST and max(corners) <= _GREATEST:
            return Vector(quick(left.values, right.values), valid)
        rows = np.broadcast_shapes(np.shape(left.values), np.shape(right.values), np.shape(valid))
        keep = np.broadcast_to(True if valid is None else valid, rows)
        # What a null hides is arbitrary, so it must not overflow either.
        operands = [pa.array(np.where(keep, side.values, 0).reshape(-1)) for side in (left, right)]
        try:
            return Vector(slow(*operands).to_numpy().reshape(rows)[()], valid)
        except pa.ArrowInvalid:
            raise Failure("an integer does not fit 64 bits (CAST to DOUBLE to compute beyond them)") from None

    return kernel


_add = _checked(lambda a, b: a + b, np.add, pc.add_checked)
_subtract = _checked(lambda a, b: a - b, np.subtract, pc.subtract_checked)
multiply = _checked(lambda a, b: a * b, np.multiply, pc.multiply_checked)


def _plain(function: Callable[..., Any]) -> Callable[..., Vector]:
    """Null where an argument is null, and otherwise what NumPy says."""

    def kernel(*arguments: Vector) -> Vector:
        valid = None
        for argument in arguments:
            valid = both(valid, argument.valid)
        return Vector(function(*[argument.values for argument in arguments]), valid)

    return kernel


_INTEGERS = {"+": _add, "-": _subtract, "*": multiply}
_FLOATS = {"+": _plain(np.add), "-": _plain(np.subtract), "*": _plain(np.multiply)}

# Which arithmetic there is on times. The right operand of `-` cannot be swapped with the left, so all are spelled out.
_TIMES = {
    ("+", Kind.TIMESTAMP, Kind.INTERVAL): Kind.TIMESTAMP,
    ("+", Kind.INTERVAL, Kind.TIMESTAMP): Kind.TIMESTAMP,
    ("+", Kind.INTERVAL, Kind.INTERVAL): Kind.INTERVAL,
    ("-", Kind.TIMESTAMP, Kind.INTERVAL): Kind.TIMESTAMP,
    ("-", Kind.TIMESTAMP, Kind.TIMESTAMP): Kind.INTERVAL,
    ("-", Kind.INTERVAL, Kind.INTERVAL): Kind.INTERVAL,
}


def add_subtract_multiply(symbol: str, arguments: Sequence[Typed]) -> Typed:
    left, right = arguments
    times = _TIMES.get((symbol, left.kind, right.kind))
    if times is not None:
        return apply(times, _INTEGERS[symbol], arguments)
    also = "" if symbol == "*" else ", or a timestamp and an interval"
    left, right = _numbers(symbol, arguments, also)
    if Kind.FLOAT in (left.kind, right.kind):
        return apply(Kind.FLOAT, _FLOATS[symbol], [left, right])
    return apply(Kind.INTEGER, _INTEGERS[symbol], [left, right])


def _numbers(symbol: str, arguments: Sequence[Typed], also: str = "") -> list[Typed]:
    """Two numbers. An integer beside a float stays one: NumPy widens it as it computes, which saves a pass."""
    for argument in arguments:
        if argument.kind not in (*NUMBERS, Kind.NULL):
            raise Mismatch(f"{symbol} takes two numbers{also}, not {arguments[0]} and {arguments[1]}")
    other = next((argument.kind for argument in arguments if argument.kind is not Kind.NULL), Kind.INTEGER)
    return [as_kind(argument, other) if argument.kind is Kind.NULL else argument for argument in arguments]


def _without_zero(function: Callable[[Any, Any], Any]) -> Callable[[Vector, Vector], Vector]:
    """Null where the right operand is zero."""

    def kernel(left: Vector, right: Vector) -> Vector:
        valid = both(left.valid, right.valid)
        defined = right.values != 0
        if not np.all(defined):
            valid = both(valid, defined)
        return Vector(function(left.values, right.values), valid)

    return kernel


_divide, _remainder = _without_zero(np.true_divide), _without_zero(np.fmod)


def _never_zero(node: Typed) -> bool:
    return node.constant is not None and node.constant.valid is None and bool(node.constant.values != 0)


def divide(arguments: Sequence[Typed]) -> Typed:
    """Always float64; NULL for a divisor of zero."""
    left, right = _numbers("/", arguments)
    return apply(Kind.FLOAT, _divide, [left, right], nullable=not _never_zero(right))


def remainder(arguments: Sequence[Typed]) -> Typed:
    """With the sign of the dividend; NULL for a divisor of zero."""
    left, right = _numbers("%", arguments)
    kind = Kind.FLOAT if Kind.FLOAT in (left.kind, right.kind) else Kind.INTEGER
    return apply(kind, _remainder, [left, right], nullable=not _never_zero(right))


def negate(arguments: Sequence[Typed]) -> Typed:
    argument = expect(arguments[0], (*NUMBERS, Kind.INTERVAL), "-")
    if argument.kind is Kind.FLOAT:
        return apply(Kind.FLOAT, _plain(np.negative), [argument])
    return apply(argument.kind, lambda vector: _subtract(Vector(np.int64(0)), vector), [argument])


def _absolute(vector: Vector) -> Vector:
    return Vector(np.maximum(vector.values, _subtract(Vector(np.int64(0)), vector).values), vector.valid)


def absolute(arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, 1, "ABS")
    argument = expect(arguments[0], NUMBERS, "ABS")
    return apply(argument.kind, _plain(np.abs) if argument.kind is Kind.FLOAT else _absolute, [argument])


def _rounding(function: Callable[[Any], Any]) -> Callable[[str, Sequence[Typed]], Typed]:
    """A function that leaves integers as they are."""

    def rule(name: str, arguments: Sequence[Typed]) -> Typed:
        arity(arguments, 1, 1, name)
        argument = expect(arguments[0], NUMBERS, name)
        return apply(argument.kind, _plain(function if argument.kind is Kind.FLOAT else np.positive), [argument])

    return rule


floor, ceil = _rounding(np.floor), _rounding(np.ceil)


def round_(arguments: Sequence[Typed]) -> Typed:
    """To a number of decimals, halves away from zero; integers are left as they are."""
    arity(arguments, 1, 2, "ROUND")
    argument = expect(arguments[0], NUMBERS, "ROUND")
    decimals = 0
    if len(arguments) == 2:
        places = arguments[1]
        if places.kind is not Kind.INTEGER or places.constant is None or not 0 <= int(places.constant.values) <= 15:
            raise Mismatch(f"ROUND takes a whole number of decimals from 0 to 15, not {places}")
        decimals = int(places.constant.values)
    if argument.kind is Kind.INTEGER:
        return apply(Kind.INTEGER, _plain(np.positive), [argument])
    scale = 10.0**decimals

    def kernel(vector: Vector) -> Vector:
        values = kernels.rounded(np.atleast_1d(vector.values), scale)
        return Vector(values if np.ndim(vector.values) else values[0], vector.valid)

    return apply(Kind.FLOAT, kernel, [argument])


def _real(function: Callable[..., Any], count: int) -> Callable[[str, Sequence[Typed]], Typed]:
    """A function of `count` floats that is defined wherever they are; NaN is one of its values."""

    def rule(name: str, arguments: Sequence[Typed]) -> Typed:
        arity(arguments, count, count, name)
        floats = [as_kind(expect(argument, NUMBERS, name), Kind.FLOAT) for argument in arguments]
        return apply(Kind.FLOAT, _plain(function), floats)

    return rule


def _compiled(name: str) -> Callable[..., Any]:
    """A function that written expressions call as well, by its name; loaded when it is called."""

    def call(*values: Any) -> Any:
        from riprap.expressions import scalars

        return getattr(scalars, name)(*values)

    return call


square_root, exponential, power = _real(np.sqrt, 1), _real(_compiled("exponential"), 1), _real(_compiled("power"), 2)
_natural = _compiled("natural")


def _positive(vector: Vector) -> Any:
    """Where a logarithm is defined; it is of NaN, and is NaN."""
    defined = ~(vector.values <= 0)
    return both(vector.valid, None if np.all(defined) else defined)


# Bases whose powers have exact logarithms only where the base is known.
_BASES: dict[float, Callable[[Any], Any]] = {2.0: _compiled("binary"), 10.0: _compiled("decimal")}


def logarithm(name: str, arguments: Sequence[Typed]) -> Typed:
    """Natural, or to the base that comes first; NULL unless both are positive."""
    arity(arguments, 1, 1 if name == "LN" else 2, name)
    floats = [as_kind(expect(argument, NUMBERS, name), Kind.FLOAT) for argument in arguments]
    base = floats[0].constant if len(floats) == 2 else None
    function = _BASES.get(float(base.values)) if base is not None and base.valid is None else None
    if function is not None or len(floats) == 1:
        log = function or _natural
        return apply(
            Kind.FLOAT, lambda vector: Vector(log(vector.values), _positive(vector)), [floats[-1]], nullable=True
        )

    def kernel(base: Vector, vector: Vector) -> Vector:
        quotient = _natural(vector.values) / _natural(base.values)
        return Vector(quotient, both(_positive(base), _positive(vector)))

    return apply(Kind.FLOAT, kernel, floats, nullable=True)


def is_nan(arguments: Sequence[Typed]) -> Typed:
    """FALSE for NULL, as in Spark."""
    arity(arguments, 1, 1, "ISNAN")
    argument = as_kind(expect(arguments[0], NUMBERS, "ISNAN"), Kind.FLOAT)

    def kernel(vector: Vector) -> Vector:
        nan = np.isnan(vector.values)
        return Vector(nan if vector.valid is None else nan & vector.valid)

    node = apply(Kind.BOOLEAN, kernel, [argument])
    return Typed(node.type, False, node.run)
