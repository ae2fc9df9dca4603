"""Bargain Discovery on other stream processors, beside a run of ours on the same machine and the same tuples.

Flink's keyed state in Java and in Python, Flink SQL, and Bytewax (`peers_processors.py`) take ticks from memory and
count what they find; ours reads Parquet and writes a persistent stream, as a user would have it. All use all cores.
Like is told from like: our one element stands beside Flink with its operators chained in one thread, eight elements
beside Flink with none chained, where every tuple is sent from operator to operator; both also with Flink writing what
it finds to files. A peer that is not installed is skipped, and one that takes longer than a minute and a half is given
up; a row says so.
They bring versions of libraries that Spark does not bear, so they want an environment of their own:

    python -m venv peers && peers/bin/pip install bytewax apache-flink     # the extra `peers`; Flink wants a JDK too
    RIPRAP_PEERS=peers/bin/python make bench ONLY=peers
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bargain_peers import coded, fused_loop
from benchmarks.harness import Result, at_least, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.spark.session import hosting_session

_PROCESSORS = Path(__file__).with_name("peers_processors.py")
ONE, EIGHT = "one element", "eight elements"
# By form: what has to be installed, how many tuples take it some seconds, which of ours is like it (None: both are
# told), and how many times as fast that one has to be.
_FORMS: dict[str, tuple[str, int, str | None, float | None]] = {
    "flink-java": ("flink", 5_000_000, ONE, 5.0),
    "flink-java-written": ("flink", 5_000_000, ONE, None),
    "flink-java-apart": ("flink", 5_000_000, EIGHT, 5.0),
    "flink-java-apart-written": ("flink", 5_000_000, EIGHT, None),
    "flink-sql": ("flink", 1_000_000, None, None),
    "pyflink": ("flink", 50_000, None, None),
    "bytewax": ("bytewax", 500_000, None, None),
}
_TUPLES = 20_000_000  # of ours: 5 million are over in half a second, most of which begins and ends
_ROUNDS = 3
_PATIENCE = 90.0  # seconds for one form, both of its runs and its start


def run() -> Iterator[Result]:
    python = os.environ.get("RIPRAP_PEERS", sys.executable)
    installed = {name: _has(python, name) for name in ("flink", "bytewax")}
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        rates = {form: _rate(python, form, place) for form, (needs, _, _, _) in _FORMS.items() if installed[needs]}
        ours = _ours(place) if any(rates.values()) else {}
    for layout, rate in ours.items():
        yield reported(f"peers.ours, {layout}", rate / 1e6, "M tuples/s", f"{_TUPLES:,} tuples, median of {_ROUNDS}")
    for form, (needs, tuples, like, bar) in _FORMS.items():
        if form not in rates:
            yield reported(f"peers.{form}", 0.0, "M tuples/s", f"skipped: {needs} is not installed for {python}")
            continue
        if not rates[form]:
            how = f"given up: two runs of {tuples:,} tuples took longer than {_PATIENCE:.0f} s"
            yield reported(f"peers.{form}", 0.0, "M tuples/s", how)
            continue
        yield reported(f"peers.{form}", rates[form] / 1e6, "M tuples/s", f"{tuples:,} tuples, all cores, second run")
        for layout, rate in ours.items():
            if like not in (None, layout):
                continue
            how = f"{layout}, {_TUPLES:,} tuples, Parquet to a persistent stream, median of {_ROUNDS}"
            if bar is None:
                yield reported(f"run/peers.{form}, {layout}", rate / rates[form], "×", how)
            else:
                yield at_least(f"run/peers.{form}, {layout}", rate / rates[form], bar, how)


def _has(python: str, name: str) -> bool:
    return subprocess.run([python, str(_PROCESSORS), "has", name], capture_output=True, check=False).returncode == 0


def _ticks(place: Path, tuples: int) -> tuple[Path, int, float]:
    """The records that the peers read, and the answer that they have to give."""
    table = market.generate(tuples, seed=1)
    answer, _, _ = fused_loop(coded(table))
    stream = coded(table)
    records = np.empty(tuples, [("ticker", "<i4"), ("quote", "<i4"), ("price", "<f8"), ("size", "<i8")])
    records["ticker"], records["quote"], records["price"], records["size"] = (
        stream.ticker, stream.is_quote, stream.price, stream.size,
    )  # fmt: skip
    path = place / f"ticks-{tuples}"
    records.tofile(path)
    return path, answer.bargains, answer.gain


def _rate(python: str, form: str, place: Path) -> float:
    """Tuples/s; 0: it took too long."""
    tuples = _FORMS[form][1]
    path, bargains, gain = _ticks(place, tuples)
    command = [python, str(_PROCESSORS), form, str(path), str(tuples)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    try:
        out, complaint = running.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # Flink is a process of its own below it
        running.communicate()
        return 0.0
    finally:
        path.unlink()
    if running.returncode:
        raise RuntimeError(f"{form} failed: {complaint[-2000:]}")
    found = json.loads(out.splitlines()[-1])
    assert found["bargains"] == bargains, (form, found["bargains"], bargains)
    assert abs(found["gain"] - gain) <= 1e-6 * gain, (form, found["gain"], gain)
    return tuples / float(found["seconds"])


def _ours(place: Path) -> dict[str, float]:
    source = place / "market.parquet"
    table: pa.Table = market.generate(_TUPLES, seed=1)
    market_files.write(table, source, overwrite=True)
    spark = hosting_session(8)
    rates: dict[str, list[float]] = {ONE: [], EIGHT: []}
    try:
        for round_ in range(_ROUNDS + 1):  # the first one warms daemons and caches
            for (_, found), fuse in zip(rates.items(), ("all", "none"), strict=True):
                out = place / "run"
                shutil.rmtree(out, ignore_errors=True)
                summary = run_app("bargain-discovery", {"Source": source}, out=out, spark=spark, fuse=fuse).summary  # type: ignore[arg-type]
                if round_:
                    found.append(float(str(summary["throughput"])))
    finally:
        spark.stop()
    return {layout: statistics.median(found) for layout, found in rates.items()}
