"""Settings of the sessions that Riprap builds itself. A caller's session is used as it is.

Without pyspark: a JVM is started with them before anything else is imported (`launching.py`).
"""

import os
import sys
from functools import cache
from pathlib import Path

from riprap.base.processes import SAFE_PATH
from riprap.base.scratch import scratch_directory

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""

DAEMON = "riprap.spark.daemon"  # see there; for the sessions that host processing elements
MOST_SOCKET_DIRECTORY = 107 - len("/.00000000-0000-0000-0000-000000000000.sock")  # bytes of a path that has a socket's
FAILURES = 1_000_000_000  # of one task, before Spark gives the job up: never
JAVA = "spark.driver.extraJavaOptions"
# Tuples never pass through a JVM that hosts elements, so it does without the costly compiler and starts sooner.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def hosting() -> dict[str, str]:
    """What a session needs that hosts elements, wherever it is."""
    settings = {
        "spark.python.daemon.module": DAEMON,
        "spark.task.maxFailures": str(FAILURES),
        "spark.executor.maxNumFailures": str(FAILURES),  # YARN and Kubernetes end the application beyond it
        "spark.excludeOnFailure.enabled": "false",  # an executor is not bad because its elements were killed
        "spark.dynamicAllocation.enabled": "false",  # it would take away the spare slots
        JAVA: _QUICK_JAVA,
        "spark.executor.extraJavaOptions": _QUICK_JAVA,
        "spark.python.task.killTimeout": "100ms",  # from the order to kill a task to the kill of its process
    }
    home = Path(__file__).parents[2]
    if home.name not in ("site-packages", "dist-packages"):  # not installed: executors that see the source tree use it
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(home), *filter(None, inherited)]))
    return settings


@cache
def local_hosting() -> dict[str, str]:
    """Of a local session that hosts elements, but for its master: known before anything else is."""
    return settings(loopback=True, same_user=True, conf=hosting())


def settings(*, loopback: bool, same_user: bool, conf: dict[str, str]) -> dict[str, str]:
    """All of a session, with `conf` on top. `same_user`: executors are known to be this user's, on this machine."""
    if loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = scratch_directory("spark")
    log4j = os.path.join(scratch, "log4j2.properties")
    with open(log4j, "w") as file:
        file.write(_QUIET)
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.python.authenticate.socketTimeout": "300s",  # 15 s of a machine that is very busy are not enough
        "spark.speculation": "false",
    }
    if loopback:
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    found[f"spark.executorEnv.{SAFE_PATH}"] = "1"  # of Spark's daemon and its workers, in a local session too
    if loopback and (same_user or conf.get("spark.python.daemon.module") == DAEMON):
        found |= _unix_sockets(scratch)
    found |= conf
    found[JAVA] = f"-Dlog4j2.configurationFile=file:{log4j} {conf.get(JAVA, '')}"
    return found


def _unix_sockets(directory: str) -> dict[str, str]:
    """Python workers behind Unix sockets in a directory that only this user can enter, and not behind a port: there
    Spark's daemon forks for whoever connects, before it asks for a secret. PySpark before 4.1 ignores the settings."""
    if len(os.fsencode(directory)) > MOST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": directory}
