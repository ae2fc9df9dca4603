"""Where checkpoints lie: whole files by name, written at once or not at all.

Fault model. When `write` returns, the file is there after any crash; a crash within it leaves the old file or the new
one. A `delete` is not forced to disk: after a crash of the machine the file may be there again. Whatever reads must
check what it reads, for any byte of a file may have changed since.
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
        """Of the files directly in a folder, without it; none if there is no such folder."""

    def delete(self, name: str) -> None:
        """Deleting what is not there is no error."""


class LocalStorage:
    """A directory of this machine or of a file system that all machines share."""

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
    """For simulation. `crash` is the machine's: it brings back what was deleted."""

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
        """The machine stops: deletions that were not yet on disk are undone."""
        self.files |= self._deleted
        self._deleted = {}
