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
ALWAYS = ["payments_full", "priced_clicks", "two_outputs"]
SOAKED = [
    "campaign_lookup", "click_join", "distinct_orders", "hourly_of_minutes", "late_counts",
    "paid_orders", "running_totals", "sensor_speed", "sql_report", "two_regions", "unclicked", "upserts",
    "user_sessions",
]  # fmt: skip
# Jobs with a query that is none of an app's, and why not. Each has to say so, or to have Spark's rows after all.
UNTRANSLATED = {
    "ad_volumes": "unknown function FROM_JSON",
    "billing": "a column whose type an app cannot have",  # decimals
    "bronze_silver": "cannot CAST value (binary) to string",
    "calendar": "unknown function TIMESTAMP_TRUNC",
    "nested_orders": "unknown function FROM_JSON",
    "order_state": "a column whose type an app cannot have",  # decimals
    "price_spread": "unknown function ARRAY_SORT",
    "sensor_alerts": "unknown function CONCAT_WS",
    "web_log": "unknown function TRY_TO_TIMESTAMP",
}
# Jobs that are translated, but not compared here: Spark refuses them as a batch, or calls each key once. Those with
# state are compared with Spark's stream in `test_stateful_jobs.py`.
STREAMS_ONLY = ["distinct_within", "fraud_state", "sensor_state", "visits_state"]
# Queries that emit a new row at every change, and how many columns their key has: the newest rows are compared.
CHANGING = {("running_totals", "totals"): 1, ("upserts", "merge"): 1, ("bronze_silver", "gold"): 1}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return write_recordings(tmp_path_factory.mktemp("recordings"))


@pytest.mark.parametrize("name", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.soak) for name in SOAKED)])
def test_a_translated_job_has_the_rows_of_spark(spark, recordings, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    found = translate(capture_script(JOBS / f"{name}.py", spark))
    assert not found.missing
    assert_sparks_rows(spark, found, JOBS / f"{name}.py", recordings, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", UNTRANSLATED)
def test_an_untranslated_job_says_why(spark, recordings, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    found = translate(capture_script(JOBS / f"{name}.py", spark))
    if found.missing:  # other queries may read what the first one writes
        assert UNTRANSLATED[name] in found.missing[0].reason
        assert f"{name}.py, line " in found.missing[0].line
    elif name != "order_state":  # it has state, and a batch calls each key once
        assert_sparks_rows(spark, found, JOBS / f"{name}.py", recordings, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", STREAMS_ONLY)
def test_a_job_that_is_no_batch_is_translated(spark, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert not translate(capture_script(JOBS / f"{name}.py", spark)).missing


def test_every_job_is_in_one_list():
    assert sorted([*ALWAYS, *SOAKED, *UNTRANSLATED, *STREAMS_ONLY]) == sorted(path.stem for path in JOBS.glob("*.py"))


def assert_sparks_rows(spark, found, script, recordings, directory):
    """All queries of a job, over its recordings."""
    assert found.graph is not None
    ours = engine_rows(spark, found.graph, recordings_of(found.graph, recordings), directory / "cache")
    theirs = batch_outputs(spark, script, recordings)
    assert len(ours) == len(theirs)
    for query in found.job.queries:
        rows = ours.get(query.name) or ours[f"{query.name}-out"]
        if (script.stem, query.name) in CHANGING:
            rows = newest(rows, CHANGING[script.stem, query.name])
        (expected,) = [frame for key, frame in theirs.items() if key.rpartition(".")[2] == query.name]
        assert comparable(rows) == comparable(expected.collect())
        assert rows
