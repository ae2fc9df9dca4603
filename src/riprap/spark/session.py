"""One way to a Spark session: the caller's, the active one, or an embedded local one that is quiet and on loopback."""

import logging
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.spark.launching import launched

# Settings of the sessions that Riprap builds itself. A caller's session is used as it is.
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
FAILURES = 1_000_000_000  # of one task, before Spark gives the job up: never
# Tuples never pass through a JVM that hosts elements, so it does without the costly compiler and starts sooner.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What calls of a JVM that has died raise.
JVM_GONE: tuple[type[Exception], ...] = (Py4JNetworkError, ConnectionError)
SPARE_SLOTS = 2  # of a local session that hosts elements: for queries beside the run


def session(spark: SparkSession | None = None, *, master: str | None = None, **conf: str) -> SparkSession:
    """`spark` itself if given; else the active session if no `master` is named; else a new one.

    A new session is local (`local[*]`) unless `master` says otherwise: bound to loopback, Arrow on, no UI, no
    console noise. `conf` adds settings by their Spark names with dots (pass a dict with `**`).
    """
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None and (master is None or _is_master(active, master)):
        return active
    if active is not None:
        raise UsageError(
            f"a Spark session on another master than {master} is already running in this process: "
            "stop it first, or pass it as it is"
        )
    return _build(master or "local[*]", conf)


def hosting_session(
    elements: int, spark: SparkSession | None = None, *, master: str | None = None, **conf: str
) -> SparkSession:
    """A session that can host processing elements: like `session`, with retries without limit and a warm daemon.

    A local one gets as many slots as there are elements, and a few to spare, however many cores there are.
    """
    return session(spark, master=None if _reusable(master) else hosting_master(elements, master), **_hosting() | conf)


def hosting_master(elements: int, master: str | None = None) -> str:
    """The master's URL with what hosting needs. Local masters get slots and failures unless they name them."""
    if master in (None, "local", "local[*]"):
        return f"local[{elements + SPARE_SLOTS},{FAILURES}]"
    slots = re.fullmatch(r"local\[(\d+)\]", master)
    return f"local[{slots.group(1)},{FAILURES}]" if slots else master


def _reusable(master: str | None) -> bool:
    return master is None and SparkSession.getActiveSession() is not None


def _hosting() -> dict[str, str]:
    settings = {
        "spark.python.daemon.module": DAEMON,
        "spark.task.maxFailures": str(FAILURES),
        "spark.executor.maxNumFailures": str(FAILURES),  # YARN and Kubernetes end the application beyond it
        "spark.excludeOnFailure.enabled": "false",  # an executor is not bad because its elements were killed
        "spark.dynamicAllocation.enabled": "false",  # it would take away the spare slots
        "spark.driver.extraJavaOptions": _QUICK_JAVA,
        "spark.executor.extraJavaOptions": _QUICK_JAVA,
        "spark.python.task.killTimeout": "100ms",  # from the order to kill a task to the kill of its process
    }
    home = Path(__file__).parents[2]
    if home.name not in ("site-packages", "dist-packages"):  # not installed: executors that see the source tree use it
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(home), *filter(None, inherited)]))
    return settings


def _is_master(active: SparkSession, master: str) -> bool:
    try:
        return active.conf.get("spark.master") == master
    except Exception:  # a Connect session does not tell
        return False


@cache
def hosting_settings() -> dict[str, str]:
    """Of a local session that hosts elements, but for its master: known before anything else is."""
    return _settings(loopback=True, conf=_hosting())


def _settings(*, loopback: bool, conf: dict[str, str]) -> dict[str, str]:
    if loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = tempfile.mkdtemp(prefix="riprap-spark-")
    log4j = os.path.join(scratch, "log4j2.properties")
    with open(log4j, "w") as file:
        file.write(_QUIET)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.speculation": "false",
    }
    if loopback:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= conf
    java = "spark.driver.extraJavaOptions"
    settings[java] = f"-Dlog4j2.configurationFile=file:{log4j} {conf.get(java, '')}"
    return settings


def _build(master: str, conf: dict[str, str]) -> SparkSession:
    loopback = master.startswith("local") or "127.0.0.1" in master or "localhost" in master
    settings = hosting_settings() if loopback and conf == _hosting() else _settings(loopback=loopback, conf=conf)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_the_bridge)  # added once, however often
    builder = SparkSession.builder.master(master).appName("riprap")
    for key, value in settings.items():
        builder = builder.config(key, value)
    launched()
    with _quiet_start():
        try:
            return _quiet_end(builder.getOrCreate())
        except Exception as error:
            raise MissingPrerequisite(
                f"Spark did not start on {master} ({str(error).splitlines()[0]}): "
                "run `riprap doctor` to see what is missing"
            ) from error


def _not_of_the_bridge(record: logging.LogRecord) -> bool:
    """What py4j raises when the JVM dies or Ctrl-C comes it logs too, with its traceback, on the root logger."""
    return "py4j" not in record.pathname


def _quiet_end(spark: SparkSession) -> SparkSession:
    """The server of accumulators prints a traceback when its connection ends in the middle: when the JVM dies."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None
    return spark


class _quiet_start:
    """Hides what the JVM prints on stderr before its logging is configured ("Using Spark's default log4j …")."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._saved = os.dup(2)
        self._sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(self._sink, 2)

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.close(self._saved)
        os.close(self._sink)
