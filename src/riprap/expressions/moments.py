"""Typing rules of the parts of dates and timestamps, and shifting them. The session's time zone is UTC."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions.kinds import DATE, INT, LONG, TIMES, TIMESTAMP, ValueKind
from riprap.expressions.row_values import array_of, values_of
from riprap.expressions.typed import Compute, Mismatch, Typed, apply, arity

MICROSECONDS_A_DAY = 86_400_000_000
OUT_OF_RANGE = "a date or timestamp out of range"


def calendar_part(name: str, arguments: Sequence[Typed]) -> Typed:
    """Of a date, or of the UTC day of a timestamp."""
    arity(arguments, 1, 1, name)
    kind = arguments[0].kind
    if kind in (*TIMES, ValueKind.DATE):
        return apply(INT, arguments)
    if kind in (ValueKind.STRING, ValueKind.NULL):
        return apply(INT, arguments, [DATE])
    raise Mismatch(f"{name} takes a date or timestamp, not {arguments[0]}")


def clock_part(name: str, arguments: Sequence[Typed]) -> Typed:
    """Of a timestamp; UNIX_MICROS is the whole timestamp, in microseconds since 1970-01-01 UTC."""
    arity(arguments, 1, 1, name)
    kind = arguments[0].kind
    if kind not in (*TIMES, ValueKind.DATE, ValueKind.STRING, ValueKind.NULL):
        raise Mismatch(f"{name} takes a timestamp, not {arguments[0]}")
    type_ = LONG if name.startswith("UNIX") else INT
    return apply(type_, arguments, [arguments[0].type if kind in TIMES else TIMESTAMP])


# Calendar arithmetic on days since 1970 -------------------------------------------------------------------------------


def civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day, in the proleptic Gregorian calendar."""
    z = days + 719468
    era = z // 146097
    day_of_era = z - era * 146097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """The inverse of `civil_date`; the day may be out of its month."""
    y = year - (month <= 2)
    era = y // 400
    year_of_era = y - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def months_later(days: int, months: int) -> int:
    """The same day of another month, or the last one that exists."""
    year, month, day = civil_date(days)
    whole = year * 12 + month - 1 + months
    year, month = whole // 12, whole % 12 + 1
    return days_of(year, month, min(day, month_length(year, month)))


def micros_months_later(micros: int, months: int) -> int:
    days, rest = divmod(micros, MICROSECONDS_A_DAY)
    return months_later(days, months) * MICROSECONDS_A_DAY + rest


def shifted(sign: int) -> Compute:
    """A date or timestamp, and an interval of months."""

    def compute(times: pa.Array, intervals: pa.Array) -> pa.Array:
        move = months_later if times.type == DATE else micros_months_later
        months: list[Any] = [None if each is None else each.months for each in intervals.to_pylist()]
        moved = [
            None if time is None or count is None else move(time, sign * count)
            for time, count in zip(values_of(times), months, strict=True)
        ]
        return array_of(moved, times.type)

    return compute


def days_shifted(sign: int) -> Compute:
    """A date, and an interval of whole days."""

    def compute(dates: pa.Array, intervals: pa.Array) -> pa.Array:
        days = intervals.cast(pa.int64()).to_numpy(zero_copy_only=False) // MICROSECONDS_A_DAY
        return days_added(sign)(dates, pa.array(days.astype(np.int64), mask=np.asarray(intervals.is_null())))

    return compute


def days_added(sign: int) -> Compute:
    def compute(dates: pa.Array, days: pa.Array) -> pa.Array:
        moved = [
            None if date is None or count is None else date + sign * count
            for date, count in zip(values_of(dates), days.to_pylist(), strict=True)
        ]
        return array_of([None if day is None else (day + 2**31) % 2**32 - 2**31 for day in moved], DATE)

    return compute
