"""Values as text, and text as values, as Spark casts them."""

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from riprap.expressions.kinds import FLOAT, ValueKind, kind_of
from riprap.expressions.moments import MICROSECONDS_A_DAY, civil_date, days_of, month_length

SPACES = "".join(map(chr, range(33)))  # what casts from text trim: space and control characters

# To text --------------------------------------------------------------------------------------------------------------


def double_text(value: float, *, single: bool = False) -> str:
    """As Java writes it: 1.0, 1.0E10, NaN, Infinity."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if np.signbit(value) else ""
    value = abs(value)
    if value == 5e-324:  # Java writes the least number so
        return sign + "4.9E-324"
    if value == 0:
        return sign + "0.0"
    digits, exponent = _digits(value, single=single)
    if 1e-3 <= value < 1e7:
        if exponent >= len(digits) - 1:
            return f"{sign}{digits}{'0' * (exponent - len(digits) + 1)}.0"
        if exponent >= 0:
            return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float, *, single: bool) -> tuple[str, int]:
    """The shortest significant digits, and the exponent of the first."""
    text = np.format_float_scientific(np.float32(value) if single else value, unique=True, trim="-")
    mantissa, exponent = text.split("e")
    return mantissa.replace(".", ""), int(exponent)


def date_text(days: int) -> str:
    year, month, day = civil_date(days)
    return f"{year_text(year)}-{month:02d}-{day:02d}"


def year_text(year: int) -> str:
    return f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04d}"


def timestamp_text(micros: int) -> str:
    days, rest = divmod(micros, MICROSECONDS_A_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    text = f"{date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def interval_text(micros: int) -> str:
    sign, micros = ("-" if micros < 0 else ""), abs(micros)
    days, rest = divmod(micros, MICROSECONDS_A_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    text = f"{days} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    text = f"{text}.{fraction:06d}".rstrip("0") if fraction else text
    return f"INTERVAL '{sign}{text}' DAY TO SECOND"


@lru_cache(maxsize=256)
def writer(type_: pa.DataType) -> Callable[[Any], str]:
    """The text of a value of this type."""
    match kind_of(type_):
        case ValueKind.STRING:
            return str
        case ValueKind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case ValueKind.INTEGER:
            return str
        case ValueKind.FLOAT:
            return lambda value: double_text(value, single=type_ == FLOAT)
        case ValueKind.DECIMAL:
            return lambda value: f"{value:f}"
        case ValueKind.DATE:
            return date_text
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMP_NTZ:
            return timestamp_text
        case ValueKind.INTERVAL:
            return interval_text
        case ValueKind.BINARY:
            return lambda value: value.decode("utf-8", "replace")
        case ValueKind.ARRAY:
            element = _or_null(writer(type_.value_type))
            return lambda values: f"[{', '.join(map(element, values))}]"
        case ValueKind.STRUCT:
            fields = [_or_null(writer(field.type)) for field in type_]
            return lambda row: "{" + ", ".join(f(v) for f, v in zip(fields, row, strict=True)) + "}"
        case ValueKind.MAP:
            key, item = writer(type_.key_type), _or_null(writer(type_.item_type))
            return lambda pairs: "{" + ", ".join(f"{key(k)} -> {item(v)}" for k, v in pairs) + "}"
    return lambda value: "null"


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "null" if value is None else write(value)


# From text ------------------------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\Z")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_WORDS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?\Z", re.DOTALL)
_CLOCK = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
_TIMESTAMP = re.compile(
    rf"([+-]?[0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T](?:{_CLOCK})?\s*(\S.*)?)?)?)?\Z", re.DOTALL
)
_CYCLE = 146_097 * MICROSECONDS_A_DAY
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::?([0-9]{2}))?\Z")


class NotReadable(Exception):
    """Text that is no value of a type."""


def read_whole(text: str) -> int:
    text = text.strip(SPACES)
    if not _WHOLE.match(text):
        raise NotReadable
    return int(text)


def read_real(text: str) -> float:
    text = text.strip(SPACES)
    if _REAL.match(text):
        return float(text.rstrip("dDfF"))
    word = _WORDS.get(text.lower())
    if word is None:
        raise NotReadable
    return word


def read_decimal(text: str) -> Decimal:
    text = text.strip(SPACES)
    if not _DECIMAL.match(text):
        raise NotReadable
    try:
        return Decimal(text)
    except InvalidOperation:
        raise NotReadable from None


def read_boolean(text: str) -> bool:
    word = text.strip(SPACES).lower()
    if word not in _TRUE and word not in _FALSE:
        raise NotReadable
    return word in _TRUE


def read_date(text: str) -> int:
    found = _DATE.match(text.strip(SPACES))
    if found is None:
        raise NotReadable
    sign, year, month, day = found.groups()
    return checked_days((-1 if sign == "-" else 1) * int(year), int(month or 1), int(day or 1))


def checked_days(year: int, month: int, day: int) -> int:
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise NotReadable
    return days_of(year, month, day)


def read_timestamp(text: str, *, zone: bool = True) -> int:
    """Microseconds since 1970 UTC; with `zone` False, of the time as written."""
    found = _TIMESTAMP.match(text.strip(SPACES))
    if found is None:
        raise NotReadable
    year, month, day, hour, minute, second, fraction, place = found.groups()
    days = checked_days(int(year), int(month or 1), int(day or 1))
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59 or (place and hour is None):
        raise NotReadable
    micros = days * MICROSECONDS_A_DAY + (h * 3600 + m * 60 + s) * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))
    if not -(2**63) <= micros < 2**63:
        raise NotReadable
    return to_utc(micros, place.strip(), strict=True) if place and zone else micros


def zone_of(name: str) -> int | ZoneInfo:
    """A fixed offset in microseconds, or a region."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.match(name)
    if found is not None:
        sign, hours, minutes, seconds = found.groups()
        if int(hours) > 18 or int(minutes or 0) > 59:
            raise NotReadable
        total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        return (-total if sign == "-" else total) * 1_000_000
    return _region(name)


@lru_cache(maxsize=256)
def _region(name: str) -> ZoneInfo:
    short = {"PST": "America/Los_Angeles", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "CST": "America/Chicago"}
    try:
        return ZoneInfo({**short, "JST": "Asia/Tokyo", "IST": "Asia/Kolkata"}.get(name, name))
    except (KeyError, ValueError, OSError):
        raise NotReadable from None


def to_utc(micros: int, name: str, *, strict: bool = False) -> int:
    """The instant of a time in a zone. A time that a change of clocks skips moves forward by the gap; of one that
    happens twice the earlier is meant.
    """
    zone = zone_of(name)
    if isinstance(zone, int):
        return micros - zone
    earlier, later = (offset_at(micros + around, zone) for around in (-MICROSECONDS_A_DAY, MICROSECONDS_A_DAY))
    if offset_at(micros - earlier, zone) != earlier and offset_at(micros - later, zone) == later:
        return micros - later
    return micros - earlier


def from_utc(micros: int, name: str) -> int:
    zone = zone_of(name)
    return micros + (zone if isinstance(zone, int) else offset_at(micros, zone))


def offset_at(micros: int, zone: ZoneInfo) -> int:
    """The offset of a region at an instant, in microseconds."""
    from datetime import UTC, datetime, timedelta

    low, high = -62_000_000_000_000_000, 253_402_000_000_000_000  # years 5 to 9999: `datetime` knows no others
    if micros > high:  # the calendar repeats after 400 years
        micros -= -(-(micros - high) // _CYCLE) * _CYCLE
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(micros, low))
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds() * 1_000_000)
