"""CAST in ANSI mode: a value that does not fit the target type, or text that does not read as it, is an error;
TRY_CAST gives NULL for it.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riprap.expressions import formats
from riprap.expressions.decimals import fitted, shortest_single
from riprap.expressions.kinds import (
    FLOAT,
    NUMBERS,
    NUMERIC,
    TIMES,
    ValueKind,
    kind_of,
)
from riprap.expressions.moments import MICROSECONDS_A_DAY
from riprap.expressions.row_values import array_of, values_of
from riprap.expressions.type_names import name_of
from riprap.expressions.typed import Compute, EvaluationError, Mismatch, Typed

_Convert = Callable[[Any], Any]

# Casts among numbers, times and booleans that `code_writer.py` implements.
WRITTEN = {
    *((source, target) for source in (*NUMBERS, ValueKind.BOOLEAN) for target in (*NUMBERS, ValueKind.BOOLEAN)),
    *((time, ValueKind.DATE) for time in TIMES),
    *((ValueKind.DATE, time) for time in TIMES),
    *((time, other) for time in TIMES for other in TIMES),
}
_FROM_TEXT = (ValueKind.BOOLEAN, *NUMERIC, *TIMES, ValueKind.DATE, ValueKind.BINARY)


def cast(operand: Typed, target: pa.DataType, *, trying: bool = False) -> Typed:
    source, kind = operand.kind, kind_of(target)
    if not castable(operand.type, target):
        raise Mismatch(f"cannot CAST {operand} to {name_of(target)}")
    if source is ValueKind.NULL:
        return Typed(target, True)
    if operand.type == target:
        return Typed(target, operand.nullable)
    if (source, kind) in WRITTEN and not trying:
        return Typed(target, operand.nullable)
    lost = trying or (source is ValueKind.FLOAT and kind is ValueKind.DECIMAL)
    return Typed(target, operand.nullable or lost, compute=casting(operand.type, target, trying=trying))


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    a, b = kind_of(source), kind_of(target)
    if source == target or a is ValueKind.NULL:
        return b is not ValueKind.OTHER or source == target
    if b is ValueKind.STRING:
        return a is not ValueKind.OTHER
    if a is ValueKind.STRING:
        return b in _FROM_TEXT
    if (a, b) in WRITTEN:
        return True
    if a in (*NUMERIC, ValueKind.BOOLEAN) and b in (*NUMERIC, ValueKind.BOOLEAN):
        return True
    if (a in NUMERIC and b is ValueKind.TIMESTAMP) or (a is ValueKind.TIMESTAMP and b in NUMERIC):
        return True
    if a is b is ValueKind.ARRAY:
        return castable(source.value_type, target.value_type)
    if a is b is ValueKind.MAP:
        return castable(source.key_type, target.key_type) and castable(source.item_type, target.item_type)
    if a is b is ValueKind.STRUCT and source.num_fields == target.num_fields:
        return all(castable(one.type, other.type) for one, other in zip(source, target, strict=True))
    return False


def casting(source: pa.DataType, target: pa.DataType, *, trying: bool = False) -> Compute:
    """A cast of whole arrays; `trying`: NULL where it would fail."""
    convert = converter(source, target)

    def compute(array: pa.Array) -> pa.Array:
        results: list[Any] = []
        for row, value in enumerate(values_of(array)):
            try:
                results.append(None if value is None else convert(value))
            except EvaluationError as failure:
                if not trying:
                    failure.row = row
                    raise
                results.append(None)
        return array_of(results, target)

    return compute


@lru_cache(maxsize=1024)
def converter(source: pa.DataType, target: pa.DataType) -> _Convert:
    """From a value of one type to the value of another."""
    a, b = kind_of(source), kind_of(target)
    if source == target:
        return lambda value: value
    if a is ValueKind.NULL:
        return lambda value: None
    if b is ValueKind.STRING:
        return formats.writer(source)
    if a is ValueKind.STRING:
        return _reading(target)
    if a in (ValueKind.ARRAY, ValueKind.MAP, ValueKind.STRUCT):
        return _nested(source, target)
    if b is ValueKind.TIMESTAMP and a in NUMERIC:
        return lambda value: _instant(value, a)
    if a is ValueKind.TIMESTAMP and b in NUMERIC:
        return lambda value: _number(_seconds(value, b), target)
    if b is ValueKind.DATE:
        return lambda value: value // MICROSECONDS_A_DAY
    if a is ValueKind.DATE:
        return lambda value: value * MICROSECONDS_A_DAY
    if a in TIMES:
        return lambda value: value
    if b is ValueKind.BOOLEAN:
        return bool
    return lambda value: _number(shortest(value, source) if b is ValueKind.DECIMAL else value, target)


def shortest(value: Any, source: pa.DataType) -> Any:
    """A float as the decimal that its text has; None for NaN and infinities."""
    if not isinstance(value, float):
        return value
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return Decimal(shortest_single(value) if source == FLOAT else repr(value))


def _instant(value: Any, kind: ValueKind) -> int:
    if kind is ValueKind.FLOAT and (value != value or value in (float("inf"), float("-inf"))):
        raise EvaluationError(f"{formats.double_text(value)} does not fit timestamp")
    micros = int(value * 1_000_000)
    if not -(2**63) <= micros < 2**63:
        if kind is ValueKind.INTEGER:
            return 2**63 - 1 if micros > 0 else -(2**63)
        raise EvaluationError(f"{value} seconds do not fit timestamp")
    return micros


def _seconds(micros: int, kind: ValueKind) -> Any:
    if kind is ValueKind.INTEGER:
        return micros // 1_000_000
    return Decimal(micros).scaleb(-6) if kind is ValueKind.DECIMAL else micros / 1_000_000


def _number(value: Any, target: pa.DataType) -> Any:
    """A boolean or number as a number of another type."""
    if value is None:
        return None
    kind = kind_of(target)
    if kind is ValueKind.DECIMAL:
        return fitted(Decimal(value), target)
    if kind is ValueKind.FLOAT:
        return float(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise EvaluationError(f"{formats.double_text(value)} does not fit {name_of(target)}")
    whole = int(value)
    limit = 1 << (target.bit_width - 1)
    if not -limit <= whole < limit:
        raise EvaluationError(f"{value} does not fit {name_of(target)}")
    return whole


def _reading(target: pa.DataType) -> _Convert:
    kind = kind_of(target)
    read: dict[ValueKind, _Convert] = {
        ValueKind.BOOLEAN: formats.read_boolean,
        ValueKind.INTEGER: lambda text: _number(formats.read_whole(text), target),
        ValueKind.FLOAT: formats.read_real,
        ValueKind.DECIMAL: lambda text: fitted(formats.read_decimal(text), target),
        ValueKind.DATE: formats.read_date,
        ValueKind.TIMESTAMP: formats.read_timestamp,
        ValueKind.TIMESTAMP_NTZ: lambda text: formats.read_timestamp(text, zone=False),
        ValueKind.BINARY: str.encode,
    }

    def convert(text: str) -> Any:
        try:
            return read[kind](text)
        except formats.NotReadable:
            raise EvaluationError(f"{text!r} is not a {name_of(target)} (TRY_CAST gives NULL for it)") from None

    return convert


def _nested(source: pa.DataType, target: pa.DataType) -> _Convert:
    kind = kind_of(source)
    if kind is ValueKind.ARRAY:
        element = _or_null(converter(source.value_type, target.value_type))
        return lambda values: [element(value) for value in values]
    if kind is ValueKind.MAP:
        key = converter(source.key_type, target.key_type)
        item = _or_null(converter(source.item_type, target.item_type))
        return lambda pairs: [(key(k), item(v)) for k, v in pairs]
    fields = [_or_null(converter(one.type, other.type)) for one, other in zip(source, target, strict=True)]
    return lambda row: tuple(convert(value) for convert, value in zip(fields, row, strict=True))


def _or_null(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)
