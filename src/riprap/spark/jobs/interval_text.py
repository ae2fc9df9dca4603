"""Intervals as Spark writes them."""

import re

_UNITS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip


def interval_microseconds(text: str) -> int | None:
    """`10 seconds`, `1 hours 30 minutes`; None: months, or something else."""
    found = re.findall(r"(-?\d+(?:\.\d+)?) ([a-z]+?)s?(?= |$)", text.strip().lower().removeprefix("interval "))
    if not found or any(unit not in _UNITS for _, unit in found):
        return None
    return round(sum(float(number) * _UNITS[unit] for number, unit in found))
