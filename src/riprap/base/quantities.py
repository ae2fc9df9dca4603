"""Quantities with units, and their text form.

`Duration` is an integer number of microseconds, the resolution of `_ts`, so event-time arithmetic is exact. Parsed
values are bounded here (`LONGEST`, `LARGEST`), so no later arithmetic overflows.
"""

import re
from math import isfinite
from typing import NewType

from riprap.base.errors import UsageError

Duration = NewType("Duration", int)  # microseconds, >= 0
ByteCount = NewType("ByteCount", int)  # bytes, >= 0

LONGEST = Duration(100 * 365 * 86_400_000_000)  # a hundred years
LARGEST = ByteCount(1 << 60)

_DURATION_UNITS = {
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTITY = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ]*)\s*$")


def parse_duration(text: str) -> Duration:
    """`"1.5s"` → 1,500,000 µs. The unit is required."""
    match = _QUANTITY.match(text)
    if match is None or match.group(2) not in _DURATION_UNITS:
        raise UsageError(
            f"cannot read {_shown(text)!r} as a duration: write a number and a unit, as in 500ms, 1.5s, 2m or 1h"
        )
    value = float(match.group(1)) * _DURATION_UNITS[match.group(2)]
    if value > LONGEST:
        raise UsageError(f"{_shown(text)} is too long: a duration is at most 100 years (36500d)")
    return Duration(round(value))


def format_duration(duration: Duration) -> str:
    """The shortest exact text that `parse_duration` reads back; for files."""
    for unit in ("d", "h", "m", "s", "ms"):
        if duration and duration % _DURATION_UNITS[unit] == 0:
            return f"{duration // _DURATION_UNITS[unit]}{unit}"
    return f"{duration}us" if duration else "0s"


def show_duration(duration: int) -> str:
    """For people: the exact text if it is short, else three significant digits, as in 15.5 s."""
    exact = format_duration(Duration(duration))
    if len(exact) <= 6:
        return exact
    hour = 3_600_000_000
    for unit, size, end in (("ms", 1_000, 999_500), ("s", 1_000_000, hour // 30), ("min", hour // 60, 2 * hour)):
        if duration < end:
            return f"{duration / size:.3g} {unit}"
    value, unit = (duration / hour, "h") if duration < 48 * hour else (duration / (24 * hour), "d")
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def parse_number(text: str, option: str, *, least: float = 0.0, most: float = 1e15) -> float:
    """The value of an option: a finite number within bounds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not least <= value <= most:
        raise UsageError(f"{option} {_shown(text)}: write a number from {least:g} to {most:g}")
    return value


def parse_whole(text: str, option: str, *, least: int = 0, most: int = 10**15) -> int:
    """The value of an option: an integer within bounds, as in 500000, 500_000 or 0.5e6."""
    plain = text.strip().replace("_", "")
    try:
        value = float(plain) if plain.isascii() else float("nan")
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value != round(value) or not least <= value <= most:
        raise UsageError(f"{option} {_shown(text)}: write a whole number from {least} to {most}")
    return round(value)


def parse_share(text: str, option: str, *, most: float = 1.0) -> float:
    """`3%` or `0.03`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= most:
        raise UsageError(f"{option} {_shown(text)}: write a share, as in 3% or 0.03")
    return value


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def parse_size(text: str) -> ByteCount:
    """`"64MiB"` → 67,108,864 bytes. A bare number is bytes."""
    match = _QUANTITY.match(text)
    if match is None or match.group(2) not in _SIZE_UNITS:
        raise UsageError(
            f"cannot read {_shown(text)!r} as a size: write bytes or a unit, as in 4096, 64KiB, 10MB or 1GiB"
        )
    value = float(match.group(1)) * _SIZE_UNITS[match.group(2)]
    if value > LARGEST:
        raise UsageError(f"{_shown(text)} is too large: a size is at most {LARGEST >> 30} GiB")
    return ByteCount(round(value))


def format_size(size: int) -> str:
    """For people: three significant digits, binary units."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return (
                f"{int(value)} B" if unit == "B" else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
            )
        value /= 1024
    raise AssertionError("unreachable")


def format_count(count: float) -> str:
    """For people: 1234567 → 1,234,567."""
    return f"{count:,.0f}"
