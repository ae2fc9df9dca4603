"""A real standalone cluster on loopback, from the installed PySpark: one master, and workers of which each runs an
executor of every application.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds starts sooner so
PATIENCE = 300  # seconds; only how long a test that fails takes


@contextmanager
def standalone(directory: Path, workers: int = 2, cores: int = 4) -> Iterator[str]:
    """The master's URL. `cores` are slots of each worker, whatever the machine has."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    log = directory / "master.log"
    daemons = [_start("master.Master", log, "--port", str(port), "--webui-port", "0")]
    try:
        _until(lambda: _accepts(port), daemons, log)
        for number in range(workers):
            sizes = ["--cores", str(cores), "--memory", "2g", "--webui-port", "0"]
            place = directory / f"worker{number}"
            daemons.append(_start("worker.Worker", Path(f"{place}.log"), *sizes, "--work-dir", str(place), url))
        _until(lambda: log.read_text().count("Registering worker") >= workers, daemons, log)
        yield url
    finally:
        for process in daemons:
            os.killpg(process.pid, signal.SIGTERM)
        for process in daemons:
            process.wait(timeout=300)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until(ready, daemons, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert all(process.poll() is None for process in daemons), log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


def _start(name: str, log: Path, *arguments: str) -> subprocess.Popen:
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": QUICK,  # of the executors too
    }
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
