"""Joins, duplicates and chained windows have Spark's rows, over the same rows in a batch query."""

import pyarrow as pa
import pytest
from tests.spark.relational import frame, ran, rows, same

from riprap.graph.builder import App
from riprap.graph.windows import session_window, sliding, time, tumbling

SELECT = {
    "semi": ["k", "x", "i", "s", "at"],
    "both": ["k", "x", "i", "s", "at", "k2", "x2", "i2", "at2"],
}


def other(table: pa.Table) -> pa.Table:
    """The rows with other column names, but for the time of the source."""
    names = {"k": "k2", "x": "x2", "i": "i2", "at": "at2"}
    renamed = table.select(list(names)).rename_columns(list(names.values()))
    return renamed.append_column("at", table["at"])


def joined_app(left, right, on, how, where):
    app = App("join")
    first = app.source("L", left.schema, time="at")
    second = app.source("R", right.schema, time="at").drop("at", name="Other")
    semi = how in ("left_semi", "left_anti")
    first.join(
        second, on=on, how=how, unmatched="expiry", left_window=time("4000001us"), right_window=time("9000001us"),
        where=where, select=SELECT["semi" if semi else "both"], name="J",
    ).sink("Out")  # fmt: skip
    return app.build()


BY_KEY, BY_FLOAT = ([("k", "k2")], None), ([("x", "x2")], None)
BY_TWO = ([("k", "k2"), ("i", "i2")], "x < x2 or x is null")


@pytest.mark.parametrize(
    ("how", "on", "where"),
    [
        *((how, *BY_KEY) for how in ("left", "full", "left_semi", "left_anti", "inner")),
        *((how, *BY_TWO) for how in ("right", "full", "left_semi")),
        ("full", *BY_FLOAT),
    ],
)
def test_joins_in_time_are_sparks(spark, how, on, where):
    """Keys with NULL, NaN and -0.0; a tuple exactly at either bound matches."""
    left, right = rows(11, 120, keys="abc"), other(rows(12, 120, keys="abc"))
    frame(spark, left).createOrReplaceTempView("l")
    frame(spark, right).createOrReplaceTempView("r")
    keys = " AND ".join(f"{mine} = {theirs}" for mine, theirs in on)
    condition = f"{keys} AND at2 BETWEEN l.at - INTERVAL 9 SECONDS AND l.at + INTERVAL 4 SECONDS"
    condition += f" AND ({where})" if where else ""
    spelled = {"left_semi": "LEFT SEMI", "left_anti": "LEFT ANTI"}.get(how, how.upper())
    names = SELECT["semi" if "_" in how else "both"]
    columns = ", ".join("l.at AS at" if name == "at" else name for name in names)
    expected = spark.sql(f"SELECT {columns} FROM l {spelled} JOIN r ON {condition}")
    found = ran(joined_app(left, right, on, how, where), {"L": left, "R": right}, piece=13)
    assert len(found) > 10
    same(found, expected)


@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
@pytest.mark.parametrize(
    ("on", "where"),
    [([("k", "k2")], None), ([("k", "k2"), ("i", "i2")], "x < x2"), ([], "i > i2"), ([("x", "x2")], None)],
)
def test_joins_with_tables_are_sparks(spark, how, on, where):
    left, right = rows(13, 90, keys="abc"), other(rows(14, 12, keys="abd")).drop_columns(["at", "at2"])
    frame(spark, left).createOrReplaceTempView("l")
    frame(spark, right).createOrReplaceTempView("r")
    app = App("table")
    stream = app.source("L", left.schema, time="at")
    names = ["k", "x", "i", "s", *([] if "_" in how else ["k2", "x2", "i2"])]
    stream.join_table(app.table(right, name="T"), on=on, how=how, where=where, select=names, name="J").sink("Out")
    condition = " AND ".join([*(f"{mine} = {theirs}" for mine, theirs in on), *([where] if where else [])])
    spelled = {"left_semi": "LEFT SEMI", "left_anti": "LEFT ANTI"}.get(how, how.upper())
    same(
        ran(app.build(), {"L": left}, piece=13),
        spark.sql(f"SELECT {', '.join(names)} FROM l {spelled} JOIN r ON {condition}"),
    )


@pytest.mark.parametrize("keys", [["k"], ["x", "b"], ["k", "i", "d"]])
def test_keys_of_duplicates_are_sparks(spark, keys):
    """Which keys pass; the first tuple of each passes, where Spark's choice is arbitrary."""
    table = rows(15, 200)
    app = App("duplicates")
    app.source("In", table.schema, time="at").drop_duplicates(*keys, name="D").sink("Out")
    found = ran(app.build(), {"In": table}, piece=13)
    same([{name: row[name] for name in keys} for row in found],
         frame(spark, table).dropDuplicates(keys).select(*keys))  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "spelled"),
    [
        (tumbling("5s"), "window(at, '5 seconds')"),
        (sliding("6s", "2s"), "window(at, '6 seconds', '2 seconds')"),
        (session_window("3s"), "session_window(at, '3 seconds')"),
    ],
)
def test_windows_over_windows_are_sparks(spark, inner, spelled):
    table = rows(16, 300, start=1_700_000_000_000_000)
    frame(spark, table).createOrReplaceTempView("rows")
    app = App("chained")
    counted = app.source("In", table.schema, time="at").aggregate("count(*) AS n", window=inner, by="k", name="A")
    counted.window_time(name="T").aggregate(
        "sum(n) AS n", "count(*) AS windows", "window_start() AS since", window=tumbling("10s"), name="B"
    ).sink("Out")  # fmt: skip
    expected = spark.sql(
        "SELECT sum(n) AS n, count(*) AS windows, outer.start AS since FROM (SELECT window(window_time(w), "
        f"'10 seconds') AS outer, n FROM "
        f"(SELECT {spelled} AS w, k, count(*) AS n FROM rows GROUP BY 1, k)) GROUP BY outer"
    )
    same(ran(app.build(), {"In": table}, piece=13), expected)
