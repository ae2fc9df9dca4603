"""Which executor a Python worker belongs to, seen from the worker: JVM → daemon → worker."""

import os

_PID = "RIPRAP_EXECUTOR_PID"


def remember_executor(pid: int) -> None:
    """Called in the daemon, before it forks."""
    os.environ[_PID] = str(pid)


def executor_pid() -> int:
    """The process id of the executor's JVM, in the worker's own process namespace."""
    given = os.environ.get(_PID)
    if given is not None:
        return int(given)
    with open(f"/proc/{os.getppid()}/stat") as file:  # forked from another daemon than Riprap's
        return int(file.read().rpartition(")")[2].split()[1])
