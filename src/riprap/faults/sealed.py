"""Directories of a campaign that are written once. A damaged one is deleted and recomputed.

`_sums.json` in such a directory has the length and the xxh3-64 of every other file, and is written last. A directory
without it, or with a file that does not match, is not *sound*. The content of a campaign's directory is derived from
its inputs, so an unsound directory is deleted and recomputed; it is never read.

Files hold arrays (`.npy` without objects), Arrow tables and JSON: reading them never executes code.
"""

import json
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from riprap.base import files
from riprap.base.files import remove_tree as remove

SUMS = "_sums.json"
_BLOCK = 1 << 22  # bytes hashed at once


def fresh(path: Path) -> Path:
    """An empty directory next to `path`, to be filled and then passed to `finished`."""
    work = path.with_suffix(".part")
    remove(work)
    files.make(work)
    return work


def finished(work: Path, path: Path) -> None:
    """Seals a directory made by `fresh` and renames it to `path`."""
    seal(work)
    remove(path)
    files.rename(work, path)


def seal(folder: Path) -> None:
    """Makes the directory sound, until one of its files changes."""
    sums = {path.name: _sum(path) for path in _files(folder)}
    work = folder / f"{SUMS}.part"
    files.write_text(work, json.dumps(sums))
    files.rename(work, folder / SUMS)


def sound(folder: Path) -> bool:
    """Whether all files are as they were when sealed."""
    try:
        sums = json.loads(files.read_bytes(folder / SUMS))
        if not isinstance(sums, dict) or not {path.name for path in _files(folder)} <= set(sums):
            return False
        return all(files.status(folder / name).st_size == wanted[0] for name, wanted in sums.items()) and all(
            _sum(folder / name) == wanted for name, wanted in sums.items()
        )
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def _files(folder: Path) -> list[Path]:
    """All files except hidden ones, which Spark leaves."""
    return [folder / name for name in files.names(folder) if not name.startswith((".", "_"))]


def _sum(path: Path) -> list[Any]:
    total, length = xxhash.xxh3_64(), 0
    with files.open_file(path, buffering=0) as file:
        while block := file.read(_BLOCK):
            total.update(block)
            length += len(block)
    return [length, total.hexdigest()]


# What is in the files -------------------------------------------------------------------------------------------------


def save_array(path: Path, array: np.ndarray) -> None:
    with files.open_file(path, "wb") as file:
        np.save(file, array, allow_pickle=False)


def mapped(path: Path) -> np.ndarray:
    """A saved array, memory-mapped. A plain array: `numpy.memmap` is slow to index."""
    data = files.mapped(path)
    head = pa.BufferReader(data)
    version = np.lib.format.read_magic(head)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read_header(head)
    if dtype.hasobject:
        raise ValueError(f"{path} contains Python objects")
    count = prod(shape)
    flat = np.frombuffer(data, dtype, count, head.tell()) if count else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def save_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes an Arrow IPC stream, since dictionaries may differ between batches. Without batches the file is empty."""
    writer = None
    with files.open_file(path, "wb") as file:
        for batch in batches:
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


def load_batches(path: Path) -> list[pa.RecordBatch]:
    """Reads a file of `save_batches`, memory-mapped."""
    data = files.mapped(path)
    if not data.size:
        return []
    batches = list(pa.ipc.open_stream(data))
    for batch in batches:
        batch.validate(full=True)
    return batches
