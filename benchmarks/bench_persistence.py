"""An app with and without persistent output: what `persist()` costs, with async stability and with fsync."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Result, at_least, reported, side_by_side
from riprap.apps.persistent_chain import PUBLISHED, measure

TOTAL = 32 << 20


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        for size in (256, 1024, 4096):
            taken = side_by_side(
                {
                    mode: lambda mode=mode, size=size: measure(size, 16, 1, mode, TOTAL, Path(scratch))
                    for mode in ("native", "async", "fsync")
                },
                rounds=4,
            )
            rates = {mode: TOTAL / 1e6 / seconds for mode, seconds in taken.items()}
            how = (
                f"MB/s: without {rates['native']:.0f}, async {rates['async']:.0f}, fsync {rates['fsync']:.0f}; "
                f"published at 4 KiB: {PUBLISHED}"
            )
            yield at_least(f"persist(), tuples of {size} B, async", rates["async"] / rates["native"], 0.85, how)
            yield reported(f"persist(), tuples of {size} B, fsync", rates["fsync"] / rates["native"], "×", how)
