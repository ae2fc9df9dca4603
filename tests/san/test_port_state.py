"""How much of each port a join holds: what a profile measures, and the models take, against DuckDB over the input."""

from random import Random

import duckdb
import pyarrow as pa
import pytest

from riprap.engine.profile import profile
from riprap.graph.builder import App
from riprap.graph.windows import count, time, zero
from riprap.san.streaming.describe import describe

SECOND = 1_000_000


def given(random: Random, rows: int, column: str) -> pa.RecordBatch:
    """A key that comes often and some that come seldom; times are unique among both ports."""
    times = sorted(random.sample(range(0, 60 * SECOND, 2), rows))
    odd = column == "y"
    return pa.record_batch(
        {
            "k": pa.array([random.choice("aaaabbc") for _ in range(rows)]),
            column: pa.array(range(rows), pa.int64()),
            "_ts": pa.array([at + odd for at in times], pa.timestamp("us", "UTC")),
            "_seq": pa.array(range(rows), pa.int64()),
        }
    )


def kept(batch: pa.RecordBatch, other: pa.RecordBatch, window: object, per_group: bool) -> int:
    """Of a port, at the end of both: counted in SQL, from what the window says."""
    connection = duckdb.connect()
    connection.register("own", batch.select(["k", "_ts"]))
    connection.register("other", other.select(["k", "_ts"]))
    part = "partition by k" if per_group else ""
    match str(window).partition("(")[0]:
        case "zero":
            return 0
        case "count":
            condition = f"(row_number() over ({part} order by _ts desc)) <= {window.size}"
        case "time":
            # Younger than so long, at the latest tuple of either port.
            last = "(select max(_ts) from (select * from own union all select * from other))"
            condition = f"_ts > {last} - interval {window.size} microsecond"
    return connection.sql(f"select count(*) from (select {condition} as held from own) where held").fetchall()[0][0]


@pytest.mark.parametrize("per_group", [True, False])
@pytest.mark.parametrize(
    ("left_window", "right_window"),
    [
        (count(1), count(4)),
        (count(30), zero()),
        (time("7s"), time("2s")),
        (time("7s"), count(5)),
        (zero(), time("40s")),
    ],
    ids=str,
)
def test_each_port_holds_what_its_window_says(left_window, right_window, per_group):
    app = App("ports")
    left, right = app.source("L", "k string, x long"), app.source("R", "k string, y long")
    left.join(right, on="k", left_window=left_window, right_window=right_window, per_group=per_group, name="J").sink(
        "Out"
    )
    graph = app.build()
    random = Random(7)
    inputs = {"L": given(random, 150, "x"), "R": given(random, 90, "y")}
    measured = profile(graph, {name: [batch] for name, batch in inputs.items()})
    expected = (
        kept(inputs["L"], inputs["R"], left_window, per_group),
        kept(inputs["R"], inputs["L"], right_window, per_group),
    )
    assert measured.operators["J"].port_state == expected
    assert measured.operators["J"].state_tuples == sum(expected)
    ports = [port.state for port in describe(graph, measured).by_name["J"].inputs]
    assert ports == list(expected)
