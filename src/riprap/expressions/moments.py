"""Parts of dates and timestamps, all in UTC, all int64."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import Kind
from riprap.expressions.typed import Typed, apply, arity, expect
from riprap.expressions.vectors import Vector

MICROSECONDS_A_DAY = 86_400_000_000

_CALENDAR = {"YEAR": pc.year, "MONTH": pc.month, "DAY": pc.day}
_CLOCK = {"HOUR": (3_600_000_000, 24), "MINUTE": (60_000_000, 60), "SECOND": (1_000_000, 60)}  # microseconds, modulus


def _days(values: Any, kind: Kind) -> Any:
    return values if kind is Kind.DATE else values // MICROSECONDS_A_DAY


def _calendar(part: Callable[[Any], Any], kind: Kind) -> Callable[[Vector], Vector]:
    def kernel(vector: Vector) -> Vector:
        days = np.atleast_1d(_days(vector.values, kind)).astype(np.int32)
        parts = part(pa.array(days).view(pa.date32())).to_numpy()
        return Vector(parts if np.ndim(vector.values) else parts[0], vector.valid)

    return kernel


def calendar_part(name: str, arguments: Sequence[Typed]) -> Typed:
    """Of a date or of the UTC day of a timestamp."""
    arity(arguments, 1, 1, name)
    argument = expect(arguments[0], (Kind.TIMESTAMP, Kind.DATE), name)
    return apply(Kind.INTEGER, _calendar(_CALENDAR[name], argument.kind), [argument])


def clock_part(name: str, arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, 1, name)
    argument = expect(arguments[0], (Kind.TIMESTAMP,), name)
    unit, modulus = _CLOCK[name]
    return apply(Kind.INTEGER, lambda vector: Vector(vector.values // unit % modulus, vector.valid), [argument])


def unix_micros(arguments: Sequence[Typed]) -> Typed:
    """Microseconds since 1970-01-01 UTC."""
    arity(arguments, 1, 1, "UNIX_MICROS")
    return apply(Kind.INTEGER, lambda vector: vector, [expect(arguments[0], (Kind.TIMESTAMP,), "UNIX_MICROS")])
