"""`riprap doctor`: checks that everything Riprap needs is installed; exits with 3 if a check fails."""

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from riprap.base.errors import MissingPrerequisite


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    found: str
    advice: str = ""  # what to do when not ok


def command(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Start an embedded Spark and run a job.")] = True,
) -> None:
    """Check Python, Java, the libraries, compiled kernels and Spark; tell how to fix what is missing."""
    from riprap.cli.console import OUT, print_json

    checks = [_python(), _java(), *_libraries(), _disk()]
    if spark and all(check.ok for check in checks):
        checks.append(_spark())
    if json:
        print_json({"ok": all(check.ok for check in checks), "checks": [vars(check) for check in checks]})
    else:
        table = Table(box=None, show_header=False)
        for check in checks:
            table.add_row(Text("ok", "green") if check.ok else Text("no", "red"), check.name, check.found)
        OUT.print(table)
    failed = [check for check in checks if not check.ok]
    if failed:
        raise MissingPrerequisite(" ".join(f"{check.name}: {check.advice}." for check in failed))


def _python() -> Check:
    return Check("Python", sys.version_info >= (3, 11), platform.python_version(), "install Python 3.11 or newer")


def java_version() -> tuple[int, str] | None:
    """Major version and path of the Java that Spark would use; None: not found."""
    import os
    import re

    home = os.environ.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if path is None or not Path(path).exists():
        return None
    banner = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return (int(match.group(1)), path) if match else None


def _java() -> Check:
    advice = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    found = java_version()
    if found is None:
        return Check("Java", False, "not found", advice)
    return Check("Java", found[0] >= 17, f"{found[0]} ({found[1]})", advice)


def _libraries() -> list[Check]:
    checks = []
    for name in ("pyspark", "pyarrow", "numpy", "numba"):
        try:
            checks.append(Check(name, True, version(name)))
        except PackageNotFoundError:
            checks.append(Check(name, False, "not installed", f"pip install {name}"))
    return checks


def _disk() -> Check:
    free = shutil.disk_usage(".").free
    from riprap.base.quantities import format_size

    return Check("disk", free > 1 << 30, f"{format_size(free)} free here", "free at least 1 GiB")


def _spark() -> Check:
    from riprap.spark.session import session

    try:
        spark = session()
        rows = spark.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count()
    except Exception as error:  # the user wants the sentence, whatever Spark raises
        return Check("Spark", False, str(error).splitlines()[0], "see the message above")
    return Check("Spark", rows == 1000, f"{spark.version}, ran a job through Arrow")
