"""The description of a stream: id, settings and schemas, in `stream.json`, which is replaced atomically.

Schemas only grow: every version is the previous one plus nullable columns at the end. The file has all of them, and
each segment has the one it was written with, so rows of an old segment read as rows of the newest schema, with nulls.
"""

import base64
import os
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import pyarrow as pa
import xxhash

from riprap.base.clock import Clock
from riprap.base.errors import DataError, UsageError
from riprap.streams.positions import check_key_columns
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Files, get_document, put_document

DESCRIPTION = "stream.json"
FORMAT = 1

Stability = Literal["fsync", "async", "none"]


@dataclass(frozen=True)
class StreamSettings:
    """How a stream is written and retained. Sizes in bytes, times in microseconds; None: no limit."""

    stability: Stability = "fsync"  # when an append counts as done; see writer.py
    outstanding: int = 64  # appends that may wait for stability before `append` blocks
    outstanding_bytes: int = 4 << 20  # the same in bytes; one append may exceed it. 32 MiB was slower
    segment_bytes: int = 64 << 20  # roll when the open segment has grown to this
    segment_age: int | None = None  # roll when the open segment is this old
    memory_bytes: int = 16 << 20  # the newest batches, in memory for followers in the writer's process
    retain_bytes: int | None = None
    retain_age: int | None = None
    ordered: bool = True  # without a `_src` column: reject rows whose `_ts` decreases or whose `_seq` does not increase

    def __post_init__(self) -> None:
        if self.stability not in get_args(Stability):
            raise UsageError(f"stability is one of {', '.join(get_args(Stability))}, not {self.stability!r}")
        for name in ("outstanding", "outstanding_bytes", "segment_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class Description:
    id: bytes  # 16 bytes, in every message of the stream
    schemas: tuple[pa.Schema, ...]  # oldest first
    settings: StreamSettings
    created_at: int

    @property
    def schema(self) -> pa.Schema:
        return self.schemas[-1]

    @property
    def keys_never_fall(self) -> bool:
        """One source, checked when appended: a read may stop at the first row past its end."""
        return self.settings.ordered and "_src" not in self.schema.names


def new_description(location: str, schema: pa.Schema, settings: StreamSettings, clock: Clock) -> Description:
    check_key_columns(schema)
    created_at = clock.now()
    identity = f"{os.path.abspath(location)}\n{created_at}\n{os.getpid()}"
    return Description(xxhash.xxh3_128_digest(identity.encode()), (schema.remove_metadata(),), settings, created_at)


def store_description(files: Files, description: Description) -> None:
    put_document(
        files,
        DESCRIPTION,
        {
            "format": FORMAT,
            "id": description.id.hex(),
            "created_at": description.created_at,
            "settings": asdict(description.settings),
            "schemas": [base64.b64encode(schema.serialize()).decode() for schema in description.schemas],
            "columns": {field.name: str(field.type) for field in description.schema},  # for people
        },
    )


def load_description(files: Files) -> Description:
    try:
        document = get_document(files, DESCRIPTION)
    except FileNotFoundError:
        raise UsageError(f"no stream at {files.location}: create one, or check the path") from None
    if document.get("format") != FORMAT:
        raise DataError(f"{files.location} has format {document.get('format')}; this release reads format {FORMAT}")
    try:
        return Description(
            bytes.fromhex(document["id"]),
            tuple(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for text in document["schemas"]),
            StreamSettings(**document["settings"]),
            document["created_at"],
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{files.location}/{DESCRIPTION}", 0, f"it does not describe a stream ({error})") from None


def is_stream(files: Files) -> bool:
    return DESCRIPTION in files.names()


def evolved(current: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """`wanted`, if it is `current` plus nullable columns at the end; else a `DataError` that shows both."""
    wanted = wanted.remove_metadata()
    unchanged, added = [*wanted][: len(current)], [*wanted][len(current) :]
    if [*current] == unchanged and all(field.nullable for field in added):
        check_key_columns(wanted)
        return wanted
    raise DataError(
        "a stream's schema changes only by nullable columns added at the end; "
        f"the stream has ({shown(current)}), this is ({shown(wanted)})"
    )


def shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema, columns: list[str] | None = None) -> pa.RecordBatch:
    """A batch of an older schema as one of `schema`, reduced to `columns`."""
    if batch.num_columns < len(schema):
        missing = [schema.field(at) for at in range(batch.num_columns, len(schema))]
        arrays = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in missing)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch if columns is None else batch.select(columns)
