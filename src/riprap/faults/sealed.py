"""Directories of a campaign that are written once: whole, or made again.

`_sums.json` in such a directory has the length and the xxh3-64 of every other file of it, and is written last. A
directory without it, or with a file that differs from it, is not *sound*. Everything in a campaign's directory follows
from its inputs, so what is not sound is removed and made again; nothing of it is ever read.

Files hold arrays (`.npy` without objects), Arrow tables and JSON: whatever they contain, reading them runs nothing.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

SUMS = "_sums.json"
_BLOCK = 1 << 22  # bytes hashed at once


def fresh(path: Path) -> Path:
    """An empty directory beside `path`, to be written and then `finished`."""
    work = path.with_suffix(".part")
    remove(work)
    work.mkdir(parents=True)
    return work


def finished(work: Path, path: Path) -> None:
    """Seal what `fresh` began and give it its name."""
    seal(work)
    remove(path)
    work.rename(path)


def seal(folder: Path) -> None:
    """From now on the directory is sound, until one of its files changes."""
    sums = {path.name: _sum(path) for path in _files(folder)}
    work = folder / f"{SUMS}.part"
    work.write_text(json.dumps(sums))
    work.rename(folder / SUMS)


def sound(folder: Path) -> bool:
    """Whether everything is there as it was sealed."""
    try:
        sums = json.loads((folder / SUMS).read_bytes())
        if not isinstance(sums, dict) or not {path.name for path in _files(folder)} <= set(sums):
            return False
        return all((folder / name).stat().st_size == wanted[0] for name, wanted in sums.items()) and all(
            _sum(folder / name) == wanted for name, wanted in sums.items()
        )
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def remove(path: Path) -> None:
    """Whatever is there: a directory, a file, a link, or nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """All but hidden ones, as Spark leaves them."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))


def _sum(path: Path) -> list[Any]:
    total, length = xxhash.xxh3_64(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            total.update(block)
            length += len(block)
    return [length, total.hexdigest()]


# What is in the files -------------------------------------------------------------------------------------------------


def mapped(path: Path) -> np.ndarray:
    """A saved array, mapped into memory. As a plain array: numpy's own class for it is slow to index."""
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)


def save_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """As an Arrow IPC stream: dictionaries may differ from batch to batch. Nothing is written for no batches."""
    writer = None
    with pa.OSFile(str(path), "wb") as file:
        for batch in batches:
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


def load_batches(path: Path) -> list[pa.RecordBatch]:
    """What `save_batches` wrote, mapped into memory."""
    if not path.stat().st_size:
        return []
    found = list(pa.ipc.open_stream(pa.memory_map(str(path))))
    for batch in found:
        batch.validate(full=True)
    return found
