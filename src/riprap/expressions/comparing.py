"""Comparing values that Arrow holds: text and bytes by Arrow, decimals, arrays and structs as their bytes sort.

In Spark's order NULL is least, NaN is greatest, and -0.0 is 0.0.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import ValueKind, kind_of
from riprap.expressions.row_values import is_list, values_of
from riprap.expressions.typed import Compute

_ARROW = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_BY_ARROW = (ValueKind.STRING, ValueKind.BINARY, ValueKind.DECIMAL, ValueKind.BOOLEAN, ValueKind.DATE)


def key_of(value: Any) -> Any:
    """A value that compares as Spark compares: for sorting, equality and distinctness."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, value != value, 0.0 if value != value else value + 0.0)
    if isinstance(value, list):
        return (1, [key_of(each) for each in value])
    if isinstance(value, tuple):
        return (1, tuple([key_of(each) for each in value]))
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


def hashable(value: Any) -> Any:
    """As `key_of`, and hashable."""
    key = key_of(value)
    return _frozen(key)


def _frozen(key: Any) -> Any:
    return tuple(map(_frozen, key)) if isinstance(key, (list, tuple)) else key


def comparing(symbol: str, type_: pa.DataType) -> Compute:
    """Compare two arrays of this type; `<=>` is true for two NULLs and never NULL."""
    simple = kind_of(type_) in _BY_ARROW

    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        if symbol != "<=>":
            return _ARROW[symbol](left, right) if simple else _compared(symbol, left, right)
        equal = (pc.equal(left, right) if simple else _compared("=", left, right)).fill_null(False)
        return pc.or_(equal, pc.and_(left.is_null(), right.is_null()))

    return compute


def _compared(symbol: str, left: pa.Array, right: pa.Array) -> pa.Array:
    signs: list[int | None] = []
    for one, other in zip(values_of(left), values_of(right), strict=True):
        if one is None or other is None:
            signs.append(None)
            continue
        a, b = key_of(one), key_of(other)
        signs.append((a > b) - (a < b))
    return _ARROW[symbol](pa.array(signs, pa.int8()), pa.scalar(0, pa.int8()))


def extreme_of(name: str, type_: pa.DataType) -> Compute:
    """The least or greatest value of each row that is not NULL."""

    def compute(*arrays: pa.Array) -> pa.Array:
        best = arrays[0]
        for other in arrays[1:]:
            better = comparing("<" if name == "LEAST" else ">", type_)(other, best).fill_null(False)
            better = pc.or_(better, best.is_null()).to_numpy(zero_copy_only=False)
            better &= other.is_valid().to_numpy(zero_copy_only=False)
            best = chosen(better, other, best)
        return best

    return compute


def chosen(condition: np.ndarray, yes: pa.Array, no: pa.Array) -> pa.Array:
    """Rows of `yes` where the condition is true, else of `no`."""
    if is_list(yes.type) or pa.types.is_map(yes.type) or pa.types.is_struct(yes.type):
        rows = np.arange(len(no)) + np.where(condition, 0, len(yes))
        return pa.concat_arrays([yes, no]).take(pa.array(rows))
    return pc.if_else(pa.array(condition), yes, no)
