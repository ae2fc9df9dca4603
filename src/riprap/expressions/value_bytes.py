"""Decimals, arrays, maps and structs as bytes, for state, hashes and channels, which hold words and bytes only.

Equal values have equal bytes, and bytes sort as Spark sorts the values: NULL first, numbers by value (NaN above all),
text by its bytes, arrays element by element, structs field by field. A value of

    boolean, integer, time   8 bytes, big-endian, with the sign bit inverted
    float                    8 bytes: its bits, inverted if it is negative, else with the sign bit inverted
    decimal                  16 bytes: its unscaled value plus 2¹²⁷, big-endian
    text, bytes              its bytes, 00 as 00 FF; then 00 00
    array, map               01 and the element (key, value) for each; then 00
    struct                   its fields

is preceded by 01, or is 00 alone if it is NULL and inside another value. The schema tells types and scales.
"""

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions.row_values import array_of, is_list, is_nested, values_of

_WORD, _FLOAT = struct.Struct(">Q"), struct.Struct(">d")
_SIGN, _ALL = 1 << 63, (1 << 64) - 1
_MIDDLE = 1 << 127
_WIDE = Context(prec=80)  # a decimal of 38 digits is exact in it
_ESCAPED = (b"\x00", b"\x00\xff")
_END = b"\x00\x00"

_Write = Callable[[Any], bytes]
_Read = Callable[[bytes, int], tuple[Any, int]]  # the value at a place, and the place behind it


def has_own_bytes(type_: pa.DataType) -> bool:
    """Whether values of this type are held as bytes in state."""
    return bool(pa.types.is_decimal(type_)) or is_nested(type_)


def to_bytes(array: pa.Array) -> pa.Array:
    """The bytes of every value; NULL stays NULL."""
    write = _writer(array.type)
    return pa.array([None if value is None else write(value) for value in values_of(array)], pa.binary())


def from_bytes(encoded: pa.Array, type_: pa.DataType, *, others: bool = False) -> pa.Array:
    """The inverse of `to_bytes`. `others`: bytes that are no value of this type become NULL, else they are an error."""
    read, values = _reader(type_), []
    for data in encoded.to_pylist():
        try:
            value, end = (None, 0) if data is None else read(data, 0)
            if data is not None and (end != len(data) or others):
                if end != len(data):
                    raise IndexError
                array_of([value], type_)  # a value may be out of the type's range
            values.append(value)
        except (IndexError, ValueError, struct.error, OverflowError, pa.ArrowException):
            if not others:
                raise DataError(f"bytes that are not a value of type {type_}") from None
            values.append(None)
    try:
        return array_of(values, type_)
    except (ValueError, OverflowError, pa.ArrowException):
        raise DataError(f"bytes that are not a value of type {type_}") from None


@lru_cache(maxsize=256)
def _writer(type_: pa.DataType) -> _Write:
    if pa.types.is_decimal(type_):
        scale = type_.scale
        return lambda value: (int(_WIDE.scaleb(value, scale)) + _MIDDLE).to_bytes(16, "big")
    if pa.types.is_floating(type_):
        return _written_float
    if pa.types.is_map(type_):
        key, item = _optional(type_.key_type), _optional(type_.item_type)
        return lambda pairs: b"".join(b"\x01" + key(k) + item(v) for k, v in pairs) + b"\x00"
    if is_list(type_):
        element = _optional(type_.value_type)
        return lambda values: b"".join(b"\x01" + element(value) for value in values) + b"\x00"
    if pa.types.is_struct(type_):
        fields = [_optional(field.type) for field in type_]
        return lambda row: b"".join(field(value) for field, value in zip(fields, row, strict=True))
    if pa.types.is_string(type_):
        return lambda text: text.encode().replace(*_ESCAPED) + _END  # type: ignore[no-any-return]
    if pa.types.is_binary(type_):
        return lambda data: data.replace(*_ESCAPED) + _END  # type: ignore[no-any-return]
    return lambda number: _WORD.pack((int(number) + _SIGN) & _ALL)


def _optional(type_: pa.DataType) -> _Write:
    write = _writer(type_)
    return lambda value: b"\x00" if value is None else b"\x01" + write(value)


def _written_float(value: float) -> bytes:
    if value != value:
        return b"\xff" * 8
    bits = int.from_bytes(_FLOAT.pack(value), "big")
    return _WORD.pack(~bits & _ALL if bits & _SIGN else bits | _SIGN)


@lru_cache(maxsize=256)
def _reader(type_: pa.DataType) -> _Read:
    if pa.types.is_decimal(type_):
        scale = type_.scale
        return lambda data, at: (_decimal(data[at : at + 16], scale), at + 16)
    if pa.types.is_floating(type_):
        return _read_float
    if pa.types.is_map(type_):
        return _sequence(_pair(type_))
    if is_list(type_):
        return _sequence(_reader_of_optional(type_.value_type))
    if pa.types.is_struct(type_):
        fields = [_reader_of_optional(field.type) for field in type_]

        def read_row(data: bytes, at: int) -> tuple[Any, int]:
            row = []
            for field in fields:
                value, at = field(data, at)
                row.append(value)
            return tuple(row), at

        return read_row
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _text(decode=bool(pa.types.is_string(type_)))
    if pa.types.is_boolean(type_):
        return lambda data, at: (bool(_WORD.unpack_from(data, at)[0] - _SIGN), at + 8)
    return lambda data, at: (_WORD.unpack_from(data, at)[0] - _SIGN, at + 8)


def _decimal(data: bytes, scale: int) -> Decimal:
    if len(data) != 16:
        raise IndexError
    return _WIDE.scaleb(Decimal(int.from_bytes(data, "big") - _MIDDLE), -scale)


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    (bits,) = _WORD.unpack_from(data, at)
    if bits == _ALL:
        return float("nan"), at + 8
    bits = bits & ~_SIGN if bits & _SIGN else ~bits & _ALL
    return _FLOAT.unpack(_WORD.pack(bits))[0], at + 8


def _reader_of_optional(type_: pa.DataType) -> _Read:
    read = _reader(type_)
    return lambda data, at: read(data, at + 1) if data[at] else (None, at + 1)


def _pair(type_: pa.DataType) -> _Read:
    key, item = _reader_of_optional(type_.key_type), _reader_of_optional(type_.item_type)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        k, at = key(data, at)
        v, at = item(data, at)
        return (k, v), at

    return read


def _sequence(element: _Read) -> _Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = []
        while data[at]:
            value, at = element(data, at + 1)
            values.append(value)
        return values, at + 1

    return read


def _text(*, decode: bool) -> _Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = data.index(_END, at)
        while data[end : end + 3] == b"\x00\x00\xff":  # the text ends with an escaped 00
            end = data.index(_END, end + 1)
        raw = data[at:end].replace(_ESCAPED[1], _ESCAPED[0])
        return (raw.decode() if decode else raw), end + 2

    return read


def distinct(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """A number for each row, and the distinct values that the numbers count; no row may be NULL."""
    encoded = to_bytes(array).dictionary_encode()
    codes = encoded.indices.to_numpy()
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, array.take(pa.array(first))
