"""NEXMark 6, average selling price by seller.

    Auction ┐
    Bid     ┴→ Offers → Sold → Average → Sink

Bids meet their auction; the highest one of an auction in a window is what it sold for; and the average of these is
taken per seller over the next window. Three windowed operators in a row.
"""

import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time, zero
from riprap.workloads import nexmark
from riprap.workloads.workload import Published, Windows, Workload

JOIN = {"large": "30s", "small": "15s"}
TUMBLING = {"large": "15s", "small": "5s"}


def build(windows: Windows = "large") -> Graph:
    app = App("nexmark-6")
    auctions = app.source("Auction", nexmark.SOURCES["Auction"])
    bids = app.source("Bid", nexmark.SOURCES["Bid"])
    offers = auctions.join(
        bids,
        on=[("id", "auction")],
        left_window=time(JOIN[windows]),
        right_window=zero(),
        select=["seller", "auction", "price"],
        name="Offers",
    )
    tumbling = time(TUMBLING[windows])
    sold = offers.aggregate("max(price) AS price", window=tumbling, by=["seller", "auction"], name="Sold")
    average = sold.aggregate("avg(price) AS price", "count(*) AS items", window=tumbling, by="seller", name="Average")
    average.sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    return nexmark.generate(["Auction", "Bid"], tuples, seed, rate, skew)


WORKLOAD = Workload(
    name="nexmark-6",
    build=build,
    generate=generate,
    published=Published(
        rates={"large": 5_400, "small": 25_000},
        shards={"Auction": 4, "Bid": 4, "Offers": 4, "Sold": 4, "Average": 4, "Sink": 4},
        killed="Offers",
        estimated=True,
    ),
    speaks_after={"large": 30.0, "small": 10.0},
    notes=("the published join slides by 5 s; here a bid meets its auction when it comes",),
)
