"""Random apps with all kinds of operators, and recorded streams for them as users have them; pure functions of a seed.

    graph = random_app(7)
    paths = random_inputs(graph, 7, folder)     # a Parquet file for each source

Event time goes by in milliseconds, so that a thousand rows are about a second. Columns are `k string, x long, id long`.
"""

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from tests.simulation.schedules import BUILD, any_app

from riprap.graph.graph import Graph
from riprap.graph.windows import count, session_window, sliding, time, tumbling, unbounded, zero
from riprap.operators.user import Rows, UserOperator


class Running(UserOperator):
    """The running total of `x` per key."""

    one_per_trigger = True

    def __init__(self):
        self.totals: dict[str, int] = {}

    def output_schemas(self, inputs):
        return inputs[:1]

    def process(self, port, batch):
        out = []
        for key, x in zip(batch["k"].to_pylist(), batch["x"].to_pylist(), strict=True):
            self.totals[str(key)] = self.totals.get(str(key), 0) + (x or 0)
            out.append(self.totals[str(key)])
        schema = pa.schema([batch.schema.field(name) for name in ("k", "x", "id")])
        return [Rows(pa.RecordBatch.from_arrays([batch["k"], pa.array(out, pa.int64()), batch["id"]], schema=schema))]

    def save(self):
        return json.dumps(self.totals, sort_keys=True).encode()

    def load(self, saved):
        self.totals = json.loads(saved)

    def size(self):
        return len(self.totals)


def _scan(random, pick, name):
    state = {"last": ("-1", "id"), "total": ("0", "total + x")}
    where = random.choice([None, "total % 3 <> 1"])
    return [
        pick().scan("k", "total AS x", "last AS id", state=state, by=random.choice(["k", ()]), where=where, name=name)
    ]


def _sessions(random, pick, name):
    calls = ["max(x) AS x", "count(distinct id) AS id"]
    gap = session_window(random.choice(["400us", "3ms"]))
    return [pick().aggregate(*calls, window=gap, by="k", name=name)]


def _functions(random, pick, name):
    calls = ["max(k) AS k", "max_by(x, id) AS x", "first(id) FILTER (WHERE x > 1) AS id"]
    others = ["min(k) AS k", "bit_xor(x) AS x", "mode(id) AS id"]
    window = random.choice([tumbling("3ms", start="1ms"), sliding("5ms", "2ms"), count(4), session_window("2ms")])
    return [pick().aggregate(*random.choice([calls, others]), window=window, name=name)]


def _updates(random, pick, name):
    calls = ["count(*) AS x", "last(id) AS id"]
    every = random.choice([None, time("4ms")])
    return [pick().aggregate(*calls, window=unbounded(), every=every, by="k", name=name)]


def _outer(random, pick, name):
    left, right = pick(), pick().rename({"x": "y", "id": "other"}, name=f"{name}r")
    windows = random.choice([(count(1), zero()), (zero(), count(3)), (time("5ms"), count(1)), (count(2), count(2))])
    how = random.choice(["left", "right", "full"])
    return [
        left.join(right, on="k", left_window=windows[0], right_window=windows[1], how=how,
                  select=["k", "coalesce(x, -1) AS x", "coalesce(other, -2) AS id"], name=name)
    ]  # fmt: skip


def _distinct(random, pick, name):
    return [pick().drop_duplicates("k", "x", within=random.choice([None, "3ms"]), name=name)]


def _at_expiry(random, pick, name):
    left, right = pick(), pick().rename({"x": "y", "id": "other"}, name=f"{name}r")
    how = random.choice(["left", "right", "full", "left_semi", "left_anti"])
    other = "id" if "semi" in how or "anti" in how else "coalesce(other, -2) AS id"
    return [
        left.join(right, on="k", left_window=time("2ms"), right_window=time("1ms"), how=how, unmatched="expiry",
                  select=["k", "coalesce(x, -1) AS x", other], name=name)
    ]  # fmt: skip


def _with_table(random, pick, name):
    stream = pick()
    rows = pa.table({"k": ["a", "b", "b", None], "more": [10, 20, 30, 40]})
    table = stream.app.table(rows.slice(random.choice([0, 2])), name=f"T{name}")
    return [
        stream.join_table(table, on="k", how=random.choice(["inner", "left"]),
                          select=["k", "coalesce(more, x) AS x", "id"], name=name)
    ]  # fmt: skip


def _chained(random, pick, name):
    counted = pick().aggregate("count(*) AS x", "max(id) AS id", window=tumbling("1ms"), by="k", name=f"{name}a")
    return [counted.window_time(name=name)]


FURTHER = {
    "scan": _scan,
    "delay": lambda random, pick, name: [pick().delay(random.choice(["200us", "7ms"]), name=name)],
    "sessions": _sessions,
    "functions": _functions,
    "updates": _updates,
    "outer": _outer,
    "before": lambda random, pick, name: [pick().punctuate(before=random.choice(["x = 1", "k = 'b'"]), name=name)],
    "regex": lambda random, pick, name: [pick().filter("k rlike '^[ab]$'", name=name)],
    **{name: BUILD[name] for name in ("aggregate", "union", "sort")},
}
EVERY = {**BUILD, **FURTHER, "user": lambda random, pick, name: list(pick().apply(Running, name=name))}


RELATIONAL = {
    "distinct": _distinct,
    "at expiry": _at_expiry,
    "table": _with_table,
    "chained": _chained,
    **{name: BUILD[name] for name in ("filter", "aggregate", "union")},
}


def random_app(seed: int, kinds: dict | None = None) -> Graph:
    """Up to three sources and five operators."""
    return any_app(Random(f"app {seed}"), kinds or EVERY, sources=3, operators=5)


def random_inputs(graph: Graph, seed: int, folder: Path, most: int = 900) -> dict[str, Path]:
    """A file for each source: with ties in time, NULLs, a few keys that most rows have; some sources are tables, whose
    rows all come at the beginning, and some bring little.
    """
    random = Random(f"inputs {seed}")
    paths = {}
    lively = random.randrange(len(graph.sources))
    for source in graph.sources:
        kind = random.choice(["stream", "stream", "stream", "bursts", "table", "sparse"])
        if source.rank == lively:
            kind = "stream"  # of something the app has to live
        size = {"table": 30, "sparse": 5}.get(kind, random.randint(most // 2, most))
        steps = {"table": [0], "sparse": [50_000, 200_000], "bursts": [0] * 40 + [30_000]}
        now, ts = 0, []
        for _ in range(size):
            now += random.choice(steps.get(kind, [0, 0, 100, 300, 1000, 4000]))
            ts.append(now)
        keys = random.choice(["aaaaaaaab", "abc", "abcdefgh"])
        nulls = random.choice([0.0, 0.0, 0.1])
        columns = {
            "k": pa.array([None if random.random() < nulls else random.choice(keys) for _ in range(size)], pa.string()),
            "x": pa.array([None if random.random() < nulls else random.randint(0, 5) for _ in range(size)], pa.int64()),
            "id": pa.array(range(source.rank * 10**6, source.rank * 10**6 + size), pa.int64()),
            "_ts": pa.array(ts, pa.timestamp("us", "UTC")),
        }
        paths[source.name] = folder / f"{source.name}.parquet"
        pq.write_table(pa.table(columns), paths[source.name])
    return paths
