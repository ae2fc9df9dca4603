"""NEXMark 2, selection: bids on some auctions.

    Bid → Selection → Sink

The condition selects about half of the bids (those on auctions with an even id), as published; the original selects
few.
"""

import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap_papers.workloads import nexmark
from riprap_papers.workloads.workload import PublishedWorkload, Query, Windows, Workload


def build(windows: Windows = "large") -> Graph:
    app = App("nexmark-2")
    bids = app.source("Bid", nexmark.SOURCES["Bid"])
    bids.select("auction", "price", where="auction % 2 = 0", name="Selection").sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    return nexmark.generate(["Bid"], tuples, seed, rate, skew)


WORKLOAD = Workload(
    name="nexmark-2",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 45_000, "small": 45_000},
        shards={"Bid": 8, "Selection": 8, "Sink": 8},
        killed="Selection",
        windowless=True,
    ),
    query=Query(lambda windows: "SELECT auction, price, _ts, _seq FROM Bid WHERE auction % 2 = 0"),
)
