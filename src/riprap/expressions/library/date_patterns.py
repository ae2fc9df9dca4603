"""Spark's patterns of dates and times, such as `yyyy-MM-dd HH:mm:ss`: writing and reading."""

import re
from functools import lru_cache

from riprap.expressions.formats import NotReadable, checked_days, to_utc, year_text
from riprap.expressions.moments import MICROSECONDS_A_DAY, civil_date, days_of
from riprap.expressions.typed import EvaluationError

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "GyMLdDEaHhKkmsSQqVzOXxZuF"
_REFUSED = "ABceINnpWwY"


@lru_cache(maxsize=512)
def tokens_of(pattern: str) -> tuple[tuple[str, int], ...]:
    """Letters with their counts; literal text with count 0."""
    tokens: list[tuple[str, int]] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise EvaluationError(f"the pattern {pattern!r} has a quote that is not closed")
            tokens.append((pattern[at + 1 : end] or "'", 0))
            at = end + 1
        elif letter.isascii() and letter.isalpha():
            count = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            if letter not in _LETTERS or (letter in "MLEQqa" and count > 4) or count > 9:
                raise EvaluationError(f"the pattern {pattern!r} has {letter * count!r}, which Spark does not know")
            tokens.append((letter, count))
            at += count
        elif letter in "[]":
            at += 1
            tokens.append((letter, -1))
        else:
            tokens.append((letter, 0))
            at += 1
    return tuple(tokens)


def written(micros: int, pattern: str) -> str:
    days, rest = divmod(micros, MICROSECONDS_A_DAY)
    year, month, day = civil_date(days)
    seconds, fraction = divmod(rest, 1_000_000)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    numbers = {
        "d": day, "D": days - days_of(year, 1, 1) + 1, "H": hour, "h": (hour + 11) % 12 + 1, "K": hour % 12,
        "k": (hour + 23) % 24 + 1, "m": minute, "s": second, "F": (day - 1) // 7 + 1,
    }  # fmt: skip
    out = []
    for letter, count in tokens_of(pattern):
        if count == 0:
            out.append(letter)
        elif count < 0:
            continue
        elif letter in numbers:
            out.append(f"{numbers[letter]:0{count}d}")
        elif letter in "yu":
            out.append(_year(year, count))
        elif letter in "ML":
            out.append((f"{month}", f"{month:02d}", MONTHS[month - 1][:3], MONTHS[month - 1])[count - 1])
        elif letter == "E":
            name = DAYS[(days + 3) % 7]
            out.append(name if count == 4 else name[:3])
        elif letter == "a":
            out.append("AM" if hour < 12 else "PM")
        elif letter == "S":
            out.append(f"{fraction:06d}"[:count].ljust(count, "0"))
        elif letter in "Qq":
            quarter = (month + 2) // 3
            names = (
                f"{quarter}",
                f"{quarter:02d}",
                f"Q{quarter}",
                f"{quarter}{('st', 'nd', 'rd', 'th')[quarter - 1]} quarter",
            )
            out.append(names[count - 1])
        elif letter == "G":
            out.append("AD" if year > 0 else "BC")
        else:
            out.append(_zone(letter, count))
    return "".join(out)


def _year(year: int, count: int) -> str:
    if count == 2:
        return f"{year % 100:02d}"
    return year_text(year) if count == 4 else f"{year:0{count}d}"


def _zone(letter: str, count: int) -> str:
    """UTC in the words of a pattern."""
    if letter == "V":
        return "UTC"
    if letter == "z":
        return "Coordinated Universal Time" if count == 4 else "UTC"
    if letter == "O":
        return "GMT"
    if letter == "X":
        return "Z"
    if letter == "Z":
        return {4: "GMT", 5: "Z"}.get(count, "+0000")
    return ("+00", "+0000", "+00:00", "+0000", "+00:00")[min(count, 5) - 1]


_PART = {
    "d": "day",
    "H": "hour",
    "h": "hour12",
    "K": "hour0",
    "k": "hour24",
    "m": "minute",
    "s": "second",
    "D": "yearday",
}


@lru_cache(maxsize=512)
def _reader(pattern: str) -> re.Pattern[str]:
    out: list[str] = []
    tokens = tokens_of(pattern)
    seen: set[str] = set()

    def group(name: str, text: str) -> str:
        if name in seen:
            return f"(?:{text})"
        seen.add(name)
        return f"(?P<{name}>{text})"

    for place, (letter, count) in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ("", 0)
        adjacent = following[1] > 0 and following[0] not in "aEzVOXxZG"
        if count == 0:
            out.append(re.escape(letter))
        elif count < 0:
            out.append("(?:" if letter == "[" else ")?")
        elif letter in _PART:
            digits = f"[0-9]{{{count}}}" if count > 1 or adjacent else "[0-9]{1,2}" if letter != "D" else "[0-9]{1,3}"
            out.append(group(_PART[letter], digits))
        elif letter in "yu":
            fixed = {2: "[0-9]{2}", 1: "[0-9]{1,6}"}.get(count, f"[0-9]{{{count}}}")
            if count == 4:
                fixed = r"[0-9]{4}|\+[0-9]{5,6}|-[0-9]{4,6}"
            out.append(group("year2" if count == 2 else "year", fixed))
        elif letter in "ML":
            names = "|".join(name[:3] if count == 3 else name for name in MONTHS)
            out.append(
                group("month", "[0-9]{1,2}" if count == 1 else "[0-9]{2}") if count < 3 else group("monthname", names)
            )
        elif letter == "E":
            out.append(group("weekday", "|".join(name if count == 4 else name[:3] for name in DAYS)))
        elif letter == "a":
            out.append(group("half", "AM|PM"))
        elif letter == "S":
            out.append(group("fraction", f"[0-9]{{{count}}}"))
        elif letter in "VzOXxZ":
            out.append(group("zone", r"Z|[+-][0-9]{2}(?::?[0-9]{2})?|(?:UTC|GMT)[+-][0-9:]+|[A-Za-z]+(?:/[A-Za-z_]+)*"))
        elif letter == "G":
            out.append(group("era", "AD|BC"))
        else:
            raise EvaluationError(f"the pattern {pattern!r} has {letter!r}, which is for writing only")
    return re.compile("".join(out) + r"\Z", re.IGNORECASE)


def read(text: str, pattern: str) -> int:
    """Microseconds since 1970 UTC; raises `NotReadable`."""
    found = _reader(pattern).match(text)
    if found is None:
        raise NotReadable
    part = {name: value for name, value in found.groupdict().items() if value is not None}
    year = int(part["year"]) if "year" in part else 2000 + int(part["year2"]) if "year2" in part else 1970
    if part.get("era", "AD").upper() == "BC":
        year = 1 - year
    month = int(part.get("month", 1))
    if "monthname" in part:
        month = [name[:3].lower() for name in MONTHS].index(part["monthname"][:3].lower()) + 1
    if "yearday" in part:
        days = days_of(year, 1, 1) + int(part["yearday"]) - 1
        if civil_date(days)[0] != year or int(part["yearday"]) < 1:
            raise NotReadable
    else:
        days = checked_days(year, month, int(part.get("day", 1)))
    if "weekday" in part and not DAYS[(days + 3) % 7].lower().startswith(part["weekday"].lower()):
        raise NotReadable
    hour = int(part.get("hour", 0))
    if "hour12" in part or "hour0" in part:
        clock = int(part.get("hour12") or part["hour0"])
        if not (1 <= clock <= 12 if "hour12" in part else 0 <= clock <= 11):
            raise NotReadable
        hour = clock % 12 + 12 * (part.get("half", "AM").upper() == "PM")
    elif "hour24" in part:
        hour = int(part["hour24"]) % 24
    minute, second = int(part.get("minute", 0)), int(part.get("second", 0))
    if hour > 23 or minute > 59 or second > 59:
        raise NotReadable
    fraction = int(part.get("fraction", "0")[:6].ljust(6, "0"))
    micros = days * MICROSECONDS_A_DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    return to_utc(micros, part["zone"]) if "zone" in part else micros
