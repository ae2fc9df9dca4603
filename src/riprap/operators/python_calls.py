"""Calls of the user's Python functions: conversion of values as in PySpark, errors in one sentence, and the check that
a function does not depend on where batches end.
"""

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.operators.columns import concatenated

if TYPE_CHECKING:
    import pandas as pd

_CHECKED = 64  # of so many batches one is checked, beginning with the first


class Checks:
    """Which batches are cut in two and computed again. It is no state: output does not depend on it."""

    def __init__(self, what: str) -> None:
        self.what = what  # operator and function, for errors
        self._calls = 0

    def due(self, rows: int) -> bool:
        self._calls += rows > 1
        return rows > 1 and self._calls % _CHECKED == 1

    def compare(self, whole: pa.Array | pa.RecordBatch, parts: list[pa.Array | pa.RecordBatch]) -> None:
        columns = [_columns(part) for part in parts]
        expected = [[value for part in columns for value in part[place]] for place in range(len(columns[0]))]
        if repr(_columns(whole)) != repr(expected):  # as text, so that NaN equals NaN
            raise DataError(
                f"{self.what} depends on where batches end: it gave other rows for a batch than for its two halves; "
                "Spark cuts batches anywhere, so compute each row from itself alone, or keep state per key"
            )


def _columns(part: pa.Array | pa.RecordBatch) -> list[list[Any]]:
    """Values by column; dates and times as numbers, as Python's ranges are smaller than Arrow's."""
    arrays = part.columns if isinstance(part, pa.RecordBatch) else [part]
    words = {True: pa.int64(), False: pa.int32()}
    return [
        (array.view(words[pa.types.is_timestamp(array.type)]) if _moment(array.type) else array).to_pylist()
        for array in arrays
    ]


def _moment(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


def called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; its exceptions become one sentence with its file and line."""
    try:
        return function(*arguments)
    except DataError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise DataError(f"{what} raised {type(error).__name__}: {error} ({at.filename}:{at.lineno})") from error


def plain(array: pa.Array) -> pa.Array:
    """Without a dictionary; times without a zone, in UTC, as Python functions see them in Spark."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit))
    return array


def to_series(array: pa.Array) -> "pd.Series":
    return plain(array).to_pandas(date_as_object=True)


def from_series(what: str, values: Any, type_: pa.DataType, name: str) -> pa.Array:
    """An Arrow column of the declared type; NaN and NaT are null, as in Spark."""
    naive = pa.timestamp(type_.unit) if pa.types.is_timestamp(type_) and type_.tz is not None else type_
    try:
        if hasattr(values, "dtype") and getattr(values.dtype, "tz", None) is not None:
            return pa.Array.from_pandas(values, type=type_)
        array = pa.Array.from_pandas(values, type=naive)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"{what} returned what is not {type_} for column {name}: {str(error).splitlines()[0]}"
        ) from error
    return array.cast(type_) if naive != type_ else array


def from_values(what: str, values: list[Any], type_: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{what} returned what is not {type_} for column {name}: {str(error).splitlines()[0]}"
        ) from error


def from_array(what: str, values: Any, type_: pa.DataType, name: str) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = concatenated(values.chunks) if values.num_chunks else pa.array([], values.type)
    if not isinstance(values, pa.Array):
        raise DataError(f"{what} returned {type(values).__name__} for column {name}; it has to be an Arrow array")
    try:
        return values if values.type == type_ else values.cast(type_)
    except pa.ArrowException as error:
        raise DataError(
            f"{what} returned what is not {type_} for column {name}: {str(error).splitlines()[0]}"
        ) from error
