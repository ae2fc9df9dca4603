"""What protocols cost while nothing fails: NEXMark 2 on Spark, one element per operator, as fast as it goes.

Rows/s of a whole run under each protocol, against a run without any: with checkpoints every 10 s in runs that are long
enough for one of every element, and every second. Logs of uncoordinated and induced are volatile, as published, and
persistent. Runs of one interval follow each other, so that a slow minute of the machine hits all of them; a run
without a protocol is the first and the last of them, and the ratios are to the mean of both.

The input is a stretch of the generator's bids, repeated with later times: the file has to last for seconds of tens of
millions of rows.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, at_least, reported
from riprap.api.run import run as run_app
from riprap.spark.session import hosting_session
from riprap.workloads.catalogue import load_workload

_STRETCH = 2_000_000  # rows that repeat
_STRETCHES = 60
_NONE: dict[str, Any] = {}
_VOLATILE: dict[str, dict[str, Any]] = {
    "coordinated": {"protocol": "coordinated"},
    "uncoordinated": {"protocol": "uncoordinated", "log": "volatile"},
    "induced": {"protocol": "induced", "log": "volatile"},
}
_PERSISTENT: dict[str, dict[str, Any]] = {
    "uncoordinated": {"protocol": "uncoordinated", "log": "persistent"},
    "induced": {"protocol": "induced", "log": "persistent"},
}
_SECONDS = {"10s": 16.0, "1s": 5.0}  # of a run: uncoordinated elements take their first after up to one and a half


def run() -> Iterator[Result]:
    workload = load_workload("nexmark-2")
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        source = _input(place / "Bid.parquet")
        spark = hosting_session(3)

        def rate(seconds: float, **settings: Any) -> tuple[float, int]:
            out = place / "run"
            shutil.rmtree(out, ignore_errors=True)
            graph = workload.graph("small")
            found = run_app(graph, {"Bid": source}, out=out, spark=spark, fuse="none", seconds=seconds, **settings)
            return float(found.summary["throughput"]), int(found.summary["protocol"]["checkpoints"])

        try:
            rate(2.0)  # warms daemons and caches
            for interval, seconds in _SECONDS.items():
                before, _ = rate(seconds)
                rates = {
                    (name, log): rate(seconds, interval=interval, **settings)
                    for log, of in (("volatile", _VOLATILE), ("persistent", _PERSISTENT if interval == "1s" else _NONE))
                    for name, settings in of.items()
                }
                after, _ = rate(seconds)
                how = (
                    f"of the rows/s without a protocol, nexmark-2, a checkpoint every {interval}, runs of {seconds:g} s"
                )
                yield reported(f"protocols.none, {interval}", mean((before, after)) / 1e6, "M rows/s", "beside them")
                for (name, log), (found, taken) in rates.items():
                    logs = "" if name == "coordinated" else f", {log} logs"
                    bar = 0.95 if log == "volatile" else 0.5
                    told = f"{how}, {taken} checkpoints"
                    yield at_least(f"protocols.{name}{logs}, {interval}", found / mean((before, after)), bar, told)
        finally:
            spark.stop()


def _input(path: Path) -> Path:
    """So many rows that no run comes to their end. What rises is stored as differences: the file stays small."""
    table = load_workload("nexmark-2").inputs(_STRETCH, 1, rate=1e6)["Bid"]
    ts, seq = (table.column(name).cast(pa.int64()).to_numpy() for name in ("_ts", "_seq"))
    others = {name: table.column(name) for name in table.column_names if name not in ("_ts", "_seq")}
    span, rows = int(ts[-1] - ts[0]) + 1, int(seq[-1]) + 1
    rising = {"_ts": "DELTA_BINARY_PACKED", "_seq": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(path, table.schema, use_dictionary=list(others), column_encoding=rising) as writer:
        for number in range(_STRETCHES):
            later = {"_ts": ts + np.int64(number * span), "_seq": seq + np.int64(number * rows)}
            moved = {name: pa.array(values).cast(table.schema.field(name).type) for name, values in later.items()}
            columns = {**others, **moved}
            writer.write_table(pa.table({name: columns[name] for name in table.column_names}, schema=table.schema))
    return path
