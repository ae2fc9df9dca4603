"""The types of the expression language, and the Arrow types that they are read from.

Typing rules are defined on *kinds*: all integer widths are one kind, and so are all encodings of strings. During
evaluation integers are int64 and floats float64, whatever the width of their columns.
"""

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
INTERVAL = pa.duration("us")


class ValueKind(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"  # int8 … int64, uint8 … uint32
    FLOAT = "float"  # float32, float64
    STRING = "string"  # string, large_string, string_view, dictionaries of them
    BINARY = "binary"  # binary, large_binary, dictionaries of them
    TIMESTAMP = "timestamp"  # timestamp[us, UTC]
    DATE = "date"  # date32
    INTERVAL = "interval"  # duration[us]
    NULL = "null"  # the literal NULL: converts to any other kind
    OTHER = "other"  # a column that can be passed on and tested for null, but not computed with

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a computed result of this kind."""
        return _RESULT[self]


_RESULT = {
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.FLOAT: pa.float64(),
    ValueKind.STRING: pa.string(),
    ValueKind.BINARY: pa.binary(),
    ValueKind.TIMESTAMP: TIMESTAMP,
    ValueKind.DATE: pa.date32(),
    ValueKind.INTERVAL: INTERVAL,
    ValueKind.NULL: pa.null(),
}

NUMBERS = (ValueKind.INTEGER, ValueKind.FLOAT)
HELD_BY_ARROW = (ValueKind.STRING, ValueKind.BINARY)  # variable width; every other kind is computed in NumPy


@lru_cache(maxsize=256)
def kind_of(type_: pa.DataType) -> ValueKind:
    if pa.types.is_dictionary(type_):
        inner = kind_of(type_.value_type)
        return inner if inner in HELD_BY_ARROW else ValueKind.OTHER
    if pa.types.is_integer(type_):
        return ValueKind.OTHER if pa.types.is_uint64(type_) else ValueKind.INTEGER
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        return ValueKind.FLOAT
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return ValueKind.STRING
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return ValueKind.BINARY
    for kind in (ValueKind.BOOLEAN, ValueKind.TIMESTAMP, ValueKind.DATE, ValueKind.INTERVAL, ValueKind.NULL):
        if type_ == kind.type:
            return kind
    return ValueKind.OTHER


def logical(type_: pa.DataType) -> pa.DataType:
    """`type_` without its encoding: the column's type from the user's view."""
    kind = kind_of(type_)
    return kind.type if kind in HELD_BY_ARROW else type_


def numpy_dtype(kind: ValueKind) -> np.dtype:
    """The NumPy type of a fixed-width kind during evaluation."""
    if kind is ValueKind.BOOLEAN:
        return np.dtype(np.bool_)
    return np.dtype(np.float64 if kind is ValueKind.FLOAT else np.int64)


def common(kinds: Iterable[ValueKind]) -> ValueKind | None:
    """The kind that all of `kinds` convert to; None if there is none. Integers widen to floats."""
    found = set(kinds) - {ValueKind.NULL}
    if found == set(NUMBERS):
        return ValueKind.FLOAT
    if len(found) > 1 or ValueKind.OTHER in found:
        return None
    return found.pop() if found else ValueKind.NULL
