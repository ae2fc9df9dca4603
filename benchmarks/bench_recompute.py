"""What healthy elements lose while another one recomputes: throughput and latency beside a kill.

One source feeds two branches, an element for each operator. In one branch an aggregate is killed, again and again, and
works out again what it lost, its source and filter beside it in its own process; nothing but sources is kept. The other
branch is healthy: what its sink gets from each kill until the aggregate runs again, against the seconds before, at half
of the rate that the app can take. Latency is from when a tuple was due until it was in the healthy branch's stream.
"""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, at_least, reported
from riprap.api.prove import prove
from riprap.api.run import run as run_app
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count
from riprap.proof.verdict import FaultResult
from riprap.streams import PersistentStream

KILLS, GAP, BEFORE = 5, 7, 2.0  # kills, seconds between them, and seconds before one that it is compared with
TUPLES = 3_000_000  # to find the most that the app takes
_ROWS = 100_000  # of a row group
PLAN = 'app = "branches"\nrecovery = "60s"\n[operators]\nSums = { checkpoint = "3s" }\n'


def branches() -> Graph:
    app = App("branches")
    source = app.source("In", "id long not null, key long not null, x double not null")
    hurt = source.filter("x >= 0.0", name="Hurt")
    hurt.aggregate("sum(x) AS x", window=count(100), every=count(100), by="key", name="Sums").sink("HurtOut")
    source.filter("id % 50 = 0", name="Healthy").sink("HealthyOut")
    return app.build()


def write_input(path: Path, tuples: int, rate: float) -> Path:
    columns = {"id": pa.int64(), "key": pa.int64(), "x": pa.float64(), "_ts": pa.timestamp("us", "UTC")}
    with pq.ParquetWriter(path, pa.schema(columns)) as writer:
        for first in range(0, tuples, _ROWS):
            ids = np.arange(first, min(first + _ROWS, tuples))
            values = ids, ids % 97, ids * 0.5, (ids / rate * 1e6).astype(np.int64)
            arrays = [pa.array(v).cast(kind) for v, kind in zip(values, columns.values(), strict=True)]
            writer.write_table(pa.table(arrays, list(columns)))
    return path


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        settings: dict[str, Any] = {"fuse": "none", "protocol": "recompute"}
        graph, whole = branches(), write_input(place / "whole.parquet", TUPLES, 1e6)
        most = float(run_app(graph, {"In": whole}, out=place / "most", **settings).summary["throughput"])
        yield from _beside_kills(graph, place, most / 2)


def _beside_kills(graph: Graph, place: Path, rate: float) -> Iterator[Result]:
    seconds = GAP * (KILLS + 1)
    paced = write_input(place / "paced.parquet", int(rate * seconds), rate)
    (place / "plan.toml").write_text(PLAN)
    kills = [f'[[faults]]\nat = "{GAP * (n + 1)}s"\nkind = "kill-late"\ntargets = ["Sums"]\n' for n in range(KILLS)]
    (place / "kills.toml").write_text("".join(kills))
    proof = prove(
        graph, {"In": paced}, out=place / "proof", plan=place / "plan.toml", seconds=seconds, rate=rate,
        faults=place / "kills.toml",
    )  # fmt: skip
    if not all(sink.exact for sink in proof.sinks.values()):
        raise SystemExit(f"the run was not exact: {proof.sentence}")
    items = list(PersistentStream.open(proof.summary["sinks"]["HealthyOut"]["path"]).read())
    written = np.concatenate([np.full(item.batch.num_rows, item.header.written_at / 1e6) for item in items])
    due = np.concatenate([item.batch.column("id").to_numpy() for item in items]) / rate
    started = float(np.min(written - due))  # the fastest tuple took no time
    shares, beside, before = list[float](), list[np.ndarray](), list[np.ndarray]()
    recovered = [result for result in proof.faults if result.running is not None and result.began is not None]
    for result in recovered:
        during, earlier = _window(written, result, 0.0), _window(written, result, BEFORE)
        assert result.running is not None
        assert result.began is not None
        shares.append(float(during.sum() / (result.running - result.began) / (earlier.sum() / BEFORE)))
        beside.append((written - due)[during] - started)
        before.append((written - due)[earlier] - started)
    how = f"of {len(recovered)} kills just before a checkpoint, at {rate:,.0f} tuples/s, half of the most"
    yield at_least("recompute.healthy throughput", statistics.median(shares), 0.8, f"median {how}")
    yield reported("recompute.healthy throughput, least", min(shares), "×", how)
    for name, parts in (("before", before), ("while it recomputes", beside)):
        p99 = float(np.percentile(np.concatenate(parts), 99))
        yield reported(f"recompute.healthy latency p99, {name}", p99, "s", how)
    took = [result.latency for result in recovered if result.latency is not None]
    yield reported("recompute.recovery, median", statistics.median(took), "s", how)


def _window(written: np.ndarray, result: FaultResult, before: float) -> np.ndarray:
    """Which rows came in the seconds before a kill, or, with 0, from it until what it hit ran again."""
    assert result.began is not None
    assert result.running is not None
    low, high = (result.began - before, result.began) if before else (result.began, result.running)
    return (written >= low) & (written < high)
