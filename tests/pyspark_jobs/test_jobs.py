"""Plain PySpark jobs become apps whose rows are those of Spark's batch over the same recordings.

A few in every run of the suite, all in `make soak`.
"""

from pathlib import Path

import pytest
from tests.pyspark_jobs.job_recordings import write_recordings
from tests.pyspark_jobs.job_runs import comparable, engine_rows, newest, recordings_of
from tests.pyspark_jobs.spark_oracle import batch_outputs

from riprap.spark.jobs.scripts import capture_script
from riprap.spark.jobs.translate.job_app import translate

JOBS = Path(__file__).parent / "jobs"
ALWAYS = ["payments_full", "two_outputs"]
SOAKED = [
    "ad_volumes", "bronze_silver", "calendar", "click_join", "distinct_orders", "hourly_of_minutes", "late_counts",
    "nested_orders", "paid_orders", "price_spread", "running_totals", "sensor_alerts", "sensor_speed", "sql_report",
    "campaign_lookup", "two_regions", "unclicked", "upserts", "user_sessions", "web_log",
]  # fmt: skip
# Queries that emit a new row at every change, and how many columns their key has: the newest rows are compared.
CHANGING = {("running_totals", "totals"): 1, ("upserts", "merge"): 1, ("bronze_silver", "gold"): 1}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return write_recordings(tmp_path_factory.mktemp("recordings"))


@pytest.mark.parametrize("name", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.soak) for name in SOAKED)])
def test_a_translated_job_has_the_rows_of_spark(spark, recordings, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    script = JOBS / f"{name}.py"
    found = translate(capture_script(script, spark))
    assert found.graph is not None
    assert not found.missing
    ours = engine_rows(spark, found.graph, recordings_of(found.graph, recordings), tmp_path / "cache")
    theirs = batch_outputs(spark, script, recordings)
    assert len(ours) == len(theirs)
    for query in found.job.queries:
        rows = ours.get(query.name) or ours[f"{query.name}-out"]
        if (name, query.name) in CHANGING:
            rows = newest(rows, CHANGING[name, query.name])
        (expected,) = [frame for key, frame in theirs.items() if key.rpartition(".")[2] == query.name]
        assert comparable(rows) == comparable(expected.collect())
        assert rows
