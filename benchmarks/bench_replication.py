"""What replication costs and how fast it fails over: an HA group of three operators beside the same app without one, on
real processes; and how many keys a second are told from those that were seen.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.api.run import run as run_app
from riprap.apps.catalogue import load_app
from riprap.cli.inputs import input_paths
from riprap.operators.columns import Keys
from riprap.protocols.channels import ChannelId
from riprap.replication.seen import Seen
from riprap.spark.session import hosting_session

APP = "bargain-discovery"
GROUP = "".join(f'[operators.{name}]\nha_group = "trades"\n' for name in ("TradeFilter", "Aggregator", "VWAP"))
PLAN = f'app = "{APP}"\n{GROUP}[ha_groups.trades]\nreplicas = 2\n'
TUPLES, KILLS = 2_000_000, 5
KEYS, BATCH = 20_000_000, 16_000


def _run(plan: Path | None, market: Path, spark: Any, folder: Path, name: str, **options: Any) -> dict[str, Any]:
    inputs = {source.name: market for source in load_app(APP).sources}
    return dict(run_app(APP, inputs, out=folder / name, plan=plan, spark=spark, **options).summary)


def _seen() -> None:
    """Two copies bring the same keys, in batches, one after the other."""
    zero, seen = np.zeros(1, np.int64), Seen()
    ts = np.arange(BATCH, dtype=np.int64)
    strands = [ChannelId("s", copy, 0) for copy in (0, 1)]
    for at in range(0, KEYS // 2, BATCH):
        keys = Keys(ts + at, zero, ts, zero)
        for strand in strands:
            assert seen.fresh(strand, at, keys) in (0, BATCH)


def run() -> Iterable[Result]:
    took = side_by_side({"seen": _seen}, rounds=3)["seen"]
    yield at_least("keys told from those seen", KEYS / took / 1e6, 20, "batches of 16,000, two copies", " M/s")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plan = folder / "plan.toml"
        plan.write_text(PLAN)
        (market,) = input_paths(load_app(APP), None, TUPLES, 2).values()
        spark = hosting_session(12)
        _run(None, market, spark, folder, "first")  # which compiles
        bare = _run(None, market, spark, folder, "bare")["throughput"]
        group = _run(plan, market, spark, folder, "group")["throughput"]
        yield at_least("throughput with an HA group of three", group / bare, 0.45, f"of {bare:,.0f} tuples/s")
        failovers = []
        for number in range(KILLS):
            found = _run(
                plan,
                market,
                spark,
                folder,
                f"kill{number}",
                rate=20_000,
                seconds=8.0,
                kill="Aggregator@3s",
                fuse="none",
            )
            failovers += [f["from_kill"] for f in found["groups"]["trades"]["failovers"] if f["from_kill"] is not None]
        if failovers:
            yield at_most("fail-over, median", float(np.median(failovers)), 0.2, f"{len(failovers)} kills", " s")
            yield at_most("fail-over, longest", max(failovers), 0.5, f"{len(failovers)} kills", " s")
        yield reported("fail-overs", len(failovers), "", f"of {KILLS} kills")
