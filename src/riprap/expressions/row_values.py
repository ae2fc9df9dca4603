"""Values of Arrow columns as Python objects, one per row, and back.

NULL is None. Times are whole microseconds since 1970, dates whole days, intervals whole microseconds; decimals are
`Decimal`, arrays lists, maps lists of (key, value) pairs in their order, structs tuples in the order of their fields.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa


def values_of(array: pa.Array) -> list[Any]:
    """One value per row."""
    type_ = array.type
    if isinstance(array, pa.DictionaryArray):
        distinct = values_of(array.dictionary)
        return [None if code is None else distinct[code] for code in array.indices.to_pylist()]
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date32(type_):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_map(type_):
        pairs = list(zip(values_of(array.keys), values_of(array.items), strict=True))
        return _cut(array, pairs)
    if is_list(type_):
        return _cut(array, values_of(array.values))
    if pa.types.is_struct(type_):
        fields = [values_of(array.field(place)) for place in range(type_.num_fields)]
        rows: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * len(array)
        if array.null_count:
            rows = [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
        return rows
    return array.to_pylist()  # type: ignore[no-any-return]


def _cut(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    rows: list[Any] = [values[start:stop] for start, stop in pairwise(offsets)]
    if array.null_count:
        rows = [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return rows


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """The inverse of `values_of`."""
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_map(type_):
        flat = [pair for row in values if row is not None for pair in row]
        keys = array_of([key for key, _ in flat], type_.key_type)
        items = array_of([item for _, item in flat], type_.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[type_.key_field, type_.item_field])
        return _nested(type_, values, entries)
    if is_list(type_):
        flat = [value for row in values if row is not None for value in row]
        return _nested(type_, values, array_of(flat, type_.value_type))
    if pa.types.is_struct(type_):
        fields = [
            array_of([None if row is None else row[place] for row in values], type_.field(place).type)
            for place in range(type_.num_fields)
        ]
        missing = pa.array([row is None for row in values], pa.bool_())
        if not fields:
            return pa.array([None if row is None else {} for row in values], type_)
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=missing)
    return pa.array(values, type_)


def _nested(type_: pa.DataType, rows: Sequence[Any], children: pa.Array) -> pa.Array:
    """A list or map array: the rows' lengths and its children."""
    import numpy as np

    lengths = np.array([0 if row is None else len(row) for row in rows], np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    bitmap = None
    if any(row is None for row in rows):
        bitmap = pa.py_buffer(np.packbits([row is not None for row in rows], bitorder="little"))
    return pa.Array.from_buffers(type_, len(rows), [bitmap, pa.py_buffer(offsets)], children=[children])


def is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_))


def is_nested(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_map(type_) or pa.types.is_struct(type_))
