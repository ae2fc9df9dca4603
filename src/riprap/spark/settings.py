"""Settings of the sessions that Riprap builds itself. A caller's session is used as it is.

It does not import pyspark: a JVM is started with these settings before that (`launching.py`).
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

DAEMON = "riprap.spark.daemon"  # for the sessions that host processing elements
MOST_SOCKET_DIRECTORY = 107 - len("/.00000000-0000-0000-0000-000000000000.sock")  # bytes: the longest usable directory
FAILURES = 1_000_000_000  # of one task before Spark gives up the job: practically never
JAVA = "spark.driver.extraJavaOptions"
# Tuples never pass through a JVM that hosts elements, so it skips the optimizing compiler and starts sooner.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def hosting() -> dict[str, str]:
    """The settings of any session that hosts elements."""
    settings = {
        "spark.python.daemon.module": DAEMON,
        "spark.task.maxFailures": str(FAILURES),
        "spark.executor.maxNumFailures": str(FAILURES),  # YARN and Kubernetes end the application beyond it
        "spark.excludeOnFailure.enabled": "false",  # an executor is not bad because its elements were killed
        "spark.dynamicAllocation.enabled": "false",  # it would remove the spare slots
        JAVA: _QUICK_JAVA,
        "spark.executor.extraJavaOptions": _QUICK_JAVA,
        "spark.python.task.killTimeout": "100ms",  # from the order to kill a task to the kill of its process
    }
    home = Path(__file__).parents[2]
    if home.name not in (
        "site-packages",
        "dist-packages",
    ):  # not installed: executors use the source tree, if they see it
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(home), *filter(None, inherited)]))
    return settings


@cache
def local_hosting() -> dict[str, str]:
    """The settings of a local session that hosts elements, except its master: known in advance."""
    return settings(loopback=True, same_user=True, conf=hosting())


def settings(*, loopback: bool, same_user: bool, conf: dict[str, str]) -> dict[str, str]:
    """All settings of a session; `conf` takes precedence. `same_user`: executors are this user's, on this machine."""
    if loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = scratch_directory("spark")
    log4j = os.path.join(scratch, "log4j2.properties")
    with open(log4j, "w") as file:
        file.write(_QUIET)
    values = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.python.authenticate.socketTimeout": "300s",  # the default of 15 s is too short on a very busy machine
        "spark.speculation": "false",
    }
    if loopback:
        values |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    values[f"spark.executorEnv.{SAFE_PATH}"] = "1"  # for Spark's daemon and its workers, also in a local session
    if loopback and (same_user or conf.get("spark.python.daemon.module") == DAEMON):
        values |= _unix_sockets(scratch)
    values |= conf
    # Also what the JVM itself unpacks, spills and caches: a killed JVM cannot remove it, and `sweep` does.
    own = f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={scratch}"
    values[JAVA] = f"{own} {conf.get(JAVA, '')}"
    return values


def _unix_sockets(directory: str) -> dict[str, str]:
    """Reach Python workers over Unix sockets in a directory that only this user can enter, not over a port: there
    Spark's daemon forks for any client before it asks for a secret. PySpark before 4.1 ignores these settings."""
    if len(os.fsencode(directory)) > MOST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": directory}
