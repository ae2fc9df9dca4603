"""An existing PySpark job runs as processing elements: killed, then resumed, with the rows of Spark's batch."""

import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from drivers import environment
from tests.pyspark_jobs.job_recordings import tables
from tests.pyspark_jobs.job_runs import comparable
from tests.pyspark_jobs.spark_oracle import batch_outputs

from riprap.streams.shards import read_table

PATIENCE = 900  # seconds; only how long a test that fails takes
ROWS = 3_000
JOB = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("volumes").getOrCreate()
PREFIX = "ad "


@F.udf("string")
def titled(ad):
    return None if ad is None else PREFIX + ad


clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("clicks")
titles = clicks.withWatermark("at", "10 seconds").select(titled("ad").alias("ad"), "at", "amount")
minutes = titles.groupBy(F.window("at", "1 minute"), "ad").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
query = minutes.writeStream.queryName("minutes").format("parquet").option("path", "out").start()
query.awaitTermination()
"""
PLAN = """
app = "minutes"

[operators.clicks]
backup = true

[operators.titles-python]
backup = true

[operators.titles]
backup = true

[operators.minutes-filter]
backup = true

[operators.minutes-window]
backup = true
checkpoint = "300ms"

[operators.minutes-columns]
backup = true
"""

pytestmark = pytest.mark.xdist_group("spark")


def test_a_job_is_killed_and_resumed_and_has_sparks_rows(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "plan.toml").write_text(PLAN)
    recording = tmp_path / "clicks.parquet"
    pq.write_table(tables(ROWS)["clicks"], recording)

    first = riprap(
        "run", "job.py:minutes", "--input", f"clicks={recording}", "--plan", "plan.toml", "--fuse", "none",
        "--rate", 500, "--kill", "minutes-window@1s,driver@3s", "--out", "run",
    )  # fmt: skip
    assert first.returncode == -signal.SIGKILL, first.stderr
    resumed = riprap("run", "--resume", "run", "--app", "job.py:minutes", "--kill", "titles-python@1s", "--json")
    assert resumed.returncode == 0, resumed.stderr

    summary = json.loads(resumed.stdout)
    assert summary["pes"]["titles-python"]["restarts"] == 1
    assert sum(stream["lost"] for stream in summary["streams"].values()) == 0
    (expected,) = batch_outputs(spark, tmp_path / "job.py", {"clicks": recording}).values()
    rows = read_table(summary["sinks"]["minutes"]["path"])
    columns = [rows[name].to_pylist() for name in rows.schema.names if not name.startswith("_")]
    assert comparable(zip(*columns, strict=True)) == comparable(expected.collect())


def riprap(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "riprap.cli.main", *map(str, arguments)],
        capture_output=True, text=True, env=environment(), timeout=PATIENCE, cwd=os.getcwd(), check=False,
    )  # fmt: skip
