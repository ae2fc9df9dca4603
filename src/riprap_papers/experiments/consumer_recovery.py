"""Figure 3.10: a consumer is killed, restarts and reads what it missed. With real elements and a real kill.

Two filters, A and B, each in its own element, write their output to persistent streams. B is killed with SIGKILL; A
goes on writing its output; Spark restarts B, which reads A's stream from the position where its own output ended. What
reached the receiver is read from the receiver's stream afterwards: every append has the time of its writing.

    before    tuples a second until the kill
    down      seconds in which nothing reached the receiver
    catching  tuples a second while B caught up
    caught    seconds from the first tuple after the kill until the receiver had caught up
    after     tuples a second from then on
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.run import run
from riprap.base.errors import DataError
from riprap.base.randomness import generator
from riprap.graph.annotations import persist
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.streams import PersistentStream

PUBLISHED = "26 MB/s; down for 34 s; 20 MB/s for 75 s while stored tuples were read, then 25 MB/s"
KILLED, RECEIVER = "B", "Receiver"
BIN = 100_000  # microseconds
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class ConsumerReturn:
    """Rates are tuples a second."""

    before: float
    down: float
    catching: float
    caught: float
    after: float
    timeline: tuple[int, ...]  # tuples in each tenth of a second


def build() -> Graph:
    app = App("two-filters")
    source = app.source("Source", "x long, payload string")
    first = source.filter("x >= 0", name="A", protect=persist())
    first.filter("x >= 0", name="B", protect=persist()).sink(RECEIVER)
    return app.build()


def write_input(path: Path, tuples: int, size: int) -> None:
    """Tuples of `size` bytes."""
    text = generator(1, "tuple", size).bytes(size).hex()[: max(1, size - 24)]
    schema = pa.schema([("x", pa.int64()), ("payload", pa.string()), ("_ts", pa.timestamp("us", "UTC"))])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, tuples, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, tuples - first)
            number = pa.array(np.arange(first, first + count))
            columns = [number, pa.repeat(text, count), number.cast(schema.field("_ts").type)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def reproduce(
    out: Path, *, size: int, rate: float, seconds: float, spark: Any = None, say: Callable[[str], None] = lambda _: None
) -> ConsumerReturn:
    """Run for about `seconds`, kill B after a third of it, and measure what the receiver got when."""
    tuples = int(rate * seconds)
    out.mkdir(parents=True, exist_ok=True)
    write_input(out / "input.parquet", tuples, size)
    say(f"two filters at {rate:,.0f} tuples/s; {KILLED} is killed after {seconds / 3:.0f} s …")
    result = run(
        build(), {"Source": out / "input.parquet"}, out=out / "run", fuse="none", rate=rate,
        kill=f"{KILLED}@{seconds / 3:g}s", spark=spark,
    )  # fmt: skip
    stream = PersistentStream.open(result.summary["sinks"][RECEIVER]["path"])
    stored = [(item.header.written_at, item.header.rows) for item in stream.read()]
    moments, rows = np.array(stored, np.int64).T
    if rows.sum() != tuples:
        raise DataError(f"the receiver got {rows.sum():,} of {tuples:,} tuples: see {out / 'run'}")
    return told(moments, rows, rate)


def told(moments: np.ndarray, rows: np.ndarray, rate: float) -> ConsumerReturn:
    """The rates and times, from the rows and times (microseconds) of appends; the longest gap is the outage."""
    gaps = np.diff(moments)
    last = int(gaps.argmax())
    gone, back = moments[last], moments[last + 1]
    had = np.cumsum(rows)
    due = had[last] + rate * (moments - gone) / 1e6  # without the kill
    level = np.flatnonzero((np.arange(len(moments)) > last) & (had >= due - rate * BIN / 1e6))
    there = int(level[0]) if len(level) else len(moments) - 1
    timeline = np.bincount((moments - moments[0]) // BIN, rows).astype(int)
    caught = (moments[there] - back) / 1e6
    return ConsumerReturn(
        _rate(had[last] - rows[0], gone - moments[0]),
        float(back - gone) / 1e6,
        _rate(had[there] - had[last], moments[there] - back) if there > last + 1 else float(rate),
        float(caught),
        _rate(had[-1] - had[there], moments[-1] - moments[there]) if there < len(moments) - 1 else 0.0,
        tuple(timeline.tolist()),
    )


def _rate(rows: int, span: int) -> float:
    return float(rows) / (float(span) / 1e6) if span > 0 else 0.0
