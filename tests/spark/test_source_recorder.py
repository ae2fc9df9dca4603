"""What the sources of a job bring is kept, and nothing that they must not show."""

import json
import socket
import textwrap
import threading
import time

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from riprap.api.record_job import record_job
from riprap.base.errors import UsageError
from riprap.spark.jobs.frames import capture_frames
from riprap.spark.source_recorder import record_sources

SECRET = "hunter2-of-the-broker"


class UntilRows:
    """The time is over when every source has brought some rows."""

    def __init__(self, spark, rows):
        self._spark, self._rows, self._end = spark, rows, time.perf_counter() + 240

    def monotonic(self):
        queries = self._spark.streams.active
        brought = [sum(progress["numInputRows"] for progress in query.recentProgress) for query in queries]
        done = brought and min(brought) >= self._rows
        return 1e6 if done or time.perf_counter() > self._end else 0.0

    def now(self):
        return 0

    def sleep(self, seconds):
        time.sleep(seconds)


def clicks(tmp_path):
    place = tmp_path / f"user:{SECRET}@host" / "clicks"
    place.mkdir(parents=True)
    rows = [
        {"ts": f"2026-01-01T00:00:0{second}Z", "email": email, "user": number, "note": "private"}
        for second, email, number in (
            (1, "ann@example.org", 7), (9, "bob@example.org", 8), (3, "ann@example.org", 7), (3, None, None)
        )
    ]  # fmt: skip
    (place / "part.json").write_text("\n".join(json.dumps(row) for row in rows))
    return place


def contents(path):
    return b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())


def test_files_are_recorded_in_order_of_event_time_without_secrets(spark, tmp_path):
    stream = (
        spark.readStream.schema("ts timestamp, email string, user bigint, note string")
        .option("sasl.jaas.config", SECRET)
        .json(str(clicks(tmp_path)))
        .withWatermark("ts", "5 seconds")
    )
    job = capture_frames(stream.groupBy("email").count(), "counts")
    out, name = tmp_path / "recorded", job.sources[0].name
    (found,) = record_sources(
        job, out, 1.0, hashed=["email", f"{name}.user"], dropped=["note"], clock=UntilRows(spark, 4)
    )
    assert (found.rows, found.time, found.late, found.latest, found.span) == (4, "ts", 2, 6_000_000, 8_000_000)
    assert "2 came late, by up to 6 s" in found.sentence()
    assert "may not show the real peak" in found.sentence()
    table = pq.read_table(out / f"{name}.parquet").sort_by("_seq")
    assert [time.second for time in table["_ts"].to_pylist()] == [1, 3, 3, 9]
    assert {"_arrived", "ts", "email", "user"} < set(table.column_names)
    assert "note" not in table.column_names
    emails, users = table["email"].to_pylist(), table["user"].to_pylist()
    assert emails[0] is not None
    assert len(set(emails) - {None}) == 2
    assert emails.count(emails[0]) == users.count(users[0]) == 2  # equal values have equal hashes
    assert emails.count(None) == users.count(None) == 1
    assert all(isinstance(user, int) and user > 1_000 for user in users if user is not None)
    written = contents(out)
    for secret in (SECRET, "example.org", "private"):
        assert secret.encode() not in written
    with pytest.raises(UsageError, match="is not empty: give a new directory"):
        record_sources(job, out, 1.0, clock=UntilRows(spark, 1))
    assert contents(out) == written


def test_a_rate_source_and_a_socket_are_recorded_together(spark, tmp_path):
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = server.accept()
        with connection:
            for number in range(3000):
                try:
                    connection.sendall(f"line {number}\n".encode())
                except OSError:
                    return
                time.sleep(0.05)

    threading.Thread(target=serve, daemon=True).start()
    port = server.getsockname()[1]
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    both = ticks.select(F.col("value").cast("string")).union(lines)
    job = capture_frames(both, "both")
    found = record_sources(job, tmp_path / "out", 1.0, clock=UntilRows(spark, 5))
    by_format = {job.source(each.source).format: each for each in found}
    tables = {each.source: pq.read_table(tmp_path / "out" / f"{each.source}.parquet").sort_by("_seq") for each in found}
    assert len(found) == 2
    assert all(each.rows == tables[each.source].num_rows >= 5 for each in found)
    values = [row["value"] for row in tables[by_format["rate"].source].to_pylist()]
    assert sorted(values) == list(range(len(values)))
    told = [int(row["value"].split()[1]) for row in tables[by_format["socket"].source].to_pylist()]
    assert sorted(told) == list(range(len(told)))
    server.close()


def test_what_cannot_be_recorded_is_refused_before_anything_is_written(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = f"""
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        raw = (
            spark.readStream.format("kafka").option("subscribe", "clicks").option("kafka.sasl.jaas.config", "{SECRET}")
            .option("kafka.bootstrap.servers", "b:1").load()
        )
        raw.writeStream.format("console").start()
    """
    (tmp_path / "job.py").write_text(textwrap.dedent(script))
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"source raw .*cannot be opened here") as refused:
        record_job("job.py", out, 1.0, spark=spark)
    assert SECRET not in str(refused.value)
    with pytest.raises(UsageError, match=r"--hash emial: no source has this column"):
        record_job("job.py", out, 1.0, hash=["emial"], spark=spark)
    with pytest.raises(UsageError, match="must last longer than 0s"):
        record_job("job.py", out, 0.0, spark=spark)
    numbers = capture_frames(spark.readStream.format("rate").load(), "numbers")
    with pytest.raises(UsageError, match=r"is timestamp; text, binary and bigint can be hashed"):
        record_sources(numbers, out, 1.0, hashed=["timestamp"])
    assert not out.exists()
    table = capture_frames(spark.range(3), "table")
    with pytest.raises(UsageError, match="reads no stream"):
        record_sources(table, out, 1.0)
