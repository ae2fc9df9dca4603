"""NEXMark 6, average selling price by seller.

    Auction ┐
    Bid     ┴→ Offers → Sold → Average → Sink

Bids are joined with their auction; the highest bid of an auction in a window is its selling price; these are averaged
per seller over the next window. Three windowed operators in a row.
"""

import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time, zero
from riprap_papers.workloads import nexmark
from riprap_papers.workloads.workload import PublishedWorkload, Query, Windows, Workload, spelled

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


def query(windows: Windows) -> str:
    """Averages over the window of the highest bids, where ours uses the next window: it emits sooner."""
    joined, tumbling = (spelled(size[windows]) for size in (JOIN, TUMBLING))
    return f"""
        SELECT seller, avg(price) AS price, count(*) AS items, window.end + INTERVAL '{tumbling}' AS _ts,
               unix_micros(window.end + INTERVAL '{tumbling}') AS _seq
        FROM (SELECT seller, auction, max(price) AS price, window AS sold
              FROM (SELECT seller, auction, price, b._ts AS _ts FROM Auction a JOIN Bid b
                      ON a.id = b.auction AND b._ts >= a._ts AND b._ts < a._ts + INTERVAL '{joined}')
              GROUP BY window(_ts, '{tumbling}'), seller, auction)
        GROUP BY window(sold, '{tumbling}'), seller"""


WORKLOAD = Workload(
    name="nexmark-6",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 5_400, "small": 25_000},
        shards={"Auction": 4, "Bid": 4, "Offers": 4, "Sold": 4, "Average": 4, "Sink": 4},
        killed="Offers",
        estimated=True,
    ),
    query=Query(
        query,
        closes=True,
        sooner={"large": 15.0, "small": 5.0},
        note="averages the highest bids in their own window, and so emits averages a window sooner than ours",
    ),
    speaks_after={"large": 30.0, "small": 10.0},
    notes=("the published join slides by 5 s; here a bid is joined with its auction on arrival",),
)
