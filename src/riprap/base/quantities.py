"""Quantities with their units, and the text a user writes for them.

`Duration` is a whole number of microseconds, the resolution of `_ts`, so that event-time arithmetic is exact.
"""

import re
from typing import NewType

from riprap.base.errors import UsageError

Duration = NewType("Duration", int)  # microseconds, >= 0
ByteCount = NewType("ByteCount", int)  # bytes, >= 0

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
    """`"1.5s"` → 1,500,000 µs. A unit is required: a bare number has none."""
    match = _QUANTITY.match(text)
    if match is None or match.group(2) not in _DURATION_UNITS:
        raise UsageError(f"cannot read {text!r} as a duration: write a number and a unit, as in 500ms, 1.5s, 2m or 1h")
    return Duration(round(float(match.group(1)) * _DURATION_UNITS[match.group(2)]))


def format_duration(duration: Duration) -> str:
    """The shortest exact text that `parse_duration` reads back."""
    for unit in ("d", "h", "m", "s", "ms"):
        if duration and duration % _DURATION_UNITS[unit] == 0:
            return f"{duration // _DURATION_UNITS[unit]}{unit}"
    return f"{duration}us" if duration else "0s"


def parse_size(text: str) -> ByteCount:
    """`"64MiB"` → 67,108,864 bytes. A bare number is bytes."""
    match = _QUANTITY.match(text)
    if match is None or match.group(2) not in _SIZE_UNITS:
        raise UsageError(f"cannot read {text!r} as a size: write bytes or a unit, as in 4096, 64KiB, 10MB or 1GiB")
    return ByteCount(round(float(match.group(1)) * _SIZE_UNITS[match.group(2)]))


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
