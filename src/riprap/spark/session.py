"""Gets a Spark session: the caller's, the active one, or an embedded local one that is quiet and on loopback."""

import logging
import os
import re
import sys

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.spark.launching import launched
from riprap.spark.settings import FAILURES, hosting, local_hosting, settings
from riprap.spark.slots import can_host

# What calls into a dead JVM raise.
JVM_GONE: tuple[type[Exception], ...] = (Py4JNetworkError, ConnectionError)
SPARE_SLOTS = 2  # in a local session that hosts elements: for queries during the run


def session(spark: SparkSession | None = None, *, master: str | None = None, **conf: str) -> SparkSession:
    """`spark` itself if given; else the active session, unless it has another `master`; else a new one.

    A new session is local (`local[*]`) by default, bound to loopback, with Arrow and without UI and console output.
    `conf` adds settings by their dotted Spark names (pass a dict with `**`).
    """
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None and (master is None or _is_master(active, master)):
        return active
    if active is not None:
        raise UsageError(
            f"a Spark session on another master than {master} is already running in this process: "
            "stop it first, or pass that session"
        )
    return _build(master, conf) if master is not None else _embed("local[*]", conf)


_embedded: list[SparkSession] = []  # the session that was built here without a master of the caller's, if any


def hosting_session(
    elements: int, spark: SparkSession | None = None, *, master: str | None = None, **conf: str
) -> SparkSession:
    """A session that can host processing elements: like `session`, with unlimited retries and a warm daemon.

    A local one gets a slot per element and a few spare ones, regardless of the number of cores. An embedded one that
    cannot host them, as the one of an assessment, ends: nobody else knows of it.
    """
    if spark is not None or master is not None:
        return session(spark, master=hosting_master(elements, master), **hosting() | conf)
    active = SparkSession.getActiveSession()
    if active is not None:
        if active not in _embedded or can_host(active, elements):
            return active
        active.stop()
    return _embed(hosting_master(elements), hosting() | conf)


def hosting_master(elements: int, master: str | None = None) -> str:
    """The master's URL for hosting: local masters get slots and a failure limit unless they specify them."""
    if master in (None, "local", "local[*]"):
        return f"local[{elements + SPARE_SLOTS},{FAILURES}]"
    slots = re.fullmatch(r"local\[(\d+)\]", master)
    return f"local[{slots.group(1)},{FAILURES}]" if slots else master


def _is_master(active: SparkSession, master: str) -> bool:
    try:
        return active.conf.get("spark.master") == master
    except Exception:  # a Connect session does not expose it
        return False


def _embed(master: str, conf: dict[str, str]) -> SparkSession:
    _embedded[:] = [_build(master, conf)]
    return _embedded[0]


def _build(master: str, conf: dict[str, str]) -> SparkSession:
    local = master.startswith("local")
    loopback = local or "127.0.0.1" in master or "localhost" in master
    wanted = local_hosting() if local and conf == hosting() else settings(loopback=loopback, same_user=local, conf=conf)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_from_py4j)  # a repeated call has no effect
    builder = SparkSession.builder.master(master).appName("riprap")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    launched()
    with _quiet_start():
        try:
            return _quiet_end(builder.getOrCreate())
        except Exception as error:
            advice = (
                "run `riprap doctor` to see what is missing"
                if local
                else "check that a cluster is reachable there, or leave out `master`"
            )
            raise MissingPrerequisite(f"Spark did not start on {master} ({_first_line(error)}): {advice}") from error


def _first_line(error: Exception) -> str:
    """The first line of the message; of a JVM exception, without its class."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return (text.splitlines() or [type(error).__name__])[0].rstrip(".")


def _not_from_py4j(record: logging.LogRecord) -> bool:
    """When the JVM dies or on Ctrl-C, py4j logs what it raises, with the traceback, on the root logger: drop that."""
    return "py4j" not in record.pathname


def _quiet_end(spark: SparkSession) -> SparkSession:
    """Stop the accumulator server from printing a traceback when the JVM dies."""
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
