"""A static table: rows that every process of an app reads once. It is not an operator, so no fault targets it.

    users = app.table("users.parquet", name="users")
    orders.join_table(users, on="user", how="left", name="Enriched")

Its content is part of the graph: `digest` is in the fingerprint, so a campaign or a run does not continue with other
rows. A table from a file goes to other processes as a path, which each of them checks against the digest; one that was
given as Arrow data goes with the graph.
"""

from functools import cached_property, lru_cache
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from riprap.base.errors import DataError, GraphError
from riprap.expressions.row_values import is_nested
from riprap.expressions.value_bytes import to_bytes
from riprap.graph.types import SchemaLike, logical_schema, schema_of

TableLike: TypeAlias = pa.Table | pa.RecordBatch | str | PathLike[str]
_READ = 1 << 20  # bytes of a file hashed at a time


class StaticTable:
    """Rows with a name. Two tables are equal if their names, columns and content are."""

    def __init__(self, name: str, source: TableLike, schema: SchemaLike | None = None) -> None:
        self.name = name
        self.path: Path | None = None
        if isinstance(source, pa.RecordBatch):
            source = pa.Table.from_batches([source])
        if not isinstance(source, pa.Table):
            self.path = Path(source).absolute()
            self.digest = _digest_of_files(name, self.path)
            source = _read(name, str(self.path), self.digest)
        rows = _with_columns(name, source, None if schema is None else schema_of(schema))
        self.schema = rows.schema
        if self.path is None:
            self.digest = _digest_of_rows(rows)
        self.__dict__["rows"] = rows

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """All rows, in order."""
        return _with_columns(self.name, _read(self.name, str(self.path), self.digest), self.schema)

    def unique(self, columns: tuple[str, ...]) -> bool:
        """Whether no two rows are equal in these columns; rows with NULL there do not count, they match nothing."""
        if not columns:
            return self.rows.num_rows <= 1
        chosen = [self.rows.column(name) for name in columns]
        keys = pa.table(dict(zip(columns, (to_bytes(c) if is_nested(c.type) else c for c in chosen), strict=True)))
        keys = keys.drop_null()
        return keys.group_by(columns).aggregate([]).num_rows == keys.num_rows

    def __getstate__(self) -> dict[str, Any]:
        kept = {"name": self.name, "path": self.path, "digest": self.digest, "schema": self.schema}
        return kept | ({"rows": self.rows} if self.path is None else {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticTable) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
        return f"StaticTable({self.name!r}, {columns}, {self.digest})"


def _with_columns(name: str, table: pa.Table, schema: pa.Schema | None) -> pa.RecordBatch:
    """The rows as one batch with logical types; only the columns of `schema`, if given."""
    if schema is None:
        try:
            schema = logical_schema(table.schema)
        except GraphError as error:
            raise GraphError(f"table {name}: {error}") from error
    missing = [column for column in schema.names if column not in table.schema.names]
    if missing:
        raise GraphError(f"table {name} has no column {missing[0]}; it has {', '.join(table.schema.names)}")
    try:
        table = table.select(schema.names).cast(schema).combine_chunks()
    except (pa.ArrowException, ValueError) as error:
        raise GraphError(f"table {name}: {str(error).splitlines()[0]}; give the types that its columns have") from error
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema)


def _digest_of_rows(rows: pa.RecordBatch) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows.take(pa.array(range(rows.num_rows), pa.int64())))  # of a slice, only its values
    return blake2b(sink.getvalue(), digest_size=16).hexdigest()


def _files(name: str, path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not path.exists() or not files or files[0].suffix != ".parquet":
        raise DataError(f"table {name}: {path} is not a .parquet file, nor a directory of them")
    return files


def _digest_of_files(name: str, path: Path) -> str:
    total = blake2b(digest_size=16)
    try:
        for file in _files(name, path):
            with open(file, "rb") as opened:
                while part := opened.read(_READ):
                    total.update(part)
    except OSError as error:
        raise DataError(f"table {name}: cannot read {path}: {error.strerror}") from error
    return total.hexdigest()


@lru_cache(maxsize=8)
def _read(name: str, path: str, digest: str) -> pa.Table:
    """The rows of a file, or of the files of a directory in the order of their names, if they have this digest."""
    if _digest_of_files(name, Path(path)) != digest:
        raise DataError(
            f"table {name}: {path} has changed since the app was built; restore it, or build the app again, which "
            "then is another app"
        )
    try:
        parts = [pq.ParquetFile(file).read(use_threads=False) for file in _files(name, Path(path))]
        return pa.concat_tables(parts)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"table {name}: cannot read {path}: {str(error).splitlines()[0]}") from error
