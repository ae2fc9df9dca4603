"""Spark SQL as the oracle of an app: equal where the app is right, and not where it is wrong."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.api.app_inputs import independent_rows
from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.graph.windows import time
from riprap.proof.independent import disagreements
from riprap.proof.oracle import expected_rows


def app(least):
    shop = App("orders")
    orders = shop.source("Orders", "item string, price double").filter(f"price > {least}", name="Dear")
    orders.aggregate("sum(price) AS total", "count(*) AS n", window=time("10s"), by="item", name="PerItem").sink("Sink")
    return shop.build()


def sql(inputs):
    inputs["Orders"].createOrReplaceTempView("orders")
    return {
        "Sink": inputs["Orders"].sparkSession.sql(
            "SELECT item, sum(price) AS total, count(*) AS n FROM orders WHERE price > 5 "
            "GROUP BY item, window(_ts, '10 seconds')"
        )
    }


def test_spark_sql_agrees_with_the_right_app_only(spark, tmp_path):
    random = np.random.default_rng(1)
    path = tmp_path / "orders.parquet"
    pq.write_table(
        pa.table(
            {
                "item": pa.array(random.choice(["a", "b", None], 2_000)),
                "price": random.uniform(0, 10, 2_000),
                "_ts": pa.array(np.arange(2_000) * 50_000, pa.timestamp("us", "UTC")),
                "_seq": np.arange(2_000),
            }
        ),
        path,
    )
    oracle = independent_rows(sql, {"Orders": path})
    assert oracle["Sink"].num_rows > 20
    assert disagreements(expected_rows(app(5), {"Orders": path}), oracle) == ()
    (wrong,) = disagreements(expected_rows(app(4.9), {"Orders": path}), oracle)
    assert "differs from the oracle at Sink, without any fault" in wrong
    with pytest.raises(UsageError, match="the oracle returned a list"):
        independent_rows(lambda inputs: [], {"Orders": path})
