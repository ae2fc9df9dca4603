"""Every file operation of a stream, behind one small interface.

`Files` offers whole-file writes, positioned reads, listing and deletion: what every pyarrow file system supports,
including object stores without append and rename. Only the open segment needs more, and it is always in a local
directory (see `writer.py`).

    LocalFiles    a directory of this machine. `put` is atomic and durable: temporary file, fsync, rename, fsync of the
                  directory. A crash leaves the old file or the new one, and perhaps a `.tmp`, which is ignored.
    RemoteFiles   a pyarrow file system. `put` writes the name directly, as object stores have no rename; there a file
                  appears when it is closed. Where it appears earlier (HDFS), a crash leaves a torn file: documents and
                  segments have checksums, so it counts as absent and is uploaded again.

Documents are small JSON files with a checksum over the rest of their content.
"""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs
import xxhash

from riprap.base import files
from riprap.base.disk import DiskFull, retry_while_full
from riprap.base.errors import UsageError
from riprap.streams.stream_errors import Damaged

_DIRECTORY = "it is a directory, but a file is expected"


class Readable(Protocol):
    """An open file. Reads past its end are short, as the system's are."""

    name: str
    chunk: int  # efficient read size in bytes

    def size(self) -> int: ...

    def read_at(self, offset: int, size: int) -> pa.Buffer: ...

    def named(self) -> bool:
        """Whether the name still refers to the open file; False where the check would cost as much as opening it."""

    def close(self) -> None: ...


class Files(Protocol):
    """The files of one stream, by names relative to its location."""

    location: str

    def names(self, folder: str = "") -> list[str]: ...

    def open(self, name: str) -> Readable:
        """Raises `FileNotFoundError`."""

    def get(self, name: str) -> bytes:
        """Raises `FileNotFoundError`."""

    def put(self, name: str, data: Any) -> None:
        """Write the whole file, replacing one of that name; `data` is anything with a buffer."""

    def sink(self, name: str) -> pa.NativeFile:
        """Write a file incrementally; a crash may leave a part of it, so publish its name only after closing it."""

    def delete(self, name: str) -> None:
        """A missing file is not an error."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Mutual exclusion of registering and trimming, across processes; remote locations do not support it."""


class LocalFiles:
    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()  # a real path
        self.location = str(directory)

    def names(self, folder: str = "") -> list[str]:
        try:
            return [name for name in files.names(self.directory / folder) if not name.endswith(".tmp")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, name: str) -> "LocalReadable":
        return LocalReadable(self.directory / name)

    def get(self, name: str) -> bytes:
        try:
            return files.read_bytes(self.directory / name)
        except IsADirectoryError:
            raise Damaged(str(self.directory / name), 0, _DIRECTORY) from None
        except NotADirectoryError as error:
            raise FileNotFoundError(error.errno, error.strerror, error.filename) from None

    def put(self, name: str, data: Any) -> None:
        path = self.directory / name
        files.make(path.parent)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")

        def write() -> None:
            with files.open_file(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

        try:
            retry_while_full(write, path)
        except DiskFull:
            files.unlink(temporary)
            raise
        files.rename(temporary, path)
        files.sync_directory(path.parent)

    def sink(self, name: str) -> pa.NativeFile:
        path = self.directory / name
        files.make(path.parent)
        return pa.PythonFile(files.open_file(path, "wb"), "w")

    def delete(self, name: str) -> None:
        path = self.directory / name
        try:
            files.unlink(path, missing_ok=True)
        except IsADirectoryError:
            raise Damaged(str(path), 0, "it is a directory; remove it") from None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        path = self.directory / "retention.lock"
        try:
            file = files.descriptor(path, os.O_RDWR | os.O_CREAT)
        except IsADirectoryError:
            raise Damaged(str(path), 0, "it is a directory; remove it") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


class LocalReadable:
    """Reads with `pread`: a failing disk is an error, and a file that a recovering writer truncates is a short read."""

    chunk = 512 << 10  # fits into the CPU cache while it is checked; mapping the file was slower

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = -1
        self._file = files.descriptor(path, os.O_RDONLY)
        if stat.S_ISDIR(os.fstat(self._file).st_mode):
            raise Damaged(self.name, 0, _DIRECTORY)

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def read_at(self, offset: int, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(max(size, 0))
        filled = os.preadv(self._file, (buffer,), offset)
        while filled < size:
            count = os.preadv(self._file, (memoryview(buffer)[filled:],), offset + filled)
            if count == 0:
                return buffer.slice(0, filled)
            filled += count
        return buffer

    def sync(self) -> None:
        os.fdatasync(self._file)

    def named(self) -> bool:
        try:
            return os.stat(self.name, follow_symlinks=False).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class RemoteFiles:
    def __init__(self, system: pyarrow.fs.FileSystem, root: str) -> None:
        self.location = f"{system.type_name}:{root}"
        self._system = system
        self._root = root.rstrip("/")

    def names(self, folder: str = "") -> list[str]:
        base = f"{self._root}/{folder}".rstrip("/")
        infos = self._system.get_file_info(pyarrow.fs.FileSelector(base, allow_not_found=True))
        return sorted(info.base_name for info in infos)

    def open(self, name: str) -> "RemoteReadable":
        return RemoteReadable(f"{self.location}/{name}", self._system.open_input_file(f"{self._root}/{name}"))

    def get(self, name: str) -> bytes:
        with self._system.open_input_file(f"{self._root}/{name}") as file:
            return bytes(file.read())

    def put(self, name: str, data: Any) -> None:
        with self.sink(name) as file:
            file.write(data)

    def sink(self, name: str) -> pa.NativeFile:
        folder, _, _ = f"{self._root}/{name}".rpartition("/")
        self._system.create_dir(folder, recursive=True)
        return self._system.open_output_stream(f"{self._root}/{name}")

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{name}")

    def exclusive(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()


class SpooledFiles:
    """A remote location whose newest segments are in a local directory, the spool, until they are uploaded."""

    def __init__(self, remote: Files, spool: LocalFiles) -> None:
        self.location = remote.location
        self.remote = remote
        self.spool = spool

    def names(self, folder: str = "") -> list[str]:
        return sorted({*self.remote.names(folder), *self.spool.names(folder)})

    def open(self, name: str) -> Readable:
        try:
            return self.spool.open(name)
        except FileNotFoundError:
            return self.remote.open(name)

    def get(self, name: str) -> bytes:
        return self.remote.get(name)

    def put(self, name: str, data: Any) -> None:
        self.remote.put(name, data)

    def sink(self, name: str) -> pa.NativeFile:
        return self.remote.sink(name)

    def delete(self, name: str) -> None:
        self.remote.delete(name)
        self.spool.delete(name)

    def exclusive(self) -> AbstractContextManager[object]:
        return self.remote.exclusive()

    def upload(self, name: str) -> None:
        """Move a finished file from the spool to the remote location."""
        self.remote.put(name, self.spool.get(name))
        self.spool.delete(name)


class RemoteReadable:
    chunk = 8 << 20  # a request costs a round trip

    def __init__(self, name: str, file: pa.NativeFile) -> None:
        self.name = name
        self._file = file

    def size(self) -> int:
        return int(self._file.size())

    def read_at(self, offset: int, size: int) -> pa.Buffer:
        return pa.py_buffer(self._file.read_at(size, offset))

    def named(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()


def files_at(location: "str | os.PathLike[str] | Files") -> Files:
    """The files at a user's location: a directory for a path or a `file:` URI, a pyarrow file system for any other URI;
    `Files` are returned as they are."""
    if not isinstance(location, str | os.PathLike):
        return location
    text = os.fspath(location)
    if "://" not in text and not text.startswith("file:"):
        return LocalFiles(files.real(text))
    try:
        system, path = pyarrow.fs.FileSystem.from_uri(text)
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(f"no file system for {text}: {error}") from None
    return LocalFiles(files.real(path)) if isinstance(system, pyarrow.fs.LocalFileSystem) else RemoteFiles(system, path)


def put_document(files: Files, name: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=True)
    files.put(name, json.dumps({**content, "check": _check(text)}, indent=1, sort_keys=True).encode())


def get_document(files: Files, name: str) -> dict[str, Any]:
    """Raises `FileNotFoundError`, or `Damaged` if the checksum of the content does not match."""
    try:
        content = json.loads(files.get(name))
        check = content.pop("check")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Damaged(f"{files.location}/{name}", 0, "not a document with a checksum") from None
    if check != _check(json.dumps(content, indent=1, sort_keys=True)):
        raise Damaged(f"{files.location}/{name}", 0, "the document's checksum does not match")
    return dict(content)


def _check(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode())
