"""NEXMark 3, local item finder: who sells items of one category in a few states.

    Person  → Local    ┐
    Auction → Category ┴→ Found → Sink

A seller is joined with the auctions that arrive within the window, and vice versa.
"""

import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time
from riprap_papers.workloads import nexmark
from riprap_papers.workloads.workload import PublishedWorkload, Query, Windows, Workload, spelled

CATEGORY = nexmark.FIRST_CATEGORY
STATES = "('OR', 'ID', 'CA')"
WINDOWS = {"large": "30s", "small": "15s"}


def build(windows: Windows = "large") -> Graph:
    app = App("nexmark-3")
    window = time(WINDOWS[windows])
    people = app.source("Person", nexmark.SOURCES["Person"])
    auctions = app.source("Auction", nexmark.SOURCES["Auction"])
    local = people.select("id", "name", "city", "state", where=f"state IN {STATES}", name="Local")
    chosen = auctions.select("id AS auction", "seller", where=f"category = {CATEGORY}", name="Category")
    found = local.join(
        chosen,
        on=[("id", "seller")],
        left_window=window,
        right_window=window,
        select=["name", "city", "state", "auction"],
        name="Found",
    )
    found.sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    return nexmark.generate(["Person", "Auction"], tuples, seed, rate, skew)


def query(windows: Windows) -> str:
    within = f"INTERVAL '{spelled(WINDOWS[windows])}'"
    return f"""
        SELECT name, city, state, a.id AS auction, greatest(p._ts, a._ts) AS _ts,
               unix_micros(greatest(p._ts, a._ts)) AS _seq
        FROM Person p JOIN Auction a
          ON p.id = a.seller AND a._ts > p._ts - {within} AND p._ts > a._ts - {within}
        WHERE state IN {STATES} AND category = {CATEGORY}"""


WORKLOAD = Workload(
    name="nexmark-3",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 5_400, "small": 25_000},
        shards={"Person": 4, "Auction": 4, "Local": 4, "Category": 4, "Found": 4, "Sink": 4},
        killed="Found",
    ),
    query=Query(query),
    notes=("the published windows slide by 5 s and emit a match once per window; here a match is emitted once",),
)
