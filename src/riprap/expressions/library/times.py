"""Timestamps. The session's time zone is UTC."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from riprap.expressions.formats import NotReadable, checked_days, from_utc, read_timestamp, to_utc
from riprap.expressions.library import date_patterns
from riprap.expressions.library.calendars import truncated
from riprap.expressions.moments import MICROSECONDS_A_DAY, civil_date, micros_months_later
from riprap.expressions.signatures import function
from riprap.expressions.typed import EvaluationError

_FAMILY = "timestamps"
_LIMIT = 1 << 63

function("extract_second(timestamp) -> decimal(8,6)", _FAMILY)(lambda t: Decimal(t % 60_000_000).scaleb(-6))
function("timestamp_millis(bigint) -> timestamp", _FAMILY)(lambda n: n * 1_000)
function("timestamp_micros(bigint) -> timestamp", _FAMILY)(lambda n: n)
function("timestamp_seconds(bigint) -> timestamp", _FAMILY)(lambda n: n * 1_000_000)
function("timestamp_seconds(decimal) -> timestamp", _FAMILY)(lambda n: int(n * 1_000_000))
function("timestamp_seconds(double) -> timestamp", _FAMILY)(
    lambda n: None if n != n or abs(n) == float("inf") else int(n * 1_000_000)
)
function("date_format(timestamp, string) -> string", _FAMILY)(date_patterns.written)
function("from_unixtime(bigint, [string]) -> string", _FAMILY)(
    lambda seconds, pattern="yyyy-MM-dd HH:mm:ss": date_patterns.written(seconds * 1_000_000, pattern)
)


def _guarded(function_: Callable[..., int], what: str) -> Callable[..., int]:
    def called(*arguments: Any) -> int:
        try:
            return function_(*arguments)
        except NotReadable:
            raise EvaluationError(f"{arguments[-1]!r} is not {what}") from None

    return called


function("from_utc_timestamp(timestamp, string) -> timestamp", _FAMILY)(_guarded(from_utc, "a time zone"))
function("to_utc_timestamp(timestamp, string) -> timestamp", _FAMILY)(_guarded(to_utc, "a time zone"))
function("convert_timezone(string, timestamp_ntz) -> timestamp_ntz", _FAMILY)(
    lambda target, time: _guarded(from_utc, "a time zone")(time, target)
)
function("convert_timezone(string, string, timestamp_ntz) -> timestamp_ntz", _FAMILY)(
    lambda source, target, time: _guarded(from_utc, "a time zone")(
        _guarded(to_utc, "a time zone")(time, source), target
    )
)

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": MICROSECONDS_A_DAY,
    "DAYOFYEAR": MICROSECONDS_A_DAY,
    "WEEK": 7 * MICROSECONDS_A_DAY,
}
_MONTH_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


@function("date_trunc(string, timestamp) -> timestamp", _FAMILY)
def date_trunc(unit: str, micros: int) -> int | None:
    word = unit.upper()
    if word in ("DAY", "DD"):
        word = "DAY"
    if word in _UNITS and word not in ("WEEK", "DAYOFYEAR"):
        return micros - micros % _UNITS[word]
    day = truncated(micros // MICROSECONDS_A_DAY, word)
    return None if day is None else day * MICROSECONDS_A_DAY


def _added(unit: str, count: int, micros: int) -> int:
    word = unit.upper()
    if word in _MONTH_UNITS:
        return micros_months_later(micros, count * _MONTH_UNITS[word])
    if word not in _UNITS:
        raise EvaluationError(f"{unit!r} is not a unit of time")
    return micros + count * _UNITS[word]


function("timestampadd(string, int, timestamp) -> timestamp", _FAMILY)(_added)
function("timestampadd(string, int, timestamp_ntz) -> timestamp_ntz", _FAMILY)(_added)


@function("timestampdiff(string, timestamp, timestamp) -> bigint", _FAMILY)
def timestampdiff(unit: str, start: int, end: int) -> int:
    word = unit.upper()
    if word in _MONTH_UNITS:
        months = _whole_months(start, end)
        return int(months / _MONTH_UNITS[word])
    if word not in _UNITS:
        raise EvaluationError(f"{unit!r} is not a unit of time")
    size = abs(end - start) // _UNITS[word]
    return size if end >= start else -size


def _whole_months(start: int, end: int) -> int:
    """Of the calendar, towards zero."""
    (first, clock1), (last, clock2) = divmod(start, MICROSECONDS_A_DAY), divmod(end, MICROSECONDS_A_DAY)
    if last > first and clock2 < clock1:
        last -= 1
    elif last < first and clock2 > clock1:
        last += 1
    (y1, m1, d1), (y2, m2, d2) = civil_date(first), civil_date(last)
    return int(((y2 * 12 + m2) * 32 + d2 - (y1 * 12 + m1) * 32 - d1) / 32)


def _clock(hour: int, minute: int, seconds: Decimal) -> int:
    whole = int(seconds * 1_000_000)
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= whole <= 60_000_000):
        raise NotReadable
    return hour * _UNITS["HOUR"] + minute * _UNITS["MINUTE"] + whole


def _made(year: int, month: int, day: int, hour: int, minute: int, seconds: Decimal, zone: str = "UTC") -> int:
    try:
        if seconds > 60 or (int(seconds) == 60 and seconds != 60):
            raise NotReadable
        return to_utc(checked_days(year, month, day) * MICROSECONDS_A_DAY + _clock(hour, minute, seconds), zone)
    except NotReadable:
        raise EvaluationError(f"there is no time {year}-{month}-{day} {hour}:{minute}:{seconds} in {zone}") from None


def _tried(made: Callable[..., int]) -> Callable[..., int | None]:
    def tried(*parts: Any) -> int | None:
        try:
            return made(*parts)
        except EvaluationError:
            return None

    return tried


_FIELDS = "int, int, int, int, int, decimal(16,6)"
for _prefix, _how in (("", lambda made: made), ("try_", _tried)):
    function(f"{_prefix}make_timestamp({_FIELDS}, [string]) -> timestamp", _FAMILY)(_how(_made))
    function(f"{_prefix}make_timestamp_ltz({_FIELDS}, [string]) -> timestamp", _FAMILY)(_how(_made))
    function(f"{_prefix}make_timestamp_ntz({_FIELDS}) -> timestamp_ntz", _FAMILY)(_how(_made))


def _read(text: str, pattern: str | None = None, *, zone: bool = True) -> int:
    try:
        return read_timestamp(text, zone=zone) if pattern is None else date_patterns.read(text, pattern)
    except NotReadable:
        form = "" if pattern is None else f" of the form {pattern!r}"
        raise EvaluationError(f"{text!r} is not a timestamp{form} (TRY_TO_TIMESTAMP gives NULL for it)") from None


def _local(text: str, pattern: str | None = None) -> int:
    return _read(text, pattern, zone=False)


for _name, _type, _parse in (
    ("to_timestamp", "timestamp", _read),
    ("to_timestamp_ltz", "timestamp", _read),
    ("to_timestamp_ntz", "timestamp_ntz", _local),
    ("try_to_timestamp", "timestamp", _tried(_read)),
):
    function(f"{_name}(string, [string]) -> {_type}", _FAMILY)(_parse)
    function(f"{_name}(date) -> {_type}", _FAMILY)(lambda day: day * MICROSECONDS_A_DAY)
    function(f"{_name}(timestamp) -> {_type}", _FAMILY)(lambda micros: micros)
    function(f"{_name}(timestamp_ntz) -> {_type}", _FAMILY)(lambda micros: micros)


def _seconds(value: str, pattern: str = "yyyy-MM-dd HH:mm:ss") -> int:
    return _read(value, pattern) // 1_000_000


for _name in ("unix_timestamp", "to_unix_timestamp"):
    function(f"{_name}(string, [string]) -> bigint", _FAMILY)(_seconds)
    function(f"{_name}(date, [string]) -> bigint", _FAMILY)(lambda day, _="": day * 86_400)
    function(f"{_name}(timestamp, [string]) -> bigint", _FAMILY)(
        lambda micros, _="": -(-micros // 1_000_000) if micros < 0 else micros // 1_000_000
    )


@function("make_dt_interval([int], [int], [int], [decimal(18,6)]) -> interval", _FAMILY)
def make_dt_interval(days: int = 0, hours: int = 0, minutes: int = 0, seconds: Decimal = Decimal(0)) -> int:
    micros = days * _UNITS["DAY"] + hours * _UNITS["HOUR"] + minutes * _UNITS["MINUTE"] + int(seconds * 1_000_000)
    if not -_LIMIT <= micros < _LIMIT:
        raise EvaluationError("MAKE_DT_INTERVAL: the interval does not fit 64 bits of microseconds")
    return micros
