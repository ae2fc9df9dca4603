"""Records what a run has read of its inputs, so that a resumed run detects a replaced file.

When a run starts, it records the size and schema of every file, and for each row group (or record batch) the number of
rows and the file's metadata: sizes, offsets, statistics. While reading, it records a digest of the bytes of each row
group, when they are in memory anyway. Of a persistent stream it records the id.

A file with the recorded size, inode and modification time is unchanged. Any other file must start with everything that
was recorded: the same schema, the same row groups in the same order, and equal bytes where they were read. Rows may
have been appended to it, and files may have been added to a directory.

    inputs.json            {source: {"stream": id} or {"files": [{name, size, changed, inode, schema, parts}, …]}}
    inputs/PE/SOURCE       a line per row group that was read: [file, number, columns or null, digest]
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from riprap.base import files
from riprap.base.disk import retry_while_full
from riprap.base.documents import read_json
from riprap.base.errors import DataError
from riprap.engine.inputs import input_files, unreadable

NOTED = "inputs.json"
_READ = "inputs"
_REMEDY = "restore the original input, or start another run with another `out`"

Identity = Mapping[str, Any]


def identity(path: Path) -> Identity:
    """The metadata of a file, or of the Parquet files of a directory."""
    return {"files": [_about(file) for file in input_files(path)]}


def _about(file: Path) -> dict[str, Any]:
    status = file.stat()
    try:
        schema, parts = _parquet_parts(file) if file.suffix == ".parquet" else _arrow_parts(file)
    except (pa.ArrowInvalid, pa.ArrowIOError) as error:
        raise unreadable(file, error) from error
    about = {"name": file.name, "size": status.st_size, "changed": status.st_mtime_ns, "inode": status.st_ino}
    return {**about, "schema": schema, "parts": parts}


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _parquet_parts(file: Path) -> tuple[str, list[Any]]:
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return _digest(str(metadata.schema.to_arrow_schema())), [
        [group.num_rows, _digest(repr([_about_chunk(group.column(at)) for at in range(group.num_columns)]))]
        for group in groups
    ]


def _about_chunk(chunk: pq.ColumnChunkMetaData) -> tuple[Any, ...]:
    """Statistics as they are in the file: they may hold text that is not UTF-8, and times beyond those of Python."""
    known = chunk.statistics
    statistics = () if known is None else (known.null_count, known.distinct_count, known.min_raw, known.max_raw)
    return (
        chunk.path_in_schema, chunk.num_values, chunk.file_offset, chunk.dictionary_page_offset, chunk.data_page_offset,
        chunk.total_compressed_size, chunk.total_uncompressed_size, chunk.compression, chunk.encodings, *statistics,
    )  # fmt: skip


def _arrow_parts(file: Path) -> tuple[str, list[Any]]:
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        batches = [reader.get_batch(at) for at in range(reader.num_record_batches)]
        return _digest(str(reader.schema)), [[batch.num_rows, str(batch.nbytes)] for batch in batches]


# While it is read -----------------------------------------------------------------------------------------------------


class Reading:
    """Records what one incarnation of a source reads. A truncated line is ignored: its row group's bytes are not
    checked."""

    def __init__(self, directory: Path, pe: str, source: str) -> None:
        self._path = directory / _READ / quote(pe, safe="") / quote(source, safe="")
        files.make(self._path.parent)
        self._metadata: dict[Path, pq.FileMetaData] = {}  # of the file that is being read

    def part(self, file: Path, number: int, columns: Iterable[str] | None) -> None:
        names = None if columns is None else sorted(columns)
        if file.suffix == ".parquet" and file not in self._metadata:
            self._metadata = {file: pq.read_metadata(file)}
        digest = part_digest(file, number, names, self._metadata.get(file))
        line = f"\n{json.dumps([file.name, number, names, digest])}\n"  # also after a line that a full disk truncated
        retry_while_full(lambda: self._append(line), self._path)

    def _append(self, line: str) -> None:
        with files.open_file(self._path, "a") as noted:
            noted.write(line)


def part_digest(file: Path, number: int, columns: Iterable[str] | None, metadata: pq.FileMetaData | None = None) -> str:
    """The digest of the bytes of a row group or record batch, in some columns or all."""
    total = xxhash.xxh3_128()
    wanted = None if columns is None else set(columns)
    blocks: Iterator[bytes] | Iterator[pa.Buffer]
    if file.suffix == ".parquet":
        blocks = _parquet_bytes(file, (metadata or pq.read_metadata(file)).row_group(number), wanted)
    else:
        blocks = _buffers(file, number, wanted)
    for block in blocks:
        total.update(block)
    return str(total.hexdigest())


def _parquet_bytes(file: Path, group: pq.RowGroupMetaData, wanted: set[str] | None) -> Iterator[bytes]:
    with open(file, "rb", buffering=0) as opened:
        for at in range(group.num_columns):
            chunk = group.column(at)
            if wanted is None or chunk.path_in_schema.partition(".")[0] in wanted:
                first = chunk.data_page_offset
                if chunk.has_dictionary_page:
                    first = min(first, chunk.dictionary_page_offset or first)
                yield os.pread(opened.fileno(), chunk.total_compressed_size, first)


def _buffers(file: Path, number: int, wanted: set[str] | None) -> Iterator[pa.Buffer]:
    with pa.memory_map(str(file)) as source:
        batch = pa.ipc.open_file(source).get_batch(number)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if wanted is None or name in wanted:
                yield from (buffer for buffer in column.buffers() if buffer is not None)


# When a run is resumed ------------------------------------------------------------------------------------------------


def read_noted(directory: Path) -> dict[str, Identity]:
    """The recorded inputs by source; empty if the run is from a version that recorded none."""
    path = directory / NOTED
    if not files.exists(path):
        return {}
    noted = read_json(path, "the record of the run's inputs in", own=True)
    if not isinstance(noted, dict) or not all(_is_valid(entry) for entry in noted.values()):
        raise DataError(f"{path} is damaged, so the inputs cannot be compared with those of the run: restore it, "
                        "or start another run with another `out`")  # fmt: skip
    return noted


def _is_valid(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    if isinstance(entry.get("stream"), str):
        return True
    return isinstance(entry.get("files"), list) and all(
        isinstance(file, dict)
        and isinstance(file.get("name"), str)
        and isinstance(file.get("parts"), list)
        and all(isinstance(part, list) and len(part) == 2 and type(part[0]) is int for part in file["parts"])
        for file in entry["files"]
    )


def check_same(directory: Path, source: str, path: Path, noted: Identity) -> bool:
    """Whether files or rows were added to the recorded input; raises if recorded data is missing or different."""
    before = noted["files"]
    current = {file.name: file for file in input_files(path)}
    if path.is_dir() and list(current)[: len(before)] != [entry["name"] for entry in before]:
        names = [entry["name"] for entry in before]
        missing = next((name for name in names if name not in current), None)
        difference = f"{missing} is missing" if missing else f"{_first_new(list(current), names)} sorts before others"
        raise another_input(source, path, difference)
    now = list(current.values())
    changed = [(entry, file) for entry, file in zip(before, now, strict=False) if not _untouched(entry, file)]
    for entry, file in changed:
        _check_file(source, file, entry)
        _check_bytes(directory, source, file)
    return bool(changed) or len(now) > len(before)


def _first_new(now: list[str], before: list[str]) -> str:
    return next(name for name in now if name not in before)


def _untouched(entry: Mapping[str, Any], file: Path) -> bool:
    recorded = entry.get("size"), entry.get("changed"), entry.get("inode")
    status = file.stat()
    return (status.st_size, status.st_mtime_ns, status.st_ino) == recorded


def _check_file(source: str, file: Path, before: Mapping[str, Any]) -> None:
    now = _about(file)
    if now["schema"] != before.get("schema"):
        raise another_input(source, file, "its columns differ")
    rows, rows_before = (sum(part[0] for part in entry["parts"]) for entry in (now, before))
    if rows < rows_before:
        raise another_input(source, file, f"it has {rows:,} rows, and had {rows_before:,}")
    for number, (part, part_before) in enumerate(zip(now["parts"], before["parts"], strict=False)):
        if part != part_before:
            raise another_input(source, file, f"row group {number} differs")
    if len(now["parts"]) < len(before["parts"]):
        raise another_input(source, file, f"row group {len(now['parts'])} is missing")


def _check_bytes(directory: Path, source: str, file: Path) -> None:
    known: set[tuple[int, tuple[str, ...] | None, str]] = set()
    folder = directory / _READ
    for path in (folder / pe / quote(source, safe="") for pe in (files.names(folder) if files.exists(folder) else ())):
        try:
            lines = files.read_bytes(path).decode(errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise DataError(f"{path}, which records what was read of source {source}, cannot be read "
                            f"({error.strerror}): restore it, or start another run with another `out`"
                            ) from error  # fmt: skip
        for line in lines:
            try:
                name, number, columns, digest = json.loads(line)
                if name == file.name and type(number) is int and number >= 0:
                    known.add((number, None if columns is None else tuple(map(str, columns)), str(digest)))
            except (ValueError, TypeError, RecursionError):  # truncated by a crash
                continue
    try:
        for number, columns, digest in sorted(known, key=repr):
            if part_digest(file, number, columns) != digest:
                raise another_input(source, file, f"row group {number} has other values")
    except (IndexError, pa.ArrowIndexError):
        raise another_input(source, file, "it has fewer row groups") from None


def another_input(source: str, path: Path, difference: str) -> DataError:
    return DataError(f"the input of source {source}, {path}, is not what this run has read: {difference}; {_REMEDY}")
