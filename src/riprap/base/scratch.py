"""Scratch directories: a process removes its own when it ends; `sweep` removes those of killed processes.

A directory's name identifies its process: pid, start time (pids are reused) and PID namespace (a process of another
container is not mistaken for a dead one). `sweep` removes only directories of this user whose process is dead. It
follows no link and never touches a directory of a living process, even if several sweeps run at once.
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
    """A directory that only this user can enter; it is removed when this process exits."""
    path = tempfile.mkdtemp(prefix=_prefix(what))
    atexit.register(_remove, path, os.getpid())
    return path


@contextmanager
def scratch(what: str) -> Iterator[Path]:
    """A directory that exists during the `with` block."""
    with tempfile.TemporaryDirectory(prefix=_prefix(what)) as path:
        yield Path(path)


def sweep() -> None:
    """Remove the directories that killed processes of this user left behind."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name) if entry.name.startswith("riprap-") else None
            if match is not None and _ours(entry) and _dead(*(int(part, 16) for part in match.groups())):
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
        pass  # another user's process: the pid was reused
    now = _started(pid)
    return now is not None and now != started


def _started(pid: int) -> int | None:
    """The start time of a process in clock ticks; None if it does not exist or the system does not report it."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        shutil.rmtree(path, ignore_errors=True)
