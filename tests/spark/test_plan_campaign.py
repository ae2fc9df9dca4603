"""Faults in Spark's own plan, against what plain loops over the recording say."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from riprap.api.assess import run_request
from riprap.api.request import AssessRequest
from riprap.base.errors import GraphError, UsageError
from riprap.engine.engine import Engine
from riprap.planner.assessment_file import read_assessment
from riprap.spark import plan_runs
from riprap.spark.jobs.frames import capture_frames
from riprap.spark.plan_operators import plan_operators

START = 1_700_000_000_000_000
SCHEMA = "ts timestamp, user bigint, ad string, price double"
ROWS, SECTION = 3_000, 250


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Five minutes of clicks, each at a time of its own."""
    chance = np.random.Generator(np.random.Philox(7))
    times = START + np.sort(chance.choice(300_000_000, ROWS, replace=False))
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "user": chance.integers(0, 40, ROWS),
            "ad": [f"ad{number}" for number in chance.integers(0, 5, ROWS)],
            "price": chance.integers(1, 100, ROWS) / 4,
        }
    )
    path = tmp_path_factory.mktemp("recorded") / "clicks"
    path.mkdir()
    pq.write_table(table, path / "part.parquet")
    return path, table.to_pylist()


def clicks(spark, path):
    return spark.readStream.schema(SCHEMA).parquet(str(path)).withWatermark("ts", "5 seconds")


def assessed(frames, path, out, **options):
    graph = plan_operators(capture_frames(frames, "job")).graph
    chosen = {"offsets": (1000,), "outages": ("20s",), "rates": ("average",), "reps": 1, "golden": 3} | options
    inputs = {source.name: path for source in graph.sources}
    return run_request(AssessRequest(graph, inputs, section=SECTION, reassess=False, **chosen), out)


def micros(time):
    return round(pd.Timestamp(time).value / 1_000)


def by_window(rows, size=10_000_000):
    sums = defaultdict(float)
    for row in rows:
        if row["price"] > 5:
            sums[micros(row["ts"]) // size * size + size, row["ad"]] += row["price"]
    return sums


def test_a_lost_interval_of_a_source_costs_what_a_loop_without_its_rows_says(spark, recorded, tmp_path):
    path, rows = recorded
    stream = clicks(spark, path).where("price > 5")
    sums = stream.groupBy(F.window("ts", "10 seconds"), "ad").agg(F.sum("price").alias("total"))
    found = assessed(sums, path, tmp_path / "out")
    first = found.result.settings.targets[0].name
    trial = next(row for row in found.result.trials.to_pylist() if row["target"] == first)
    span = micros(rows[-1]["ts"]) - micros(rows[0]["ts"])
    lost = max(1, round(ROWS / (span / 1e6) * 20))
    golden, faulty = by_window(rows), by_window(rows[:1000] + rows[1000 + lost :])
    changed = [key for key in golden if golden[key] != faulty.get(key)]
    assert (trial["tuples"], trial["missing"]) == (lost, len(changed))
    assert trial["extra"] == sum(key in faulty for key in changed)
    assert trial["golden"] == pytest.approx(sum(golden[key] for key in changed))
    assert trial["faulty"] == pytest.approx(sum(faulty.get(key, 0.0) for key in changed))
    times = [micros(row["ts"]) for row in rows]
    sections = {min(int(np.searchsorted(times, end)), ROWS - 1) // SECTION for end, _ in changed}
    assert trial["sections"] == sorted(sections)
    assert {row["route"] for row in found.rows()} == {"spark"}
    assert "Spark&#x27;s own plan" in found.report.read_text() or "Spark's own plan" in found.report.read_text()
    written = read_assessment(tmp_path / "out")
    assert set(written.operators) == {place.operator for place in found.placed}
    assert all(operator.output > 0 for operator in written.operators.values())


def test_rows_delivered_twice_count_twice_and_a_finished_campaign_is_not_run_again(spark, recorded, tmp_path):
    path, _ = recorded
    users = clicks(spark, path).groupBy("user").count()
    found = assessed(users, path, tmp_path, fault="duplicate", targets="clicks")
    trial = found.result.trials.to_pylist()[0]
    extra = trial["tuples"]
    assert trial["faulty"] - trial["golden"] == extra
    again = assessed(users, path, tmp_path, fault="duplicate", targets="clicks")
    assert again.result.resumed == again.result.waves > 0
    assert again.result.trials.to_pylist() == found.result.trials.to_pylist()


def test_joins_unions_and_duplicates_take_a_batch_with_the_earliest_of_duplicates(spark, recorded, tmp_path):
    path, rows = recorded
    left, right = clicks(spark, path), clicks(spark, path)
    ads = spark.createDataFrame([(f"ad{number}", number % 2) for number in range(4)], "ad string, kind int")
    first = left.dropDuplicates(["user", "ad"]).select("ts", "user", "ad", "price")
    near = left.alias("l").join(
        right.alias("r"),
        F.expr("l.user = r.user AND r.ts > l.ts AND r.ts <= l.ts + INTERVAL 1 SECOND"),
    )
    both = near.select("l.ts", "l.user", "l.ad", "r.price").union(first).join(ads, "ad", "left")
    found = assessed(both, path, tmp_path, targets="clicks")
    trial = found.result.trials.to_pylist()[0]
    kept = rows[:1000] + rows[1000 + trial["tuples"] :]
    assert trial["faulty"] - trial["golden"] == sum(map(kind_of, outcome(kept))) - sum(map(kind_of, outcome(rows)))


def kind_of(row):
    ad = row[2]
    return int(ad[2:]) % 2 if ad != "ad4" else 0


def outcome(rows):
    seen, out = set(), []
    for row in rows:
        if (row["user"], row["ad"]) not in seen:
            seen.add((row["user"], row["ad"]))
            out.append((row["ts"], row["user"], row["ad"], row["price"]))
    by_user = defaultdict(list)
    for row in rows:
        by_user[row["user"]].append(row)
    for own in by_user.values():
        for number, row in enumerate(own):
            for other in own[number + 1 :]:
                if micros(other["ts"]) - micros(row["ts"]) > 1_000_000:
                    break
                out.append((row["ts"], row["user"], row["ad"], other["price"]))
    return out


def test_what_spark_refuses_in_a_batch_runs_as_a_stream(spark, recorded, tmp_path, monkeypatch):
    path, rows = recorded
    monkeypatch.setattr(plan_runs, "CHUNKS", 4)

    def running(key, frames, state):
        total = state.get[0] if state.exists else 0
        total += sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"user": [key[0]], "total": [total]})

    totals = clicks(spark, path).groupBy("user").applyInPandasWithState(
        running, "user bigint, total bigint", "total bigint", "update", "NoTimeout"
    )  # fmt: skip
    job = capture_frames(totals, "totals")
    query = job.queries[0]
    operators = plan_operators(type(job)(
        job.name, job.origin, (type(query)(**{**vars(query), "mode": "update"}),), job.sources, job.spark
    ))  # fmt: skip
    request = AssessRequest(
        operators.graph, {"clicks": path}, offsets=(1000,), outages=("20s",), rates=("average",), reps=1, golden=2,
        section=SECTION, reassess=False, osf="max(total)", targets="clicks",
    )  # fmt: skip
    found = run_request(request, tmp_path)
    trial = found.result.trials.to_pylist()[0]
    lost, busy = rows[1000 : 1000 + trial["tuples"]], defaultdict(int)
    for row in rows:
        busy[row["user"]] += 1
    fewer = dict(busy)
    for row in lost:
        fewer[row["user"]] -= 1
    changed = {row["user"] for row in lost}
    assert trial["golden"] == max(busy[user] for user in changed)
    assert trial["faulty"] == max(fewer[user] for user in changed)


def test_what_the_route_cannot_do_is_refused_in_a_sentence(spark, recorded, tmp_path):
    path, _ = recorded
    graph = plan_operators(capture_frames(clicks(spark, path).groupBy("user").count(), "job")).graph
    with pytest.raises(UsageError, match=r"corrupt needs operators that our engine runs.*loss or duplicate"):
        assessed(clicks(spark, path), path, tmp_path / "a", fault="corrupt")
    with pytest.raises(GraphError, match="only Spark runs: the app can be assessed and planned, not run"):
        Engine(graph)
