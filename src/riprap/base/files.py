"""Opens files in directories that we own: those of runs, campaigns, proofs, streams and checkpoints. No other code
does.

Anyone with write access to such a directory could replace a file or a directory by a symbolic link and make us
truncate, overwrite or append to its target. So no link is followed, at any component of a path: the parent directory is
opened first, its location is verified, and all operations are relative to its descriptor. This leaves no gap between
check and use. Paths must therefore be real: code that receives a directory from a user resolves it once (`real`). Links
above that directory are the user's choice; everything below it is ours.

Nor is a named pipe, a socket or a device opened: opening or reading it could block forever.

`rename`, `unlink` and `remove_tree` act on a link itself, not on its target.
"""

import contextlib
import errno
import mmap
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from riprap.base.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

AnyPath = str | os.PathLike[str]
_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)


def real(path: AnyPath) -> Path:
    """A user's path with all symbolic links resolved."""
    return Path(os.path.realpath(path))


def refuse_links(root: AnyPath) -> None:
    """Raise for the first symbolic link anywhere below a directory. Call it before using the directory."""
    stack = [os.fspath(root)]
    while stack:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _refusal(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)


def _refusal(path: AnyPath) -> DataError:
    return DataError(
        f"{os.fspath(path)} is a symbolic link, and riprap follows none in its directories: remove it, or replace it "
        "by its target"
    )


def _no_file(path: AnyPath) -> DataError:
    return DataError(f"{os.fspath(path)} is a pipe, a socket or a device, and a file was expected: remove it")


# Walking --------------------------------------------------------------------------------------------------------------


def _absolute(path: AnyPath) -> str:
    text = os.fspath(path)
    if not text.startswith("/"):
        text = f"{os.getcwd()}/{text}"
    return os.path.normpath(text) if "//" in text or "/." in text or text.endswith("/") else text


def _step(directory: int | None, name: str, path: AnyPath, flags: int, mode: int = 0o644) -> int:
    """Open `name` in an open directory; errors name the whole path."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    raise _refusal(path) from None
        error.filename = os.fspath(path)
        raise


def _directory(path: str) -> int:
    """Open a directory. If `/proc` reports the same path for the descriptor, no link was followed."""
    try:
        directory = os.open(path, _WALK)
    except OSError:
        return _walked(path)
    try:
        if os.readlink(f"/proc/self/fd/{directory}") == path:
            return directory
    except OSError:
        pass
    os.close(directory)
    return _walked(path)


def _walked(path: str, *, make: bool = False) -> int:
    """Open a directory component by component; `make` creates missing ones."""
    directory = os.open("/", _WALK)
    try:
        prefix = ""
        for name in filter(None, path.split("/")):
            prefix += f"/{name}"
            try:
                child = _step(directory, name, prefix, _WALK)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=directory)
                child = _step(directory, name, prefix, _WALK)
            os.close(directory)
            directory = child
    except BaseException:
        os.close(directory)
        raise
    return directory


@contextlib.contextmanager
def _parent(path: AnyPath) -> Iterator[tuple[int, str]]:
    """The open parent directory of a path, and the path's last component."""
    above, _, name = _absolute(path).rpartition("/")
    directory = _directory(above or "/")
    try:
        yield directory, name
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        os.close(directory)


# Files ----------------------------------------------------------------------------------------------------------------


def descriptor(path: AnyPath, flags: int, mode: int = 0o644) -> int:
    """Like `os.open`."""
    above, _, name = _absolute(path).rpartition("/")
    directory = _directory(above or "/")
    try:
        file = _step(directory, name, path, flags | os.O_NONBLOCK, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe without a reader, a socket
            raise _no_file(path) from None
        raise
    finally:
        os.close(directory)
    kind = os.fstat(file).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        os.close(file)
        raise _no_file(path)
    return file


def open_file(path: AnyPath, mode: str = "rb", buffering: int = -1) -> IO[Any]:
    """Like `open`. Text is UTF-8."""
    encoding = None if "b" in mode else "utf-8"
    return open(os.fspath(path), mode, buffering, encoding=encoding, opener=lambda name, flags: descriptor(name, flags))


def read_bytes(path: AnyPath) -> bytes:
    with open_file(path, buffering=0) as file:
        data: bytes = file.read()
    return data


def read_text(path: AnyPath) -> str:
    return read_bytes(path).decode("utf-8")


def write_bytes(path: AnyPath, data: bytes) -> None:
    with open_file(path, "wb") as file:
        file.write(data)


def write_text(path: AnyPath, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def mapped(path: AnyPath) -> "pa.Buffer":
    """A file, mapped into memory. The file must not change."""
    import pyarrow as pa  # here, so that `riprap --help` does not wait for it

    with open_file(path, buffering=0) as file:
        if not os.fstat(file.fileno()).st_size:
            return pa.py_buffer(b"")
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def truncate(path: AnyPath, size: int) -> None:
    file = descriptor(path, os.O_WRONLY)
    try:
        os.ftruncate(file, size)
    finally:
        os.close(file)


def status(path: AnyPath) -> os.stat_result:
    """Like `os.stat`, for a file or a directory; raises for a link."""
    with _parent(path) as (directory, name):
        result = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(result.st_mode):
            raise _refusal(path)
        return result


def exists(path: AnyPath) -> bool:
    try:
        status(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_directory(path: AnyPath) -> bool:
    return exists(path) and stat.S_ISDIR(status(path).st_mode)


def rename(path: AnyPath, to: AnyPath) -> None:
    """Rename atomically; an existing target is replaced."""
    with _parent(path) as (directory, name), _parent(to) as (other, new):
        os.rename(name, new, src_dir_fd=directory, dst_dir_fd=other)


def link(path: AnyPath, to: AnyPath) -> None:
    """Create a hard link; raises if `to` exists."""
    with _parent(path) as (directory, name), _parent(to) as (other, new):
        os.link(name, new, src_dir_fd=directory, dst_dir_fd=other, follow_symlinks=False)


def unlink(path: AnyPath, *, missing_ok: bool = False) -> None:
    try:
        with _parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        if not missing_ok:
            raise


# Directories ----------------------------------------------------------------------------------------------------------


def make(path: AnyPath) -> None:
    """Create a directory and its missing parents; an existing one stays."""
    os.close(_walked(_absolute(path), make=True))


def names(path: AnyPath) -> list[str]:
    """The sorted names of a directory's entries."""
    directory = descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sorted(os.listdir(directory))
    finally:
        os.close(directory)


def remove_tree(path: AnyPath) -> None:
    """Remove a directory with its contents, a file or a link, if it exists."""
    try:
        with _parent(path) as (directory, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


def sync_directory(path: AnyPath) -> None:
    """Make renames, creations and deletions in a directory durable."""
    directory = descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
