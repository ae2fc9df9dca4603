"""Dates: whole days, in the proleptic Gregorian calendar."""

from collections.abc import Callable

from riprap.expressions.formats import NotReadable, checked_days, read_date
from riprap.expressions.library import date_patterns
from riprap.expressions.moments import MICROSECONDS_A_DAY, civil_date, days_of, month_length, months_later
from riprap.expressions.signatures import function
from riprap.expressions.typed import EvaluationError

_FAMILY = "dates"


def weekday(days: int) -> int:
    """0 for Monday."""
    return (days + 3) % 7


def iso_week(days: int) -> tuple[int, int]:
    """The ISO year and week."""
    thursday = days - weekday(days) + 3
    year = civil_date(thursday)[0]
    return year, (thursday - days_of(year, 1, 1)) // 7 + 1


function("date_add(date, int) -> date", _FAMILY, "dateadd")(lambda day, count: _wrapped(day + count))
function("date_sub(date, int) -> date", _FAMILY)(lambda day, count: _wrapped(day - count))
function("datediff(date, date) -> int", _FAMILY, "date_diff")(lambda end, start: end - start)
function("dayofweek(date) -> int", _FAMILY)(lambda day: (day + 4) % 7 + 1)
function("weekday(date) -> int", _FAMILY)(weekday)
function("extract_iso_day(date) -> int", _FAMILY)(lambda day: weekday(day) + 1)
function("extract_iso_year(date) -> int", _FAMILY)(lambda day: iso_week(day)[0])
function("dayofyear(date) -> int", _FAMILY)(lambda day: day - days_of(civil_date(day)[0], 1, 1) + 1)
function("weekofyear(date) -> int", _FAMILY)(lambda day: iso_week(day)[1])
function("quarter(date) -> int", _FAMILY)(lambda day: (civil_date(day)[1] + 2) // 3)
function("dayname(date) -> string", _FAMILY)(lambda day: date_patterns.DAYS[weekday(day)][:3])
function("monthname(date) -> string", _FAMILY)(lambda day: date_patterns.MONTHS[civil_date(day)[1] - 1][:3])
function("unix_date(date) -> int", _FAMILY)(lambda day: day)
function("date_from_unix_date(int) -> date", _FAMILY)(lambda day: day)
function("add_months(date, int) -> date", _FAMILY)(months_later)


def _wrapped(days: int) -> int:
    return (days + 2**31) % 2**32 - 2**31


@function("last_day(date) -> date", _FAMILY)
def last_day(day: int) -> int:
    year, month, _ = civil_date(day)
    return days_of(year, month, month_length(year, month))


@function("next_day(date, string) -> date", _FAMILY)
def next_day(day: int, name: str) -> int:
    word = name.upper()
    for place, known in enumerate(date_patterns.DAYS):
        if word in (known[:2].upper(), known[:3].upper(), known.upper()):
            return day + 1 + (place - weekday(day) - 1) % 7
    raise EvaluationError(f"{name!r} is not a day of the week, such as MONDAY")


@function("make_date(int, int, int) -> date", _FAMILY)
def make_date(year: int, month: int, day: int) -> int:
    try:
        return checked_days(year, month, day)
    except NotReadable:
        raise EvaluationError(f"there is no date {year}-{month}-{day}") from None


@function("months_between(timestamp, timestamp, [boolean]) -> double", _FAMILY)
def months_between(end: int, start: int, rounded: bool = True) -> float:
    (day1, rest1), (day2, rest2) = divmod(end, MICROSECONDS_A_DAY), divmod(start, MICROSECONDS_A_DAY)
    (year1, month1, dom1), (year2, month2, dom2) = civil_date(day1), civil_date(day2)
    months = float((year1 - year2) * 12 + month1 - month2)
    if dom1 == dom2 or (dom1 == month_length(year1, month1) and dom2 == month_length(year2, month2)):
        return months
    seconds = (dom1 - dom2) * 86_400 + rest1 // 1_000_000 - rest2 // 1_000_000
    difference = months + seconds / (31 * 86_400)
    if not rounded:
        return difference
    from decimal import ROUND_HALF_UP, Decimal

    scaled = Decimal(difference * 1e8).quantize(Decimal(1), ROUND_HALF_UP)
    return float(scaled) / 1e8


def truncated(day: int, unit: str) -> int | None:
    """The first day of the week, month, quarter or year; None for another unit."""
    year, month, _ = civil_date(day)
    word = unit.upper()
    if word == "WEEK":
        return day - weekday(day)
    if word in ("MONTH", "MON", "MM"):
        return days_of(year, month, 1)
    if word == "QUARTER":
        return days_of(year, month - (month - 1) % 3, 1)
    return days_of(year, 1, 1) if word in ("YEAR", "YYYY", "YY") else None


function("trunc(date, string) -> date", _FAMILY)(truncated)


def _parsed(text: str, pattern: str) -> int:
    try:
        return date_patterns.read(text, pattern) // MICROSECONDS_A_DAY
    except NotReadable:
        raise EvaluationError(
            f"{text!r} is not a date of the form {pattern!r} (TRY_TO_DATE gives NULL for it)"
        ) from None


def _read(text: str) -> int:
    try:
        return read_date(text)
    except NotReadable:
        raise EvaluationError(f"{text!r} is not a date (TRY_TO_DATE gives NULL for it)") from None


def _or_null(read: Callable[..., int]) -> Callable[..., int | None]:
    def tried(*arguments: str) -> int | None:
        try:
            return read(*arguments)
        except EvaluationError:
            return None

    return tried


for _name, _how in (("to_date", lambda read: read), ("try_to_date", _or_null)):
    function(f"{_name}(date) -> date", _FAMILY)(lambda day: day)
    function(f"{_name}(timestamp) -> date", _FAMILY)(lambda micros: micros // MICROSECONDS_A_DAY)
    function(f"{_name}(timestamp_ntz) -> date", _FAMILY)(lambda micros: micros // MICROSECONDS_A_DAY)
    function(f"{_name}(string) -> date", _FAMILY)(_how(_read))
    function(f"{_name}(string, string) -> date", _FAMILY)(_how(_parsed))
