"""A JVM and a nursery that start while their caller imports, checks and reads: seconds that nobody waits for.

`launch` begins both; `launched` waits for the JVM, and whoever builds a session then finds it there. Both end with this
process, however that ends: they read pipes that the process holds. Only for local masters: what a cluster's driver
needs on its class path is not known before.

It is what `pyspark.java_gateway.launch_gateway` does, in two steps, of which the first needs nothing of pyspark, whose
import takes as long as the JVM needs to start.
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
from riprap.spark import warm_server as nursery
from riprap.spark.class_archive import ClassArchive
from riprap.spark.settings import JAVA, local_hosting

_LOOK = 0.02  # seconds between looks whether the JVM is there
_END = 120.0  # seconds that a JVM may take to write its archive
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"  # where pyspark looks for a JVM that is there

_lock = threading.Lock()
_launch: "_Launch | None" = None


class _Launch:
    def __init__(self, home: str, archive: bool) -> None:
        self.failure: Exception | None = None
        self._scratch = Path(scratch_directory("jvm"))
        settings = dict(local_hosting())
        options = settings[JAVA].partition(" ")[2]  # without the file that logging is configured with
        self.archive = ClassArchive(_java(), home, options, self._scratch if archive else None)
        settings[JAVA] += f" {self.archive.options}"
        self._answer = self._scratch / "gateway"
        environment = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer)}
        nursed = os.environ["PYSPARK_PYTHON"] == sys.executable  # else workers are of another Python
        path = str(self._scratch / "nursery")
        self.jvm = _started(home, settings, environment | ({nursery.SOCKET: path} if nursed else {}))
        atexit.register(self._leave, os.getpid())  # before the scratch directory goes, which was made before
        self._nursery = nursery.begin(path) if nursed else None
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
            told = self._answer.read_bytes()
            os.environ[_PORT], os.environ[_SECRET] = str(int.from_bytes(told[:4], "big")), told[8:].decode()
            try:
                gateway = launch_gateway()
            finally:
                del os.environ[_PORT], os.environ[_SECRET]
            gateway.proc = self.jvm
            SparkContext._ensure_initialized(gateway=gateway)
        except Exception as error:  # whoever needs a session tries again, and says what is wrong
            self.failure = error

    def _leave(self, owner: int) -> None:
        """A JVM that has not answered when this process ends could write its answer nowhere, and would never end."""
        if os.getpid() == owner and not self._answer.exists():
            self.jvm.kill()

    def wait(self) -> None:
        self._thread.join()

    def end(self) -> None:
        """Let the JVM end, if it has to write its classes, and keep them."""
        if self.archive.draft is None or self.failure is not None or self.jvm.stdin is None:
            return
        from pyspark import SparkContext

        with suppress(Exception):  # whatever a session has to say at its end: the command has done its work
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            self.jvm.stdin.close()
            self.jvm.wait(_END)
            self.archive.keep()


def launch(master: str | None, *, archive: bool = False) -> None:
    """Start a JVM, if the session will be a local one and none is there. `archive`: it may write one, at its `end`."""
    global _launch
    if (master is not None and not master.startswith("local")) or (master or "").startswith("local-cluster"):
        return
    home = _spark_home()
    with _lock:
        if _launch is None and home is not None and _PORT not in os.environ and not _has_jvm():
            _launch = _Launch(home, archive)


def launched() -> None:
    """Return when the JVM that was begun is there, or has failed."""
    if _launch is not None:
        _launch.wait()


def end() -> None:
    """At the end of a command: what the next one starts faster with. Sessions of this process are no more then."""
    if _launch is not None:
        _launch.wait()
        _launch.end()


def _has_jvm() -> bool:
    """Whether this process had a session before: it is to keep its JVM, and what it was started with."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def _started(home: str, settings: dict[str, str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [os.path.join(home, "bin", "spark-submit")]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    # Spark's script starts a JVM to find out how to start the JVM; that one is small, too.
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
    """Where Spark is, without importing pyspark; None: whoever asks for a session hears of it."""
    found = importlib.util.find_spec("pyspark")
    places = [os.environ.get("SPARK_HOME"), *(found.submodule_search_locations or () if found is not None else ())]
    return next((p for p in places if p and os.path.exists(os.path.join(p, "bin", "spark-submit"))), None)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")
