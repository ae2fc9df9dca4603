"""Typing rules of the parts of dates and timestamps, all in UTC, all int64."""

from collections.abc import Sequence

from riprap.expressions.kinds import ValueKind
from riprap.expressions.typed import Typed, apply, arity, expect

MICROSECONDS_A_DAY = 86_400_000_000


def calendar_part(name: str, arguments: Sequence[Typed]) -> Typed:
    """Of a date, or of the UTC day of a timestamp."""
    arity(arguments, 1, 1, name)
    return apply(ValueKind.INTEGER, [expect(arguments[0], (ValueKind.TIMESTAMP, ValueKind.DATE), name)])


def clock_part(name: str, arguments: Sequence[Typed]) -> Typed:
    """Of a timestamp; UNIX_MICROS is the whole timestamp, in microseconds since 1970-01-01 UTC."""
    arity(arguments, 1, 1, name)
    return apply(ValueKind.INTEGER, [expect(arguments[0], (ValueKind.TIMESTAMP,), name)])
