"""The types of the expression language, and which Arrow types they are read from.

A *kind* is what typing rules speak of: every integer width is one kind, every encoding of strings is one kind. While
an expression is computed, integers are int64 and floats float64, whatever width their columns have.
"""

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
INTERVAL = pa.duration("us")


class Kind(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"  # int8 … int64, uint8 … uint32
    FLOAT = "float"  # float32, float64
    STRING = "string"  # string, large_string, string_view, dictionaries of them
    BINARY = "binary"  # binary, large_binary, dictionaries of them
    TIMESTAMP = "timestamp"  # timestamp[us, UTC]
    DATE = "date"  # date32
    INTERVAL = "interval"  # duration[us]
    NULL = "null"  # the literal NULL: fits wherever any other kind does
    OTHER = "other"  # a column that can be passed on and tested for null, but not computed with

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a computed result of this kind."""
        return _RESULT[self]


_RESULT = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.DATE: pa.date32(),
    Kind.INTERVAL: INTERVAL,
    Kind.NULL: pa.null(),
}

NUMBERS = (Kind.INTEGER, Kind.FLOAT)
HELD_BY_ARROW = (Kind.STRING, Kind.BINARY)  # variable width; every other kind is computed in NumPy


@lru_cache(maxsize=256)
def kind_of(type_: pa.DataType) -> Kind:
    if pa.types.is_dictionary(type_):
        inner = kind_of(type_.value_type)
        return inner if inner in HELD_BY_ARROW else Kind.OTHER
    if pa.types.is_integer(type_):
        return Kind.OTHER if pa.types.is_uint64(type_) else Kind.INTEGER
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        return Kind.FLOAT
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return Kind.STRING
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return Kind.BINARY
    for kind in (Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL, Kind.NULL):
        if type_ == kind.type:
            return kind
    return Kind.OTHER


def logical(type_: pa.DataType) -> pa.DataType:
    """`type_` without its encoding: what a user would call the column's type."""
    kind = kind_of(type_)
    return kind.type if kind in HELD_BY_ARROW else type_


def numpy_dtype(kind: Kind) -> np.dtype:
    """How values of a fixed-width kind are held while an expression is computed."""
    if kind is Kind.BOOLEAN:
        return np.dtype(np.bool_)
    return np.dtype(np.float64 if kind is Kind.FLOAT else np.int64)


def common(kinds: Iterable[Kind]) -> Kind | None:
    """The one kind that all of `kinds` can be computed as; None when there is none. Integers widen to floats."""
    found = set(kinds) - {Kind.NULL}
    if found == set(NUMBERS):
        return Kind.FLOAT
    if len(found) > 1 or Kind.OTHER in found:
        return None
    return found.pop() if found else Kind.NULL
