"""Typing rules of numbers: + - * / % and the numeric functions; also + and - of timestamps and intervals.

Integers are computed in int64, and a result that exceeds 64 bits is an error (see `code_writer.py`).
"""

from collections.abc import Sequence

from riprap.expressions.kinds import NUMBERS, ValueKind
from riprap.expressions.typed import Mismatch, Typed, apply, arity, as_kind, expect

# Supported arithmetic on times. `-` is not commutative, so all combinations are listed.
_TIMES = {
    ("+", ValueKind.TIMESTAMP, ValueKind.INTERVAL): ValueKind.TIMESTAMP,
    ("+", ValueKind.INTERVAL, ValueKind.TIMESTAMP): ValueKind.TIMESTAMP,
    ("+", ValueKind.INTERVAL, ValueKind.INTERVAL): ValueKind.INTERVAL,
    ("-", ValueKind.TIMESTAMP, ValueKind.INTERVAL): ValueKind.TIMESTAMP,
    ("-", ValueKind.TIMESTAMP, ValueKind.TIMESTAMP): ValueKind.INTERVAL,
    ("-", ValueKind.INTERVAL, ValueKind.INTERVAL): ValueKind.INTERVAL,
}


def add_subtract_multiply(symbol: str, arguments: Sequence[Typed]) -> Typed:
    times = _TIMES.get((symbol, arguments[0].kind, arguments[1].kind))
    if times is not None:
        return apply(times, arguments)
    return apply(*_numbers(symbol, arguments, "" if symbol == "*" else ", or a timestamp and an interval"))


def _numbers(symbol: str, arguments: Sequence[Typed], also: str = "") -> tuple[ValueKind, list[Typed]]:
    """Check two numbers; return the kind of the result."""
    for argument in arguments:
        if argument.kind not in (*NUMBERS, ValueKind.NULL):
            raise Mismatch(f"{symbol} takes two numbers{also}, not {arguments[0]} and {arguments[1]}")
    other = next((argument.kind for argument in arguments if argument.kind is not ValueKind.NULL), ValueKind.INTEGER)
    numbers = [as_kind(argument, other) if argument.kind is ValueKind.NULL else argument for argument in arguments]
    return ValueKind.FLOAT if ValueKind.FLOAT in [number.kind for number in numbers] else ValueKind.INTEGER, numbers


def _never_zero(node: Typed) -> bool:
    return node.constant is not None and bool(node.constant.value)


def divide(arguments: Sequence[Typed]) -> Typed:
    """Always float64; NULL if the divisor is zero."""
    _, numbers = _numbers("/", arguments)
    return apply(ValueKind.FLOAT, numbers, nullable=not _never_zero(numbers[1]))


def remainder(arguments: Sequence[Typed]) -> Typed:
    """With the sign of the dividend; NULL if the divisor is zero."""
    kind, numbers = _numbers("%", arguments)
    return apply(kind, numbers, nullable=not _never_zero(numbers[1]))


def negate(arguments: Sequence[Typed]) -> Typed:
    argument = expect(arguments[0], (*NUMBERS, ValueKind.INTERVAL), "-")
    return apply(argument.kind, [argument])


def same_number(name: str, arguments: Sequence[Typed]) -> Typed:
    """A function from integers to integers and from floats to floats."""
    arity(arguments, 1, 1, name)
    argument = expect(arguments[0], NUMBERS, name)
    return apply(argument.kind, [argument])


def round_(arguments: Sequence[Typed]) -> Typed:
    """To a number of decimals, halves away from zero; integers are unchanged."""
    arity(arguments, 1, 2, "ROUND")
    argument = expect(arguments[0], NUMBERS, "ROUND")
    if len(arguments) == 2:
        places = arguments[1]
        known = places.constant.value if places.kind is ValueKind.INTEGER and places.constant is not None else None
        if known is None or not 0 <= int(known) <= 15:
            raise Mismatch(f"ROUND takes a whole number of decimals from 0 to 15, not {places}")
    return apply(argument.kind, [argument])


def real(name: str, arguments: Sequence[Typed]) -> Typed:
    """A function of floats, defined for all of them; it may return NaN."""
    count = 2 if name == "POWER" else 1
    arity(arguments, count, count, name)
    return apply(ValueKind.FLOAT, [as_kind(expect(argument, NUMBERS, name), ValueKind.FLOAT) for argument in arguments])


def logarithm(name: str, arguments: Sequence[Typed]) -> Typed:
    """Natural, or to the base in the first argument; NULL unless both are positive."""
    arity(arguments, 1, 1 if name == "LN" else 2, name)
    return apply(ValueKind.FLOAT, [expect(argument, NUMBERS, name) for argument in arguments], nullable=True)


def is_nan(arguments: Sequence[Typed]) -> Typed:
    """FALSE for NULL, as in Spark."""
    arity(arguments, 1, 1, "ISNAN")
    expect(arguments[0], NUMBERS, "ISNAN")
    return Typed(ValueKind.BOOLEAN.type, False)
