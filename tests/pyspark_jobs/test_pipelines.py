"""Declarative Pipelines become one app, whose tables are those of Spark's batch over the same recordings."""

from pathlib import Path

import pytest
from tests.pyspark_jobs.job_recordings import write_recordings
from tests.pyspark_jobs.job_runs import comparable, engine_rows, newest, recordings_of

from riprap.base.errors import UsageError
from riprap.spark.jobs.pipelines import capture_pipeline
from riprap.spark.jobs.translate.job_app import translate

PIPELINES = Path(__file__).parent / "pipelines"
CHANGING = {"totals", "large_orders", "per_sensor"}  # materialized views
EXPECTED = {
    "clicks_py": {
        "clean": "SELECT user, upper(ad) AS ad, at, amount FROM clicks WHERE amount > 0",
        "minutes": "SELECT window.start, ad, sum(amount) FROM (SELECT upper(ad) AS ad, at, amount FROM clicks "
        "WHERE amount > 0) GROUP BY window(at, '1 minute'), ad",
        "totals": "SELECT upper(ad), count(*) FROM clicks WHERE amount > 0 GROUP BY upper(ad)",
    },
    "orders_sql": {
        "good_orders": "SELECT *, total > 5 AS large FROM orders WHERE total IS NOT NULL",
        "large_orders": "SELECT total > 5, count(*), max(total) FROM orders WHERE total IS NOT NULL GROUP BY 1",
    },
    "sensors_mixed": {
        "fast": "SELECT sensor, at, speed FROM both WHERE speed > 4",
        "per_sensor": "SELECT sensor, count(speed), min(speed) FROM both GROUP BY sensor",
    },
}


@pytest.mark.parametrize(
    "name", ["orders_sql", *(pytest.param(name, marks=pytest.mark.soak) for name in ("clicks_py", "sensors_mixed"))]
)
def test_a_pipeline_is_one_app_with_the_rows_of_spark(spark, tmp_path, name):
    recordings = write_recordings(tmp_path)
    found = translate(capture_pipeline(PIPELINES / name / "spark-pipeline.yml", spark))
    assert found.graph is not None
    assert not found.missing
    ours = engine_rows(spark, found.graph, recordings_of(found.graph, recordings), tmp_path / "cache")
    for table in ("clicks", "orders", "readings", "readings_south"):
        spark.read.parquet(str(recordings[table])).createOrReplaceTempView(table)
    spark.sql(
        "SELECT * FROM readings WHERE sensor < 3 UNION ALL SELECT * FROM readings_south WHERE sensor >= 3"
    ).createOrReplaceTempView("both")
    for table, query in EXPECTED[name].items():
        rows = newest(ours[table], 1) if table in CHANGING else ours[table]
        assert comparable(rows) == comparable(spark.sql(query).collect())
        assert rows


def test_tables_have_their_lines_and_share_what_they_read(spark):
    job = capture_pipeline(PIPELINES / "orders_sql" / "spark-pipeline.yml", spark)
    assert [(query.name, query.mode, query.line) for query in job.queries] == [
        ("good_orders", "append", "transformations/tables.sql, line 2"),
        ("large_orders", "complete", "transformations/tables.sql, line 5"),
    ]
    good, large = ({node.identity for node in query.plan.walk()} for query in job.queries)
    assert good < large
    assert [source.name for source in job.sources] == ["orders"]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"p.yml": "name: x"}, "is not the specification of a pipeline: it needs libraries"),
        ({"p.yml": "libraries: [{glob: {include: /etc/*}}]"}, "leaves the pipeline's directory"),
        (
            {"p.yml": "libraries: [{glob: {include: t.sql}}]", "t.sql": "\nDROP TABLE x"},
            "t.sql, line 2: 'DROP TABLE x'",
        ),
        ({"p.yml": "libraries: [{glob: {include: t.py}}]", "t.py": "x = 1"}, "defines no table"),
    ],
)
def test_what_is_wrong_with_a_pipeline_is_one_sentence(spark, tmp_path, files, sentence):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as found:
        capture_pipeline(tmp_path / "p.yml", spark)
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)
