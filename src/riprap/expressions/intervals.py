"""Literals of intervals: `INTERVAL 5 SECONDS`, `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL '1-2' YEAR TO MONTH`."""

import re
from decimal import Decimal, InvalidOperation

from riprap.expressions.ast import Literal
from riprap.expressions.kinds import INTERVAL, MONTHS

UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
MONTH_UNITS = {"MONTH": 1, "YEAR": 12}

_YEARS = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*\Z")


def interval_of(text: str, unit: str, span: tuple[str, str] | None) -> Literal | None:
    """The interval; None if it cannot be read."""
    try:
        if span is not None:
            return _spanned(text, span[0].upper(), span[1].upper())
        if not unit:
            words = text.replace("interval", "").split()
            parts = [_single(number, name) for number, name in zip(words[::2], words[1::2], strict=True)]
        else:
            parts = [_single(text.strip(), unit)]
        months = sum(amount for amount, in_months in parts if in_months)
        micros = sum(amount for amount, in_months in parts if not in_months)
    except (InvalidOperation, KeyError, ValueError):
        return None
    if not parts or (months and micros) or not -(2**63) <= micros < 2**63:
        return None
    return Literal(months, MONTHS) if any(in_months for _, in_months in parts) else Literal(micros, INTERVAL)


def _single(number: str, unit: str) -> tuple[int, bool]:
    name = unit.upper().removesuffix("S")
    if name in MONTH_UNITS:
        return int(number) * MONTH_UNITS[name], True
    return round(Decimal(number) * UNITS[name]), False


def _spanned(text: str, first: str, last: str) -> Literal:
    if first == "YEAR":
        found = _YEARS.match(text)
        if found is None:
            raise ValueError
        months = int(found[2]) * 12 + int(found[3])
        return Literal(-months if found[1] == "-" else months, MONTHS)
    sign = -1 if text.strip().startswith("-") else 1
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    names = ["DAY", "HOUR", "MINUTE", "SECOND"]
    units = names[names.index(first) : names.index(last) + 1]
    if len(numbers) != len(units):
        raise ValueError
    return Literal(sign * sum(round(Decimal(n) * UNITS[u]) for n, u in zip(numbers, units, strict=True)), INTERVAL)
