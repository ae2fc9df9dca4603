"""NEXMark 5, hot items: the auctions with the most bids.

    Bid → Bids → Hottest → Sink

Bids are counted per auction over a window that slides by a second. Hottest has, per auction, the highest count so far
and emits the counts that exceed it.
"""

import numba
import numpy as np
import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time
from riprap.operators.user import Rows, UserOperator
from riprap_papers.workloads import nexmark
from riprap_papers.workloads.workload import Carried, PublishedWorkload, Query, Windows, Workload, spelled

WINDOWS = {"large": "30s", "small": "10s"}
SLIDE = "1s"


class Highest(UserOperator):
    """Emits the rows whose `value` is above all earlier ones of their `by`, an id that counts from `first`."""

    one_per_trigger = True

    def __init__(self, by: str, value: str, first: int) -> None:
        self.by, self.value, self.first = by, value, first
        self.highest = np.zeros(0, np.int64)  # by id, counted from `first`; 0: nothing yet

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> list[pa.Schema]:
        return [pa.schema([inputs[0].field(self.by), inputs[0].field(self.value)])]

    def process(self, port: int, batch: pa.RecordBatch) -> list[Rows]:
        ids, values = (batch.column(name).to_numpy() for name in (self.by, self.value))
        at = ids - self.first
        beyond = int(at.max()) + 1 - len(self.highest)
        if beyond > 0:
            self.highest = np.concatenate([self.highest, np.zeros(max(beyond, len(self.highest)), np.int64)])
        kept = np.flatnonzero(_raise(self.highest, at, values))
        columns = [batch.column(name).take(pa.array(kept)) for name in (self.by, self.value)]
        return [Rows(pa.record_batch(columns, names=[self.by, self.value]), kept)]

    def save(self) -> bytes:
        return np.trim_zeros(self.highest, "b").astype("<i8").tobytes()

    def load(self, saved: bytes) -> None:
        self.highest = np.frombuffer(saved, "<i8").astype(np.int64)

    def size(self) -> int:
        return int(np.count_nonzero(self.highest))


@numba.njit(cache=True, nogil=True)
def _raise(highest: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each row, whether it raises the highest value of its id, which is updated in place."""
    raised = np.zeros(len(at), np.bool_)
    for row in range(len(at)):
        if values[row] > highest[at[row]]:
            highest[at[row]] = values[row]
            raised[row] = True
    return raised


def build(windows: Windows = "large") -> Graph:
    app = App("nexmark-5")
    bids = app.source("Bid", nexmark.SOURCES["Bid"])
    counts = bids.aggregate(
        "count(*) AS bids", window=time(WINDOWS[windows]), every=time(SLIDE), by="auction", name="Bids"
    )
    (hottest,) = counts.apply(Highest, name="Hottest", by="auction", value="bids", first=nexmark.FIRST_AUCTION)
    hottest.sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    return nexmark.generate(["Bid"], tuples, seed, rate, skew)


def query(windows: Windows) -> str:
    return f"""
        SELECT auction, count(*) AS bids, window.end AS _ts, unix_micros(window.end) AS _seq
        FROM Bid GROUP BY window(_ts, '{spelled(WINDOWS[windows])}', '{spelled(SLIDE)}'), auction"""


WORKLOAD = Workload(
    name="nexmark-5",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 5_400, "small": 25_000},
        shards={"Bid": 6, "Bids": 6, "Hottest": 6, "Sink": 6},
        killed="Bids",
        estimated=True,
    ),
    query=Query(query, Carried("highest", "auction", "bids"), closes=True),
)
