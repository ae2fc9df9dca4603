"""Apps for runs with real processes: their graphs, their inputs, and an operator of a user's own."""

import json
from dataclasses import replace
from random import Random

import pyarrow as pa

from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink, Source
from riprap.graph.windows import count, session_window, time
from riprap.operators.user import Rows, UserOperator

COLUMNS = "k string, x long, id long"


class Dedupe(UserOperator):
    """Passes on the first row of each key and value; of 40 values of a key, the oldest are forgotten."""

    one_per_trigger = True

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}

    def output_schemas(self, inputs):
        return [inputs[0]]

    def process(self, port, batch):
        fresh = []
        for row, (key, value) in enumerate(zip(*(batch.column(c).to_pylist() for c in ("k", "x")), strict=True)):
            values = self.seen.setdefault(key, [])
            if value not in values:
                fresh.append(row)
                values.append(value)
                del values[:-40]
        names = [name for name in batch.schema.names if not name.startswith("_")]
        return [Rows(batch.select(names).take(pa.array(fresh, pa.int64())), fresh)]

    def save(self):
        return json.dumps(sorted(self.seen.items())).encode()

    def load(self, saved):
        self.seen = dict(json.loads(saved))


def visits() -> Graph:
    """Three sources, a session per key, and an operator of the user's own that drops what it has seen."""
    app = App("visits")
    web, shop, calls = (app.source(name, COLUMNS) for name in ("Web", "Shop", "Calls"))
    visits = web.union(shop.filter("x > 0", name="Paid"), name="Visits")
    fresh = visits.apply(Dedupe, name="Fresh")[0]
    sums = fresh.aggregate("sum(x) AS x", "max(id) AS id", window=session_window("20ms"), by="k", name="Sessions")
    sums.union(calls.select("k", "x", "id", name="Talk"), name="All").sink("Out")
    return app.build()


def turns() -> Graph:
    """A cycle in which rows go round until they are small, and windows behind it."""
    app = App("turns")
    source = app.source("Orders", COLUMNS)
    back = app.feedback("back", COLUMNS, delay="1ms")
    both = source.union(back, name="Both")
    both.select("k", "x - 1 AS x", "id", where="x > 0", name="Lower").feed("back")
    sums = both.aggregate("sum(x) AS x", "max(id) AS id", window=time("30ms"), by="k", name="Sums")
    sums.filter("x > 3", name="Large").sink("Out")
    return app.build()


def pairs() -> Graph:
    """Two sources that are joined, and sliding windows behind them."""
    app = App("pairs")
    left = app.source("Left", COLUMNS).filter("x > 0", name="Some")
    right = app.source("Right", COLUMNS).rename({"x": "y", "id": "other"}, name="Named")
    both = left.join(
        right, on="k", left_window=count(2), right_window=time("3ms"), select=["k", "x + y AS x", "id"], name="Pairs"
    )
    both.aggregate("sum(x) AS x", "count(*) AS n", window=count(50), every=count(5), by="k", name="Sums").sink("Out")
    return app.build()


APPS = {"visits": visits, "turns": turns, "pairs": pairs}


def grouped(graph: Graph) -> Graph:
    """Everything but sinks in one HA group: the sources too."""
    for spec in graph.operators:
        if not isinstance(spec, Sink):
            graph = graph.with_operator(replace(spec, annotations=Annotations(ha_group=HaGroup("g", 2))))
    return graph


def table(source: Source, rows: int, random: Random) -> pa.Table:
    """The input of a source; `id` is unique among all."""
    times, now = [], 0
    for _ in range(rows):
        now += random.choice([0, 50, 100, 300])
        times.append(now)
    return pa.table(
        {
            "k": [random.choice("abcdefgh") for _ in range(rows)],
            "x": pa.array([random.randint(0, 9) for _ in range(rows)], pa.int64()),
            "id": pa.array(range(source.rank * 10**7, source.rank * 10**7 + rows), pa.int64()),
            "_ts": pa.array(times, pa.timestamp("us", "UTC")),
            "_seq": pa.array(range(rows), pa.int64()),
        }
    )
