"""One way to a Spark session: the caller's, the active one, or an embedded local one that is quiet and on loopback."""

import logging
import os
import sys
import tempfile

from pyspark.sql import SparkSession

from riprap.base.errors import MissingPrerequisite, UsageError

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


def _is_master(active: SparkSession, master: str) -> bool:
    try:
        return active.conf.get("spark.master") == master
    except Exception:  # a Connect session does not tell
        return False


def _build(master: str, conf: dict[str, str]) -> SparkSession:
    loopback = master.startswith("local") or "127.0.0.1" in master or "localhost" in master
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
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.speculation": "false",
    }
    if loopback:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= conf
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.master(master).appName("riprap")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _quiet_start():
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise MissingPrerequisite(
                f"Spark did not start on {master} ({str(error).splitlines()[0]}): "
                "run `riprap doctor` to see what is missing"
            ) from error


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
