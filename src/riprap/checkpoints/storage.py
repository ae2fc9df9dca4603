"""Storage of checkpoints: whole files by name, written atomically.

Fault model: when `write` returns, the file survives any crash; a crash during it leaves the old file or the new one. A
`delete` is not synced: after a machine crash the file may exist again. Readers must verify what they read, because any
byte of a file may have changed.
"""

import os
from typing import Protocol, TypeAlias

import pyarrow as pa

from riprap.streams.stream_files import LocalFiles

Contents: TypeAlias = bytes | pa.Buffer


class Storage(Protocol):
    """Names are relative paths with `/`."""

    def write(self, name: str, data: Contents) -> None:
        """Durable and atomic; replaces a file of that name."""

    def read(self, name: str) -> bytes:
        """Raises `FileNotFoundError`."""

    def names(self, folder: str) -> list[str]:
        """The names of the files directly in a folder, without its path; none if there is no such folder."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""


class LocalStorage:
    """A directory on this machine or on a shared file system."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._files = LocalFiles(directory)

    def write(self, name: str, data: Contents) -> None:
        self._files.put(name, data)

    def read(self, name: str) -> bytes:
        return self._files.get(name)

    def names(self, folder: str) -> list[str]:
        return self._files.names(folder)

    def delete(self, name: str) -> None:
        self._files.delete(name)


class MemoryStorage:
    """For simulation. `crash` is a machine crash: it undoes deletions."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._deleted: dict[str, bytes] = {}

    def write(self, name: str, data: Contents) -> None:
        self._deleted.pop(name, None)
        self.files[name] = bytes(data)

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def names(self, folder: str) -> list[str]:
        return [name[len(folder) + 1 :] for name in list(self.files) if name.rpartition("/")[0] == folder]

    def delete(self, name: str) -> None:
        if name in self.files:
            self._deleted[name] = self.files.pop(name)

    def crash(self) -> None:
        """Simulate a machine crash: deletions that were not synced are undone."""
        self.files |= self._deleted
        self._deleted = {}
