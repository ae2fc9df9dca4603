"""The types of the expression language: Spark's, as Arrow types. Every type belongs to a *kind*.

During evaluation integers are int64 and floats float64, whatever their width; times are int64 microseconds, dates int64
days. Everything else is held by Arrow.
"""

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache, reduce

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
INTERVAL = pa.duration("us")
MONTHS = pa.month_day_nano_interval()  # a constant of years and months
DOUBLE, FLOAT, LONG, INT, STRING = pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.string()
BOOLEAN, BINARY, DATE, NULL = pa.bool_(), pa.binary(), pa.date32(), pa.null()


class ValueKind(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"  # int8 … int64, uint8 … uint32
    FLOAT = "float"  # float32, float64
    STRING = "string"  # string, large_string, string_view, dictionaries of them
    BINARY = "binary"  # binary, large_binary, dictionaries of them
    TIMESTAMP = "timestamp"  # timestamp[us, UTC]
    TIMESTAMP_NTZ = "timestamp_ntz"  # timestamp[us]
    DATE = "date"  # date32
    INTERVAL = "interval"  # duration[us]
    MONTHS = "interval of months"
    DECIMAL = "decimal"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"
    NULL = "null"  # the literal NULL: converts to any other kind
    OTHER = "other"  # a column that can be passed on and tested for null, but not computed with

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of this kind, where there is one; the widest of numbers."""
        return _TYPE[self]


_TYPE = {
    ValueKind.BOOLEAN: BOOLEAN,
    ValueKind.INTEGER: LONG,
    ValueKind.FLOAT: DOUBLE,
    ValueKind.STRING: STRING,
    ValueKind.BINARY: BINARY,
    ValueKind.TIMESTAMP: TIMESTAMP,
    ValueKind.TIMESTAMP_NTZ: TIMESTAMP_NTZ,
    ValueKind.DATE: DATE,
    ValueKind.INTERVAL: INTERVAL,
    ValueKind.MONTHS: MONTHS,
    ValueKind.NULL: NULL,
}
_SINGLE = [kind for kind in _TYPE if kind not in (ValueKind.INTEGER, ValueKind.FLOAT)]

NUMBERS = (ValueKind.INTEGER, ValueKind.FLOAT)
NUMERIC = (*NUMBERS, ValueKind.DECIMAL)
TIMES = (ValueKind.TIMESTAMP, ValueKind.TIMESTAMP_NTZ)
NESTED = (ValueKind.ARRAY, ValueKind.MAP, ValueKind.STRUCT)
# Every other kind is computed in NumPy.
HELD_BY_ARROW = (ValueKind.STRING, ValueKind.BINARY, ValueKind.DECIMAL, *NESTED, ValueKind.MONTHS)


@lru_cache(maxsize=1024)
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
    if pa.types.is_decimal128(type_):
        return ValueKind.DECIMAL
    if pa.types.is_map(type_):
        return ValueKind.MAP
    if pa.types.is_list(type_):
        return ValueKind.ARRAY
    if pa.types.is_struct(type_):
        return ValueKind.STRUCT
    return next((kind for kind in _SINGLE if type_ == kind.type), ValueKind.OTHER)


def logical(type_: pa.DataType) -> pa.DataType:
    """`type_` without its encoding: the column's type from the user's view."""
    if pa.types.is_dictionary(type_):
        return logical(type_.value_type)
    kind = kind_of(type_)
    return kind.type if kind in (ValueKind.STRING, ValueKind.BINARY) else type_


def numpy_dtype(kind: ValueKind) -> np.dtype:
    """The NumPy type of a fixed-width kind during evaluation."""
    if kind is ValueKind.BOOLEAN:
        return np.dtype(np.bool_)
    return np.dtype(np.float64 if kind is ValueKind.FLOAT else np.int64)


# The common type of several values, as Spark's analyzer finds it in ANSI mode -----------------------------------------

_WIDTHS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64())
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
MOST_DIGITS = 38


def common_type(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that values of all these types convert to; None if there is none."""
    found: pa.DataType | None = reduce(
        lambda left, right: None if left is None else _wider(left, right), list(types), NULL
    )
    return found


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    a, b = kind_of(left), kind_of(right)
    if a in NUMERIC and b in NUMERIC:
        return _wider_number(left, right, a, b)
    if ValueKind.STRING in (a, b):
        other, kind = (right, b) if a is ValueKind.STRING else (left, a)
        if kind in NUMERIC:
            return LONG if kind is ValueKind.INTEGER else DOUBLE
        return None if kind in (*NESTED, ValueKind.OTHER) else other
    moments = (*TIMES, ValueKind.DATE)
    if a in moments and b in moments:
        return TIMESTAMP if ValueKind.TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    if a is not b:
        return None
    if a is ValueKind.ARRAY:
        element = _wider(left.value_type, right.value_type)
        return None if element is None else pa.list_(element)
    if a is ValueKind.MAP:
        key, item = _wider(left.key_type, right.key_type), _wider(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if a is ValueKind.STRUCT and left.num_fields == right.num_fields:
        types = [_wider(one.type, other.type) for one, other in zip(left, right, strict=True)]
        return None if None in types else pa.struct([pa.field(f.name, t) for f, t in zip(left, types, strict=True)])
    return None


def _wider_number(left: pa.DataType, right: pa.DataType, a: ValueKind, b: ValueKind) -> pa.DataType:
    if a is b is ValueKind.INTEGER:
        return max(left, right, key=_WIDTHS.index)
    if ValueKind.FLOAT in (a, b):
        return FLOAT if left == right == FLOAT else DOUBLE
    one, other = decimal_of(left), decimal_of(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return pa.decimal128(min(whole + scale, MOST_DIGITS), min(scale, MOST_DIGITS))


def decimal_of(type_: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    if kind_of(type_) is ValueKind.DECIMAL:
        return type_
    width = type_.bit_width * (1 if pa.types.is_signed_integer(type_) else 2)
    return pa.decimal128(_DIGITS[min(width, 64)], 0)
