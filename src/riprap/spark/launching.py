"""Starts a JVM and a warm-up server while the caller still imports, checks and reads, which hides seconds.

`launch` starts both; `launched` waits for the JVM, and the next session uses it. Both end with this process, however it
ends: they read pipes that the process holds. Only for local masters: the class path of a cluster's driver is not known
in advance.

It does what `pyspark.java_gateway.launch_gateway` does, in two steps. The first does not import pyspark, which takes as
long as the JVM takes to start.
"""

import atexit
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.processes import SAFE_PATH
from riprap.base.scratch import scratch_directory
from riprap.spark import warm_server
from riprap.spark.class_archive import ClassArchive
from riprap.spark.settings import JAVA, hosting, local_hosting

_LOOK = 0.02  # seconds between checks whether the JVM is ready
_END = 120.0  # seconds that a JVM may take to write its archive
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"  # where pyspark looks for a running JVM

_lock = threading.Lock()
_launch: "_Launch | None" = None


class _Launch:
    def __init__(self, home: str, archive: bool) -> None:
        self.failure: Exception | None = None
        self._scratch = Path(scratch_directory("jvm"))
        settings = dict(local_hosting())
        self.archive = ClassArchive(_java(), home, hosting()[JAVA], self._scratch if archive else None)
        settings[JAVA] += f" {self.archive.options}"
        self._answer = self._scratch / "gateway"
        environment = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer)}
        use_warm_server = os.environ["PYSPARK_PYTHON"] == sys.executable  # else workers use another Python
        path = str(self._scratch / "warm-up")
        self.jvm = _started(home, settings, environment | ({warm_server.SOCKET: path} if use_warm_server else {}))
        atexit.register(self._leave, os.getpid())  # runs before the scratch directory is removed
        self._warm_server = warm_server.begin(path) if use_warm_server else None
        self._thread = threading.Thread(target=self._run, name="riprap-jvm", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            from pyspark import SparkContext
            from pyspark.java_gateway import launch_gateway

            while not self._answer.exists():
                if self.jvm.poll() is not None:
                    raise RuntimeError("the JVM has ended")
                SYSTEM_CLOCK.sleep(_LOOK)
            answer = self._answer.read_bytes()
            os.environ[_PORT], os.environ[_SECRET] = str(int.from_bytes(answer[:4], "big")), answer[8:].decode()
            try:
                gateway = launch_gateway()
            finally:
                del os.environ[_PORT], os.environ[_SECRET]
            gateway.proc = self.jvm
            SparkContext._ensure_initialized(gateway=gateway)
        except Exception as error:  # building a session tries again and reports the error
            self.failure = error

    def _leave(self, owner: int) -> None:
        """Kill a JVM that has not answered when this process ends: it could not write its answer, and would not end."""
        if os.getpid() == owner and not self._answer.exists():
            self.jvm.kill()

    def wait(self) -> None:
        self._thread.join()

    def end(self) -> None:
        """If the JVM writes an archive: end it, and store the archive."""
        if self.archive.draft is None or self.failure is not None or self.jvm.stdin is None:
            return
        from pyspark import SparkContext

        with suppress(Exception):  # errors of an ending session do not matter: the command has done its work
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            self.jvm.stdin.close()
            self.jvm.wait(_END)
            self.archive.keep()


def launch(master: str | None, *, archive: bool = False) -> None:
    """Start a JVM if the session will be local and none is running. `archive`: it may write one at its `end`."""
    global _launch
    if (master is not None and not master.startswith("local")) or (master or "").startswith("local-cluster"):
        return
    home = _spark_home()
    with _lock:
        if _launch is None and home is not None and _PORT not in os.environ and not _has_jvm():
            _launch = _Launch(home, archive)


def launched() -> None:
    """Wait until the started JVM is ready or has failed."""
    if _launch is not None:
        _launch.wait()


def end() -> None:
    """At the end of a command: store what makes the next one start faster. This ends the sessions of this process."""
    if _launch is not None:
        _launch.wait()
        _launch.end()


def _has_jvm() -> bool:
    """Whether this process had a session before: it keeps its JVM and settings."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def _started(home: str, settings: dict[str, str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [os.path.join(home, "bin", "spark-submit")]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    # Spark's script starts a JVM to find out how to start the JVM; keep that one small, too.
    quick = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {os.environ.get('SPARK_LAUNCHER_OPTS', '')}"
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # it ends when this is closed
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "SPARK_CONNECT_MODE": "0", "SPARK_LAUNCHER_OPTS": quick, SAFE_PATH: "1", **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # Ctrl-C is the driver's
    )


def _spark_home() -> str | None:
    """Where Spark is installed, without importing pyspark; None: building a session reports it."""
    spec = importlib.util.find_spec("pyspark")
    places = [os.environ.get("SPARK_HOME"), *(spec.submodule_search_locations or () if spec is not None else ())]
    return next((p for p in places if p and os.path.exists(os.path.join(p, "bin", "spark-submit"))), None)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")
