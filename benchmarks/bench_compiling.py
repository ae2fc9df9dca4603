"""What compiling each bundled app costs, in a process of its own: with an empty cache, and with a full one."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.harness import Result, reported
from riprap.apps.catalogue import BUNDLED

_SCRIPT = """
import time
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine
engine = Engine(load_app({app!r}))
start = time.perf_counter()
engine.prepare()
print(time.perf_counter() - start)
"""


def run() -> Iterator[Result]:
    for app in BUNDLED:
        for cache, taken in compile_seconds(app).items():
            how = f"making the loops of {app} in a process, {cache} cache of compiled pieces"
            yield reported(f"compiling.{app}-{cache}", taken, "s", how)


def compile_seconds(app: str) -> dict[str, float]:
    """Seconds until every piece of an app is there: "cold" and "warm"."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {name: value for name, value in os.environ.items() if name != "RIPRAP_COMPILED"}
        taken = {}
        for cache in ("cold", "warm"):
            ran = subprocess.run(
                [sys.executable, "-c", _SCRIPT.format(app=app)],
                capture_output=True, text=True, check=True, env=environment | {"XDG_CACHE_HOME": directory},
            )  # fmt: skip
            taken[cache] = float(ran.stdout)
    return taken
