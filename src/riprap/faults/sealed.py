"""Directories of a campaign that are written once: whole, or made again.

`_sums.json` in such a directory has the length and the xxh3-64 of every other file of it, and is written last. A
directory without it, or with a file that differs from it, is not *sound*. Everything in a campaign's directory follows
from its inputs, so what is not sound is removed and made again; nothing of it is ever read.

Files hold arrays (`.npy` without objects), Arrow tables and JSON: whatever they contain, reading them runs nothing.
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
    """An empty directory beside `path`, to be written and then `finished`."""
    work = path.with_suffix(".part")
    remove(work)
    files.make(work)
    return work


def finished(work: Path, path: Path) -> None:
    """Seal what `fresh` began and give it its name."""
    seal(work)
    remove(path)
    files.rename(work, path)


def seal(folder: Path) -> None:
    """From now on the directory is sound, until one of its files changes."""
    sums = {path.name: _sum(path) for path in _files(folder)}
    work = folder / f"{SUMS}.part"
    files.write_text(work, json.dumps(sums))
    files.rename(work, folder / SUMS)


def sound(folder: Path) -> bool:
    """Whether everything is there as it was sealed."""
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
    """All but hidden ones, as Spark leaves them."""
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
    """A saved array, mapped into memory. As a plain array: numpy's own class for it is slow to index."""
    data = files.mapped(path)
    head = pa.BufferReader(data)
    version = np.lib.format.read_magic(head)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read_header(head)
    if dtype.hasobject:
        raise ValueError(f"{path} has Python objects in it")
    count = prod(shape)
    flat = np.frombuffer(data, dtype, count, head.tell()) if count else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def save_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """As an Arrow IPC stream: dictionaries may differ from batch to batch. Nothing is written for no batches."""
    writer = None
    with files.open_file(path, "wb") as file:
        for batch in batches:
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


def load_batches(path: Path) -> list[pa.RecordBatch]:
    """What `save_batches` wrote, mapped into memory."""
    data = files.mapped(path)
    if not data.size:
        return []
    found = list(pa.ipc.open_stream(data))
    for batch in found:
        batch.validate(full=True)
    return found
