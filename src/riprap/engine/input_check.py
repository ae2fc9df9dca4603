"""A quick check whether a file can be the input of a source: columns, types, rows, and order in a sample.

Reads the schema and the times: all of them if the file is small, else a sample that is spread over the file. Rows
outside of the sample can still be out of order; `Keyer` checks every row when it is read.
"""

import os

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.engine.inputs import BATCH_ROWS, Keyer, count_rows, file_schema, read_file, times_of_input
from riprap.graph.order_keys import SEQ, TS
from riprap.graph.specs import Source

_FEW = 2_000_000  # rows up to which all times are checked
_SAMPLES = 8  # batches that are checked in larger files


def check_input(path: str | os.PathLike[str], source: Source) -> None:
    """Raise a `DataError` if the file cannot be read as the source's input."""
    check_columns(file_schema(path), source)
    rows = count_rows(path)
    if not rows:
        raise DataError(f"the input of source {source.name}, {path}, has no rows; give an input with rows")
    columns = {TS, SEQ, *([source.time] if source.time else [])}
    if source.lateness is not None:  # any order is valid
        for start in range(0, rows, max(BATCH_ROWS, -(-rows // _SAMPLES))):
            times_of_input(next(read_file(path, columns, BATCH_ROWS, start)), source)
        return
    if rows <= _FEW:
        keyer = Keyer(source, ())
        for batch in read_file(path, columns):
            keyer.keyed(batch)
        return
    last: tuple[int, int] | None = None  # a row and its time
    for start in range(0, rows, -(-rows // _SAMPLES)):
        keyer = Keyer(source, (), start)
        times = keyer.keyed(next(read_file(path, columns, BATCH_ROWS, start))).column(TS).view(pa.int64())
        if last is not None and times[0].as_py() < last[1]:
            raise DataError(
                f"the input of source {source.name}: _ts decreases between rows {last[0]} and {start}; "
                "sort the input by its time first"
            )
        last = (keyer.row - 1, times[-1].as_py())


def check_columns(schema: pa.Schema, source: Source) -> None:
    """Raise a `DataError` if a column of the source is missing or has the wrong type, or if the time is missing."""
    Keyer(source).check(schema)
