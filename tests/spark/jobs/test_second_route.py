"""A job with a node that only Spark runs is assessed in Spark's own plan, by the calls that assess any job."""

import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import riprap
from riprap.api.job_explanation import explained
from riprap.base.errors import GraphError
from riprap.spark.jobs.job_files import job_app

START, ROWS = 1_700_000_000_000_000, 2_000
JOB = """
    from pyspark.sql import SparkSession, functions as F

    spark = SparkSession.builder.getOrCreate()
    clicks = spark.readStream.schema("ts timestamp, user bigint, pages array<bigint>").parquet("data/clicks")
    visits = clicks.withWatermark("ts", "5 seconds").select("user", F.explode("pages").alias("page"))
    counts = visits.groupBy("user").agg(F.sum("page").alias("total"))
    counts.writeStream.queryName("counts").outputMode("complete").format("console").start()
"""


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Rows of `data/clicks`, one each 10 ms, in the directory of job.py."""
    chance = np.random.Generator(np.random.Philox(3))
    found = [
        {"ts": START + number * 10_000, "user": int(chance.integers(0, 9)), "pages": [number % 7, 1][: number % 3]}
        for number in range(ROWS)
    ]
    (tmp_path / "data" / "clicks").mkdir(parents=True)
    types = {"ts": pa.timestamp("us", "UTC"), "user": pa.int64(), "pages": pa.list_(pa.int64())}
    pq.write_table(pa.Table.from_pylist(found, pa.schema(list(types.items()))), tmp_path / "data/clicks/part.parquet")
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    monkeypatch.chdir(tmp_path)
    return found


def assessed(app, out):
    return riprap.assess(
        app, out=out, targets="clicks", offsets=(500,), outages=("2s",), rates=("average",), reps=1, golden=2,
        section=250, reassess=False,
    )  # fmt: skip


def total(rows):
    return sum(sum(row["pages"]) for row in rows)


def test_a_query_that_only_spark_runs_is_assessed_explained_and_not_run(spark, rows, tmp_path):
    found = assessed("job.py:counts", tmp_path / "out")
    (trial,) = found.result.trials.to_pylist()
    lost = trial["tuples"]
    assert 195 <= lost <= 205
    assert trial["golden"] - trial["faulty"] == total(rows[500 : 500 + lost])
    assert {row["route"] for row in found.rows()} == {"spark"}
    frame = spark.readStream.schema("ts timestamp, user bigint, pages array<bigint>").parquet(
        str(tmp_path / "data/clicks")
    )
    frame = frame.selectExpr("user", "explode(pages) AS page").groupBy("user").agg(F.sum("page").alias("total"))
    again = assessed(riprap.from_spark(frame, name="counts"), tmp_path / "frames")
    (same,) = again.result.trials.to_pylist()
    assert {key: same[key] for key in ("tuples", "golden", "faulty")} == {
        key: trial[key] for key in ("tuples", "golden", "faulty")
    }


def test_what_only_spark_runs_is_explained_and_refused_with_its_line(spark, rows, tmp_path):
    refused = r"^job.py, line 6: counts can be .*only Spark can run it.*Generate"
    shown = {(row.operator, row.query): row for row in explained(job_app("job.py", spark))}
    (reason,) = [row for row in shown.values() if "Generate" in row.why]
    assert (reason.query, reason.runs_as, reason.line) == ("counts", "Spark", "job.py, line 6")
    assert {row.runs_as for row in shown.values() if row.query == "counts"} == {"Spark"}
    slo = riprap.Slo(recovery="5s")
    for call in (
        lambda: riprap.run("job.py:counts", out=tmp_path / "run"),
        lambda: riprap.prove("job.py:counts", out=tmp_path / "proof"),
        lambda: riprap.protect("job.py:counts", slo=slo, out=tmp_path / "protection"),
        lambda: riprap.measure("job.py:counts"),
    ):
        with pytest.raises(GraphError, match=refused) as error:
            call()
        assert "\n" not in str(error.value)
    assert not any((tmp_path / name).exists() for name in ("run", "proof", "protection"))
