"""What a source is given: checked against its schema, with an order key on every row.

Input may bring its own `_ts` and `_seq`. Without `_ts` the source's time column becomes it; without `_seq` rows are
numbered in the order in
which they come. `_ts` may never fall and `_seq` always rises.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.base.errors import DataError, GraphError, known
from riprap.graph.keys import SEQ, TS, TS_TYPE
from riprap.graph.specs import Source
from riprap.graph.types import logical_type

BATCH_ROWS = 65_536  # a batch that fits the caches and hides the cost of a call


def keyed(
    batches: Iterable[pa.RecordBatch], source: Source, columns: Iterable[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches with the source's columns (or some of them) and `_ts` and `_seq`, checked."""
    names = [name for name in source.schema.names if columns is None or name in set(columns)]
    last_ts, last_seq, row = np.iinfo(np.int64).min, -1, 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        out = {name: _checked(batch, source, name) for name in names}
        ts = _times(batch, source)
        numbers = batch.column(SEQ).to_numpy() if SEQ in batch.schema.names else np.arange(row, row + batch.num_rows)
        times = ts.view(pa.int64()).to_numpy()
        _ascending(times, last_ts, row, source, "_ts falls", strict=False)
        _ascending(numbers, last_seq if row else None, row, source, "_seq does not rise", strict=True)
        last_ts, last_seq, row = int(times[-1]), int(numbers[-1]), row + batch.num_rows
        out |= {TS: ts, SEQ: pa.array(numbers, pa.int64())}
        yield pa.RecordBatch.from_arrays(list(out.values()), names=list(out))


def read_file(
    path: str | os.PathLike[str], columns: Iterable[str] | None = None, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet or Arrow file (or a directory of Parquet files, in the order of their names)."""
    for file in _files(Path(path)):
        try:
            if file.suffix == ".parquet":
                yield from _read_parquet(file, columns, rows)
            else:
                yield from _read_arrow(file, columns, rows)
        except (pa.ArrowInvalid, pa.ArrowIOError) as error:
            raise _unreadable(file, error) from error


def file_schema(path: str | os.PathLike[str]) -> pa.Schema:
    file = _files(Path(path))[0]
    try:
        if file.suffix == ".parquet":
            return pq.read_schema(file)
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_file(source).schema
    except (pa.ArrowInvalid, pa.ArrowIOError) as error:
        raise _unreadable(file, error) from error


def count_rows(path: str | os.PathLike[str]) -> int:
    """Rows in a file or directory, from what its files say of themselves."""
    total = 0
    for file in _files(Path(path)):
        try:
            if file.suffix == ".parquet":
                total += pq.read_metadata(file).num_rows
            else:
                total += sum(batch.num_rows for batch in _read_arrow(file, [], BATCH_ROWS))
        except (pa.ArrowInvalid, pa.ArrowIOError) as error:
            raise _unreadable(file, error) from error
    return total


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {file}: {str(error).splitlines()[0]}; it has to be Parquet or Arrow IPC")


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise DataError(f"input {path} does not exist; make one with `riprap data market --out {path}`")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"directory {path} has no .parquet files")
    if files[0].suffix not in (".parquet", ".arrow"):
        raise DataError(f"input {path} is neither .parquet nor .arrow")
    return files


def _read_parquet(file: Path, columns: Iterable[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    # Row group by row group with all threads off: the caller's process has one core of its own.
    with pq.ParquetFile(file) as parquet:
        names = None if columns is None else [name for name in parquet.schema_arrow.names if name in set(columns)]
        for group in range(parquet.num_row_groups):
            table = parquet.read_row_group(group, columns=names, use_threads=False)
            yield from table.combine_chunks().to_batches(max_chunksize=rows)


def _read_arrow(file: Path, columns: Iterable[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            if columns is not None:
                batch = batch.select([name for name in batch.schema.names if name in set(columns)])
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def _checked(batch: pa.RecordBatch, source: Source, name: str) -> pa.Array:
    if name not in batch.schema.names:
        raise DataError(
            f"the input of source {source.name} has no column {name}; it has {known(batch.schema.names, name)}"
        )
    column, expected = batch.column(name), source.schema.field(name)
    try:
        found = logical_type(column.type)
    except GraphError as error:
        raise DataError(f"the input of source {source.name}: column {name}: {error}") from error
    if found != expected.type:
        raise DataError(f"the input of source {source.name}: column {name} is {column.type}, expected {expected.type}")
    if column.null_count and not expected.nullable:
        raise DataError(
            f"the input of source {source.name}: column {name} has nulls and is declared not null; declare it nullable"
        )
    return column.cast(expected.type) if pa.types.is_timestamp(column.type) and column.type != expected.type else column


def _times(batch: pa.RecordBatch, source: Source) -> pa.Array:
    name = TS if TS in batch.schema.names else source.time
    if name is None or name not in batch.schema.names:
        raise DataError(
            f"the input of source {source.name} has no _ts column; "
            "add one, or name its time column with time= in the app"
        )
    column = batch.column(name)
    if column.null_count:
        raise DataError(f"the input of source {source.name}: its time column {name} has nulls")
    if pa.types.is_int64(column.type):
        return column.view(TS_TYPE)
    return column if column.type == TS_TYPE else column.cast(TS_TYPE)


def _ascending(values: np.ndarray, before: int | None, row: int, source: Source, what: str, *, strict: bool) -> None:
    steps = values[1:] <= values[:-1] if strict else values[1:] < values[:-1]
    first_bad = before is not None and (values[0] <= before if strict else values[0] < before)
    if first_bad or steps.any():
        at = row if first_bad else row + 1 + int(np.argmax(steps))
        raise DataError(f"the input of source {source.name}: {what} at row {at}; sort the input by its time first")
