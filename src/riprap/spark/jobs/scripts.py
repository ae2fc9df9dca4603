"""Captures a PySpark script: runs it while nothing starts, and keeps its queries.

job = capture_script(Path("job.py"), spark)
job.queries[0].plan, job.sources[0].name
"""

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from riprap.base.errors import RiprapError, UsageError, users_line
from riprap.spark.jobs.assembling import assembled, plain_name
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.capturing import CaptureLog, WaitsForever, capturing
from riprap.spark.jobs.user_lines import shown


def capture_script(path: Path, spark: SparkSession, arguments: tuple[str, ...] = ()) -> CapturedJob:
    """The queries of a script. It runs as it would under spark-submit, but nothing of Spark starts or writes."""
    if not path.is_file():
        raise UsageError(f"script {path} does not exist")
    notes: list[str] = []
    with capturing(spark) as log, _as_script(path, arguments):
        _run(path, log, notes)
    if not log.writes:
        raise UsageError(
            f"{shown(str(path))} starts no query; it needs a df.writeStream….start() that is reached when it runs"
        )
    return assembled(plain_name(path.stem), shown(str(path)), log, spark, notes)


def run_file(path: Path, names: dict[str, Any], run_name: str = "__main__") -> None:
    """Run a file that the user named, with these global names; what it raises is one sentence."""
    try:
        runpy.run_path(os.fspath(path), names, run_name)
    except RiprapError:
        raise
    except Exception as error:  # the file may fail in any way
        raise UsageError(f"{_place(error, path)}: {type(error).__name__}: {_reason(error)}") from error


def _run(path: Path, log: CaptureLog, notes: list[str]) -> None:
    try:
        runpy.run_path(os.fspath(path), run_name="__main__")
    except WaitsForever:
        pass
    except SystemExit as error:
        if error.code not in (None, 0) and not log.awaited:
            raise UsageError(f"{shown(str(path))} ended with exit code {error.code} before its queries ran") from error
    except RiprapError:
        raise
    except Exception as error:  # the script may fail in any way
        what = f"{_place(error, path)}: {type(error).__name__}: {_reason(error)}"
        if not log.awaited:
            raise UsageError(f"{what}; nothing was started, fix the script first") from error
        notes.append(f"what follows the queries was not run to its end ({what})")


def _place(error: BaseException, path: Path) -> str:
    file, comma, line = users_line(error).rpartition(", line ")
    return f"{shown(file)}, line {line}" if comma else shown(str(path))


def _reason(error: Any) -> str:
    """The first line of a message; of a Spark error without its class, with its condition."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".;") if lines else "no reason given"


@contextmanager
def _as_script(path: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    """Its arguments, its directory last on the path, and what it prints on stderr."""
    argv, places = sys.argv, list(sys.path)
    sys.argv = [os.fspath(path), *arguments]
    sys.path.append(os.path.abspath(path.parent))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv, sys.path[:] = argv, places
