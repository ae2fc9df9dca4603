"""From Enter to prompt: `riprap run bargain-discovery` over 5 million tuples of Parquet, as a process of its own.

The first run compiles and writes archives, and is not counted. What the time went to is told by the command itself
(`phases` of its summary): phases follow one another; what starts beside them shows only in what is still waited for.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Result, at_most, reported
from riprap.apps import market, market_files
from riprap.base.clock import SYSTEM_CLOCK

TUPLES = 5_000_000
_ROUNDS = 5


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        source, out = Path(directory) / "market.parquet", Path(directory) / "run"
        market_files.write(market.generate(TUPLES, seed=1), source, overwrite=True)
        _seconds(source, out)
        rounds = [_seconds(source, out) for _ in range(_ROUNDS)]
    times = [seconds for seconds, _ in rounds]
    how = f"{min(times):.1f} to {max(times):.1f} s in {_ROUNDS} runs, median"
    yield at_most("startup.enter_to_prompt", statistics.median(times), 7, how, "s")
    for name in rounds[0][1]:
        found = [phases.get(name, 0.0) for _, phases in rounds]
        yield reported(f"startup.{name}", statistics.median(found), "s", f"{min(found):.2f} to {max(found):.2f} s")


def _seconds(source: Path, out: Path) -> tuple[float, dict[str, float]]:
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "riprap.cli.main", "run", "bargain-discovery"]
    begun = SYSTEM_CLOCK.monotonic()
    done = subprocess.run(
        [*command, "--input", f"Source={source}", "--out", str(out), "--json"],
        env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    took = SYSTEM_CLOCK.monotonic() - begun
    return took, json.loads(done.stdout)["phases"]
