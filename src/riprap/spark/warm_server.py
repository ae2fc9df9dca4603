"""Workers import while the JVM starts: a process that loads everything beforehand, and forks Spark's daemon when asked.

Spark starts its daemon with the first task, seconds after a command began, and only then everything would be imported.
So the driver starts this process with the JVM (`launching.py`), and names its socket in the JVM's environment. The
daemon that Spark then starts finds it there, hands over its files 0, 1 and 2, its arguments and its environment, and
waits; the nursery forks, and the fork is what Spark takes for its daemon.

    driver ── pipe ── nursery ── fork ──► daemon ── fork ──► workers
      │                  ▲ socket           ▲
      └── pipe ── JVM ── starts ── daemon.py┘ its files

Fault model. The nursery ends when its driver does, at the end of its pipe, also while it still imports (a signal tells
of it); the daemon when the JVM does, likewise. A nursery that is not there any more is no loss: the daemon imports for
itself. Daemons may be asked for any number of times. The socket is in a directory that only the user can enter.

A request, in one connection: length of what follows (4 bytes) with the three files, then JSON. The connection ends with
the daemon.
"""

import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

SOCKET = "RIPRAP_NURSERY"  # in the environment of the JVM: where it listens
_MOST = 16 << 20  # bytes of a request
_PATIENCE = 300.0  # seconds to import, on a machine that is very busy
_FILES = (0, 1, 2)


def begin(path: str) -> "subprocess.Popen[bytes]":
    """Start a nursery that will listen there; it ends when the pipe to it is closed."""
    # Strings hash as they do in Spark's own workers, and no library starts threads: a fork would lose them.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "riprap.spark.warm_server", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


# In the daemon that Spark starts --------------------------------------------------------------------------------------


def served_by_nursery() -> bool:
    """Have the nursery be the daemon, and wait for its end; False: there is none."""
    path = os.environ.get(SOCKET)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
            wanted = {"arguments": sys.argv[1:], "environment": dict(os.environ), "executor": os.getppid()}
            text = json.dumps(wanted).encode()
            socket.send_fds(connection, [len(text).to_bytes(4, "big")], list(_FILES))
            connection.sendall(text)
            connection.settimeout(_PATIENCE)
            if connection.recv(1) != b"y":
                return False
        except OSError:
            return False
        connection.settimeout(None)
        with suppress(OSError):
            connection.recv(1)  # until it ends
        return True


# The nursery ----------------------------------------------------------------------------------------------------------


def main(path: str) -> None:
    """Load everything, then fork a daemon for whoever asks, until the driver has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for daemons
    _end_with(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        from riprap.spark import warm

        gc.freeze()
        _end_with(None)
        while 0 not in select.select([0, listening.fileno()], [], [])[0]:
            request = _taken(listening)
            if request is not None:
                listening.close()
                warm.serve(_become(*request))


def _end_with(pipe: int | None) -> None:
    """End at once, whatever it does, when the other end of this pipe is closed; None: from now on it looks itself.

    Nothing but a signal interrupts imports that take seconds, and nobody starts a thread where forks come from.
    """
    flags = fcntl.fcntl(0, fcntl.F_GETFL) & ~os.O_ASYNC
    if pipe is None:
        fcntl.fcntl(0, fcntl.F_SETFL, flags)
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # ends the process
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:  # it was closed before
        sys.exit(0)


def _taken(listening: socket.socket) -> tuple[socket.socket, list[int], dict[str, Any]] | None:
    """A request, in the process that is to serve it; None in the nursery itself."""
    connection, _ = listening.accept()
    files: list[int] = []
    with connection:
        try:
            connection.settimeout(_PATIENCE)
            length, files, _, _ = socket.recv_fds(connection, 4, len(_FILES))
            wanted = _read(connection, int.from_bytes(length, "big"))
            if len(files) == len(_FILES) and os.fork() == 0:
                return connection.dup(), files, wanted
        except (OSError, ValueError):
            pass  # whoever asked is gone, or hears nothing and imports for itself
    for file in files:
        os.close(file)
    return None


def _read(connection: socket.socket, length: int) -> dict[str, Any]:
    if not 0 < length <= _MOST:
        raise ValueError("this is no request")
    text = b""
    while len(text) < length:
        part = connection.recv(length - len(text))
        if not part:
            raise ValueError("the request ends before its end")
        text += part
    wanted = json.loads(text)
    if not isinstance(wanted, dict):
        raise ValueError("this is no request")
    return wanted


def _become(connection: socket.socket, files: list[int], wanted: dict[str, Any]) -> int:
    """Take the place of the process that asked; gives its parent, the executor."""
    for file, place in zip(files, _FILES, strict=True):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv[1:] = wanted["arguments"]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path += [place for place in given if place and place not in sys.path]
    os.register_at_fork(after_in_child=connection.close)  # it is to end with the daemon, whatever its workers do
    connection.sendall(b"y")
    return int(wanted["executor"])


if __name__ == "__main__":
    main(sys.argv[1])
