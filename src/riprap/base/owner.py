"""Who works in a directory: one process at a time.

The owner holds an exclusive `flock` on the file `.owner` in it, which names its process and machine. The kernel lets go
of it when the process dies, however it dies, so a lock is never stale: a file left behind by a dead process is locked
anew. A file system without locks is used without.
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
    """Hold a directory, a real path, which is made if need be and may have no links in it; raises `UsageError` while
    another process does. `what` it is for: "run". A directory that was made here, and that nothing was put into, is
    gone afterwards."""
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
        with contextlib.suppress(OSError):  # somebody else may have removed it: what went wrong inside is to be told
            if made and is_empty(directory):
                files.remove_tree(directory)
        os.close(file)


def is_empty(directory: Path) -> bool:
    """Whether nothing is in it but the name of its owner."""
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
                f"{directory} is in use by {holder}: another {what} is going on there; wait for it, stop it, "
                "or give another directory"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(file)
                raise
        with contextlib.suppress(FileNotFoundError):
            if files.status(path).st_ino == os.fstat(file).st_ino:  # and not deleted between opening and locking
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return file
        os.close(file)


def _holder(data: bytes) -> str:
    try:
        told = json.loads(data)
        pid, host = int(told["pid"]), str(told["host"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return "another process"  # it has not written its name yet
    return f"process {pid}" + ("" if host == socket.gethostname() else f" on {host}")
