"""Persistent streams as a Spark source and sink, in one session. Kills are in `test_kill.py`."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull, LessThanOrEqual
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from riprap.spark.queries import Restarted
from riprap.spark.source import PastReader, narrowed, read_options
from riprap.streams import Damaged, PersistentStream
from riprap.streams.positions import Bounds

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("text", pa.string())])


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    columns = [pa.array([n * 1000 for n in numbers], TS), pa.array(numbers), pa.array([f"row {n}" for n in numbers])]
    return pa.record_batch(columns, schema=SCHEMA)


def make(path: Path, rows: int = 1000, step: int = 50, segment_bytes: int = 4096) -> PersistentStream:
    stream = PersistentStream.create(path, SCHEMA, segment_bytes=segment_bytes)
    with stream.writer() as writer:
        for first in range(0, rows, step):
            writer.append(batch(first, step))
    return stream


def sequences(frame) -> list[int]:
    return [row[0] for row in frame.select("_seq").collect()]


def stored(path: Path) -> list[int]:
    return [seq for item in PersistentStream.open(path).read() for seq in item.batch["_seq"].to_pylist()]


def run(spark, source: Path, target: Path, checkpoint: Path, transform=lambda frame: frame, **options) -> list:
    """A query over everything available; returns the rows of each micro-batch."""
    frame = transform(spark.readStream.format("riprap").options(**options).load(str(source)))
    writer = frame.writeStream.format("riprap").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = Restarted(lambda: writer.start(str(target))).until(StreamingQuery.awaitTermination)
    return [watermark["numInputRows"] for watermark in query.recentProgress if watermark["numInputRows"]]


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    path = tmp_path_factory.mktemp("past") / "s"
    make(path)
    return path


def test_a_stream_that_lost_its_end_is_no_dataframe(tmp_path):
    """A shorter one would be taken for all there was."""
    make(tmp_path / "s", rows=100)
    reader = PastReader(read_options({"path": str(tmp_path / "s")}), from_arrow_schema(SCHEMA))
    assert reader.partitions()
    newest = max((tmp_path / "s").glob("*.arrow"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(Damaged, match="acknowledged bytes are missing"):
        reader.partitions()


def test_the_past_is_a_dataframe(spark, past):
    frame = spark.read.format("riprap").load(str(past))
    assert dict(frame.dtypes) == {"_ts": "timestamp", "_seq": "bigint", "text": "string"}
    assert sorted(sequences(frame)) == list(range(1000))
    assert frame.where("_seq = 777").collect()[0]["text"] == "row 777"


def test_bounds_and_columns_are_options(spark, past):
    reader = spark.read.format("riprap")
    bounded = reader.options(startTs="1970-01-01T00:00:00.100Z", endTs=200_000, startSeq=120, columns="_seq,text")
    frame = bounded.load(str(past))
    assert frame.columns == ["_seq", "text"]
    assert sequences(frame) == list(range(120, 200))


def test_filters_are_pushed_down_where_the_setting_allows_it(spark, past):
    plain = sequences(spark.read.format("riprap").load(str(past)).where("_seq >= 990 and text like '%5'"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("riprap").load(str(past)).where("_seq >= 990 and text like '%5'")
        assert sequences(frame) == plain == [995]
        assert frame.rdd.getNumPartitions() == 1
        assert sorted(sequences(spark.read.format("riprap").load(str(past)))) == list(range(1000))
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_become_bounds():
    bounds = Bounds(from_seq=5)
    for filter_ in (GreaterThan(("_seq",), 7), LessThanOrEqual(("_seq",), 9), IsNotNull(("_seq",)), EqualTo(("x",), 1)):
        bounds = narrowed(bounds, filter_)
    assert bounds == Bounds(from_seq=8, to_seq=10)


def test_explicit_registration(spark, past):
    from riprap.spark.source import StreamSource

    spark.dataSource.register(StreamSource)
    assert spark.read.format("riprap").load(str(past)).count() == 1000


def test_a_query_from_one_stream_into_another_goes_on_where_it_stopped(spark, past, tmp_path):
    source, target, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    stream = make(source, rows=200)
    first = run(spark, source, target, checkpoint, maxRowsPerTrigger="70", reader="query")
    assert first == [70, 70, 60]
    assert stored(target) == list(range(200))
    with stream.writer() as writer:
        writer.append(batch(200, 50))
    assert run(spark, source, target, checkpoint, maxRowsPerTrigger="70", reader="query") == [50]
    assert stored(target) == list(range(250))
    assert stream.readers()["query"] in (200, 250)  # Spark tells of a batch when the next one begins
    assert list((target / "staged").rglob("*.arrow")) == []


def test_bytes_are_admitted_too(spark, tmp_path):
    source = tmp_path / "in"
    make(source, rows=400)
    taken = run(spark, source, tmp_path / "out", tmp_path / "checkpoint", maxBytesPerTrigger="3000", startSeq="100")
    assert len(taken) >= 3
    assert stored(tmp_path / "out") == list(range(100, 400))


def test_a_shuffle_is_put_in_order(spark, tmp_path):
    source = tmp_path / "in"
    make(source, rows=300)
    run(spark, source, tmp_path / "out", tmp_path / "checkpoint", lambda frame: frame.repartition(4))
    assert stored(tmp_path / "out") == list(range(300))


def test_batches_are_written_and_schemas_are_checked(spark, past, tmp_path):
    target = str(tmp_path / "out")
    frame = spark.read.format("riprap").load(str(past))
    frame.where("_seq < 500").write.format("riprap").mode("append").save(target)
    frame.where("_seq >= 500").write.format("riprap").mode("append").save(target)
    assert stored(Path(target)) == list(range(1000))
    later = frame.withColumns(
        {"_seq": F.col("_seq") + 1000, "_ts": F.expr("_ts + interval 1 second"), "more": F.lit(1.5)}
    )
    with pytest.raises(Exception, match=r"the stream has \(_ts timestamp"):
        later.write.format("riprap").mode("append").save(target)
    later.write.format("riprap").mode("append").option("mergeSchema", "true").save(target)
    assert PersistentStream.open(target).schema.names[-1] == "more"
    assert stored(Path(target)) == list(range(2000))
    with pytest.raises(Exception, match="_seq is missing"):
        frame.drop("_seq").write.format("riprap").mode("append").save(target)
    with pytest.raises(Exception, match="a stream is append-only"):
        frame.write.format("riprap").mode("overwrite").save(target)


def test_a_batch_that_is_committed_again_is_not_appended_again(spark, past, tmp_path):
    """A driver that died between commit and acknowledgement: its commit log lacks the batch that the stream has."""
    source, target, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    make(source, rows=200)
    run(spark, source, target, checkpoint, maxRowsPerTrigger="50")
    for name in ("3", ".3.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run(spark, source, target, checkpoint, maxRowsPerTrigger="50")
    assert stored(target) == list(range(200))


def test_a_task_that_fails_and_is_retried_leaves_nothing(spark, tmp_path):
    """Local mode has no retries, so the attempt that lost is made by hand: staged, and named by no message."""
    source, target = tmp_path / "in", tmp_path / "out"
    make(source, rows=100)
    run(spark, source, target, tmp_path / "checkpoint", maxRowsPerTrigger="50")
    query = next(name.name for name in (target / "staged").iterdir())
    lost = target / "staged" / query / "0-99.arrow"
    with pa.OSFile(str(lost), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(batch(500, 10))
    with PersistentStream.open(source).writer() as writer:
        writer.append(batch(100, 10))
    run(spark, source, target, tmp_path / "checkpoint", maxRowsPerTrigger="50")
    assert stored(target) == list(range(110))
    assert not lost.exists()


def test_what_a_user_did_wrong_comes_as_a_sentence_without_a_traceback(spark, past, tmp_path):
    frame = spark.read.format("riprap").load(str(past))
    wrong = {
        "no stream at": lambda: spark.read.format("riprap").load(str(tmp_path / "none")).collect(),
        "a stream is append-only": lambda: frame.write.format("riprap").mode("overwrite").save(str(tmp_path / "t")),
    }
    for words, action in wrong.items():
        with pytest.raises(Exception, match=words) as caught:
            action()
        assert "Traceback" not in str(caught.value)
