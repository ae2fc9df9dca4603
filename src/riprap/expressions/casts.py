"""CAST. A value that does not fit the target type, or a string that cannot be parsed, is an error, never NULL."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import NUMBERS, TIMESTAMP, ValueKind, kind_of
from riprap.expressions.typed import EvaluationError, Kernel, Mismatch, Typed
from riprap.expressions.vectors import Vector, to_arrow

# Casts among numbers, times and booleans; `code_writer.py` implements them.
_COMPUTED = {
    *((source, target) for source in (*NUMBERS, ValueKind.BOOLEAN) for target in (*NUMBERS, ValueKind.BOOLEAN)),
    (ValueKind.TIMESTAMP, ValueKind.DATE),
    (ValueKind.DATE, ValueKind.TIMESTAMP),
}
_WRITTEN = (ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.TIMESTAMP, ValueKind.DATE)
_ZONED = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"


def cast(operand: Typed, target: pa.DataType) -> Typed:
    source, kind = operand.kind, kind_of(target)
    if source is ValueKind.NULL:
        return Typed(target, True)
    if (source, kind) in _COMPUTED or source is kind:
        return Typed(target, operand.nullable)
    if source is ValueKind.STRING:
        return Typed(target, operand.nullable, kernel=_read(target))
    if kind is ValueKind.STRING and source in _WRITTEN:
        return Typed(target, operand.nullable, kernel=_write(operand.type))
    raise Mismatch(f"cannot CAST {operand} to {target}")


def _read(target: pa.DataType) -> Kernel:
    """Parse strings; surrounding spaces are ignored."""

    def convert(texts: Any, valid: Any) -> Any:
        strings = pc.utf8_trim(texts, " ")
        try:
            return _moments(strings) if target == TIMESTAMP else strings.cast(target)
        except pa.ArrowInvalid as error:
            raise EvaluationError(str(error)) from None

    return convert


def _moments(strings: Any) -> Any:
    """Times without a zone are UTC."""
    zoned = pc.match_substring_regex(strings, _ZONED)
    nothing = pa.scalar(None, pa.string())
    stated = pc.if_else(zoned, strings, nothing).cast(TIMESTAMP)
    assumed = pc.if_else(zoned, nothing, strings).cast(pa.timestamp("us")).cast(pa.int64()).cast(TIMESTAMP)
    return pc.coalesce(stated, assumed)


def _write(source: pa.DataType) -> Kernel:
    def convert(values: Any, valid: Any) -> Any:
        shape = np.broadcast(values, True if valid is None else valid).shape
        strings = to_arrow(Vector(values, valid), source, *(shape or (1,))).cast(pa.string())
        return strings if shape else strings[0]

    return convert
