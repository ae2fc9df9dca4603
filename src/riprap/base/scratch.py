"""Scratch directories: gone when their process ends, and where it could not see to that, removed by the next one.

Their names say whose they are: process, its start (so that a number that is used again means nobody), and its namespace
(so that processes of another container are not taken for dead). `sweep` removes what belongs to this user and to a
process that is no more, and nothing else: no link is followed, and a directory of a living process is never touched,
however many sweep at once.
"""

import atexit
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = re.compile(r"riprap-[a-z]+-([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]+)-\w+")


def scratch_directory(what: str) -> str:
    """One of this process, which only its user can enter and which is gone when it ends."""
    made = tempfile.mkdtemp(prefix=_prefix(what))
    atexit.register(_remove, made, os.getpid())
    return made


@contextmanager
def scratch(what: str) -> Iterator[Path]:
    """One for a while."""
    with tempfile.TemporaryDirectory(prefix=_prefix(what)) as made:
        yield Path(made)


def sweep() -> None:
    """Remove what processes of this user left that were killed."""
    here = tempfile.gettempdir()
    with suppress(OSError), os.scandir(here) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name) if entry.name.startswith("riprap-") else None
            if found is not None and _ours(entry) and _dead(*(int(part, 16) for part in found.groups())):
                shutil.rmtree(entry.path, ignore_errors=True)


def _prefix(what: str) -> str:
    pid = os.getpid()
    return f"riprap-{what}-{pid:x}.{_started(pid) or 0:x}.{_namespace():x}-"


def _ours(entry: "os.DirEntry[str]") -> bool:
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()


def _dead(pid: int, started: int, namespace: int) -> bool:
    if namespace != _namespace():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # somebody else's: the number is used again
    now = _started(pid)
    return now is not None and now != started


def _started(pid: int) -> int | None:
    """When a process was started, in ticks of the system; None: there is none, or the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _remove(made: str, owner: int) -> None:
    if os.getpid() == owner:  # not a process forked from it
        shutil.rmtree(made, ignore_errors=True)
