"""Typing rules of numbers: + - * / % and the numeric functions; also + and - of dates, timestamps and intervals.

Types are Spark's in ANSI mode: a result that does not fit its type is an error (see `code_writer.py`), `/` of integers
is a double, and decimals have the precision and scale of Spark's rules.
"""

from collections.abc import Sequence

import pyarrow as pa

from riprap.expressions import decimals, moments
from riprap.expressions.kinds import (
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    LONG,
    MONTHS,
    NUMERIC,
    TIMES,
    TIMESTAMP,
    ValueKind,
    common_type,
    decimal_of,
    kind_of,
)
from riprap.expressions.typed import Mismatch, Typed, apply, arity, number


def add_subtract_multiply(symbol: str, arguments: Sequence[Typed]) -> Typed:
    if symbol != "*" and (result := _of_times(symbol, *arguments)) is not None:
        return result
    return _numbers(symbol, arguments)


def _of_times(symbol: str, left: Typed, right: Typed) -> Typed | None:
    a, b = left.kind, right.kind
    if symbol == "+" and (b in (*TIMES, ValueKind.DATE)) and a not in (*TIMES, ValueKind.DATE):
        swapped = _of_times(symbol, right, left)
        if swapped is None or swapped.takes is None:
            return swapped
        compute = swapped.compute
        flipped = None if compute is None else lambda one, other: compute(other, one)
        return Typed(swapped.type, swapped.nullable, takes=swapped.takes[::-1], compute=flipped)
    both = [left, right]
    if symbol == "-" and a in (*TIMES, ValueKind.DATE) and b in (*TIMES, ValueKind.DATE):
        type_ = TIMESTAMP if ValueKind.TIMESTAMP in (a, b) or a is b is ValueKind.DATE else left.type
        return apply(INTERVAL, both, [type_, type_])
    if a in TIMES and b is ValueKind.INTERVAL:
        return apply(left.type, both, [left.type, INTERVAL])
    if a in (*TIMES, ValueKind.DATE) and b is ValueKind.MONTHS:
        return apply(left.type, both, [left.type, MONTHS], compute=moments.shifted(-1 if symbol == "-" else 1))
    if a is ValueKind.DATE and b is ValueKind.INTERVAL:
        whole = right.known is not None and right.known % moments.MICROSECONDS_A_DAY == 0
        if whole:
            return apply(DATE, both, [DATE, INTERVAL], compute=moments.days_shifted(-1 if symbol == "-" else 1))
        return apply(TIMESTAMP, both, [TIMESTAMP, INTERVAL])
    if a is ValueKind.DATE and b is ValueKind.INTEGER and right.type.bit_width <= 32:
        return apply(DATE, both, [DATE, INT], compute=moments.days_added(-1 if symbol == "-" else 1))
    if a is b is ValueKind.INTERVAL:
        return apply(INTERVAL, both, [INTERVAL, INTERVAL])
    return None


def _numbers(symbol: str, arguments: Sequence[Typed]) -> Typed:
    """Two numbers of one type, or two decimals."""
    left, right = _pair(symbol, arguments)
    if ValueKind.DECIMAL in (kind_of(left), kind_of(right)):
        return decimals.arithmetic(symbol, arguments, left, right)
    type_ = common_type([left, right])
    assert type_ is not None
    return apply(type_, arguments, [type_, type_])


def _pair(symbol: str, arguments: Sequence[Typed]) -> tuple[pa.DataType, pa.DataType]:
    """The types with which two numbers are computed: equal, or both decimal."""
    for argument in arguments:
        if argument.kind not in (*NUMERIC, ValueKind.NULL, ValueKind.STRING):
            also = ", or a time and an interval" if symbol in "+-" else ""
            raise Mismatch(f"{symbol} takes two numbers{also}, not {arguments[0]} and {arguments[1]}")
    type_ = common_type(argument.type for argument in arguments)
    assert type_ is not None
    if type_.id in (pa.null().id, pa.string().id):
        type_ = DOUBLE
    if kind_of(type_) is not ValueKind.DECIMAL:
        return type_, type_
    left, right = (_as_decimal(argument, other) for argument, other in zip(arguments, arguments[::-1], strict=True))
    return left, right


def _as_decimal(argument: Typed, other: Typed) -> pa.DataType:
    """A constant integer beside a decimal has as many digits as it needs."""
    if argument.kind is ValueKind.NULL:
        return decimal_of(other.type)
    if argument.kind is ValueKind.INTEGER and argument.known is not None and argument.constant is not None:
        return pa.decimal128(max(1, len(str(abs(argument.known)))), 0)
    return decimal_of(argument.type)


def divide(arguments: Sequence[Typed]) -> Typed:
    """A double, or a decimal of decimals; dividing by zero is an error."""
    left, right = _pair("/", arguments)
    if kind_of(left) is ValueKind.DECIMAL:
        return decimals.arithmetic("/", arguments, left, right)
    return apply(DOUBLE, arguments, [DOUBLE, DOUBLE])


def divide_whole(arguments: Sequence[Typed]) -> Typed:
    left, right = _pair("DIV", arguments)
    if kind_of(left) is ValueKind.DECIMAL:
        return decimals.arithmetic("DIV", arguments, left, right)
    return apply(LONG, arguments, [LONG, LONG])


def remainder(name: str, arguments: Sequence[Typed]) -> Typed:
    """% has the sign of the dividend; PMOD is never negative for a positive divisor."""
    arity(arguments, 2, 2, name)
    return _numbers(name, arguments)


def negate(name: str, arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, 1, name)
    (argument,) = arguments
    if argument.kind is ValueKind.INTERVAL:
        return apply(INTERVAL, arguments, [INTERVAL])
    type_ = number(argument, name)
    if kind_of(type_) is ValueKind.DECIMAL:
        return apply(type_, arguments, [type_], compute=decimals.UNARY[name])
    return apply(type_, arguments, [type_])


def to_whole(name: str, arguments: Sequence[Typed]) -> Typed:
    """FLOOR and CEIL: a bigint, or a decimal without decimals; with a scale, a decimal."""
    arity(arguments, 1, 2, name)
    if len(arguments) == 2:
        return decimals.rounding(name, arguments)
    type_ = number(arguments[0], name)
    if kind_of(type_) is ValueKind.DECIMAL:
        return decimals.whole(name, arguments)
    return apply(LONG, arguments, [type_ if kind_of(type_) is ValueKind.INTEGER else DOUBLE])


def round_(name: str, arguments: Sequence[Typed]) -> Typed:
    """To a number of decimals, halves away from zero (BROUND: to even)."""
    arity(arguments, 1, 2, name)
    type_ = number(arguments[0], name)
    places = 0
    if len(arguments) == 2:
        if arguments[1].constant is None or arguments[1].kind not in (ValueKind.INTEGER, ValueKind.NULL):
            raise Mismatch(f"{name} takes a constant whole number of decimals, not {arguments[1]}")
        places = arguments[1].known
        if places is None:
            return apply(type_, arguments, nullable=True, compute=lambda *_: pa.nulls(len(_[0]), type_))
    if name == "ROUND" and kind_of(type_) is ValueKind.FLOAT and type_ == DOUBLE and 0 <= places <= 15:
        return apply(type_, arguments, [type_, *[INT] * (len(arguments) - 1)])
    return decimals.rounded(name, arguments, type_, places)


def real(name: str, arguments: Sequence[Typed]) -> Typed:
    """A function of doubles, defined for all of them; it may return NaN."""
    count = 2 if name == "POWER" else 1
    arity(arguments, count, count, name)
    for argument in arguments:
        number(argument, name)
    return apply(DOUBLE, arguments, [DOUBLE] * count)


def logarithm(name: str, arguments: Sequence[Typed]) -> Typed:
    """Natural, or to the base in the first argument; NULL unless both are positive."""
    arity(arguments, 1, 1 if name == "LN" else 2, name)
    for argument in arguments:
        number(argument, name)
    return apply(DOUBLE, arguments, [DOUBLE] * len(arguments), nullable=True)


def is_nan(arguments: Sequence[Typed]) -> Typed:
    """FALSE for NULL, as in Spark."""
    arity(arguments, 1, 1, "ISNAN")
    number(arguments[0], "ISNAN")
    return Typed(ValueKind.BOOLEAN.type, False, takes=(DOUBLE,))


def bits(name: str, arguments: Sequence[Typed]) -> Typed:
    """& | ^ ~ of integers of one type."""
    count = 1 if name == "~" else 2
    arity(arguments, count, count, name)
    for argument in arguments:
        if argument.kind not in (ValueKind.INTEGER, ValueKind.NULL):
            raise Mismatch(f"{name} takes integers, not {argument}")
    type_ = common_type(argument.type for argument in arguments)
    type_ = INT if type_ is None or type_ == pa.null() else type_
    return apply(type_, arguments, [type_] * count)
