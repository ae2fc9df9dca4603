"""The warm-up server: imports everything while the JVM starts, and forks Spark's daemon on request.

Spark starts its daemon with the first task, seconds after the start of a command, and would import everything only
then. So the driver starts this process together with the JVM (`launching.py`), and puts the path of its socket into the
JVM's environment. The daemon that Spark starts later connects to it, passes its file descriptors 0, 1 and 2, its
arguments and its environment, and waits; the warm-up server forks, and the fork acts as Spark's daemon.

    driver ── pipe ── warm-up server ── fork ──► daemon ── fork ──► workers
      │                  ▲ socket                  ▲
      └── pipe ── JVM ── starts ── daemon.py ──────┘ its file descriptors

Fault model. The warm-up server ends with its driver, at the end of its pipe, even while it still imports (by a signal);
the daemon ends with the JVM in the same way. If the warm-up server is gone, the daemon imports for itself. Daemons may
be requested any number of times. The socket is in a directory that only the user can enter.

A request, in one connection: the length of the rest (4 bytes) with the three file descriptors, then JSON. The
connection ends with the daemon.
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

SOCKET = "RIPRAP_WARM_SERVER"  # in the environment of the JVM: the path of the socket
_MOST = 16 << 20  # bytes of a request
_PATIENCE = 300.0  # seconds to import, on a very busy machine
_FILES = (0, 1, 2)


def begin(path: str) -> "subprocess.Popen[bytes]":
    """Start a warm-up server that will listen there; it ends when the pipe to it is closed."""
    # Strings hash as in Spark's own workers, and no library starts threads: a fork would lose them.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "riprap.spark.warm_server", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


# In the daemon that Spark starts --------------------------------------------------------------------------------------


def served_by_warm_server() -> bool:
    """Let a fork of the warm-up server act as the daemon, and wait for its end; False: there is no server."""
    path = os.environ.get(SOCKET)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
            request = {"arguments": sys.argv[1:], "environment": dict(os.environ), "executor": os.getppid()}
            text = json.dumps(request).encode()
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


# The warm-up server ---------------------------------------------------------------------------------------------------


def main(path: str) -> None:
    """Load everything, then fork a daemon for each request, until the driver has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no waiting for daemons
    _end_with(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        from riprap.spark import warm

        gc.freeze()
        _end_with(None)
        while 0 not in select.select([0, listening.fileno()], [], [])[0]:
            request = _accepted(listening)
            if request is not None:
                listening.close()
                warm.serve(_become(*request))


def _end_with(pipe: int | None) -> None:
    """End at once when the other end of this pipe is closed; None: from now on the caller polls the pipe.

    Only a signal interrupts imports that take seconds, and a process that forks must not start a thread.
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


def _accepted(listening: socket.socket) -> tuple[socket.socket, list[int], dict[str, Any]] | None:
    """A request, in the forked process that serves it; None in the warm-up server itself."""
    connection, _ = listening.accept()
    files: list[int] = []
    with connection:
        try:
            connection.settimeout(_PATIENCE)
            length, files, _, _ = socket.recv_fds(connection, 4, len(_FILES))
            request = _read(connection, int.from_bytes(length, "big"))
            if len(files) == len(_FILES) and os.fork() == 0:
                return connection.dup(), files, request
        except (OSError, ValueError):
            pass  # the client is gone, or gets no answer and imports for itself
    for file in files:
        os.close(file)
    return None


def _read(connection: socket.socket, length: int) -> dict[str, Any]:
    if not 0 < length <= _MOST:
        raise ValueError("this is not a request")
    text = b""
    while len(text) < length:
        part = connection.recv(length - len(text))
        if not part:
            raise ValueError("the request is truncated")
        text += part
    request = json.loads(text)
    if not isinstance(request, dict):
        raise ValueError("this is not a request")
    return request


def _become(connection: socket.socket, files: list[int], request: dict[str, Any]) -> int:
    """Take the place of the process that sent the request; returns its parent, the executor."""
    for file, place in zip(files, _FILES, strict=True):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path += [place for place in places if place and place not in sys.path]
    os.register_at_fork(after_in_child=connection.close)  # it ends with the daemon, even if workers live on
    connection.sendall(b"y")
    return int(request["executor"])


if __name__ == "__main__":
    main(sys.argv[1])
