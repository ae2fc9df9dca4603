"""A long run: does its last minute cost what its first one did?

Bargain Discovery with one element per operator at an even, low rate, so that messages are many (200 a second on every
channel) and rows few. Of the first and of the last whole minute after the start: latency, seconds of a core that all
elements used, and their resident memory. RIPRAP_STEADY_MINUTES says how long; 4 unless it is given, 31 shows minute 30.

It takes a third of a core, so it can run beside other work; then latency is that of the other work, and processor and
memory are what counts. The load of either minute is in every row.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import Result, at_most, reported
from riprap.api.run import run as run_app
from riprap.apps import market, market_files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.runtime.coordination.element_metrics import ElementMetrics
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.element.latency import Latencies
from riprap.spark.session import hosting_session

RATE = 20_000  # tuples/s
MINUTES = int(os.environ.get("RIPRAP_STEADY_MINUTES", "4"))
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Moment(NamedTuple):
    """What was counted until then: latencies of the sink, seconds of a core, bytes in memory."""

    latencies: dict[int, int]
    used: float
    resident: int
    load: float  # of the machine, in that minute


def run() -> Iterator[Result]:
    moments: list[_Moment] = []  # one a minute, from the end of the first minute on
    began: list[float] = []

    def watch(state: str, table: Sequence[PeStatus]) -> None:
        told = {status.pe: ElementMetrics.from_json(status.metrics) for status in table if status.metrics}
        if "Sink" not in told or not told["Sink"].latency:
            return
        began[:] = began or [SYSTEM_CLOCK.monotonic()]
        if SYSTEM_CLOCK.monotonic() - began[0] >= 60 * len(moments):
            seen = [_process(status.pid) for status in table]
            used, resident = (sum(part) for part in zip(*seen, strict=True))
            moments.append(_Moment(dict(told["Sink"].latency), used, int(resident), os.getloadavg()[0]))

    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        source = Path(directory) / "market.parquet"
        _write(source)
        spark = hosting_session(8)
        try:
            seconds = 60.0 * MINUTES + 10
            run_app(
                "bargain-discovery", {"Source": source}, out=Path(directory) / "run", spark=spark, fuse="none",
                rate=RATE, seconds=seconds, watch=watch,
            )  # fmt: skip
        finally:
            spark.stop()
    first, last = _minute(*moments[0:2]), _minute(*moments[-2:])
    which = f"minute {len(moments) - 1} against minute 1, one element per operator, {RATE:,} tuples/s"
    which += f", at a load of {moments[1].load:.1f} and {moments[-1].load:.1f}"
    yield at_most("steady.latency.p50", last[0] / first[0], 1.25, which)
    yield at_most("steady.latency.p99", last[1] / first[1], 1.5, which)
    yield at_most("steady.processor", last[2] / first[2], 1.1, which)
    yield at_most("steady.memory", moments[-1].resident / moments[1].resident, 1.05, which)
    yield reported("steady.latency.p50, last minute", last[0], "ms", which)
    yield reported("steady.processor, last minute", last[2] / 60, "cores", which)
    yield reported("steady.memory, at the end", moments[-1].resident / 2**20, "MiB", which)


def _write(path: Path) -> None:
    """A minute of ticks, one time after another: half an hour of them would take gigabytes to make at once."""
    minute = market.generate(RATE * 60, seed=1)
    times = minute["_ts"].cast(pa.int64())
    span = pc.max(times).as_py() - pc.min(times).as_py() + 1
    with pq.ParquetWriter(path, minute.schema, compression="zstd") as file:
        for number in range(MINUTES + 1):
            moved = pc.add(times, number * span).cast(minute.schema.field("_ts").type)
            counted = pc.add(minute["_seq"], number * minute.num_rows)
            shifted = minute.set_column(minute.schema.get_field_index("_ts"), minute.schema.field("_ts"), moved)
            shifted = shifted.set_column(minute.schema.get_field_index("_seq"), minute.schema.field("_seq"), counted)
            file.write_table(shifted, row_group_size=market_files.ROWS_PER_GROUP)


def _minute(begin: _Moment, end: _Moment) -> tuple[float, float, float]:
    """Median and 99th percentile of latency, in ms, and seconds of a core."""
    spent = Latencies(end.latencies).since(begin.latencies)
    return spent.quantile(0.5) or 0.0, spent.quantile(0.99) or 0.0, end.used - begin.used


def _process(pid: int) -> tuple[float, int]:
    """Seconds of a core that a process has used, and its resident bytes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
