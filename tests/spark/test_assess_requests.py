"""Requests as users write them, and what becomes of the state of operators that stand behind others."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from riprap.api.assess import run_request
from riprap.api.public import assess
from riprap.api.request import AssessRequest, settings_of
from riprap.base.errors import UsageError
from riprap.engine.engine import Engine
from riprap.faults.recording import load
from riprap.faults.score_functions import reads
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.planner.assessment_file import LOST, merged_assessment, read_assessment
from riprap.planner.from_graph import problem_of

SCHEMA = "k string, x double"


def activity():
    app = App("activity")
    left, right = app.source("Left", SCHEMA), app.source("Right", SCHEMA)
    counted = left.union(right, name="Both").aggregate(
        "sum(x) AS total", "count(*) AS n", window=count(40), every=count(1), by="k", name="Activity"
    )
    counted.filter("n > 5", name="Some").sink("Busy")
    counted.sink("All")
    return app.build()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("activity")
    paths = {}
    for number, name in enumerate(("Left", "Right")):
        chance = np.random.default_rng(number)
        rows = 6_000
        table = pa.table(
            {
                "k": [f"k{i}" for i in chance.integers(0, 12, rows)],
                "x": np.exp(chance.normal(size=rows)),
                "_ts": pa.array(np.sort(chance.integers(0, 60_000_000, rows)), pa.timestamp("us", "UTC")),
                "_seq": np.arange(rows),
            }
        )
        paths[name] = folder / f"{name}.arrow"
        with pa.OSFile(str(paths[name]), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return paths


def request(inputs, **options):
    asked = {"offsets": [0.5], "outages": ["0.5s"], "rates": ["average"], "reps": 1, "golden": 2, "section": 200}
    return AssessRequest(activity(), inputs, **asked | {"osf": {"All": "sum(total)"}, "reassess": False} | options)


def test_a_campaign_that_is_refused_does_not_stop_the_next(inputs, spark, tmp_path):
    out = tmp_path / "out"
    for options, told in [
        ({"outages": ["9s"], "offsets": [0.99]}, "no operator can be assessed"),
        ({"reps": 3}, "`golden=2` is less"),
    ]:
        with pytest.raises(UsageError, match=told):
            run_request(request(inputs, **options), out, spark=spark)
    assert run_request(request(inputs), out, spark=spark).result.trials.num_rows


def test_operators_that_cannot_be_assessed_are_told_first_and_left_out(inputs, spark, tmp_path):
    app = App("some")
    left, right = app.source("Left", SCHEMA), app.source("Right", SCHEMA)
    left.filter("x > 1e9", name="Never").aggregate("sum(x) AS x", window=count(2), by="k", name="Behind").sink("Rare")
    left.union(right, name="Both").sink("All")
    table = pa.table({"k": ["a"], "x": [1.0], "_ts": pa.array([0], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "right.parquet")
    asked = AssessRequest(
        app.build(), {"Left": inputs["Left"], "Right": tmp_path / "right.parquet"}, offsets=[0.5], outages=["0.5s"],
        reps=1, golden=2, section=200, targets="all",
    )  # fmt: skip
    heard, waves = [], []

    def tell(wave, done, total):
        waves.append((wave, len(heard)))

    found = run_request(asked, tmp_path / "out", spark=spark, warn=heard.append, tell=tell)
    reasons = {
        "Right": "all 1 tuples of Right come before offset 3,000: a later fault has no effect",
        "Behind": "no tuple of this stream reaches Behind",
    }
    assert found.to_json()["unassessable"] == found.result.unassessable == reasons
    assert heard == [f"{name} cannot be assessed: {reason}" for name, reason in reasons.items()]
    assert {wave for wave, had in waves if not had} == {"profile"}, "before anything else is done"
    assert set(found.to_json()["operators"]) == {"Left", "Never", "Both"}
    assert "not assessed" in found.report.read_text()
    written = read_assessment(tmp_path / "out")
    assert written.unassessed == reasons
    assert set(problem_of(app.build(), written).options) == {"Left", "Right", "Never", "Behind", "Both"}


def test_a_stateful_operator_has_its_own_numbers_where_state_is_lost(inputs, spark, tmp_path):
    lost = run_request(request(inputs, state="lost"), tmp_path / "lost", spark=spark)
    own = {s.target: s.paired.I for s in lost.summaries}
    written = json.loads((tmp_path / "lost" / "assessment.json").read_text())["operators"]
    assert own["Activity"] > 2 * own["Both"], "an empty window of forty tuples is worse than half a second of silence"
    for name in ("Both", "Activity"):
        [row] = written[name]["impact"]
        assert (row["outage"], row["state_age"], row["impact"]) == ("500ms", "lost", own[name])
    kept = run_request(request(inputs, targets="all", state="kept"), tmp_path / "kept", spark=spark)
    planned = run_request(request(inputs, targets="Both,Activity"), tmp_path / "planned", spark=spark)
    assert {(s.target, s.outcome): s.paired.I for s in planned.summaries} == {
        ("Both", "kept"): own["Both"], ("Activity", "lost"): own["Activity"]
    }, "what has no state loses none"  # fmt: skip
    [saved] = planned.checkpointed
    assert (saved.outcome, own["Activity"] > saved.paired.I) == ("checkpoint(1s)", True)
    assert planned.to_json()["operators"]["Activity"]["checkpointed"]["I"] == saved.paired.I
    assert planned.verdicts["Activity"].advice == "checkpoint"
    assert planned.plan.operators["Activity"].checkpoint_every is not None
    entry = read_assessment(tmp_path / "planned").operators["Activity"]
    assert {age: rows[0][1] for age, rows in entry.impact.items()} == {
        LOST: own["Activity"], 1_000_000: saved.paired.I
    }  # fmt: skip
    assert 0 < entry.failed_over[0][1] < saved.paired.I, "a replica loses what it would have emitted, and no state"
    both = merged_assessment([read_assessment(tmp_path / "kept"), read_assessment(tmp_path / "lost")])
    impact = both.operators["Activity"].impact
    assert impact[LOST][0][1] == own["Activity"] > impact[0][0][1], "the planner sees what losing state costs"
    found = {s.target: s.paired.I for s in kept.summaries}
    written = json.loads((tmp_path / "kept" / "assessment.json").read_text())["operators"]
    assert written["Activity"]["impact"][0]["impact"] == found["Activity"], (
        "a target keeps its own, whatever it is like"
    )


@pytest.mark.parametrize(
    ("given", "meant"), [([0.25, 0.5], (3_000, 6_000)), ([100, 0.5], (100, 6_000)), ([6_000.0], (6_000,)), ([0], (0,))]
)
def test_offsets_are_tuples_or_shares_of_the_stream(inputs, given, meant):
    assert settings_of(activity(), request(inputs, offsets=given)).offsets == meant


@pytest.mark.parametrize("given", [1.5, 1.0, -0.3, float("nan"), float("inf"), 2_000.25])
def test_an_offset_that_is_neither_gets_a_sentence(inputs, given):
    with pytest.raises(UsageError, match="write a whole number of tuples, as in 500000, or a share"):
        settings_of(activity(), request(inputs, offsets=[given]))


@reads("total", "n")
def fullness(tuples):
    """A score that no sum gives: the median total over windows that are full."""
    full = tuples.filter(pc.greater(tuples["n"], 39))
    return float(np.median(full["total"].to_numpy())) if full.num_rows else 0.0


def test_score_functions_from_python(inputs, spark, tmp_path):
    options = {
        "offsets": [0.5], "outages": ["0.5s"], "rates": ["average"], "reps": 1, "golden": 2, "section": 200,
        "targets": "Activity", "reassess": False,
    }  # fmt: skip
    found = assess(
        activity(), inputs, out=tmp_path / "out", osf={"Busy": fullness, "All": "sum(total) / sum(n)"}, **options
    )
    assert {s.sink for s in found.summaries} == {"Busy", "All"}
    assert found.to_json()["operators"]["Activity"]["sink"] in ("Busy", "All")
    assert "fullness" in found.report.read_text()
    # The golden scores are those of the function over what the app gives out, section by section.
    recording = load(activity(), found.result.path / "recorded")
    golden = next(row for row in found.result.golden.to_pylist() if row["sink"] == "Busy" and row["run"] == 0)
    outputs = recording.feed(Engine(activity(), jitter=found.result.settings.jitter(0)), 0, recording.tuples)
    kept = [out.event for out in outputs if out.name == "Busy" and isinstance(out.event, pa.RecordBatch)]
    table = pa.Table.from_batches(kept)
    place = {
        (int(s.ts[row]), s.rank, int(s.seq[row])): int(at)
        for s in recording.sources
        for row, at in enumerate(s.position)
    }
    keys = zip(
        table["_ts"].cast(pa.int64()).to_pylist(), table["_src"].to_pylist(), table["_seq"].to_pylist(), strict=True
    )
    section = np.array([place[key] // 200 for key in keys])
    for number in range(int(section.max()) + 1):
        mine = table.filter(pa.array(section == number))
        assert golden["sections"][number] == (fullness(mine) if mine.num_rows else 0.0)

    def edited(tuples):
        return 2.0 * fullness(tuples)

    with pytest.raises(UsageError, match="holds a different campaign"):
        assess(activity(), inputs, out=tmp_path / "out", osf={"Busy": edited, "All": "sum(total) / sum(n)"}, **options)


@pytest.mark.parametrize(
    ("osf", "words"),
    [
        ({"Nope": "count(*)"}, "osf names Nope, which is not a sink of activity; the sinks are"),
        ({"All": "sum(nothing)"}, "does not fit sink All"),
        ("sum(total)", "write SINK=FUNCTION"),
        (["All=sum(nothing)"], "does not fit sink All"),
    ],
)
def test_score_functions_that_cannot_be_get_a_sentence(inputs, osf, words):
    with pytest.raises(UsageError, match=words):
        settings_of(activity(), request(inputs, osf=osf))
