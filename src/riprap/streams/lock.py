"""The writer lock: one writer at a time, and only the newest epoch of a producer.

The writer holds an exclusive `flock` on the file `writer.lock`, which names its producer, epoch and process; the kernel
releases it when the process dies. A newer epoch of the same producer need not wait for an older one that hangs: it
locks a new file and renames it over the old one. From then on the older writer is *fenced*: it compares the file's
inode with its own after each sync and before each acknowledgement, so its later writes are never acknowledged.
"""

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from riprap.base import files
from riprap.base.clock import Clock
from riprap.streams.stream_errors import Busy, Damaged, Fenced

LOCK = "writer.lock"
_PATIENCE = 0.25  # seconds; a reader may hold the lock briefly to check for a writer


class WriterLock:
    def __init__(self, directory: Path, file: int, took_over: bool) -> None:
        self._path = str(directory / LOCK)
        self._file = file
        self._inode = os.fstat(file).st_ino
        self.took_over = took_over  # an older writer may be alive and hold files open

    def held(self) -> bool:
        try:
            return os.stat(self._path, follow_symlinks=False).st_ino == self._inode
        except FileNotFoundError:
            return False

    def release(self) -> None:
        os.close(self._file)


def acquire(directory: Path, producer: str, epoch: int, clock: Clock) -> WriterLock:
    """Raises `Busy` if another writer is active that this one does not replace, `Fenced` if that one is newer."""
    identity = json.dumps({"producer": producer, "epoch": epoch, "pid": os.getpid()}).encode()
    deadline = clock.monotonic() + _PATIENCE
    while True:
        try:
            file = files.descriptor(directory / LOCK, os.O_RDWR | os.O_CREAT)
        except IsADirectoryError:
            raise Damaged(str(directory / LOCK), 0, "it is a directory; remove it") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_identity(os.pread(file, 4096, 0))
            os.close(file)
            if holder.get("producer") == producer and holder["epoch"] < epoch:
                return _take_over(directory, identity)
            if clock.monotonic() < deadline:
                clock.sleep(0.005)
                continue
            raise _refusal(directory, holder, producer, epoch) from None
        lock = WriterLock(directory, file, took_over=False)
        if lock.held():  # and not renamed away between opening and locking
            os.ftruncate(file, 0)
            os.pwrite(file, identity, 0)
            return lock
        lock.release()


def _refusal(directory: Path, holder: dict[str, Any], producer: str, epoch: int) -> Busy | Fenced:
    who = f"producer {holder.get('producer')!r}, epoch {holder.get('epoch')}, process {holder.get('pid')}"
    if holder.get("producer") == producer and holder["epoch"] > epoch:
        return Fenced(f"{directory} is written by {who}: epoch {epoch} is older, stop this producer")
    return Busy(f"{directory} is written by {who}: wait for it, or write with a newer epoch of that producer")


def _take_over(directory: Path, identity: bytes) -> WriterLock:
    fresh = directory / f"{LOCK}.{os.getpid()}.tmp"
    file = files.descriptor(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.pwrite(file, identity, 0)
    files.rename(fresh, directory / LOCK)
    files.sync_directory(directory)
    return WriterLock(directory, file, took_over=True)


def is_written(directory: Path) -> bool:
    """Whether a writer is active."""
    try:
        file = files.descriptor(directory / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _read_identity(data: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        identity = json.loads(data)
        if isinstance(identity, dict) and isinstance(identity.get("epoch"), int):
            return identity
    return {"producer": "?", "epoch": 0}
