"""Python functions give Spark's rows: `udf`, `pandas_udf`, `mapInPandas` and `mapInArrow`, whatever the cut."""

import math
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql.functions import arrow_udf, expr, pandas_udf, udf
from tests.spark.relational import frame, ran, rows, same, with_time

from riprap.base.errors import DataError, GraphError
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.testing.checker import check_operator

# Spark's workers do not find this module: functions go to them as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def described(s, i, d, at):
    return None if i is None else f"{s}/{i + 1}/{d}/{at}"


def scaled(x, y):
    return x * 2 + y.fillna(0.5)


def running(parts):
    for x, i in parts:
        yield (x + i.fillna(0)).astype("float64")


def absolute(i):
    return pc.abs(i)


def kept_and_doubled(frames):
    """Filters, repeats, and adds a column; the index is the caller's own affair."""
    for each in frames:
        each = each[each["i"].notnull() & (each["i"] > 0)].reset_index(drop=True)
        each["twice"] = each["i"] * 2.0
        yield pd.concat([each, each[each["i"] == 12]]).sort_values("id", kind="stable")[["id", "s", "twice"]]


def lengths(batches):
    """Keeps no column by which rows could be told apart."""
    for batch in batches:
        words = batch.filter(pc.is_valid(batch["s"]))["s"]
        yield pa.RecordBatch.from_arrays([pc.utf8_length(words).cast(pa.int64())], names=["length"])


def table_of(seed, size):
    table = rows(seed, size)
    return table.append_column("id", pa.array(range(size), pa.int64()))


def test_columns_are_sparks(spark):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = table_of(21, 150)
    app = App("columns")
    stream = app.source("In", table.schema, time="at")
    stream = stream.map_python("text", described, "s", "i", "d", "at", returns="string", name="Text")
    stream = stream.map_python("scaled", scaled, "x", "y", returns="double", call="pandas", name="Scaled")
    stream = stream.map_python("sum", running, "x", "i", returns="double", call="pandas iterator", name="Sum")
    stream = stream.map_python("i", absolute, "i - 1", returns="long", call="arrow", name="Absolute")
    stream.select("id", "text", "scaled", "sum", "i", name="P").sink("Out")
    graph = app.build()
    expected = frame(spark, table).select(
        "id",
        udf(described, "string", useArrow=False)("s", "i", "d", "at").alias("text"),
        pandas_udf(lambda x, y: scaled(x, y), "double", 200)("x", "y").alias("scaled"),
        expr("coalesce(x, 0) * 0").alias("sum"),
        arrow_udf(absolute, "long", 250)(expr("i - 1")).alias("i"),
    )
    found = ran(graph, {"In": table}, piece=17)
    for row in found:  # the iterator's column is checked by hand
        x, i = table["x"][row["id"]].as_py(), table["i"][row["id"]].as_py()
        assert row.pop("sum") == (None if x is None or math.isnan(x) else x + (i or 0))
    same(found, expected.drop("sum"))
    check_operator(graph, "Text", [with_time(table.slice(0, 40))], rounds=4)


@pytest.mark.parametrize("piece", [1, 7, 150])
def test_batches_are_sparks(spark, piece):
    table = table_of(22, 150)
    frame(spark, table).createOrReplaceTempView("rows")
    for function, schema, pandas in (
        (kept_and_doubled, "id long, s string, twice double", True),
        (lengths, "length long", False),
    ):
        app = App("batches")
        stream = app.source("In", table.schema, time="at")
        stream.map_batches(function, schema, pandas=pandas, name="B").sink("Out")
        graph = app.build()
        given = spark.table("rows")
        expected = given.mapInPandas(function, schema) if pandas else given.mapInArrow(function, schema)
        same(ran(graph, {"In": table}, piece=piece), expected)
        check_operator(graph, "B", [with_time(table.slice(0, 40))], rounds=4)


def test_a_function_that_depends_on_batches_is_refused():
    def first_only(batches):
        for batch in batches:
            yield batch.select(["id"]).slice(0, 1)

    def centred(x):
        return x - x.mean()

    table = table_of(23, 20)
    for add in (
        lambda stream: stream.map_batches(first_only, "id long", name="F"),
        lambda stream: stream.map_python("x", centred, "x", returns="double", call="pandas", name="F"),
    ):
        app = App("cuts")
        add(app.source("In", table.schema, time="at")).sink("Out")
        with pytest.raises(DataError, match=r"operator F: .* depends on where batches end"):
            Engine(app.build()).push("In", with_time(table))


@pytest.mark.parametrize(
    ("function", "call", "message"),
    [
        (lambda x: 1 // 0, "rows", r"raised ZeroDivisionError: .* \(.*test_relational_python\.py:\d+\)"),
        (lambda x: "text", "rows", "returned what is not double for column y"),
        (lambda x: x[:1], "pandas", r"returned 1 values for \d+ rows"),
        (lambda x: 5, "arrow", "returned int for column y"),
    ],
)
def test_errors_of_functions_are_sentences(function, call, message):
    table = table_of(24, 20)
    app = App("errors")
    stream = app.source("In", table.schema, time="at")
    stream.map_python("y", function, "x", returns="double", call=call, name="F").sink("Out")
    with pytest.raises(DataError, match=f"operator F: <lambda> {message}"):
        Engine(app.build()).push("In", with_time(table))
    with pytest.raises(GraphError, match="call='columns' is unknown"):
        stream.map_python("y", function, "x", returns="double", call="columns", name="G")
