"""N-hop neighbours, a cyclic workload: which vertices of a graph are within two edges of another, as edges arrive.

    Edge ┬→ Known ┬→ Paths → Neighbours ┬→ Sink
         └→ Hops ─┘                     └→ Again ┐
            ↑  paths that may grow               │
            └────────────────────────────────────┘

Hops stores paths by their end and extends them by the edges that start there. Edges are partitioned by `from_id`, fed
back paths by their end. A fed back path triggers no output: it waits for edges. Results are approximate, as published:
an edge that arrives before the path that leads to it is missed.
"""

import numpy as np
import pyarrow as pa

from riprap.base.randomness import generator
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time, zero
from riprap_papers.workloads.workload import PublishedWorkload, Windows, Workload, moments, ranks, table

HOPS = 2
VERTICES = 10_000
REMEMBERED = "10s"
DELAY = "100ms"
_PATH = "origin long not null, via long not null, hops long not null"


def build(windows: Windows = "large") -> Graph:
    app = App("nhop")
    edges = app.source("Edge", "from_id long not null, to_id long not null")
    known = app.feedback("paths", _PATH, delay=DELAY)
    longer = known.join(
        edges,
        on=[("via", "from_id")],
        left_window=time(REMEMBERED),
        right_window=zero(),
        select=["origin", "to_id AS via", "hops + 1 AS hops"],
        name="Hops",
    )
    first = edges.select("from_id AS origin", "to_id AS via", "CAST(1 AS BIGINT) AS hops", name="Known")
    paths = first.union(longer, name="Paths")
    near = paths.select("origin", "via", "hops", where=f"hops <= {HOPS} AND origin <> via", name="Neighbours")
    near.select("origin", "via", "hops", where=f"hops < {HOPS}", name="Again").feed("paths")
    near.sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    """Edges between random vertices; with a skew, both ends follow Zipf's law."""
    ends = {}
    for name in ("from_id", "to_id"):
        draws = generator(seed, "nhop", name)
        drawn = draws.integers(0, VERTICES, tuples) if skew is None else ranks(draws, tuples, VERTICES, skew)
        ends[name] = drawn.astype(np.int64)
    return {"Edge": table(ends, moments(tuples, rate))}


WORKLOAD = Workload(
    name="nhop",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 5_400, "small": 5_400},
        shards={"Edge": 6, "Hops": 6, "Known": 6, "Paths": 6, "Neighbours": 6, "Again": 6, "Sink": 6},
        killed="Hops",
        windowless=True,
        estimated=True,
    ),
    cyclic=True,
    notes=(
        f"paths are stored for {REMEMBERED} of event time, and every match is emitted, not only a shorter one",
        f"fed back tuples arrive {DELAY} of event time later",
    ),
)
