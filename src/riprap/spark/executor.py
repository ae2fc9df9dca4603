"""The executor that a Python worker belongs to, seen from the worker: JVM → daemon → worker."""

import os

_PID = "RIPRAP_EXECUTOR_PID"


def remember_executor(pid: int) -> None:
    """Called in the daemon, before it forks."""
    os.environ[_PID] = str(pid)


def executor_pid() -> int:
    """The process id of the executor's JVM, in the worker's own process namespace."""
    pid = os.environ.get(_PID)
    if pid is not None:
        return int(pid)
    with open(f"/proc/{os.getppid()}/stat") as file:  # not forked from Riprap's daemon
        return int(file.read().rpartition(")")[2].split()[1])
