"""Jobs with Python code that keeps state have the rows of Spark's own stream over the same recordings."""

import os
import runpy
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter
from tests.pyspark_jobs.job_recordings import write_recordings
from tests.pyspark_jobs.job_runs import comparable, engine_rows, newest, recordings_of

from riprap.spark.jobs.frames import capture_frames
from riprap.spark.jobs.scripts import capture_script
from riprap.spark.jobs.translate.job_app import translate

JOBS = Path(__file__).parent / "jobs"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return write_recordings(tmp_path_factory.mktemp("recordings"))


def streamed(spark, script, recordings, place):
    """The rows that Spark writes when it runs the script over the recordings, with all that is there."""
    rows, parquet, start = [], DataStreamReader.parquet, DataStreamWriter.start

    def over_recording(reader, path):
        recorded = recordings[os.path.basename(path)]
        files = place.parent / "files" / recorded.stem
        files.mkdir(parents=True, exist_ok=True)
        shutil.copy(recorded, files)
        return parquet(reader, str(files))

    def ended(writer, *_, **__):
        writer = writer.foreachBatch(lambda frame, number: rows.extend(tuple(row) for row in frame.collect()))
        query = start(writer.trigger(availableNow=True).option("checkpointLocation", str(place)))
        query.awaitTermination()
        return query

    spark.conf.set("spark.sql.shuffle.partitions", 2)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    with patch.object(DataStreamReader, "parquet", over_recording), patch.object(DataStreamWriter, "start", ended):
        runpy.run_path(str(script), run_name="__main__")
    return rows


def ours(spark, script, recordings, place):
    found = translate(capture_script(script, spark))
    assert not found.missing, found.missing
    assert found.graph is not None
    (rows,) = engine_rows(spark, found.graph, recordings_of(found.graph, recordings), place).values()
    return rows


def test_visits_by_timeout_are_those_of_spark(spark, recordings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = JOBS / "visits_state.py"
    rows = ours(spark, script, recordings, tmp_path / "cache")
    assert len(rows) > 20
    assert comparable(rows) == comparable(streamed(spark, script, recordings, tmp_path / "checkpoint"))


@pytest.mark.soak
def test_counts_of_keys_are_those_of_spark(spark, recordings, tmp_path, monkeypatch):
    """Spark writes a row per key and batch, we one per tuple: the newest are equal."""
    monkeypatch.chdir(tmp_path)
    script = JOBS / "fraud_state.py"
    rows = ours(spark, script, recordings, tmp_path / "cache")
    assert len(rows) > 100
    expected = streamed(spark, script, recordings, tmp_path / "checkpoint")
    assert comparable(newest(rows, 1)) == comparable(newest(expected, 1))


@pytest.mark.soak
def test_a_processor_is_called_as_by_spark(spark, recordings, tmp_path, monkeypatch):
    """The steps of a sensor depend on the order of its rows, which Spark leaves open; their sum does not."""
    monkeypatch.chdir(tmp_path)
    script = JOBS / "sensor_state.py"
    rows = ours(spark, script, recordings, tmp_path / "cache")
    expected = streamed(spark, script, recordings, tmp_path / "checkpoint")
    assert len(rows) == len(expected) > 50
    assert {sensor for sensor, _ in rows} == {sensor for sensor, _ in expected}


def test_a_frame_does_not_show_its_python_code(spark, recordings):
    import pandas as pd

    clicks = spark.readStream.schema("user string, at timestamp").parquet(str(recordings["clicks"]))
    frame = clicks.groupBy("user").applyInPandasWithState(
        lambda key, frames, state: iter([pd.DataFrame()]), "user string", "n long", "append", "NoTimeout"
    )
    (missing,) = translate(capture_frames(frame, "users")).missing
    assert missing.reason == "its Python code is known only where the call is captured: in a script"
