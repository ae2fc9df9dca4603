"""A lock that lets one process at a time use a directory.

The owner holds an exclusive `flock` on the file `.owner` in it, which names its process and machine. The kernel
releases the lock however the process dies, so a lock is never stale: the next process locks the file that a dead one
left. On a file system without locks, directories are used without.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from riprap.base import files
from riprap.base.errors import UsageError

OWNER = ".owner"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def owned(directory: Path, what: str) -> Iterator[None]:
    """Own a directory, which is created if it is missing and must contain no links; raises `UsageError` while another
    process owns it. `directory`: a real path; `what`: its purpose, as in "run". A directory that was created here and
    is still empty is removed at the end."""
    made = not files.exists(directory)
    try:
        files.make(directory)
        file = _locked(directory, what)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}; give another directory") from error
    try:
        files.refuse_links(directory)
        yield
    finally:
        with contextlib.suppress(OSError):  # it may be gone already; do not hide an error from inside the block
            if made and is_empty(directory):
                files.remove_tree(directory)
        os.close(file)


def is_empty(directory: Path) -> bool:
    """Whether a directory has no entry but `.owner`."""
    return files.names(directory) in ([], [OWNER])


def _locked(directory: Path, what: str) -> int:
    path = directory / OWNER
    while True:
        file = files.descriptor(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(os.pread(file, 4096, 0))
            os.close(file)
            raise UsageError(
                f"{directory} is in use by {holder}: another {what} is running there; wait for it, stop it, "
                "or give another directory"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(file)
                raise
        with contextlib.suppress(FileNotFoundError):
            if files.status(path).st_ino == os.fstat(file).st_ino:  # not deleted between opening and locking
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return file
        os.close(file)


def _holder(data: bytes) -> str:
    try:
        owner = json.loads(data)
        pid, host = int(owner["pid"]), str(owner["host"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return "another process"  # it has not written its name yet
    return f"process {pid}" + ("" if host == socket.gethostname() else f" on {host}")
