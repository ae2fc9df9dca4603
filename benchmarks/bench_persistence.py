"""An app with and without persistent output: what `persist()` costs, with async stability and with fsync."""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Result, at_least, reported
from riprap.apps.persistent_chain import MODES, PUBLISHED, Outcome, measure

TOTAL = {256: 64 << 20, 1024: 128 << 20, 4096: 256 << 20}  # bytes, by the size of a tuple
SETTLING = 192 << 20  # bytes, three segments: from then on logs are written over what was trimmed, as in a long run
ROUNDS = 5


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        for size, total in TOTAL.items():
            taken: dict[str, list[Outcome]] = {mode: [] for mode in MODES}
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
