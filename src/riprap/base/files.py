"""Files in directories that we own: those of runs, campaigns, proofs, streams and checkpoints. One place opens them.

Whoever can write to such a directory could put a symbolic link in place of a file or a directory, and have us truncate,
overwrite or append to what it leads to. So no link is followed, at any component of a path: the directory is opened
first, it is checked where it lies, and everything is done relative to it, so that what is checked is what is used, also
while somebody changes it. Paths are therefore real ones: whoever takes a directory from a user resolves it once
(`real`), for what leads there is the user's business, and everything below it is ours.

To rename, to unlink and to remove a tree act on a link itself, and not on what it leads to.
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
    """A path that a user gave, with the links that lead there resolved."""
    return Path(os.path.realpath(path))


def refuse_links(root: AnyPath) -> None:
    """Raises for the first link anywhere below a directory, before anything in it is used."""
    left = [os.fspath(root)]
    while left:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _refusal(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)


def _refusal(path: AnyPath) -> DataError:
    return DataError(
        f"{os.fspath(path)} is a symbolic link, and none is followed in a directory of riprap: remove it, or put there "
        "what it leads to"
    )


# Walking --------------------------------------------------------------------------------------------------------------


def _absolute(path: AnyPath) -> str:
    text = os.fspath(path)
    if not text.startswith("/"):
        text = f"{os.getcwd()}/{text}"
    return os.path.normpath(text) if "//" in text or "/." in text or text.endswith("/") else text


def _step(directory: int | None, name: str, path: AnyPath, flags: int, mode: int = 0o644) -> int:
    """Open what is called so in an open directory; errors name the whole path."""
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
    """A directory, open. The system says where what it opened lies: if that is the path, no link led there."""
    try:
        found = os.open(path, _WALK)
    except OSError:
        return _walked(path)
    try:
        if os.readlink(f"/proc/self/fd/{found}") == path:
            return found
    except OSError:
        pass
    os.close(found)
    return _walked(path)


def _walked(path: str, *, make: bool = False) -> int:
    """The same, component by component; `make` makes what is missing."""
    directory = os.open("/", _WALK)
    try:
        so_far = ""
        for name in filter(None, path.split("/")):
            so_far += f"/{name}"
            try:
                below = _step(directory, name, so_far, _WALK)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=directory)
                below = _step(directory, name, so_far, _WALK)
            os.close(directory)
            directory = below
    except BaseException:
        os.close(directory)
        raise
    return directory


@contextlib.contextmanager
def _parent(path: AnyPath) -> Iterator[tuple[int, str]]:
    """The directory that a path is in, open, and its last name."""
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
    """What `os.open` gives."""
    above, _, name = _absolute(path).rpartition("/")
    directory = _directory(above or "/")
    try:
        return _step(directory, name, path, flags, mode)
    finally:
        os.close(directory)


def open_file(path: AnyPath, mode: str = "rb", buffering: int = -1) -> IO[Any]:
    """What `open` gives. Texts are UTF-8."""
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
    """A file that nobody changes, mapped into memory."""
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
    """Of a file or a directory; raises for a link."""
    with _parent(path) as (directory, name):
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise _refusal(path)
        return found


def exists(path: AnyPath) -> bool:
    try:
        status(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_directory(path: AnyPath) -> bool:
    return exists(path) and stat.S_ISDIR(status(path).st_mode)


def rename(path: AnyPath, to: AnyPath) -> None:
    """Takes the place of what was there."""
    with _parent(path) as (directory, name), _parent(to) as (other, new):
        os.rename(name, new, src_dir_fd=directory, dst_dir_fd=other)


def link(path: AnyPath, to: AnyPath) -> None:
    """A second name of the same file; raises if it is taken."""
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
    """A directory, and those above it; one that is there stays."""
    os.close(_walked(_absolute(path), make=True))


def names(path: AnyPath) -> list[str]:
    """Of what is in a directory, in order."""
    directory = descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sorted(os.listdir(directory))
    finally:
        os.close(directory)


def remove_tree(path: AnyPath) -> None:
    """A directory with all that is in it, a file, a link, or nothing."""
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
