"""The input of a source: reads it, checks it against the schema, and adds an order key to every row.

Input may contain `_ts` and `_seq`. Without `_ts`, the source's time column is used; without `_seq`, rows are numbered
in arrival order. `_ts` must never decrease and `_seq` must always increase, unless the source has a lateness: see
`lateness.py`.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from riprap.base.errors import DataError, GraphError, known
from riprap.engine.lateness import Sorter
from riprap.graph.order_keys import SEQ, TS, TS_TYPE
from riprap.graph.specs import Source
from riprap.graph.types import logical_type

_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
BATCH_ROWS = 65_536  # fits the CPU caches and amortizes the cost of a call
# Called with a file, the number of a row group or batch that was read, and its columns (None: all).
Note = Callable[[Path, int, Iterable[str] | None], None]
# Microseconds since 1970: from year 1 to year 9999.
FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
_AHEAD = 4  # batches: reading starts one row group (a quarter of a million rows) ahead


def keyed(
    batches: Iterable[pa.RecordBatch], source: Source, columns: Iterable[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches with the source's columns (or some of them) and `_ts` and `_seq`, checked."""
    keyer = Keyer(source, columns)
    return (keyer.keyed(batch) for batch in in_order(batches, source) if batch.num_rows)


def in_order(batches: Iterable[pa.RecordBatch], source: Source) -> Iterable[pa.RecordBatch]:
    """The input; sorted if the source has a lateness."""
    return batches if source.lateness is None else _sorted(batches, source, Sorter(source.lateness))


def late_rows(path: str | os.PathLike[str], source: Source) -> int:
    """The number of rows in a file that are later than the source's lateness, and are dropped."""
    if source.lateness is None:
        return 0
    sorter = Sorter(source.lateness)
    for _ in _sorted(read_file(path, {TS, *([source.time] if source.time else [])}), source, sorter):
        pass
    return sorter.late


def _sorted(batches: Iterable[pa.RecordBatch], source: Source, sorter: Sorter) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        released = sorter.take(batch, times_of_input(batch, source))
        if released is not None:
            yield released
    rest = sorter.rest()
    if rest is not None:
        yield rest


class Keyer:
    """Checks a source's input batch by batch and adds order keys to its rows."""

    def __init__(self, source: Source, columns: Iterable[str] | None = None, row: int = 0) -> None:
        self.row = row  # number of the next row, counted from the start of the input
        self._source = source
        wanted = None if columns is None else set(columns)
        self._names = [name for name in source.schema.names if wanted is None or name in wanted]
        self._last_ts: int | None = None
        self._last_seq: int | None = None

    def check(self, schema: pa.Schema) -> None:
        """Raise `DataError` if batches with this schema can never be keyed."""
        for name in self._names:
            _check_type(schema, self._source, name)
        keys = [field for field in schema if field.name in (TS, SEQ, self._source.time)]
        empty = pa.RecordBatch.from_arrays([_nothing(field.type) for field in keys], names=[key.name for key in keys])
        times_of_input(empty, self._source)
        _numbers(empty, self._source, 0)

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of at least one row with the source's columns, `_ts` and `_seq`; raises `DataError`."""
        source, row = self._source, self.row
        out = {name: _checked(batch, source, name) for name in self._names}
        ts = times_of_input(batch, source)
        numbers = _numbers(batch, source, row)
        times = ts.view(pa.int64()).to_numpy()
        _ascending(times, self._last_ts, row, source, "_ts decreases", strict=False)
        _ascending(numbers, self._last_seq, row, source, "_seq does not increase", strict=True)
        self._last_ts, self._last_seq, self.row = int(times[-1]), int(numbers[-1]), row + batch.num_rows
        out |= {TS: ts, SEQ: pa.array(numbers, pa.int64())}
        return pa.RecordBatch.from_arrays(list(out.values()), names=list(out))


def read_file(
    path: str | os.PathLike[str],
    columns: Iterable[str] | None = None,
    rows: int = BATCH_ROWS,
    skip: int = 0,
    note: Note = lambda file, part, columns: None,
) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet or Arrow file (or a directory of Parquet files, in the order of their names).

    `skip`: the number of rows to skip; files, row groups and batches that are skipped completely are not read. `note`
    is called after each row group or batch that was read.
    """
    wanted = None if columns is None else set(columns)
    for file in input_files(Path(path)):
        try:
            counts = _row_counts(file) if skip else []
            first = 0  # row group or batch
            while first < len(counts) and counts[first] <= skip:
                skip -= counts[first]
                first += 1
            read = _read_parquet if file.suffix == ".parquet" else _read_arrow
            for number, batch in read(file, wanted, first):
                note(file, number, wanted)
                part = _plain(batch)
                for start in range(skip, part.num_rows, rows):
                    yield part.slice(start, rows)
                skip = 0
        except _UNREADABLE as error:
            raise unreadable(file, error) from error


def read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, read ahead in a thread: reading a row group takes longer than a source may pause.

    Reading starts at once, before the first batch is requested.
    """
    reading = ThreadPoolExecutor(1, "riprap-reading")
    return _prefetched(reading, batches, deque(reading.submit(next, batches, None) for _ in range(_AHEAD)))


def _prefetched(
    reading: ThreadPoolExecutor, batches: Iterator[pa.RecordBatch], pending: "deque[Future[pa.RecordBatch | None]]"
) -> Iterator[pa.RecordBatch]:
    try:
        while (batch := pending.popleft().result()) is not None:
            pending.append(reading.submit(next, batches, None))
            yield batch
    finally:
        reading.shutdown(cancel_futures=True)  # no thread outlives its reader


def file_schema(path: str | os.PathLike[str]) -> pa.Schema:
    file = input_files(Path(path))[0]
    try:
        if file.suffix == ".parquet":
            return pq.read_schema(file)
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_file(source).schema
    except _UNREADABLE as error:
        raise unreadable(file, error) from error


def count_rows(path: str | os.PathLike[str]) -> int:
    """Rows in a file or directory, from the files' metadata."""
    total = 0
    for file in input_files(Path(path)):
        try:
            total += sum(_row_counts(file))
        except _UNREADABLE as error:
            raise unreadable(file, error) from error
    return total


def unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {file}: {str(error).splitlines()[0]}; it has to be Parquet or Arrow IPC")


def input_files(path: Path) -> list[Path]:
    if not path.exists():
        raise DataError(f"input {path} does not exist; make one with `riprap data market --out {path}`")
    if not path.is_dir() and not path.is_file():
        raise DataError(
            f"input {path} is a pipe or a device, which cannot be read again after a crash; write it to a .parquet or "
            ".arrow file, or to a persistent stream, and give that"
        )
    if path.is_dir() and (path / "stream.json").exists():
        raise DataError(f"input {path} is a persistent stream; export it with `riprap stream export {path} FILE`")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"directory {path} has no .parquet files")
    if files[0].suffix not in (".parquet", ".arrow"):
        raise DataError(f"input {path} is neither .parquet nor .arrow")
    return files


def _row_counts(file: Path) -> list[int]:
    """Rows of each row group or batch, from the file's metadata."""
    if file.suffix == ".parquet":
        metadata = pq.read_metadata(file)
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        return [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]


def _read_parquet(file: Path, columns: set[str] | None, first: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    # Row group by row group, single-threaded: the caller's process has one core.
    with pq.ParquetFile(file) as parquet:
        names = None if columns is None else [name for name in parquet.schema_arrow.names if name in columns]
        for group in range(first, parquet.num_row_groups):
            table = parquet.read_row_group(group, columns=names, use_threads=False)
            yield from ((group, batch) for batch in table.combine_chunks().to_batches())


def _read_arrow(file: Path, columns: set[str] | None, first: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        for index in range(first, reader.num_record_batches):
            batch = reader.get_batch(index)
            names = batch.schema.names
            yield index, batch if columns is None else batch.select([name for name in names if name in columns])


def _check_type(schema: pa.Schema, source: Source, name: str) -> None:
    if name not in schema.names:
        raise DataError(f"the input of source {source.name} has no column {name}; it has {known(schema.names, name)}")
    _only_one(schema, source, name)
    type_, expected = schema.field(name).type, source.schema.field(name).type
    try:
        logical = logical_type(type_)
    except GraphError as error:
        raise DataError(f"the input of source {source.name}: column {name}: {error}") from error
    if logical != expected:
        raise DataError(f"the input of source {source.name}: column {name} is {type_}, expected {expected}")


def _nothing(type_: pa.DataType) -> pa.Array:
    """An empty array of a type; of the null type if it can be neither a time, a number nor text."""
    numeric = pa.types.is_timestamp(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return pa.nulls(0, type_ if numeric or pa.types.is_string(type_) else pa.null())


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with unusual encodings decoded: few of Arrow's functions support views, runs, and dictionaries of
    anything but text. A column that cannot be decoded stays; reading it raises the error."""
    for at, field in enumerate(batch.schema):
        if not _known_encoding(field.type):
            try:
                batch = batch.set_column(at, field.name, _decoded(batch.column(at)))
            except pa.ArrowException:
                continue
    return batch


def _known_encoding(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return bool(pa.types.is_string(type_.value_type) or pa.types.is_large_string(type_.value_type))
    return not (pa.types.is_run_end_encoded(type_) or type_ in (pa.string_view(), pa.binary_view()))


def _decoded(column: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        values = _decoded(column.dictionary)
        column = pa.DictionaryArray.from_arrays(column.indices, values)
        return column if _known_encoding(column.type) else column.dictionary_decode()
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return column.cast(plain[column.type]) if column.type in plain else column


def _checked(batch: pa.RecordBatch, source: Source, name: str) -> pa.Array:
    """A column in the type that operators expect. Text and bytes are validated here: nothing downstream checks them
    again."""
    _check_type(batch.schema, source, name)
    column, expected = batch.column(name), source.schema.field(name)
    if column.null_count and not expected.nullable:
        raise DataError(
            f"the input of source {source.name}: column {name} has nulls and is declared not null; declare it nullable"
        )
    if not _known_encoding(column.type):  # of rows that did not come from a file
        column = _decoded(column)
    if expected.type != pa.string():
        return column if column.type == expected.type else _cast(column, expected.type, source, name)
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"the input of source {source.name}: column {name} is not text ({str(error).splitlines()[0]}); "
            "write it as UTF-8, or declare it binary"
        ) from error
    return column


def _only_one(schema: pa.Schema, source: Source, name: str) -> None:
    if schema.names.count(name) > 1:
        raise DataError(f"the input of source {source.name} has several columns {name}; rename or drop all but one")


def _column(batch: pa.RecordBatch, source: Source, name: str) -> pa.Array:
    _only_one(batch.schema, source, name)
    return batch.column(name)


def times_of_input(batch: pa.RecordBatch, source: Source) -> pa.Array:
    """The column that becomes `_ts`."""
    name = TS if TS in batch.schema.names else source.time
    if name is None or name not in batch.schema.names:
        raise DataError(
            f"the input of source {source.name} has no _ts column; "
            "add one, or name its time column with time= in the app"
        )
    column = _column(batch, source, name)
    if column.null_count:
        raise DataError(f"the input of source {source.name}: its time column {name} has nulls")
    if pa.types.is_int64(column.type):
        return _in_calendar(column.view(TS_TYPE), source, name)
    if not pa.types.is_timestamp(column.type):
        raise DataError(
            f"the input of source {source.name}: its time column {name} is {column.type}; expected a timestamp, or "
            "whole microseconds since 1970 as int64"
        )
    return _in_calendar(column if column.type == TS_TYPE else _cast(column, TS_TYPE, source, name), source, name)


def _in_calendar(times: pa.Array, source: Source, name: str) -> pa.Array:
    """Times are of the years that Spark's timestamps have: sums of times and windows cannot overflow."""
    extremes = [time.value for time in pc.min_max(times).values()]
    for time in extremes:
        if time is not None and not FIRST_TIME <= time <= LAST_TIME:
            raise DataError(
                f"the input of source {source.name}: its time column {name} has {time} microseconds since 1970, which "
                "is not in the years 1 to 9999; correct or remove such rows"
            )
    return times


def _numbers(batch: pa.RecordBatch, source: Source, row: int) -> np.ndarray:
    if SEQ not in batch.schema.names:
        return np.arange(row, row + batch.num_rows)
    column = _column(batch, source, SEQ)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise DataError(
            f"the input of source {source.name}: _seq has to be whole numbers without nulls, not {column.type}"
        )
    return _cast(column, pa.int64(), source, SEQ).to_numpy()


def _cast(column: pa.Array, type_: pa.DataType, source: Source, name: str) -> pa.Array:
    try:
        return column.cast(type_)
    except pa.ArrowException as error:
        raise DataError(
            f"the input of source {source.name}: column {name} cannot be cast to {type_}: {str(error).splitlines()[0]}"
        ) from error


def _ascending(values: np.ndarray, before: int | None, row: int, source: Source, what: str, *, strict: bool) -> None:
    steps = values[1:] <= values[:-1] if strict else values[1:] < values[:-1]
    first_bad = before is not None and (values[0] <= before if strict else values[0] < before)
    if first_bad or steps.any():
        at = row if first_bad else row + 1 + int(np.argmax(steps))
        raise DataError(f"the input of source {source.name}: {what} at row {at}; sort the input by its time first")
