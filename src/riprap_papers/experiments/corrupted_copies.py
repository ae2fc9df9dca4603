"""`reproduce corruption`: the effect of bit flips on the output of real runs, with one, two and three copies.

An operator sums by key over short windows. At intervals a bit is flipped, in an input tuple or in its state with equal
probability, as published (`--corrupt Sums@2s,…`). A wrong value replaces the right one. A wrong key creates a group
that should not exist: it emits under a new order key, so de-duplication lets it pass, and more tuples than without
faults reach the sink, as in the model. The output is compared, key by key, with that of the engine in one process
without faults.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.run import run
from riprap.base.randomness import generator
from riprap.graph.annotations import full_replication
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time
from riprap.proof.oracle import compare, expected_rows

SUMS, SINK = "Sums", "Out"
KEYS = ("ALFA", "BRAVO", "CARLO", "DELTA", "ECHO", "FOX", "GOLF", "HOTEL")
_FIRST, _EVERY = 2.0, 0.5  # seconds: when bits are flipped


@dataclass(frozen=True)
class CorruptionOutcome:
    """One run. `more`: rows at the sink beyond those of a run without faults; negative: fewer."""

    copies: int
    tuples: int  # with a flipped bit
    states: int
    expected: int
    found: int
    wrong: int  # rows with other values, or with keys that should not exist
    lost: int
    doubled: int
    differences: int  # intervals in which copies differed
    odd: int  # those of them in which one copy was found to be wrong
    restored: int  # copies that restored from another copy

    @property
    def more(self) -> int:
        return self.found - self.expected


def summing(copies: int) -> Graph:
    app = App("sums", protect=full_replication(copies)) if copies > 1 else App("sums")
    rows = app.source("In", "k string not null, x long not null").filter("x >= 0", name="Kept")
    rows.aggregate("sum(x) AS x", "count(*) AS n", window=time("100ms"), by="k", name=SUMS).sink(SINK)
    return app.build()


def rows(seconds: float, rate: float, seed: int) -> pa.Table:
    """Tuples at this rate: event time equals the time of the run."""
    draws = generator(seed, "corruption")
    count = int(seconds * rate)
    numbers = np.arange(count, dtype=np.int64)
    return pa.table(
        {
            "k": pa.array(np.array(KEYS)[draws.integers(len(KEYS), size=count)]),
            "x": pa.array(draws.integers(0, 1_000, count)),
            "_ts": pa.array((numbers * 1e6 / rate).astype(np.int64), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_seq": pa.array(numbers),
        }
    )


def reproduce(
    out: Path, *, copies: Sequence[int], strikes: int, rate: float, seed: int, spark: Any = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[CorruptionOutcome]:  # fmt: skip
    """A run for each number of copies, with `strikes` bit flips each."""
    path = out / "in.parquet"
    times = [_FIRST + _EVERY * at for at in range(strikes)]
    pq.write_table(rows(times[-1] + 3.0, rate, seed), path)
    expected = expected_rows(summing(1), {"In": path})[SINK]
    for number in copies:
        say(f"{number} {'copies' if number > 1 else 'copy'}, {strikes} bit flips …")
        result = run(
            summing(number), {"In": path}, out=out / f"copies-{number}", fuse="none", rate=rate, spark=spark,
            corrupt=",".join(f"{SUMS}@{at:g}s" for at in times),
        )  # fmt: skip
        yield _outcome(number, expected, result.sink(SINK), result.summary)


def _outcome(copies: int, expected: pa.Table, found: pa.Table, summary: Any) -> CorruptionOutcome:
    verdict = compare(expected, found)
    struck = [one["what"] for one in summary["corruptions"] if one["column"] is not None]
    replication = summary["copies"].get(SUMS, {"differences": [], "restored": 0})
    return CorruptionOutcome(
        copies,
        struck.count("tuple"),
        struck.count("state"),
        verdict.expected,
        verdict.found,
        verdict.wrong,
        verdict.lost,
        verdict.doubled,
        len(replication["differences"]),
        sum(bool(difference["odd"]) for difference in replication["differences"]),
        replication["restored"],
    )


def as_json(outcome: CorruptionOutcome) -> dict[str, Any]:
    return asdict(outcome) | {"more": outcome.more}
