"""An app with and without persistent output: what `persist()` costs, with async stability and with fsync.

Twice: a chain that does nothing with its tuples, as in the published experiment, which is the worst case; and Bargain
Discovery as a run on Spark, what BargainIndex gives out kept or not, which is what somebody who keeps a stream sees.
"""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import Result, at_least, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.apps.catalogue import load_app
from riprap.graph.annotations import persist
from riprap.spark.session import hosting_session
from riprap_papers.experiments.persistent_chain import MODES, PUBLISHED, ChainOutcome, measure

TOTAL = {256: 64 << 20, 1024: 128 << 20, 4096: 256 << 20}  # bytes, by the size of a tuple
SETTLING = 192 << 20  # bytes, three segments: from then on logs are written over what was trimmed, as in a long run
ROUNDS = 5
TUPLES = 10_000_000  # of Bargain Discovery
APP_ROUNDS = 3


def run() -> Iterator[Result]:
    yield from chain()
    yield from bargains()


def chain() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        for size, total in TOTAL.items():
            taken: dict[str, list[ChainOutcome]] = {mode: [] for mode in MODES}
            for round_ in range(ROUNDS + 1):  # interleaved; the first one warms up
                for mode in MODES:
                    outcome = measure(size, 16, 1, mode, total, Path(scratch), settling=SETTLING)
                    if round_:
                        taken[mode].append(outcome)
            rates = {mode: statistics.median(one.rate for one in each) / 1e6 for mode, each in taken.items()}
            work = {mode: statistics.median(one.worked for one in each) for mode, each in taken.items()}
            how = (
                f"MB/s from sender to receiver: without {rates['native']:.0f}, async {rates['async']:.0f}, fsync "
                f"{rates['fsync']:.0f}; processor's time without / async "
                f"{work['native'] / work['async']:.2f}; "
                f"published at 4 KiB: {PUBLISHED}"
            )
            yield at_least(f"persist(), tuples of {size} B, async", rates["async"] / rates["native"], 0.85, how)
            yield reported(f"persist(), tuples of {size} B, fsync", rates["fsync"] / rates["native"], "×", how)


def bargains() -> Iterator[Result]:
    """Tuples/s from Parquet to the sink, kept / not kept: in one element, and in one per operator."""
    plain = load_app("bargain-discovery")
    output, largest = (
        plain.with_operator(replace(plain[name], annotations=persist(0))) for name in ("BargainIndex", "TradeQuote")
    )
    modes = {
        "native": (plain, "async"),
        "async": (output, "async"),
        "fsync": (output, "fsync"),
        "largest": (largest, "async"),
    }
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        source, out = Path(scratch) / "market.parquet", Path(scratch) / "run"
        market_files.write(market.generate(TUPLES, seed=1), source, overwrite=True)
        spark = hosting_session(8)
        try:
            for fuse, name in (("none", "one element per operator"), ("all", "one element")):
                rates: dict[str, list[float]] = {mode: [] for mode in modes}
                for round_ in range(APP_ROUNDS + 1):  # interleaved; the first one warms up
                    for mode, (graph, stability) in modes.items():
                        shutil.rmtree(out, ignore_errors=True)
                        done = run_app(graph, {"Source": source}, out=out, spark=spark, fuse=fuse, stability=stability)
                        if round_:
                            rates[mode].append(float(str(done.summary["throughput"])))
                middle = {mode: statistics.median(each) / 1e6 for mode, each in rates.items()}
                share = {mode: rate / middle["native"] for mode, rate in middle.items()}
                how = (
                    f"Bargain Discovery, {name}, {TUPLES:,} tuples, M tuples/s: without {middle['native']:.2f}, its "
                    f"output kept {middle['async']:.2f}, with fsync {middle['fsync']:.2f}, every tuple that comes in "
                    f"kept (TradeQuote's two streams) {middle['largest']:.2f}; median of {APP_ROUNDS}"
                )
                yield at_least(f"persist(), {name}, async", share["async"], 0.85, how)
                yield reported(f"persist(), {name}, fsync", share["fsync"], "×", how)
                yield reported(f"persist(), {name}, largest stream, async", share["largest"], "×", how)
        finally:
            spark.stop()
