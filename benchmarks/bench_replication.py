"""What replication costs and how fast it fails over: an HA group of three operators beside the same app without one, on
real processes; 20 kills and 5 hangs of the active replica in one run, with an oracle; cores, memory and bytes of every
technique; how many keys a second are told from those that were seen, and how many rows a second are digested.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.failovers import fail_over
from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.api.cost_profile import cost_profile
from riprap.api.run import run as run_app
from riprap.apps.catalogue import load_app
from riprap.cli.app_options import input_paths
from riprap.operators.columns import Keys
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.replication.digests import OutputDigest
from riprap.replication.seen import Seen
from riprap.spark.session import hosting_session

APP = "bargain-discovery"
GROUP = "".join(f'[operators.{name}]\nha_group = "trades"\n' for name in ("TradeFilter", "Aggregator", "VWAP"))
PLAN = f'app = "{APP}"\n{GROUP}[ha_groups.trades]\nreplicas = 2\n'
COPIES = f'app = "{APP}"\n[replication]\ncopies = 2\n'
TUPLES, LIVE, RATE = 2_000_000, 4_000_000, 20_000
KILLS, HANGS, HEARTBEAT = 20, 5, 0.2
KEYS, BATCH = 20_000_000, 16_000
DIGESTED = 3_200_000  # rows


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


def _batch() -> Views:
    """Rows such as Bargain Discovery's trades: a ticker, a price, a size and the key."""
    numbers = np.arange(BATCH, dtype=np.int64)
    tickers = pa.array([f"T{number}" for number in range(3_000)])
    columns = {
        "ticker": pa.DictionaryArray.from_arrays(pa.array((numbers % 3_000).astype(np.int32)), tickers),
        "price": pa.array(numbers * 0.25),
        "size": pa.array(numbers),
        "_ts": pa.array(numbers * 50).cast(pa.timestamp("us", "UTC")),
        "_seq": pa.array(numbers),
    }
    return Views.of(pa.record_batch(columns))


def _digests() -> None:
    views, digest = _batch(), OutputDigest()
    ts = views.column("_ts").values
    for _ in range(0, DIGESTED, BATCH):
        digest.add(views, ts)


def run() -> Iterable[Result]:
    took = side_by_side({"seen": _seen, "digests": _digests}, rounds=3)
    yield at_least("keys told from those seen", KEYS / took["seen"] / 1e6, 20, "batches of 16,000, two copies", " M/s")
    rows = DIGESTED / took["digests"]
    share = RATE / rows
    yield reported("digests of what copies give out", rows / 1e6, " M rows/s", "a ticker, two numbers and the key")
    yield reported("of a core, for 20,000 rows/s", share * 100, " %", "digests alone")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plan, copies = folder / "plan.toml", folder / "copies.toml"
        plan.write_text(PLAN)
        copies.write_text(COPIES)
        (market,) = input_paths(load_app(APP), None, TUPLES, 2).values()
        (live,) = input_paths(load_app(APP), None, LIVE, 2).values()
        spark = hosting_session(20)
        _run(None, market, spark, folder, "first")  # which compiles
        bare = _run(None, market, spark, folder, "bare")["throughput"]
        group = _run(plan, market, spark, folder, "group")["throughput"]
        yield at_least("throughput with an HA group of three", group / bare, 0.45, f"of {bare:,.0f} tuples/s")
        every = _run(copies, market, spark, folder, "copies")["throughput"]
        yield reported("throughput with two copies of all", every / bare, "×", "with digests of what they give out")
        yield from _failovers(plan, live, folder, spark)
        yield from _costs(market, spark)


def _failovers(plan: Path, market: Path, folder: Path, spark: Any) -> Iterable[Result]:
    # The edge of the replica: windows of five trades by ticker would be full again only after minutes.
    struck, verdict, summary = fail_over(
        APP, plan, "trades", "VWAP", market, folder, kills=KILLS, hangs=HANGS, rate=RATE, spark=spark
    )
    kills = [s.seconds for s in struck if not s.hang and s.seconds is not None]
    hangs = [s.seconds for s in struck if s.hang and s.seconds is not None]
    yield at_least("fail-overs after a kill", len(kills), KILLS, "one run, kills in turn", "")
    if kills:
        yield at_most(
            "fail-over, median", float(np.median(kills)), 0.2, f"{len(kills)} kills, to the first tuple", " s"
        )
        yield at_most("fail-over, longest", max(kills), 0.5, f"{len(kills)} kills", " s")
    if hangs:
        yield at_most("fail-over from a hang, longest", max(hangs), 3 * HEARTBEAT, f"{len(hangs)} × SIGSTOP", " s")
    yield at_most("lost", verdict.lost, 0, f"of {verdict.expected:,} bargains, by the oracle", "")
    yield at_most("doubled", verdict.doubled, 0, "by the oracle", "")
    yield at_most("wrong", verdict.wrong, 0, "by the oracle", "")
    tainted = sum(f["tainted"] for f in summary["groups"]["trades"]["failovers"])
    yield at_most("fail-overs to a replica that was not full", tainted, 0, "", "")


def _costs(market: Path, spark: Any) -> Iterable[Result]:
    """One table: what every operator takes, and what each technique takes beyond that when all of them have it."""
    inputs = {source.name: market for source in load_app(APP).sources}
    found = cost_profile(APP, inputs, rate=RATE, seconds=4.0, spark=spark)
    for name, cost in found.totals().items():
        how = "all operators, 20,000 tuples/s" if name == "running" else "beyond that"
        yield reported(f"{name}: cores", cost.cores, "", how)
        yield reported(f"{name}: memory", cost.memory / 1e6, " MB", how)
        yield reported(f"{name}: written", cost.written / 1e6, " MB/s", how)
        yield reported(f"{name}: sent", cost.sent / 1e6, " MB/s", how)
