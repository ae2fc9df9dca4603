"""CAST. A value that the target cannot hold, or a string that does not read as one, is an error, never a NULL."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.arithmetic import multiply
from riprap.expressions.kinds import TIMESTAMP, Kind, kind_of
from riprap.expressions.moments import MICROSECONDS_A_DAY
from riprap.expressions.typed import Mismatch, Typed, as_kind
from riprap.expressions.vectors import Failure, Vector, boolean, from_arrow, to_arrow

Conversion = Callable[[Vector], Vector]


def cast(operand: Typed, target: pa.DataType) -> Typed:
    source, kind = operand.kind, kind_of(target)
    if source is Kind.NULL:
        return Typed(target, True, as_kind(operand, kind).run)
    conversion = _conversion(operand, target)
    if conversion is None:
        raise Mismatch(f"cannot CAST {operand} to {target}")
    run = operand.run
    return Typed(target, operand.nullable, lambda batch: conversion(run(batch)))


def _conversion(operand: Typed, target: pa.DataType) -> Conversion | None:
    source, kind = operand.kind, kind_of(target)
    match source, kind:
        case (Kind.INTEGER, Kind.INTEGER):
            return _fit(target)
        case (Kind.FLOAT, Kind.INTEGER):
            return _truncate(target)
        case (Kind.INTEGER | Kind.FLOAT, Kind.FLOAT):
            dtype = target.to_pandas_dtype()
            return lambda vector: Vector(vector.values.astype(dtype).astype(np.float64), vector.valid)
        case (Kind.BOOLEAN, Kind.INTEGER | Kind.FLOAT):
            dtype = np.int64 if kind is Kind.INTEGER else np.float64
            return lambda vector: Vector(vector.values.astype(dtype), vector.valid)
        case (Kind.INTEGER | Kind.FLOAT, Kind.BOOLEAN):
            return lambda vector: boolean(vector.values != 0, vector.valid)
        case (Kind.TIMESTAMP, Kind.DATE):
            return lambda vector: Vector(vector.values // MICROSECONDS_A_DAY, vector.valid)
        case (Kind.DATE, Kind.TIMESTAMP):
            day = Vector(np.int64(MICROSECONDS_A_DAY))
            return lambda vector: multiply(vector, day)
        case (Kind.STRING, _) if kind is not Kind.STRING:
            return _read(target)
        case (_, Kind.STRING) if source in _WRITTEN:
            return _write(operand.type)
        case _ if source is kind:
            return lambda vector: vector
    return None


_WRITTEN = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.TIMESTAMP, Kind.DATE)


def _check(vector: Vector, fits: Any, target: pa.DataType) -> None:
    wrong = ~fits if vector.valid is None else ~fits & vector.valid
    if np.any(wrong):
        value = np.broadcast_to(vector.values, np.shape(wrong))[wrong].flat[0]
        raise Failure(f"{value} does not fit {target}")


def _fit(target: pa.DataType) -> Conversion:
    limits = np.iinfo(target.to_pandas_dtype())

    def convert(vector: Vector) -> Vector:
        if limits.bits < 64:
            _check(vector, (vector.values >= limits.min) & (vector.values <= limits.max), target)
        return vector

    return convert


def _truncate(target: pa.DataType) -> Conversion:
    """Towards zero."""
    limits = np.iinfo(target.to_pandas_dtype())
    # Exclusive bounds are exact floats where the greatest int64 is not.
    low, high = float(limits.min) - 1.0, float(limits.max) + 1.0

    def convert(vector: Vector) -> Vector:
        whole = np.trunc(vector.values)
        fits = (whole >= limits.min) & (whole < high) if limits.bits == 64 else (whole > low) & (whole < high)
        _check(vector, fits, target)
        return Vector(np.where(fits, whole, 0.0)[()].astype(np.int64), vector.valid)

    return convert


_ZONED = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"


def _read(target: pa.DataType) -> Conversion:
    """Strings as values; spaces around them do not matter."""

    def convert(vector: Vector) -> Vector:
        strings = pc.utf8_trim(vector.values, " ")
        try:
            return from_arrow(_moments(strings) if target == TIMESTAMP else strings.cast(target))
        except pa.ArrowInvalid as error:
            raise Failure(str(error)) from None

    return convert


def _moments(strings: Any) -> Any:
    """Times that state no zone are UTC."""
    zoned = pc.match_substring_regex(strings, _ZONED)
    nothing = pa.scalar(None, pa.string())
    stated = pc.if_else(zoned, strings, nothing).cast(TIMESTAMP)
    assumed = pc.if_else(zoned, nothing, strings).cast(pa.timestamp("us")).cast(pa.int64()).cast(TIMESTAMP)
    return pc.coalesce(stated, assumed)


def _write(source: pa.DataType) -> Conversion:
    def convert(vector: Vector) -> Vector:
        rows = np.size(vector.values)
        strings = to_arrow(vector, source, rows).cast(pa.string())
        return from_arrow(strings if np.ndim(vector.values) else strings[0])

    return convert
