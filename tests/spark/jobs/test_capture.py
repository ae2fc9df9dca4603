"""Scripts are captured without starting or writing anything."""

import textwrap

import pytest

from riprap.base.errors import UsageError
from riprap.spark.jobs.frames import capture_frames
from riprap.spark.jobs.scripts import capture_script

ADS = """
    from pyspark.sql import SparkSession, functions as F

    def keep(batch, number):
        batch.write.saveAsTable("kept")

    def main():
        spark = SparkSession.builder.appName("ads").getOrCreate()
        raw = (
            spark.readStream.format("kafka").option("kafka.bootstrap.servers", "b:1")
            .option("subscribe", "clicks").load()
        )
        clicks = (
            raw.select(F.from_json(F.col("value").cast("string"), "ad string, at timestamp, n int").alias("v"))
            .select("v.*").withWatermark("at", "10 seconds")
        )
        volumes = clicks.filter("n > 0").groupBy(F.window("at", "1 minute"), "ad").agg(F.sum("n").alias("total"))
        volumes.writeStream.queryName("volumes").trigger(processingTime="5 seconds").format("console").start()
        clicks.writeStream.foreachBatch(keep).option("checkpointLocation", "cp").start()
        clicks.writeStream.toTable("main.bronze")
        spark.readStream.table("main.bronze").groupBy("ad").count().writeStream.outputMode("complete").start("out/ads")
        spark.streams.awaitAnyTermination()
        spark.stop()

    if __name__ == "__main__":
        main()
"""


def captured(tmp_path, monkeypatch, spark, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(textwrap.dedent(text))
    return capture_script((tmp_path / "job.py"), spark)


def test_a_script_gives_its_queries_with_names_lines_and_what_they_read(spark, tmp_path, monkeypatch):
    job = captured(tmp_path, monkeypatch, spark, ADS)
    volumes, kept, bronze, ads = job.queries
    assert [query.name for query in job.queries] == ["volumes", "keep", "bronze", "ads"]
    assert (volumes.mode, volumes.trigger, volumes.line) == ("append", "processingTime 5 seconds", "job.py, line 18")
    assert (kept.sink.format, kept.sink.body.__name__, kept.checkpoint) == ("foreachBatch", "keep", "cp")
    assert (bronze.sink.target, ads.mode, ads.sink.target) == ("main.bronze", "complete", "out/ads")
    assert [(s.name, s.format, s.line, s.query) for s in job.sources] == [
        ("raw", "kafka", "job.py, line 11", ""), ("bronze", "parquet", "job.py, line 21", "bronze"),
    ]  # fmt: skip
    assert (volumes.reads, ads.reads) == (("raw",), ("bronze",))
    assert [(node.kind, node.label) for node in volumes.plan.walk() if node.label] == [
        ("Aggregate", "volumes"), ("EventTimeWatermark", "clicks"), ("StreamingRelation", "raw"),
    ]  # fmt: skip
    shared = {node.identity for node in volumes.plan.walk()} & {node.identity for node in kept.plan.walk()}
    assert len(shared) == 4
    assert not spark.streams.active
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.py"]


def test_the_session_works_as_before_after_a_capture(spark, tmp_path, monkeypatch):
    captured(tmp_path, monkeypatch, spark, ADS)
    spark.range(3).write.parquet(str(tmp_path / "three"))
    query = spark.readStream.schema("id long").parquet(str(tmp_path / "three")).writeStream.format("memory")
    started = query.queryName("three").trigger(availableNow=True).start()
    assert started.awaitTermination(60)
    assert spark.table("three").count() == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "job.py starts no query; it needs a df.writeStream….start() that is reached when it runs"),
        ("\nraise ValueError('no broker')", "job.py, line 2: ValueError: no broker; nothing was started"),
        ("import sys; sys.exit(3)", "job.py ended with exit code 3 before its queries ran"),
        (
            "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
            "spark.readStream.format('delta').load('nowhere')",
            "job.py, line 3: the columns of the stream from delta nowhere are not known here",
        ),
        (
            "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
            "d = spark.readStream.format('rate').load()\nd.select('vaule').writeStream.start()",
            "job.py, line 4: AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION]",
        ),
    ],
)
def test_what_is_wrong_with_a_script_is_one_sentence(spark, tmp_path, monkeypatch, text, sentence):
    with pytest.raises(UsageError) as found:
        captured(tmp_path, monkeypatch, spark, text)
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


def test_a_script_that_waits_for_ever_ends(spark, tmp_path, monkeypatch):
    text = """
        import time
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        query = spark.readStream.format("rate").load().writeStream.format("console").start()
        try:
            while True:
                time.sleep(60)
        except Exception:
            pass
    """
    (query,) = captured(tmp_path, monkeypatch, spark, text).queries
    assert (query.name, query.sink.format, query.reads) == ("query", "console", ("rate",))


def test_frames_are_captured_where_they_are(spark):
    rate = spark.readStream.format("rate").load().withWatermark("timestamp", "3 seconds")
    job = capture_frames([rate.filter("value > 1"), rate.groupBy("timestamp").count()], "rates")
    assert [query.name for query in job.queries] == ["rates-1", "rates-2"]
    assert [(source.name, len(source.leaves)) for source in job.sources] == [("rate", 2)]
    (watermark,) = [node for node in job.queries[0].plan.walk() if node.kind == "EventTimeWatermark"]
    assert watermark.details["delay"] == 3_000_000
